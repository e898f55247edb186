/* SPDX-License-Identifier: MIT */
/*
 * p50(@h) ... p999(@h), percentile(@h, N): of hist() and lhist(), which are merged over all CPUs
 * when they are read. The program sends the key, and the code that shows the value reads the map:
 * so they are arguments of printf() and its like, not numbers to calculate with.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "script/calls.h"
#include "script/hist.h"
#include "script/quantile.h"
#include "script/rows.h"

static const struct {
	const char *name;
	uint32_t permille;
} names[] = {{"p50", 500}, {"p75", 750}, {"p90", 900}, {"p95", 950}, {"p99", 990}, {"p999", 999}};

/* "99", "99.9" */
static bool parse_percent(const char *text, uint32_t *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= 0 && v <= 100))
		return false;
	*ret = (uint32_t)(v * 10 + 0.5);
	return fabs(v * 10 - *ret) < 1e-6;
}

static bool permille_of(struct rut_checker *c, struct rut_node *n, uint32_t *ret)
{
	struct rut_node *percent = n->list->next;
	int64_t v;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(names[i].name, n->text)) {
			*ret = names[i].permille;
			return true;
		}
	}
	if (percent && percent->kind == RUT_N_STRING && parse_percent(percent->text, ret))
		return true;
	if (percent && rut_literal_int(percent, &v) && v >= 0 && v <= 100) {
		*ret = (uint32_t)v * 10;
		return true;
	}
	rut_check_error(c, percent ? percent : n,
			"a constant from 0 to 100 with one decimal at most is expected: "
			"percentile(@x, 99), percentile(@x, \"99.9\")");
	return false;
}

const struct rut_type *rut_check_quantile(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *m = n->list;
	const struct rut_type *value;
	uint32_t permille;

	if (c->shown != n)
		return rut_check_error(c, n,
				       "%s() is calculated when it is shown: it is an argument of "
				       "printf() or print()",
				       n->text);
	if (m->kind != RUT_N_MAP)
		return rut_check_error(c, m, "%s() takes a map: %s(@x)", n->text, n->text);
	if (!permille_of(c, n, &permille) || !rut_check_map(c, m))
		return NULL;
	value = c->prog->maps[m->index].value;
	if (!value || (value->kind != RUT_T_HIST && value->kind != RUT_T_LHIST))
		return value ? rut_check_error(c, m, "%s is not a hist() or lhist()", m->text)
			     : NULL;
	n->value = permille;
	return rut_type_int(8, true);
}

rut_vreg rut_gen_quantile(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_const(&g->ir, 0);
}

bool rut_is_quantile(const struct rut_node *n)
{
	const struct rut_call *call = n->kind == RUT_N_CALL ? n->what : NULL;

	return call && call->check == rut_check_quantile;
}

bool rut_quantile_add(struct rut_checker *c, struct rut_script_action *a, struct rut_node *first,
		      struct rut_type_field *fields, uint32_t count)
{
	struct rut_script_quantile *list = NULL;
	uint32_t n = 0, field = 0;
	struct rut_type *args;

	for (struct rut_node *e = first; e; e = e->next)
		n += rut_is_quantile(e);
	if (!n)
		return true;
	list = rut_arena_alloc(c->arena, n * sizeof(*list));
	if (!list || count + n > 128)
		return rut_check_error(c, first, "too many values");
	n = 0;
	for (struct rut_node *e = first; e; e = e->next, field++) {
		const struct rut_script_map *m;

		if (!rut_is_quantile(e))
			continue;
		m = &c->prog->maps[e->list->index];
		list[n] = (struct rut_script_quantile){.field = field,
						       .map = (uint32_t)e->list->index,
						       .permille = (uint32_t)e->value};
		fields[count + n++] = (struct rut_type_field){
			.name = NULL, .type = m->key ? m->key : rut_type_int(8, false)};
	}
	/* The keys are behind the arguments, and not among them. */
	args = rut_type_new(c->arena, RUT_T_TUPLE, 0, 8);
	*args = *rut_type_tuple(c->arena, RUT_T_TUPLE, fields, count + n);
	args->nfields = count;
	a->args = args;
	a->quantiles = list;
	a->nquantiles = n;
	return true;
}

void rut_gen_quantile_keys(struct rut_gen *g, struct rut_node *first,
			   const struct rut_script_action *a, rut_vreg record, uint32_t header)
{
	const struct rut_type_field *f = a->args->fields + a->args->nfields;

	for (struct rut_node *e = first; e; e = e->next) {
		struct rut_mem to = {record, 0, RUT_SPACE_BPF};

		if (!rut_is_quantile(e))
			continue;
		to.off = (int32_t)(header + f->offset);
		if (e->list->a)
			rut_gen_into(g, e->list->a, f->type, to);
		f++;
	}
}
