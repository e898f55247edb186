/* SPDX-License-Identifier: MIT */
/* The rows of processes that have ended: kept, and merged when they become many. */
#include "ruby/gone.h"

#include <stdlib.h>

#include "ruby/rows.h"
#include "ruby/table.h"

#define GONE_MAX 8192 /* rows, before those of one method are added up */

/* By all but the process: the names are interned, so their addresses will do. */
static int compare_rows(const void *a, const void *b)
{
	const struct rut_ruby_row *x = a, *y = b;
#define BY(field)                                                                                  \
	if (x->field != y->field)                                                                  \
		return (uintptr_t)x->field < (uintptr_t)y->field ? -1 : 1;
	BY(path)
	BY(line)
	BY(class_name)
	BY(method_name)
	BY(singleton)
#undef BY
	return 0;
}

static void add_row(struct rut_ruby_row *to, const struct rut_ruby_row *row)
{
	to->calls += row->calls;
	to->total_ns += row->total_ns;
	to->self_ns += row->self_ns;
	to->max_ns = row->max_ns > to->max_ns ? row->max_ns : to->max_ns;
	to->running += row->running;
	to->count += row->count;
	to->bytes += row->bytes;
	for (unsigned i = 0; to->buckets && row->buckets && i < RUT_BUCKETS; i++)
		((struct rut_ruby_buckets *)to->buckets)->calls[i] += row->buckets->calls[i];
	free((void *)row->buckets);
}

/* There are too many to keep each process's apart: they become rows of the first one. */
static void merge_gone(struct rut_gone *g, pid_t pid)
{
	size_t n = 0;

	qsort(g->rows, g->count, sizeof(*g->rows), compare_rows);
	for (size_t i = 0; i < g->count; i++) {
		if (n && compare_rows(&g->rows[n - 1], &g->rows[i]) == 0) {
			add_row(&g->rows[n - 1], &g->rows[i]);
			continue;
		}
		g->rows[n] = g->rows[i];
		g->rows[n++].pid = pid;
	}
	g->count = n;
	g->limit = n * 2 > GONE_MAX ? n * 2 : GONE_MAX;
}

/* Rows refer to memory of the process: they get copies. */
static bool keep_buckets(struct rut_ruby_row *rows, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct rut_ruby_buckets *own = rows[i].buckets ? malloc(sizeof(*own)) : NULL;

		if (own)
			*own = *rows[i].buckets;
		else if (rows[i].buckets)
			break;
		rows[i].buckets = own;
	}
	for (uint32_t k = 0; i < count && k < i; k++)
		free((void *)rows[k].buckets);
	return i == count;
}

void rut_gone_forget(struct rut_gone *g)
{
	for (size_t i = 0; i < g->count; i++) {
		free((void *)g->rows[i].buckets);
		g->rows[i].buckets = NULL;
	}
}

void rut_gone_fini(struct rut_gone *g)
{
	rut_gone_forget(g);
	free(g->rows);
}

/* Returns whether it worked out: else the process's tables are kept as they are. */
bool rut_gone_keep(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_gone *g = &t->gone;
	uint32_t count = rut_ruby_table_count(p);
	size_t need = g->count + count;

	if (need > g->cap) {
		struct rut_ruby_row *to = realloc(g->rows, need * 2 * sizeof(*to));

		if (!to)
			return false;
		g->rows = to;
		g->cap = need * 2;
	}
	if (!rut_tracee_rows_fill(t, p, g->rows + g->count, &count))
		return false;
	if (!keep_buckets(g->rows + g->count, count))
		return false;
	g->count += count;
	if (g->count > (g->limit ? g->limit : GONE_MAX))
		merge_gone(g, t->tracees[0]->pid);
	return true;
}
