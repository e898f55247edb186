/* SPDX-License-Identifier: MIT */
/* The checker of expressions: types, constants, and what cannot be had. */
#include <string.h>

#include "script/check.h"
#include "script/lex.h"
#include "script/prelude.h"
#include "script/ruby_probe.h"

bool rut_is_literal(const struct rut_node *n)
{
	return n->kind == RUT_N_INT && n->op != RUT_INT_BOOL && n->op != RUT_INT_ENUM;
}

const struct rut_type *rut_type_literal(const struct rut_node *n)
{
	int64_t v = (int64_t)n->value;

	for (unsigned bytes = 1; bytes < 8; bytes *= 2)
		if (v == v << (64 - 8 * bytes) >> (64 - 8 * bytes))
			return rut_type_int(bytes, true);
	return rut_type_int(8, n->op != RUT_INT_UNSIGNED);
}

bool rut_literal_int(const struct rut_node *n, int64_t *ret)
{
	if (n->kind != RUT_N_INT)
		return false;
	*ret = (int64_t)n->value;
	return true;
}

static const struct rut_type *literal_type(const struct rut_node *n)
{
	if (n->op == RUT_INT_BOOL)
		return rut_type_simple(RUT_T_BOOL);
	if (n->op == RUT_INT_CALCULATED)
		return rut_type_int(8, true);
	if (n->op == RUT_INT_ENUM)
		return n->as;
	return rut_type_int(8, n->op != RUT_INT_UNSIGNED && (int64_t)n->value >= 0);
}

static void become_int(struct rut_node *n, uint64_t value, int op)
{
	n->kind = RUT_N_INT;
	n->value = value;
	n->op = op;
	n->type = literal_type(n);
}

static const struct rut_type *check_param(struct rut_checker *c, struct rut_node *n)
{
	const char *s = n->value && n->value <= c->prog->ast.nparams
				? c->prog->ast.params[n->value - 1]
				: "";
	bool negative = *s == '-';
	uint64_t value;

	if (!n->value) {
		become_int(n, c->prog->ast.nparams, 0);
	} else if (!*s) {
		become_int(n, 0, 0);
	} else if (rut_lex_number(s + negative, &value)) {
		become_int(n, negative ? -value : value, negative ? RUT_INT_CALCULATED : 0);
	} else {
		n->kind = RUT_N_STRING;
		n->text = s;
		n->len = (uint32_t)strlen(s);
		n->type = rut_type_string(c->arena, n->len + 1);
	}
	return n->type;
}

static const struct rut_type *check_var(struct rut_checker *c, struct rut_node *n)
{
	struct rut_sym *s = rut_check_find_var(c, n->text);
	struct rut_nearest near = {n->text, (uint32_t)strlen(n->text), "", 0};

	n->sym = s;
	if (s && !s->type && c->loud)
		return rut_check_error(
			c, n, "the variable %s has no type: nothing is assigned to it", n->text);
	if (s)
		return s->type;
	rut_check_error(c, n, "the variable %s is not assigned to before this", n->text);
	for (s = c->syms; s; s = s->next)
		rut_nearest_add(&near, s->name);
	if (c->loud && near.name[0])
		rut_source_hint(c->src, "did you mean %s?", near.name);
	return NULL;
}

static const struct rut_type *check_map_read(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_script_map *m = rut_check_map(c, n);

	if (!m)
		return NULL;
	if (!m->value)
		return rut_check_error(c, n, "nothing is ever assigned to %s", n->text);
	switch (m->value->kind) {
	case RUT_T_COUNT:
		return rut_type_int(8, false);
	case RUT_T_SUM:
	case RUT_T_MIN:
	case RUT_T_MAX:
	case RUT_T_AVG:
		return rut_type_int(8, m->value->is_signed);
	default:
		return m->value;
	}
}

static const struct rut_type *check_name(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_builtin *b = rut_builtin_find(n->text);
	const struct rut_call *call = b ? NULL : rut_call_find(n->text);
	struct rut_nearest near = {n->text, strlen(n->text), "", 0};
	int64_t value;

	n->what = b;
	if (b)
		return b->check(c, n);
	if (rut_constant_find(n->text, &value)) {
		become_int(n, (uint64_t)value, RUT_INT_CALCULATED);
		return n->type;
	}
	n->as = rut_check_enumerator(c, n->text, &value);
	if (n->as) {
		rut_check_enum_fact(c, n, value);
		become_int(n, (uint64_t)value, RUT_INT_ENUM);
		return n->type;
	}
	if (call) {
		rut_check_error(c, n, "'%s' is a function: %s(...)", n->text, n->text);
		return NULL;
	}
	rut_check_error(c, n, "'%s' is not known", n->text);
	rut_builtin_nearest(&near);
	if (c->loud && near.name[0])
		rut_source_hint(c->src, "did you mean '%s'?", near.name);
	return NULL;
}

/* Arguments of the script: within str() they are texts, str($1) is one too, and so is str($1 + 2).
 */
static void check_constant(struct rut_checker *c, const struct rut_node *call, struct rut_node *a)
{
	const struct rut_node *p = a->kind == RUT_N_CALL ? a->list : a;
	uint64_t skip = 0;
	const char *s;

	if (p && p->kind == RUT_N_BINARY && p->op == '+' && p->b->kind == RUT_N_INT) {
		skip = p->b->value;
		p = p->a;
	}
	if (!p || p->kind != RUT_N_PARAM || !p->value ||
	    (a->kind == RUT_N_PARAM && strcmp(call->text, "str") != 0)) {
		if (a->kind == RUT_N_PARAM)
			rut_check_expr(c, a);
		return;
	}
	if (a->kind == RUT_N_CALL && a->list->next)
		return;
	s = p->value <= c->prog->ast.nparams ? c->prog->ast.params[p->value - 1] : "";
	a->kind = RUT_N_STRING;
	a->text = s + (skip < strlen(s) ? skip : strlen(s));
	a->len = (uint32_t)strlen(a->text);
}

static const struct rut_type *check_call(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_call *call = rut_call_find(n->text);
	struct rut_nearest near = {n->text, strlen(n->text), "", 0};
	bool statement = c->is_statement;
	const struct rut_node *map = c->assigned_map;
	const struct rut_type *t;
	unsigned count = 0;

	c->is_statement = false;
	/* comm() is comm. */
	if ((!call || !n->list) && rut_builtin_find(n->text)) {
		if (n->list)
			return rut_check_error(c, n, "%s takes no arguments", n->text);
		n->kind = RUT_N_NAME;
		return check_name(c, n);
	}
	n->what = call;
	if (!call) {
		rut_check_error(c, n, "there is no function '%s'", n->text);
		rut_call_nearest(&near);
		rut_prelude_nearest(&near);
		if (c->loud && near.name[0])
			rut_source_hint(c->src, "did you mean '%s'?", near.name);
		return NULL;
	}
	for (const struct rut_node *a = n->list; a; a = a->next)
		count++;
	if (count < call->min || count > call->max)
		return rut_check_error(c, n, "%s() takes %s%u argument%s, not %u", n->text,
				       call->min == call->max ? ""
				       : count < call->min    ? "at least "
							      : "at most ",
				       count < call->min ? call->min : call->max,
				       (count < call->min ? call->min : call->max) == 1 ? "" : "s",
				       count);
	if (call->use == RUT_CALL_ASSIGN && !map)
		return rut_check_error(c, n, "%s() can only be assigned to a map: @x = %s(...)",
				       n->text, n->text);
	if (call->use == RUT_CALL_STATEMENT && !statement)
		return rut_check_error(c, n, "%s() has no value", n->text);
	c->assigned_map = NULL;
	for (struct rut_node *a = n->list; a; a = a->next)
		if (a->kind == RUT_N_PARAM || (a->kind == RUT_N_CALL && !strcmp(a->text, "str")))
			check_constant(c, n, a);
	t = call->check(c, n);
	c->assigned_map = map;
	return t;
}

/* &@x: the kernel's struct bpf_map. */
static const struct rut_type *check_map_address(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t;

	if (n->a->a)
		return rut_check_error(c, n, "'&' gives the address of a map or variable: &%s",
				       n->a->text);
	rut_check_map_name(c, n->a);
	if (n->a->index < 0 || !c->prog->maps[n->a->index].value)
		return rut_check_error(c, n->a, "nothing is ever assigned to %s", n->a->text);
	t = rut_check_named_type(c, "struct bpf_map");
	return rut_type_pointer(c->arena, t ? t : rut_type_simple(RUT_T_VOID), false);
}

static const struct rut_type *check_unary(struct rut_checker *c, struct rut_node *n)
{
	bool map_address = n->op == '&' && n->a->kind == RUT_N_MAP;
	const struct rut_type *t = map_address ? NULL : rut_check_expr(c, n->a);
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;

	if (map_address)
		return check_map_address(c, n);
	if (!t)
		return NULL;
	if (n->op == '*') {
		if (rut_type_is_int(t))
			return rut_type_int(8, false);
		if (t->kind != RUT_T_POINTER || !t->elem || t->elem->kind == RUT_T_VOID)
			return rut_check_error(c, n, "%s points to nothing that can be read",
					       rut_type_text(t, &buf));
		return rut_check_part(c, n, t->elem);
	}
	if (n->op == '&' && n->a->kind != RUT_N_VAR)
		return rut_check_error(c, n,
				       "'&' gives the address of a variable or map: &$x, &@x");
	if (n->op == '&')
		return rut_type_pointer(c->arena, t, false);
	if (n->op == '!') {
		if (!rut_type_is_scalar(t))
			return rut_check_error(c, n, "'!' takes an integer or pointer, not %s",
					       rut_type_text(t, &buf));
		return rut_type_simple(RUT_T_BOOL);
	}
	if (!rut_type_is_int(t))
		return rut_check_error(c, n, "'%c' takes an integer, not %s", n->op,
				       rut_type_text(t, &buf));
	if (n->a->kind == RUT_N_INT) {
		become_int(n, n->op == '-' ? -n->a->value : ~n->a->value, RUT_INT_CALCULATED);
		return n->type;
	}
	return rut_type_int(8, n->op == '-' || t->is_signed);
}

/* Both sides constant: the result; false: not here. */
static bool fold(const struct rut_node *n, uint64_t *ret)
{
	uint64_t a = n->a->value, b = n->b->value;
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (n->op) {
	case '+':
		*ret = a + b;
		return true;
	case '-':
		*ret = a - b;
		return true;
	case '*':
		*ret = a * b;
		return true;
	case '/':
	case '%':
		if (!b || (sa == INT64_MIN && sb == -1))
			return false;
		*ret = (uint64_t)(n->op == '/' ? sa / sb : sa % sb);
		return true;
	case '&':
		*ret = a & b;
		return true;
	case '|':
		*ret = a | b;
		return true;
	case '^':
		*ret = a ^ b;
		return true;
	case RUT_OP_SHL:
		*ret = b < 64 ? a << b : 0;
		return true;
	case RUT_OP_SHR:
		*ret = b < 64 ? a >> b : 0;
		return true;
	default:
		return false;
	}
}

static bool is_comparison(int op)
{
	return op == RUT_OP_EQ || op == RUT_OP_NE || op == RUT_OP_LE || op == RUT_OP_GE ||
	       op == '<' || op == '>';
}

/* Of two constants. */
static bool compare(const struct rut_node *n, bool is_signed)
{
	uint64_t a = n->a->value, b = n->b->value;
	bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;

	switch (n->op) {
	case RUT_OP_EQ:
		return a == b;
	case RUT_OP_NE:
		return a != b;
	case '<':
		return less;
	case RUT_OP_GE:
		return !less;
	case '>':
		return !less && a != b;
	default:
		return less || a == b;
	}
}

/* Values of several words that can be equal. */
static bool comparable(const struct rut_type *a, const struct rut_type *b)
{
	/* What is behind their end is zeros. */
	if (a->kind == b->kind && (a->kind == RUT_T_STRING || a->kind == RUT_T_BUF))
		return true;
	if (a->kind != b->kind || a->size != b->size)
		return false;
	return a->kind == RUT_T_TUPLE || a->kind == RUT_T_INET || a->kind == RUT_T_MAC ||
	       a->kind == RUT_T_ARRAY || a->kind == RUT_T_USYM || a->kind == RUT_T_KSTACK ||
	       a->kind == RUT_T_USTACK;
}

static const struct rut_type *check_comparison(struct rut_checker *c, struct rut_node *n,
					       const struct rut_type *a, const struct rut_type *b)
{
	_cleanup_buf_ struct rut_buf x = RUT_BUF_INIT, y = RUT_BUF_INIT;
	bool equality = n->op == RUT_OP_EQ || n->op == RUT_OP_NE;
	char op[4];

	if (n->a->kind == RUT_N_INT && n->b->kind == RUT_N_INT) {
		become_int(n, compare(n, a->is_signed && b->is_signed), RUT_INT_BOOL);
		return n->type;
	}
	if (rut_type_is_scalar(a) && rut_type_is_scalar(b))
		return rut_type_simple(RUT_T_BOOL);
	if (equality && comparable(a, b))
		return rut_type_simple(RUT_T_BOOL);
	return rut_check_error(c, n, "%s and %s cannot be compared by '%s'", rut_type_text(a, &x),
			       rut_type_text(b, &y), rut_op_text(n->op, op));
}

static const struct rut_type *check_binary(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *a = rut_check_expr(c, n->a), *b = rut_check_expr(c, n->b);
	_cleanup_buf_ struct rut_buf x = RUT_BUF_INIT, y = RUT_BUF_INIT;
	bool sa, sb;
	uint64_t value;
	char op[4];

	if (!a || !b)
		return NULL;
	if (n->op == RUT_OP_AND || n->op == RUT_OP_OR) {
		if (rut_type_is_scalar(a) && rut_type_is_scalar(b))
			return rut_type_simple(RUT_T_BOOL);
		return rut_check_error(c, n, "'%s' takes integers or pointers, not %s and %s",
				       rut_op_text(n->op, op), rut_type_text(a, &x),
				       rut_type_text(b, &y));
	}
	if (is_comparison(n->op))
		return check_comparison(c, n, a, b);
	if (a->kind == RUT_T_POINTER && rut_type_is_int(b) && (n->op == '+' || n->op == '-'))
		return a;
	if (b->kind == RUT_T_POINTER && rut_type_is_int(a) && n->op == '+')
		return b;
	if (a->kind == RUT_T_POINTER && b->kind == RUT_T_POINTER && n->op == '-')
		return rut_type_int(8, true);
	if (!rut_type_is_int(a) || !rut_type_is_int(b))
		return rut_check_error(c, n, "%s and %s cannot be calculated with by '%s'",
				       rut_type_text(a, &x), rut_type_text(b, &y),
				       rut_op_text(n->op, op));
	if ((n->op == '/' || n->op == '%') && n->b->kind == RUT_N_INT && !n->b->value)
		return rut_check_error(c, n->b, "division by zero");
	if (n->a->kind == RUT_N_INT && n->b->kind == RUT_N_INT && fold(n, &value)) {
		become_int(n, value,
			   a->is_signed && b->is_signed ? RUT_INT_CALCULATED : RUT_INT_UNSIGNED);
		return n->type;
	}
	/* A number that is written has the sign of the other one. */
	sa = a->is_signed || a->kind == RUT_T_BOOL;
	sb = b->is_signed || b->kind == RUT_T_BOOL;
	if (rut_is_literal(n->a) && (int64_t)n->a->value >= 0)
		return rut_type_int(8, sb);
	if (rut_is_literal(n->b) && ((int64_t)n->b->value >= 0 || n->op == RUT_OP_SHL))
		return rut_type_int(8, sa);
	if (n->op == RUT_OP_SHL || n->op == RUT_OP_SHR)
		return rut_type_int(8, sa);
	return rut_type_int(8, sa && sb);
}

static const struct rut_type *check_ternary(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n->a), *a, *b, *join;
	_cleanup_buf_ struct rut_buf x = RUT_BUF_INIT, y = RUT_BUF_INIT;

	a = rut_check_expr(c, n->b);
	b = rut_check_expr(c, n->c);
	if (!t || !a || !b)
		return NULL;
	if (!rut_type_is_scalar(t))
		return rut_check_error(c, n->a,
				       "a condition must be an integer or a pointer, not %s",
				       rut_type_text(t, &x));
	if (a->kind == RUT_T_POINTER && rut_type_is_int(b))
		return a;
	if (b->kind == RUT_T_POINTER && rut_type_is_int(a))
		return b;
	join = rut_type_join(c->arena, a, b);
	if (!join)
		return rut_check_error(c, n, "the values are of different types: %s and %s",
				       rut_type_text(a, &x), rut_type_text(b, &y));
	return join->kind == RUT_T_INT ? rut_type_int(8, a->is_signed && b->is_signed) : join;
}

static const struct rut_type *check_tuple(struct rut_checker *c, struct rut_node *n)
{
	struct rut_type_field fields[64] = {0};
	uint32_t count = 0;

	for (struct rut_node *e = n->list; e; e = e->next) {
		const struct rut_type *t = rut_check_expr(c, e);

		if (!t)
			return NULL;
		if (count == 64)
			return rut_check_error(c, n, "a tuple has at most 64 values");
		if (t->kind == RUT_T_VOID || rut_type_is_agg(t))
			return rut_check_error(c, e, "this cannot be a value of a tuple");
		/* As everywhere integers are kept as 64 bits, unless they were cast. */
		if (t->kind == RUT_T_INT && e->kind != RUT_N_CAST)
			t = rut_type_int(8, t->is_signed);
		fields[count].name = e->label;
		fields[count++].type = t;
	}
	return rut_type_tuple(c->arena, n->kind == RUT_N_RECORD ? RUT_T_RECORD : RUT_T_TUPLE,
			      fields, count);
}

static bool is_word(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* A number that is written has as many bytes as it needs. */
static uint32_t bytes_of(const struct rut_node *n, const struct rut_type *t)
{
	return rut_is_literal(n) ? rut_type_literal(n)->size : t->size;
}

static const struct rut_type *check_cast(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *from = rut_check_expr(c, n->a);
	const struct rut_type *to = rut_check_type(c, n->type_name, n);
	_cleanup_buf_ struct rut_buf x = RUT_BUF_INIT, y = RUT_BUF_INIT;

	if (!from || !to)
		return NULL;
	/* (int8[])x: as many elements as it has bytes for. */
	if (to->kind == RUT_T_ARRAY && !to->count && to->elem->size)
		to = rut_type_array(c->arena, to->elem, bytes_of(n->a, from) / to->elem->size);
	if (rut_type_is_int(to) && rut_type_is_scalar(from))
		return to;
	if (to->kind == RUT_T_INT && from->kind == RUT_T_FLOAT)
		return to;
	if (to->kind == RUT_T_POINTER && rut_type_is_scalar(from)) {
		/* A pointer into user space stays one. */
		if (from->kind == RUT_T_POINTER && from->user)
			return rut_type_pointer(c->arena, to->elem, true);
		return rut_type_pointer(c->arena, to->elem, rut_probe_is_user(c->ctx->kind));
	}
	if (to->kind == RUT_T_STRING && from->kind == RUT_T_STRING)
		return from->size > to->size ? from : to;
	/* The bytes of a number, and a number of bytes. */
	if (to->kind == RUT_T_ARRAY && rut_type_is_int(from) && is_word(to->size) &&
	    (from->size == to->size || rut_is_literal(n->a)))
		return to;
	if (rut_type_is_int(to) && from->kind == RUT_T_ARRAY && is_word(from->size))
		return to;
	if (to->kind == RUT_T_ARRAY && to->size == from->size &&
	    (from->kind == RUT_T_STRING || from->kind == RUT_T_ARRAY))
		return to;
	return rut_check_error(c, n, "%s cannot become %s", rut_type_text(from, &x),
			       rut_type_text(to, &y));
}

static const struct rut_type *check_incdec(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t;
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;

	if (n->a->kind == RUT_N_MAP) {
		if (!rut_check_map(c, n->a))
			return NULL;
		if (rut_check_map_pointer(c, n->a))
			return n->a->type;
		return rut_check_map_value(c, n->a, rut_type_int(8, true), n);
	}
	if (n->a->kind != RUT_N_VAR)
		return rut_check_error(c, n, "only maps (@x) and variables ($x) can be changed");
	t = rut_check_expr(c, n->a);
	if (t && !rut_type_is_int(t) && t->kind != RUT_T_POINTER)
		return rut_check_error(c, n, "%s cannot be counted up", rut_type_text(t, &buf));
	return t;
}

static const struct rut_type *check_index(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t, *i;
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;

	if (rut_is_ruby_record(c->ctx, n->a))
		return rut_check_ruby_field(c, n);
	t = rut_check_expr(c, n->a);
	i = rut_check_int(c, n->b, "an index");
	if (!t || !i)
		return NULL;
	if (t->kind == RUT_T_POINTER && t->elem && t->elem->size)
		return rut_check_part(c, n, t->elem);
	if (t->kind == RUT_T_TUPLE && n->b->kind == RUT_N_INT) {
		n->kind = RUT_N_FIELD;
		n->value = n->b->value;
		return rut_check_field_of(c, n);
	}
	if (t->kind == RUT_T_STRING)
		return rut_type_int(1, true);
	if (t->kind != RUT_T_ARRAY)
		return rut_check_error(c, n, "%s has no elements", rut_type_text(t, &buf));
	/* An array of no elements is the end of a structure, and as long as there is memory. */
	if (n->b->kind == RUT_N_INT && n->b->value >= t->count && t->count)
		return rut_check_error(
			c, n->b,
			"the index %llu is out of bounds for array of size %u (they begin at 0)",
			(unsigned long long)n->b->value, t->count);
	return rut_check_part(c, n, t->elem);
}

/* What sizeof() and its like are about: a type, or a value that is not calculated. */
static const struct rut_type *check_operand(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t;

	if (n->type_name)
		return rut_check_type(c, n->type_name, n);
	/* A macro's parameter that is a type, and an array of it. */
	if (n->a->kind == RUT_N_TYPE)
		return rut_check_type(c, n->a->type_name, n);
	if (n->a->kind == RUT_N_INDEX && n->a->a->kind == RUT_N_TYPE &&
	    n->a->b->kind == RUT_N_INT && n->a->b->value <= RUT_TYPE_ELEMENTS_MAX) {
		t = rut_check_type(c, n->a->a->type_name, n);
		return t ? rut_type_array(c->arena, t, (uint32_t)n->a->b->value) : NULL;
	}
	return rut_check_expr(c, n->a);
}

static const struct rut_type *check_sizeof(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = check_operand(c, n);

	if (!t)
		return NULL;
	rut_check_size_fact(c->prog, n, t);
	become_int(n, t->size, RUT_INT_UNSIGNED);
	return n->type;
}

static const struct rut_type *check_offsetof(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = check_operand(c, n);
	bool kernel = t && t->btf_id;
	uint64_t offset = 0;

	for (const struct rut_node *name = n->list; t && name; name = name->next) {
		const struct rut_type_field *f = rut_check_field(c, n, t, name->text);

		if (!f)
			return NULL;
		offset += f->offset;
		t = f->type;
	}
	if (!t ||
	    !rut_check_is_portable(c, n, kernel ? "where fields of its structures are" : NULL))
		return NULL;
	become_int(n, offset, RUT_INT_UNSIGNED);
	return n->type;
}

static const struct rut_type *check_kind(struct rut_checker *c, struct rut_node *n)
{
	switch (n->kind) {
	case RUT_N_INT:
		return literal_type(n);
	case RUT_N_STRING:
		return rut_type_string(c->arena, n->len + 1);
	case RUT_N_VAR:
		return check_var(c, n);
	case RUT_N_MAP:
		return check_map_read(c, n);
	case RUT_N_NAME:
		return check_name(c, n);
	case RUT_N_CALL:
		return check_call(c, n);
	case RUT_N_UNARY:
		return check_unary(c, n);
	case RUT_N_BINARY:
		return check_binary(c, n);
	case RUT_N_IF:
		if (!n->c)
			return rut_check_error(c, n, "as a value an 'if' needs an 'else'");
		n->kind = RUT_N_TERNARY;
		return check_ternary(c, n);
	case RUT_N_TERNARY:
		return check_ternary(c, n);
	case RUT_N_CAST:
		return check_cast(c, n);
	case RUT_N_FIELD:
		return rut_check_field_of(c, n);
	case RUT_N_INDEX:
		return check_index(c, n);
	case RUT_N_TUPLE:
	case RUT_N_RECORD:
		return check_tuple(c, n);
	case RUT_N_INCDEC:
		return check_incdec(c, n);
	case RUT_N_BLOCK:
		return rut_check_block_value(c, n);
	default:
		return rut_check_error(c, n, "this is not there as a value");
	}
}

const struct rut_type *rut_check_expr(struct rut_checker *c, struct rut_node *n)
{
	switch (n->kind) {
	case RUT_N_PARAM:
		return check_param(c, n);
	case RUT_N_SIZEOF:
		return check_sizeof(c, n);
	case RUT_N_OFFSETOF:
		return check_offsetof(c, n);
	default:
		n->type = check_kind(c, n);
		return n->type;
	}
}
