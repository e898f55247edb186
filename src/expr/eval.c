/* SPDX-License-Identifier: MIT */
/* The hot path: runs a bound program on one event. Allocates nothing. */
#include "expr/expr_priv.h"
#include "base/glob.h"
#include "expr/prog.h"

struct machine {
	const struct rut_expr_prog *p;
	const void *event;
	const struct rut_expr_frame *frame;
	struct rut_expr_val temps[RUT_EXPR_MAX_TEMPS];
};

/* The value of an operand; *tmp is room for one that has to be loaded. */
static bool set_has(const struct rut_expr_set *set, const struct rut_expr_val *v)
{
	size_t lo = 0, hi = set->count;

	if (v->type != RUT_EXPR_INT && v->type != RUT_EXPR_UINT)
		return false;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v->u < set->ranges[mid].lo)
			hi = mid;
		else if (v->u > set->ranges[mid].hi)
			lo = mid + 1;
		else
			return true;
	}
	return false;
}

static inline const struct rut_expr_val *load(struct machine *m, uint16_t operand,
					      struct rut_expr_val *tmp)
{
	const struct rut_expr_operand *o = &m->p->operands[operand];
	const struct rut_expr_frame *f;

	switch (o->kind) {
	case OPERAND_CONST:
		return &o->val;
	case OPERAND_TEMP:
		return &m->temps[o->index];
	case OPERAND_TIME:
		*tmp = (struct rut_expr_val){
			RUT_EXPR_INT, 0, {.u = m->p->ops->timestamp_ns(m->event)}};
		return tmp;
	case OPERAND_FRAME:
		f = m->frame;
		for (unsigned d = o->depth; d && f; d--)
			f = f->parent;
		if (f)
			return &f->slots[o->index];
		tmp->type = RUT_EXPR_NONE;
		return tmp;
	default:
		if (!m->p->ops->load(m->event, &o->field, tmp))
			tmp->type = RUT_EXPR_NONE;
		return tmp;
	}
}

static bool run(struct machine *m)
{
	const struct rut_expr_prog *p = m->p;
	struct rut_expr_val ta, tb;
	const struct rut_expr_val *a, *b;
	bool truth = false;

	for (uint16_t pc = 0; pc < p->ncode; pc++) {
		const struct rut_expr_code *c = &p->code[pc];

		switch (c->op) {
		case CODE_CMP:
			a = load(m, c->a, &ta);
			b = load(m, c->b, &tb);
			truth = rut_expr_relation(c->sub, a, b);
			break;
		case CODE_GLOB:
			a = load(m, c->a, &ta);
			b = &p->operands[c->b].val;
			truth = a->type == RUT_EXPR_STR &&
				rut_glob(b->s, b->len, a->s, a->len, RUT_GLOB_EXPR);
			break;
		case CODE_REGEX:
			a = load(m, c->a, &ta);
			truth = a->type == RUT_EXPR_STR &&
				rut_expr_regex_search(p->operands[c->b].regex, a->s, a->len);
			break;
		case CODE_LABEL:
			truth = set_has(p->operands[c->b].set, load(m, c->a, &ta));
			break;
		case CODE_TEST:
			truth = rut_expr_truth(load(m, c->a, &ta));
			break;
		case CODE_NOT:
			truth = !truth;
			break;
		case CODE_JUMP_FALSE:
			if (!truth)
				pc = (uint16_t)(c->a - 1);
			break;
		case CODE_JUMP_TRUE:
			if (truth)
				pc = (uint16_t)(c->a - 1);
			break;
		case CODE_ARITH:
			a = load(m, c->a, &ta);
			b = load(m, c->b, &tb);
			m->temps[c->dst] = rut_expr_arith(c->sub, a, b);
			break;
		case CODE_BOOL:
			m->temps[c->dst] = (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = truth}};
			break;
		}
	}
	return truth;
}

bool rut_expr_match(const struct rut_expr_prog *p, const void *event,
		    const struct rut_expr_frame *frame)
{
	struct machine m;
	struct rut_expr_val tmp;
	bool truth;

	if (p->constant >= 0)
		return p->constant;
	m.p = p;
	m.event = event;
	m.frame = frame;
	truth = run(&m);
	return p->cond ? truth : rut_expr_truth(load(&m, p->result, &tmp));
}

void rut_expr_value(const struct rut_expr_prog *p, const void *event,
		    const struct rut_expr_frame *frame, struct rut_expr_val *ret)
{
	struct machine m;
	struct rut_expr_val tmp;
	bool truth;

	if (p->cond && p->constant >= 0) {
		*ret = (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = p->constant}};
		return;
	}
	m.p = p;
	m.event = event;
	m.frame = frame;
	truth = run(&m);
	if (p->cond)
		*ret = (struct rut_expr_val){RUT_EXPR_INT, 0, {.i = truth}};
	else
		*ret = *load(&m, p->result, &tmp);
}

void rut_expr_layout_load(const struct rut_expr_prog *p, const void *event,
			  struct rut_expr_val *values)
{
	struct machine m;
	struct rut_expr_val tmp;

	m.p = p;
	m.event = event;
	m.frame = NULL;
	for (uint16_t i = 0; i < p->noperands; i++)
		values[i] = *load(&m, i, &tmp);
}
