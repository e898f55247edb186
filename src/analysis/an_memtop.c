/* SPDX-License-Identifier: MIT */
/* memtop: pages allocated and freed by each thread. */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/ordered.h"

#include <stdio.h>

struct tid_stats {
	int64_t tid;
	const char *comm;
	uint64_t pages[2]; /* allocated, freed */
};

struct memtop {
	struct rut_instance base;
	struct rut_ordered tids;
	size_t prune_at;
	uint64_t pages[2]; /* of all */
};

static const struct rut_lami_column alloc_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"pages", "Allocated pages", RUT_LAMI_NUMBER, "pages"},
};

static const struct rut_lami_column free_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"pages", "Freed pages", RUT_LAMI_NUMBER, "pages"},
};

static const struct rut_lami_column total_columns[] = {
	{"allocd", "Total allocated pages", RUT_LAMI_NUMBER, "pages"},
	{"freed", "Total freed pages", RUT_LAMI_NUMBER, "pages"},
};

static const struct rut_lami_column summary_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"allocd", "Total allocated pages", RUT_LAMI_NUMBER, "pages"},
	{"freed", "Total freed pages", RUT_LAMI_NUMBER, "pages"},
};

static const struct rut_lami_class allocated =
	RUT_LAMI_CLASS("allocd", "Per-TID top allocated memory", alloc_columns);
static const struct rut_lami_class freed =
	RUT_LAMI_CLASS("freed", "Per-TID top freed memory", free_columns);
static const struct rut_lami_class total =
	RUT_LAMI_CLASS("total", "Total allocated/freed memory", total_columns);
static const struct rut_lami_class summary =
	RUT_LAMI_CLASS("summary", "Memory usage - summary", summary_columns);

static uint64_t key_of(const void *item)
{
	return (uint64_t)((const struct tid_stats *)item)->tid;
}

static uint64_t rank_of(const void *item, int which)
{
	return ((const struct tid_stats *)item)->pages[which];
}

static bool has_ended(void *arg, const void *item)
{
	int64_t tid = ((const struct tid_stats *)item)->tid;

	return tid >= 0 && rut_an_state_has_ended(arg, tid);
}

/* Threads that have ended and are behind those that will be listed. */
static void prune(struct memtop *m)
{
	struct rut_state *st = &m->base.run->engine->state;
	int64_t limit = m->base.run->conf->limit;
	const struct rut_prune p = {key_of, rank_of, 2, (size_t)limit, has_ended, NULL, st};

	if (limit > 0 && rut_an_ordered_prune(&m->tids, &p))
		st->failed = true;
	m->prune_at = 2 * m->tids.n > RUT_PRUNE_AT ? 2 * m->tids.n : RUT_PRUNE_AT;
}

static void count(struct memtop *m, const struct rut_hook_thread *h, int which)
{
	const struct rut_thread *row;
	struct tid_stats *s;

	if (!rut_an_conf_thread(m->base.run->conf, h->thread) ||
	    !rut_an_conf_cpu(m->base.run->conf, h->cpu))
		return;
	if (m->tids.n >= RUT_PRUNE_AT && m->tids.n >= m->prune_at)
		prune(m);
	row = rut_an_run_row(m->base.run, h->thread);
	s = rut_an_ordered_add(&m->tids, (uint64_t)row->tid, sizeof(*s));
	if (!s)
		return;
	if (!s->comm) {
		s->tid = row->tid;
		s->comm = row->comm;
	}
	s->pages[which]++;
	m->pages[which]++;
}

static void on_alloc(void *arg, const void *data)
{
	count(arg, data, 0);
}

static void on_free(void *arg, const void *data)
{
	count(arg, data, 1);
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct memtop, tids, struct tid_stats, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_PAGE_ALLOC, on_alloc},
	{RUT_HOOK_PAGE_FREE, on_free},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

static int by_allocated(const void *a, const void *b)
{
	uint64_t x = ((const struct tid_stats *)a)->pages[0];
	uint64_t y = ((const struct tid_stats *)b)->pages[0];

	return x > y ? -1 : x < y;
}

static int by_freed(const void *a, const void *b)
{
	uint64_t x = ((const struct tid_stats *)a)->pages[1];
	uint64_t y = ((const struct tid_stats *)b)->pages[1];

	return x > y ? -1 : x < y;
}

static struct rut_result *table(struct memtop *m, int which, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(which ? &freed : &allocated, m->base.begin_ns, end_ns, NULL);
	struct tid_stats **list = (struct tid_stats **)rut_an_ordered_sorted(
		&m->tids, which ? by_freed : by_allocated);
	int64_t limit = m->base.run->conf->limit;

	for (size_t i = 0; t && list && i < m->tids.n; i++) {
		if (limit > 0 && (int64_t)i >= limit)
			break;
		rut_an_result_process(t, list[i]->comm, RUT_LAMI_NONE, list[i]->tid);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)list[i]->pages[which]);
	}
	free(list);
	return t;
}

static struct rut_result *total_table(struct memtop *m, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&total, m->base.begin_ns, end_ns, NULL);

	for (int i = 0; t && i < 2; i++)
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)m->pages[i]);
	return t;
}

static void print_bars(const struct rut_result *t, struct rut_buf *out, const char *title)
{
	struct rut_graph g = {0};
	char value[48], label[80];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_bar_value(value, sizeof(value), (double)row[1].i, false, "pages");
		rut_an_fmt_process(label, sizeof(label), &row[0]);
		rut_an_graph_add(&g, (double)row[1].i, value, 0, label);
	}
	rut_an_graph_bars(&g, out, title, "Process");
}

static void print_allocated(const struct rut_result *t, struct rut_buf *out)
{
	print_bars(t, out, "Per-TID Memory Allocations");
}

static void print_freed(const struct rut_result *t, struct rut_buf *out)
{
	print_bars(t, out, "Per-TID Memory Deallocations");
}

static void print_total(const struct rut_result *t, struct rut_buf *out)
{
	if (rut_result_rows(t))
		rut_buf_printf(
			out, "\nTotal memory usage:\n- %lld pages allocated\n- %lld pages freed\n",
			(long long)t->cells[0].i, (long long)t->cells[1].i);
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct memtop *m = (struct memtop *)inst;
	struct rut_run *run = inst->run;

	if (!run->conf->mi)
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
	rut_an_run_take(run, table(m, 0, end_ns), print_allocated);
	rut_an_run_take(run, table(m, 1, end_ns), print_freed);
	rut_an_run_take(run, total_table(m, end_ns), print_total);
}

static void summarise(struct rut_run *run)
{
	rut_an_results_summarise(&run->results, &total, &summary);
}

static void fini(struct rut_instance *inst)
{
	rut_an_ordered_fini(&((struct memtop *)inst)->tids);
}

static const char *const tags[] = {"linux-kernel", "lttng-analyses", "memory", "top", NULL};
static const struct rut_lami_class *const classes[] = {&allocated, &freed, &total, &summary, NULL};

static const char *const needs[] = {"*mm_page_alloc", "*mm_page_free", NULL};

const struct rut_analysis rut_analysis_memtop = {
	.info = {"Top memory usage", "Per-TID top allocated/freed memory", tags, classes},
	.needs = needs,
	.needs_threads = true,
	.report_needs = {"*mm_page_alloc"},
	.instance_size = sizeof(struct memtop),
	.hooks = hooks,
	.report = report,
	.fini = fini,
	.summarise = summarise,
};
