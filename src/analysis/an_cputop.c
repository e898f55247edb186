/* SPDX-License-Identifier: MIT */
/* cputop: how much of the time each thread and each CPU was busy. */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct cpu_stats {
	int cpu;
	int64_t busy_ns;
	int64_t since_ns; /* RUT_NO_TIME: idle, or not counted */
	double percent;
};

struct tid_stats;

#define CACHED 256 /* CPUs */

struct tid_stats {
	int64_t tid;
	const char *comm;
	int64_t busy_ns, since_ns;
	uint64_t migrations;
	struct rut_prios prios;
	double percent;
};

struct cputop {
	struct rut_instance base;
	struct rut_ordered cpus, tids;
	size_t prune_at;
	struct tid_stats *running[CACHED]; /* by CPU: what came in last; or NULL */
};

static const struct rut_lami_column per_process_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"migrations", "Migration count", RUT_LAMI_NUMBER, "migrations"},
	{"prio_list", "Chronological priorities", RUT_LAMI_STRING, NULL},
	{"usage", "CPU usage", RUT_LAMI_RATIO, NULL},
};

static const struct rut_lami_column per_cpu_columns[] = {
	{"cpu", "CPU", RUT_LAMI_CPU, NULL},
	{"usage", "CPU usage", RUT_LAMI_RATIO, NULL},
};

static const struct rut_lami_column total_columns[] = {
	{"usage", "CPU usage", RUT_LAMI_RATIO, NULL},
};

static const struct rut_lami_column summary_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"usage", "Total CPU usage", RUT_LAMI_RATIO, NULL},
};

static const struct rut_lami_class per_process =
	RUT_LAMI_CLASS("per-process", "Per-TID top CPU usage", per_process_columns);
static const struct rut_lami_class per_cpu =
	RUT_LAMI_CLASS("per-cpu", "Per-CPU top CPU usage", per_cpu_columns);
static const struct rut_lami_class total =
	RUT_LAMI_CLASS("total", "Total CPU usage", total_columns);
static const struct rut_lami_class summary =
	RUT_LAMI_CLASS("summary", "CPU usage - summary", summary_columns);

/* ---- What happens ---- */

static bool wanted(const struct cputop *c, const struct rut_thread *t)
{
	return t->tid != 0 && rut_an_conf_thread(c->base.run->conf, t);
}

static uint64_t key_of(const void *item)
{
	return (uint64_t)((const struct tid_stats *)item)->tid;
}

static uint64_t rank_of(const void *item, int which)
{
	(void)which;
	return (uint64_t)((const struct tid_stats *)item)->busy_ns;
}

static bool has_ended(void *arg, const void *item)
{
	const struct tid_stats *s = item;

	return s->since_ns == RUT_NO_TIME && s->tid >= 0 && rut_an_state_has_ended(arg, s->tid);
}

static void drop(void *arg, void *item)
{
	(void)arg;
	rut_an_prios_fini(&((struct tid_stats *)item)->prios);
}

/* Threads that have ended and used less than those that will be listed. */
static void prune(struct cputop *c)
{
	struct rut_state *st = &c->base.run->engine->state;
	int64_t limit = c->base.run->conf->limit;
	const struct rut_prune p = {key_of, rank_of, 1, (size_t)limit, has_ended, drop, st};

	if (limit > 0 && rut_an_ordered_prune(&c->tids, &p))
		st->failed = true;
	memset(c->running, 0, sizeof(c->running));
	c->prune_at = 2 * c->tids.n > RUT_PRUNE_AT ? 2 * c->tids.n : RUT_PRUNE_AT;
}

static struct tid_stats *get_tid(struct cputop *c, int64_t tid, const char *comm, bool *ret_new)
{
	struct tid_stats *s = rut_ordered_get(&c->tids, (uint64_t)tid);

	*ret_new = !s;
	if (s)
		return s;
	if (c->tids.n >= RUT_PRUNE_AT && c->tids.n >= c->prune_at)
		prune(c);
	s = rut_an_ordered_add(&c->tids, (uint64_t)tid, sizeof(*s));
	if (!s)
		return NULL;
	s->tid = tid;
	s->comm = comm;
	s->since_ns = RUT_NO_TIME;
	return s;
}

/* With --by: rows are of several threads, which may run at a time. */
static void add_to_row(struct cputop *c, struct rut_thread *t, int64_t ns)
{
	const struct rut_thread *row;
	struct tid_stats *s;
	bool is_new;

	if (!c->base.run->conf->by || !t || !wanted(c, t))
		return;
	row = rut_an_run_row(c->base.run, t);
	s = get_tid(c, row->tid, row->comm, &is_new);
	if (s)
		s->busy_ns += ns;
}

/* Returns whether it is the first that is known of the CPU. */
static bool on_cpu(struct cputop *c, const struct rut_hook_switch *h)
{
	struct cpu_stats *s = rut_ordered_get(&c->cpus, (uint64_t)h->cpu);
	bool is_new = !s;

	if (is_new) {
		s = rut_an_ordered_add(&c->cpus, (uint64_t)h->cpu, sizeof(*s));
		if (!s)
			return true;
		s->cpu = h->cpu;
		s->since_ns = c->base.begin_ns;
	}
	if (s->since_ns != RUT_NO_TIME && h->gap_tid < 0) {
		s->busy_ns += h->ts_ns - s->since_ns;
		add_to_row(c, h->prev, h->ts_ns - s->since_ns);
	}
	s->since_ns = wanted(c, h->next) ? h->ts_ns : RUT_NO_TIME;
	return is_new;
}

/* Where it is kept what came in last; NULL: nowhere. By name a thread may pass a filter later. */
static struct tid_stats **running_on(struct cputop *c, int cpu)
{
	return cpu >= 0 && cpu < CACHED && !c->base.run->conf->n_procnames ? &c->running[cpu]
									   : NULL;
}

/* Told by a statedump or an event before the row was made: no change of it need follow. */
static void add_known_prio(struct tid_stats *s, const struct rut_thread *t)
{
	if (t->has_prio)
		rut_an_prios_add(&s->prios, true, t->prio);
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct cputop *c = arg;
	struct tid_stats *s, **cached;
	bool is_new, first;

	if (!rut_an_conf_cpu(c->base.run->conf, h->cpu))
		return;
	first = on_cpu(c, h);
	if (c->base.run->conf->by)
		return;
	/* Switches are missing (lost, or not recorded): how long that thread ran is not known. */
	s = h->gap_tid > 0 ? rut_ordered_get(&c->tids, (uint64_t)h->gap_tid) : NULL;
	if (s)
		s->since_ns = RUT_NO_TIME;
	cached = running_on(c, h->cpu);
	is_new = false;
	if (cached && *cached && (*cached)->tid == h->prev_tid)
		s = *cached;
	else
		s = rut_an_conf_thread(c->base.run->conf, h->prev)
			    ? get_tid(c, h->prev_tid, h->prev_comm, &is_new)
			    : NULL;
	if (cached)
		*cached = NULL;
	if (s && is_new)
		add_known_prio(s, h->prev);
	/* The thread that ran when the trace began has run since then. */
	if (s && is_new && first && h->gap_tid < 0)
		s->since_ns = c->base.begin_ns;
	if (s && s->since_ns != RUT_NO_TIME) {
		s->busy_ns += h->ts_ns - s->since_ns;
		s->since_ns = RUT_NO_TIME;
	}
	if (!wanted(c, h->next))
		return;
	s = get_tid(c, h->next_tid, h->next_comm, &is_new);
	if (!s)
		return;
	if (is_new)
		rut_an_prios_add(&s->prios, h->next->has_prio, h->next->prio);
	s->since_ns = h->ts_ns;
	if (cached)
		*cached = s;
}

static void on_migrate(void *arg, const void *data)
{
	const struct rut_hook_thread *h = data;
	const struct rut_thread *row;
	struct cputop *c = arg;
	struct tid_stats *s;
	bool is_new;

	if (!wanted(c, h->thread) || !rut_an_conf_cpu(c->base.run->conf, h->cpu))
		return;
	row = rut_an_run_row(c->base.run, h->thread);
	s = get_tid(c, row->tid, row->comm, &is_new);
	if (!s)
		return;
	if (is_new && !c->base.run->conf->by)
		add_known_prio(s, h->thread);
	s->migrations++;
}

static void on_prio(void *arg, const void *data)
{
	const struct rut_hook_thread *h = data;
	struct cputop *c = arg;
	struct tid_stats *s = rut_ordered_get(&c->tids, (uint64_t)h->thread->tid);

	if (s)
		rut_an_prios_add(&s->prios, true, h->thread->prio);
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct cputop, tids, struct tid_stats, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},
	{RUT_HOOK_MIGRATE, on_migrate},
	{RUT_HOOK_PRIO, on_prio},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

/*
 * The thread that runs when an interval begins. At the begin of the trace it is not known; then the
 * first switch of each CPU shows it.
 */
static int init(struct rut_instance *inst)
{
	struct cputop *c = (struct cputop *)inst;
	const struct rut_state *st = &inst->run->engine->state;
	bool is_new;

	c->tids.by_tid = !inst->period; /* there may be many periods at a time */
	for (size_t i = 0; i < st->n_cpus; i++) {
		struct rut_thread *t = st->cpus[i].current;
		struct cpu_stats *cpu;
		struct tid_stats *s;

		if (!st->cpus[i].switched || !rut_an_conf_cpu(inst->run->conf, (int)i))
			continue;
		cpu = rut_an_ordered_add(&c->cpus, i, sizeof(*cpu));
		if (!cpu)
			return -ENOMEM;
		cpu->cpu = (int)i;
		cpu->since_ns = RUT_NO_TIME;
		if (!t || !wanted(c, t))
			continue;
		cpu->since_ns = inst->begin_ns;
		if (inst->run->conf->by)
			continue;
		s = get_tid(c, t->tid, t->comm, &is_new);
		if (!s)
			return -ENOMEM;
		rut_an_prios_add(&s->prios, t->has_prio, t->prio);
		s->since_ns = inst->begin_ns;
	}
	return 0;
}

/* ---- Report ---- */

static double percent(int64_t *busy_ns, int64_t since_ns, int64_t end_ns, int64_t duration_ns)
{
	if (since_ns != RUT_NO_TIME)
		*busy_ns += end_ns - since_ns;
	return duration_ns ? (double)(*busy_ns * 100) / (double)duration_ns : 0;
}

static int by_percent(const void *a, const void *b)
{
	double x = ((const struct tid_stats *)a)->percent,
	       y = ((const struct tid_stats *)b)->percent;

	return x > y ? -1 : x < y;
}

static int by_cpu_percent(const void *a, const void *b)
{
	double x = ((const struct cpu_stats *)a)->percent,
	       y = ((const struct cpu_stats *)b)->percent;

	return x > y ? -1 : x < y;
}

static int by_cpu(const void *a, const void *b)
{
	return ((const struct cpu_stats *)a)->cpu - ((const struct cpu_stats *)b)->cpu;
}

static struct rut_result *process_table(struct cputop *c, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&per_process, c->base.begin_ns, end_ns, NULL);
	struct tid_stats **list = (struct tid_stats **)rut_an_ordered_sorted(&c->tids, by_percent);
	int64_t limit = c->base.run->conf->limit;

	for (size_t i = 0; t && list && i < c->tids.n; i++) {
		if (limit > 0 && (int64_t)i >= limit)
			break;
		rut_an_result_process(t, list[i]->comm, RUT_LAMI_NONE, list[i]->tid);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)list[i]->migrations);
		rut_an_result_add(t,
				  (struct rut_cell){.type = RUT_LAMI_STRING,
						    .str = rut_an_prios_str(&list[i]->prios, t)});
		rut_an_result_float(t, RUT_LAMI_RATIO, list[i]->percent / 100);
	}
	free(list);
	return t;
}

static struct rut_result *cpu_table(struct cputop *c, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&per_cpu, c->base.begin_ns, end_ns, NULL);
	struct cpu_stats **list = (struct cpu_stats **)rut_an_ordered_sorted(&c->cpus, by_cpu);

	for (size_t i = 0; t && list && i < c->cpus.n; i++) {
		rut_an_result_int(t, RUT_LAMI_CPU, list[i]->cpu);
		rut_an_result_float(t, RUT_LAMI_RATIO, list[i]->percent / 100);
	}
	free(list);
	return t;
}

/* The mean over all CPUs of which the trace shows anything. */
static struct rut_result *total_table(struct cputop *c, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&total, c->base.begin_ns, end_ns, NULL);
	struct cpu_stats **list =
		(struct cpu_stats **)rut_an_ordered_sorted(&c->cpus, by_cpu_percent);
	size_t n = c->base.run->engine->state.cpus_seen;
	double sum = 0;

	for (size_t i = 0; list && i < c->cpus.n; i++)
		sum += list[i]->percent;
	free(list);
	if (t && n)
		rut_an_result_float(t, RUT_LAMI_RATIO, sum / (double)n / 100);
	return t;
}

static void print_processes(const struct rut_result *t, struct rut_buf *out)
{
	struct rut_graph g = {0};
	struct rut_buf header = RUT_BUF_INIT, label = RUT_BUF_INIT;
	char value[48], name[80], migrations[32];

	rut_an_fmt_line(&header, "  {:<25} {:>10}   {:<0}", "Process", "Migrations", "Priorities");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);
		double v = row[3].f * 100;

		rut_an_fmt_bar_value(value, sizeof(value), v, true, "%");
		rut_an_fmt_process(name, sizeof(name), &row[0]);
		snprintf(migrations, sizeof(migrations), "%lld", (long long)row[1].i);
		rut_buf_clear(&label);
		rut_an_fmt_line(&label, "  {:<25} {:>10}   {:<0}", name, migrations, row[2].str);
		rut_an_graph_add(&g, v, value, 0, label.data);
	}
	rut_an_graph_bars(&g, out, "Per-TID Usage", header.data);
	rut_buf_fini(&header);
	rut_buf_fini(&label);
}

static void print_cpus(const struct rut_result *t, struct rut_buf *out)
{
	struct rut_graph g = {0};
	char value[48], label[32];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);
		double v = row[1].f * 100;

		rut_an_fmt_bar_value(value, sizeof(value), v, true, "%");
		snprintf(label, sizeof(label), "CPU %lld", (long long)row[0].i);
		rut_an_graph_add(&g, v, value, 0, label);
	}
	rut_an_graph_bars(&g, out, "Per-CPU Usage", NULL);
}

static void print_total(const struct rut_result *t, struct rut_buf *out)
{
	if (rut_result_rows(t))
		rut_buf_printf(out, "\nTotal CPU Usage: %0.02f%%\n\n", t->cells[0].f * 100);
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct cputop *c = (struct cputop *)inst;
	struct rut_run *run = inst->run;
	int64_t duration_ns = end_ns - inst->begin_ns;

	for (size_t i = 0; i < c->cpus.n; i++) {
		struct cpu_stats *s = c->cpus.items[i];

		if (s->since_ns != RUT_NO_TIME && (size_t)s->cpu < run->engine->state.n_cpus)
			add_to_row(c, run->engine->state.cpus[s->cpu].current,
				   end_ns - s->since_ns);
		s->percent = percent(&s->busy_ns, s->since_ns, end_ns, duration_ns);
	}
	for (size_t i = 0; i < c->tids.n; i++) {
		struct tid_stats *s = c->tids.items[i];

		s->percent = percent(&s->busy_ns, s->since_ns, end_ns, duration_ns);
	}
	if (!run->conf->mi)
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
	rut_an_run_take(run, process_table(c, end_ns), print_processes);
	rut_an_run_take(run, cpu_table(c, end_ns), print_cpus);
	rut_an_run_take(run, total_table(c, end_ns), print_total);
}

static void summarise(struct rut_run *run)
{
	rut_an_results_summarise(&run->results, &total, &summary);
}

static void fini(struct rut_instance *inst)
{
	struct cputop *c = (struct cputop *)inst;

	for (size_t i = 0; i < c->tids.n; i++)
		rut_an_prios_fini(&((struct tid_stats *)c->tids.items[i])->prios);
	rut_an_ordered_fini(&c->tids);
	rut_an_ordered_fini(&c->cpus);
}

static const char *const tags[] = {"linux-kernel", "lttng-analyses", "cpu", "top", NULL};
static const struct rut_lami_class *const classes[] = {&per_process, &per_cpu, &total, &summary,
						       NULL};

static const char *const needs[] = {"sched_switch", NULL};

const struct rut_analysis rut_analysis_cputop = {
	.info = {"Top CPU usage", "Per-TID, per-CPU, and total top CPU usage", tags, classes},
	.needs = needs,
	.report_needs = {"sched_switch"},
	.instance_size = sizeof(struct cputop),
	.hooks = hooks,
	.init = init,
	.report = report,
	.fini = fini,
	.summarise = summarise,
};
