/* SPDX-License-Identifier: MIT */
/*
 * From a tree to a program for one class of events.
 *
 * A condition compiles to one of three things: the constants false and true, or code that leaves
 * its result in the truth register. Code that turns out to be of no use is dropped again.
 */
#include "expr/expr_priv.h"
#include "base/glob.h"
#include "expr/prog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODE 16000

enum { IS_FALSE, IS_TRUE, IS_CODE };

struct binder {
	const struct rut_expr *e;
	const struct rut_expr_ops *ops;
	const void *cls;
	struct rut_expr_prog *p;
	int rc;
};

static uint16_t add_operand(struct binder *b, const struct rut_expr_operand *o)
{
	struct rut_expr_prog *p = b->p;

	if (b->rc)
		return 0;
	if (p->noperands == p->cap_operands) {
		size_t cap = p->cap_operands ? p->cap_operands * 2u : 16;
		void *n = cap <= MAX_CODE ? realloc(p->operands, cap * sizeof(*p->operands)) : NULL;

		if (!n) {
			b->rc = cap <= MAX_CODE ? -ENOMEM : -E2BIG;
			return 0;
		}
		p->operands = n;
		p->cap_operands = (uint16_t)cap;
	}
	p->operands[p->noperands] = *o;
	return p->noperands++;
}

static uint16_t add_code(struct binder *b, struct rut_expr_code c)
{
	struct rut_expr_prog *p = b->p;

	if (b->rc)
		return 0;
	if (p->ncode == p->cap_code) {
		size_t cap = p->cap_code ? p->cap_code * 2u : 16;
		void *n = cap <= MAX_CODE ? realloc(p->code, cap * sizeof(*p->code)) : NULL;

		if (!n) {
			b->rc = cap <= MAX_CODE ? -ENOMEM : -E2BIG;
			return 0;
		}
		p->code = n;
		p->cap_code = (uint16_t)cap;
	}
	p->code[p->ncode] = c;
	return p->ncode++;
}

static int add_temp(struct binder *b, uint16_t *ret)
{
	struct rut_expr_operand o = {.kind = OPERAND_TEMP, .index = b->p->ntemps};

	if (b->p->ntemps == RUT_EXPR_MAX_TEMPS) {
		b->rc = -E2BIG;
		return 0;
	}
	*ret = add_operand(b, &o);
	return b->p->ntemps++;
}

static int bind_cond(struct binder *b, uint32_t node);

static bool is_const(const struct binder *b, uint16_t operand)
{
	return !b->rc && b->p->operands[operand].kind == OPERAND_CONST;
}

static const struct rut_expr_val *const_val(const struct binder *b, uint16_t operand)
{
	return &b->p->operands[operand].val;
}

static uint16_t add_const(struct binder *b, struct rut_expr_val v)
{
	struct rut_expr_operand o = {.kind = OPERAND_CONST, .val = v};

	return add_operand(b, &o);
}

static uint16_t bind_ref(struct binder *b, const struct rut_expr_ref *ref)
{
	struct rut_expr_operand o = {.kind = OPERAND_CONST};
	const char *name;

	if (ref->depth >= 0) {
		o.kind = OPERAND_FRAME;
		o.depth = (uint8_t)ref->depth;
		o.index = ref->slot;
		return add_operand(b, &o);
	}
	switch (ref->what) {
	case REF_NAME:
		name = b->ops->class_name(b->cls);
		o.val = (struct rut_expr_val){RUT_EXPR_STR, (uint32_t)strlen(name), {.s = name}};
		break;
	case REF_TIME:
		o.kind = OPERAND_TIME;
		break;
	default:
		if (b->ops->find(b->cls, (enum rut_expr_scope)ref->scope, ref->path, &o.field) == 0)
			o.kind = OPERAND_FIELD;
		else
			o.val = (struct rut_expr_val){.type = RUT_EXPR_NONE};
	}
	return add_operand(b, &o);
}

static uint16_t bind_value(struct binder *b, uint32_t node)
{
	const struct rut_expr_node *n = &b->e->nodes[node];
	struct rut_expr_val v;
	uint16_t l, r = 0, out = 0;
	int truth, temp;

	if (b->rc)
		return 0;
	if (n->kind == NODE_CONST)
		return add_const(b, n->val);
	if (n->kind == NODE_REF)
		return bind_ref(b, &n->ref);
	if (n->cond) {
		truth = bind_cond(b, node);
		if (truth != IS_CODE)
			return add_const(b, (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = truth}});
		temp = add_temp(b, &out);
		add_code(b, (struct rut_expr_code){.op = CODE_BOOL, .dst = (uint8_t)temp});
		return out;
	}
	if (n->kind == NODE_NEG)
		l = add_const(b, (struct rut_expr_val){.type = RUT_EXPR_INT});
	else
		l = bind_value(b, n->left);
	r = n->kind == NODE_NEG ? bind_value(b, n->left)
	    : n->kind == NODE_ARITH
		    ? bind_value(b, n->right)
		    : add_const(b, (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = -1}});
	if (b->rc)
		return 0;
	{
		/* -x is 0 - x, ~x is x ^ -1. */
		int op = n->kind == NODE_NEG ? '-' : n->kind == NODE_BITNOT ? '^' : n->op;

		if (is_const(b, l) && is_const(b, r)) {
			v = rut_expr_arith(op, const_val(b, l), const_val(b, r));
			return add_const(b, v);
		}
		temp = add_temp(b, &out);
		add_code(b, (struct rut_expr_code){CODE_ARITH, (uint8_t)temp, (uint16_t)op, l, r});
	}
	return out;
}

static bool bind_label_compare(struct binder *b, int op, uint16_t l, uint16_t r, int *ret_truth);

static int fold_compare(struct binder *b, int op, uint16_t l, uint16_t r)
{
	int truth;

	/* A side that is always missing makes the comparison false whatever the other is. */
	if ((is_const(b, l) && const_val(b, l)->type == RUT_EXPR_NONE) ||
	    (is_const(b, r) && const_val(b, r)->type == RUT_EXPR_NONE))
		return IS_FALSE;
	if (is_const(b, l) && is_const(b, r))
		return rut_expr_relation(op, const_val(b, l), const_val(b, r)) ? IS_TRUE : IS_FALSE;
	if (bind_label_compare(b, op, l, r, &truth))
		return truth;
	add_code(b, (struct rut_expr_code){CODE_CMP, 0, (uint16_t)op, l, r});
	return IS_CODE;
}

/* ---- labels of enumerations ---- */

struct label_search {
	const struct rut_expr_node *match; /* GLOB, REGEX; NULL: the string `is` */
	const struct rut_expr_val *is;
	struct rut_expr_set *set;
	bool failed;
};

static bool label_matches(const struct label_search *s, const char *label)
{
	size_t len = strlen(label);

	if (!s->match)
		return len == s->is->len && !memcmp(label, s->is->s, len);
	if (s->match->kind == NODE_GLOB)
		return rut_glob(s->match->val.s, s->match->val.len, label, len, RUT_GLOB_EXPR);
	return rut_expr_regex_search(s->match->regex, label, len);
}

static void add_label(void *arg, const char *label, uint64_t lo, uint64_t hi)
{
	struct label_search *s = arg;
	struct rut_expr_set *set = s->set;

	if (s->failed || !label_matches(s, label))
		return;
	if (!set || set->count == set->cap) {
		size_t cap = set ? set->cap * 2 : 8;

		set = realloc(set, sizeof(*set) + cap * sizeof(*set->ranges));
		if (!set) {
			s->failed = true;
			return;
		}
		if (!s->set)
			set->count = 0;
		set->cap = cap;
		s->set = set;
	}
	set->ranges[set->count++] = (struct rut_expr_range){lo, hi};
}

static int by_lo(const void *a, const void *b)
{
	uint64_t x = ((const struct rut_expr_range *)a)->lo,
		 y = ((const struct rut_expr_range *)b)->lo;

	return x < y ? -1 : x > y;
}

static void merge_ranges(struct rut_expr_set *set)
{
	size_t n = 0;

	qsort(set->ranges, set->count, sizeof(*set->ranges), by_lo);
	for (size_t i = 0; i < set->count; i++) {
		if (n && set->ranges[i].lo <= set->ranges[n - 1].hi) {
			if (set->ranges[i].hi > set->ranges[n - 1].hi)
				set->ranges[n - 1].hi = set->ranges[i].hi;
			continue;
		}
		set->ranges[n++] = set->ranges[i];
	}
	set->count = n;
}

/*
 * An enumeration against a string: which integers have such a label is known now. Returns whether
 * it is one; *ret_truth is then the result.
 */
static bool bind_labels(struct binder *b, uint16_t field, const struct rut_expr_node *match,
			const struct rut_expr_val *is, int *ret_truth)
{
	struct label_search s = {.match = match, .is = is};
	struct rut_expr_operand o = {.kind = OPERAND_SET};
	uint16_t set;

	if (b->rc || !b->ops->labels || b->p->operands[field].kind != OPERAND_FIELD ||
	    !b->ops->labels(&b->p->operands[field].field, add_label, &s))
		return false;
	if (s.failed)
		b->rc = -ENOMEM;
	*ret_truth = IS_FALSE;
	if (!s.set || b->rc) {
		free(s.set);
		return true;
	}
	merge_ranges(s.set);
	o.set = s.set;
	set = add_operand(b, &o);
	if (b->rc) {
		free(s.set);
		return true;
	}
	add_code(b, (struct rut_expr_code){CODE_LABEL, 0, 0, field, set});
	*ret_truth = IS_CODE;
	return true;
}

static bool is_string(const struct binder *b, uint16_t operand)
{
	return is_const(b, operand) && const_val(b, operand)->type == RUT_EXPR_STR;
}

/* field == "label", "label" != field. False: it is no such comparison. */
static bool bind_label_compare(struct binder *b, int op, uint16_t l, uint16_t r, int *ret_truth)
{
	bool equal = op == OP2('=', '='), found;

	if (!equal && op != OP2('!', '='))
		return false;
	if (is_string(b, l)) {
		uint16_t swap = l;

		l = r;
		r = swap;
	}
	found = is_string(b, r) && bind_labels(b, l, NULL, const_val(b, r), ret_truth);
	if (found && !equal && *ret_truth == IS_CODE)
		add_code(b, (struct rut_expr_code){.op = CODE_NOT});
	else if (found && !equal)
		*ret_truth = IS_TRUE;
	return found;
}

static int bind_match(struct binder *b, const struct rut_expr_node *n)
{
	uint16_t l = bind_value(b, n->left), r;
	int truth;
	struct rut_expr_operand o = {.kind = OPERAND_CONST};
	const struct rut_expr_val *v;

	if (is_const(b, l)) {
		v = const_val(b, l);
		if (v->type != RUT_EXPR_STR)
			return IS_FALSE;
		if (n->kind == NODE_GLOB)
			return rut_glob(n->val.s, n->val.len, v->s, v->len, RUT_GLOB_EXPR);
		return rut_expr_regex_search(n->regex, v->s, v->len);
	}
	if (bind_labels(b, l, n, NULL, &truth))
		return truth;
	if (n->kind == NODE_GLOB)
		o.val = n->val;
	else
		o.regex = n->regex;
	r = add_operand(b, &o);
	add_code(b,
		 (struct rut_expr_code){n->kind == NODE_GLOB ? CODE_GLOB : CODE_REGEX, 0, 0, l, r});
	return IS_CODE;
}

/* a in [x, y]: a == x, jump if true, a == y. */
static int bind_in(struct binder *b, const struct rut_expr_node *n)
{
	uint16_t l = bind_value(b, n->left), start = b->p->ncode, last = UINT16_MAX;
	int truth = IS_FALSE;

	for (uint32_t i = n->right; i && !b->rc; i = b->e->nodes[i].right) {
		uint16_t jump = truth == IS_CODE
					? add_code(b, (struct rut_expr_code){.op = CODE_JUMP_TRUE,
									     .b = last})
					: UINT16_MAX;
		uint16_t before = b->p->ncode;
		int t = fold_compare(b, OP2('=', '='), l, bind_value(b, b->e->nodes[i].left));

		if (t == IS_TRUE) {
			b->p->ncode = start;
			return IS_TRUE;
		}
		if (t == IS_FALSE) {
			b->p->ncode = jump != UINT16_MAX ? jump : before;
			continue;
		}
		truth = IS_CODE;
		if (jump != UINT16_MAX)
			last = jump;
	}
	/* The jumps are chained through b: now that the end is known, point them at it. */
	for (uint16_t j = last; j != UINT16_MAX && !b->rc;) {
		uint16_t prev = b->p->code[j].b;

		b->p->code[j].a = b->p->ncode;
		b->p->code[j].b = 0;
		j = prev;
	}
	return truth;
}

static int bind_logic(struct binder *b, const struct rut_expr_node *n)
{
	bool and = n->kind == NODE_AND;
	int decides = and? IS_FALSE : IS_TRUE;
	uint16_t start = b->p->ncode, jump;
	int l = bind_cond(b, n->left), r;

	if (l == decides || b->rc)
		return l;
	if (l != IS_CODE)
		return bind_cond(b, n->right);
	jump = add_code(b, (struct rut_expr_code){.op = and? CODE_JUMP_FALSE : CODE_JUMP_TRUE});
	r = bind_cond(b, n->right);
	if (b->rc)
		return IS_FALSE;
	if (r == decides) {
		b->p->ncode = start; /* nothing has effects: the left side need not run */
		return r;
	}
	if (r != IS_CODE) {
		b->p->ncode = jump;
		return IS_CODE;
	}
	b->p->code[jump].a = b->p->ncode;
	return IS_CODE;
}

static int bind_cond(struct binder *b, uint32_t node)
{
	const struct rut_expr_node *n = &b->e->nodes[node];
	uint16_t l, r;
	int t;

	if (b->rc)
		return IS_FALSE;
	switch (n->kind) {
	case NODE_AND:
	case NODE_OR:
		return bind_logic(b, n);
	case NODE_NOT:
		t = bind_cond(b, n->left);
		if (t == IS_CODE)
			add_code(b, (struct rut_expr_code){.op = CODE_NOT});
		return t == IS_CODE ? t : t == IS_FALSE ? IS_TRUE : IS_FALSE;
	case NODE_CMP:
		l = bind_value(b, n->left);
		r = bind_value(b, n->right);
		return b->rc ? IS_FALSE : fold_compare(b, n->op, l, r);
	case NODE_GLOB:
	case NODE_REGEX:
		return bind_match(b, n);
	case NODE_IN:
		return bind_in(b, n);
	default:
		l = bind_value(b, node);
		if (b->rc)
			return IS_FALSE;
		if (is_const(b, l))
			return rut_expr_truth(const_val(b, l)) ? IS_TRUE : IS_FALSE;
		add_code(b, (struct rut_expr_code){.op = CODE_TEST, .a = l});
		return IS_CODE;
	}
}

int rut_expr_bind(const struct rut_expr *e, const struct rut_expr_ops *ops, const void *cls,
		  struct rut_expr_prog **ret)
{
	struct binder b = {.e = e, .ops = ops, .cls = cls};
	int t;

	b.p = calloc(1, sizeof(*b.p));
	if (!b.p)
		return -ENOMEM;
	b.p->ops = ops;
	b.p->constant = -1;
	if (e->nodes[e->root].cond) {
		b.p->cond = true;
		t = bind_cond(&b, e->root);
		if (t != IS_CODE)
			b.p->constant = (int8_t)t;
	} else {
		b.p->result = bind_value(&b, e->root);
		if (is_const(&b, b.p->result)) {
			b.p->constant = rut_expr_truth(const_val(&b, b.p->result));
			b.p->nothing = const_val(&b, b.p->result)->type == RUT_EXPR_NONE;
		}
	}
	if (b.rc) {
		rut_expr_prog_free(b.p);
		return b.rc;
	}
	*ret = b.p;
	return 0;
}

int rut_expr_layout_bind(const struct rut_expr_layout *l, const struct rut_expr_ops *ops,
			 const void *cls, struct rut_expr_prog **ret)
{
	struct binder b = {.ops = ops, .cls = cls};

	b.p = calloc(1, sizeof(*b.p));
	if (!b.p)
		return -ENOMEM;
	b.p->ops = ops;
	for (size_t i = 0; i < l->count; i++) {
		struct rut_expr_ref ref = l->slots[i].ref;

		ref.depth = -1;
		bind_ref(&b, &ref);
	}
	if (b.rc) {
		rut_expr_prog_free(b.p);
		return b.rc;
	}
	*ret = b.p;
	return 0;
}

void rut_expr_prog_free(struct rut_expr_prog *p)
{
	if (!p)
		return;
	for (uint16_t i = 0; i < p->noperands; i++)
		if (p->operands[i].kind == OPERAND_SET)
			free(p->operands[i].set);
	free(p->code);
	free(p->operands);
	free(p);
}

int rut_expr_prog_constant(const struct rut_expr_prog *p)
{
	return p->constant;
}

bool rut_expr_prog_nothing(const struct rut_expr_prog *p)
{
	return p->nothing;
}
