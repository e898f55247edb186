/* SPDX-License-Identifier: MIT */
/*
 * wakeupchain: the critical path of a thread (waits.h), as a list and as sums.
 *
 * The sums add up to the interval. A thread on the path is listed with what it did there; of a wait
 * without a thread, the row is that of the thread that waited.
 */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/ordered.h"
#include "analysis/waits.h"
#include "base/parse.h"

#include <stdio.h>
#include <string.h>

struct chain {
	struct rut_instance base;
	struct rut_waits waits;
};

static const struct rut_lami_column path_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"duration", "Duration", RUT_LAMI_DURATION, NULL},
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"state", "State", RUT_LAMI_STRING, NULL},
	{"cause", "Cause", RUT_LAMI_STRING, NULL},
	{"call", "System call", RUT_LAMI_STRING, NULL},
	{"by", "By", RUT_LAMI_PROCESS, NULL},
};

static const struct rut_lami_column sum_columns[] = {
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"runs", "Runs", RUT_LAMI_DURATION, NULL},
	{"waits", "Waits for a CPU", RUT_LAMI_DURATION, NULL},
	{"preempted", "Preempted", RUT_LAMI_DURATION, NULL},
	{"timer", "Timer", RUT_LAMI_DURATION, NULL},
	{"disk", "Disk", RUT_LAMI_DURATION, NULL},
	{"network", "Network", RUT_LAMI_DURATION, NULL},
	{"interrupt", "Other interrupts", RUT_LAMI_DURATION, NULL},
	{"sleeps", "Sleeps", RUT_LAMI_DURATION, NULL},
	{"unknown", "Unknown", RUT_LAMI_DURATION, NULL},
};

/* The column of sums, from 0, that a state belongs to. */
static const uint8_t column_of[RUT_SEGMENT_STATES] = {
	[RUT_SEGMENT_RUNS] = 0,	  [RUT_SEGMENT_QUEUE] = 1,   [RUT_SEGMENT_PREEMPTED] = 2,
	[RUT_SEGMENT_TIMER] = 3,  [RUT_SEGMENT_DISK] = 4,    [RUT_SEGMENT_NET] = 5,
	[RUT_SEGMENT_IRQ] = 6,	  [RUT_SEGMENT_IPI] = 6,     [RUT_SEGMENT_USER] = 6,
	[RUT_SEGMENT_SLEEPS] = 7, [RUT_SEGMENT_UNKNOWN] = 8,
};
#define SUMS 9

static const struct rut_lami_class path_class =
	RUT_LAMI_CLASS("path", "Critical path", path_columns);
static const struct rut_lami_class sum_class =
	RUT_LAMI_CLASS("per-tid", "Time on the critical path", sum_columns);

struct own {
	int64_t tid;
};

static int option(void *own, int id, const char *value)
{
	uint64_t tid;

	(void)id;
	if (rut_parse_u64(value, &tid))
		return -EINVAL;
	((struct own *)own)->tid = (int64_t)tid;
	return 0;
}

static int64_t target_of(const struct rut_run *run)
{
	const struct own *o = run->conf->own;

	return o ? o->tid : 0;
}

static int init(struct rut_instance *inst)
{
	struct chain *c = (struct chain *)inst;

	c->waits.st = &inst->run->engine->state;
	c->waits.tid = target_of(inst->run);
	c->waits.done_ns = inst->begin_ns;
	c->waits.sweep = RUT_WAITS_SWEEP;
	c->waits.max = RUT_WAITS_MAX;
	return 0;
}

static void on_switch(void *arg, const void *data)
{
	rut_an_waits_on_switch(&((struct chain *)arg)->waits, data);
}

static void on_wakeup(void *arg, const void *data)
{
	rut_an_waits_on_wakeup(&((struct chain *)arg)->waits, data);
}

static void on_syscall_exit(void *arg, const void *data)
{
	rut_an_waits_on_syscall_exit(&((struct chain *)arg)->waits, data);
}

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},
	{RUT_HOOK_WAKEUP, on_wakeup},
	{RUT_HOOK_SYSCALL_EXIT, on_syscall_exit},
	{0, NULL},
};

/* ---- Report ---- */

static void add_text(struct rut_result *t, const char *s)
{
	if (s)
		rut_an_result_text(t, RUT_LAMI_STRING, s);
	else
		rut_an_result_empty(t);
}

/* How much of the path is unknown because switches are missing. */
static int64_t hidden_ns(const struct rut_an_path *path)
{
	int64_t ns = 0;

	for (size_t i = 0; i < path->n; i++)
		if (path->segments[i].what == rut_an_hidden_switch)
			ns += path->segments[i].end_ns - path->segments[i].begin_ns;
	return ns;
}

static struct rut_result *path_table(struct chain *c, const struct rut_an_path *path,
				     int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&path_class, c->base.begin_ns, end_ns, NULL);

	for (size_t i = 0; t && i < path->n; i++) {
		const struct rut_segment *s = &path->segments[i];

		rut_an_result_range(t, s->begin_ns, s->end_ns);
		rut_an_result_int(t, RUT_LAMI_DURATION, s->end_ns - s->begin_ns);
		rut_an_result_process(t, s->who->comm, RUT_LAMI_NONE, s->who->tid);
		rut_an_result_text(t, RUT_LAMI_STRING, rut_an_segment_name(s->state));
		add_text(t, s->what);
		add_text(t, s->call);
		if (s->by)
			rut_an_result_process(t, s->by->comm, RUT_LAMI_NONE, s->by->tid);
		else
			rut_an_result_empty(t);
	}
	return t;
}

struct sum {
	const struct rut_waits_thread *who;
	int64_t ns[SUMS];
};

static int by_total(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;
	int64_t sx = 0, sy = 0;

	for (int i = 0; i < SUMS; i++) {
		sx += x->ns[i];
		sy += y->ns[i];
	}
	return sx > sy ? -1 : sx < sy;
}

static struct rut_result *sum_table(struct chain *c, const struct rut_an_path *path, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&sum_class, c->base.begin_ns, end_ns, NULL);
	struct rut_ordered sums = {0};
	struct sum **list;

	for (size_t i = 0; i < path->n; i++) {
		const struct rut_segment *s = &path->segments[i];
		struct sum *sum = rut_an_ordered_add(&sums, (uint64_t)s->who->tid, sizeof(*sum));

		if (!sum)
			continue;
		sum->who = s->who;
		sum->ns[column_of[s->state]] += s->end_ns - s->begin_ns;
	}
	list = (struct sum **)rut_an_ordered_sorted(&sums, by_total);
	for (size_t i = 0; t && list && i < sums.n; i++) {
		rut_an_result_process(t, list[i]->who->comm, RUT_LAMI_NONE, list[i]->who->tid);
		for (int k = 0; k < SUMS; k++)
			rut_an_result_int(t, RUT_LAMI_DURATION, list[i]->ns[k]);
	}
	free(list);
	rut_an_ordered_fini(&sums);
	return t;
}

/* "timer (nanosleep)", "disk (vda in fsync), after jbd2 (210)". */
static void describe(const struct rut_cell *row, char *out, size_t size)
{
	const char *what = row[4].str, *call = row[5].str;
	int n = snprintf(out, size, "%s", row[3].str);

	if (what && call && !strcmp(what, call))
		call = NULL;
	if (what || call)
		n += snprintf(out + n, size - (size_t)n, " (%.60s%s%.32s)", what ? what : "",
			      what && call ? " in " : "", call ? call : "");
	if (row[6].type == RUT_LAMI_PROCESS)
		snprintf(out + n, size - (size_t)n, ", %s %.40s (%lld)",
			 !strcmp(row[3].str, "preempted") ? "by" : "after",
			 row[6].j && row[6].str ? row[6].str : "", (long long)row[6].j);
}

static void print_path(const struct rut_result *t, const struct rut_conf *c, struct rut_buf *out)
{
	char begin[64], end[64], us[40], who[64], state[256];

	rut_buf_puts(out, "\nCritical path\n");
	rut_an_fmt_line(out, "{:<20} {:<19} {:>15}  {:<28} {:<0}\n", "Begin", "End",
			"Duration (us)", "Thread", "State");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_time(begin, sizeof(begin), row[0].i, c->multi_day, c->gmt);
		rut_an_fmt_time(end, sizeof(end), row[0].j, c->multi_day, c->gmt);
		rut_an_fmt_us(us, sizeof(us), (double)row[1].i);
		snprintf(who, sizeof(who), "%.40s (%lld)", row[2].str ? row[2].str : "",
			 (long long)row[2].j);
		describe(row, state, sizeof(state));
		rut_an_fmt_line(out, "[{:<18}, {:<18}] {:>15}  {:<28} {:<0}\n", begin, end, us, who,
				state);
	}
}

static void print_sums(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] =
		"{:<28} {:>14} {:>16} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14}\n";
	char who[64], us[SUMS][40];

	rut_buf_puts(out, "\nTime on the critical path (us)\n");
	rut_an_fmt_line(out, line, "Thread", "Runs", "Waits for a CPU", "Preempted", "Timer",
			"Disk", "Network", "Interrupt", "Sleeps", "Unknown");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(who, sizeof(who), "%.40s (%lld)", row[0].str ? row[0].str : "",
			 (long long)row[0].j);
		for (int k = 0; k < SUMS; k++)
			rut_an_fmt_us(us[k], sizeof(us[k]), (double)row[1 + k].i);
		rut_an_fmt_line(out, line, who, us[0], us[1], us[2], us[3], us[4], us[5], us[6],
				us[7], us[8]);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct chain *c = (struct chain *)inst;
	struct rut_run *run = inst->run;
	int64_t tid = target_of(run);
	struct rut_result *path_rows, *sums;
	const struct rut_an_path *path = rut_an_waits_path(&c->waits, end_ns);

	if (!path) {
		run->engine->state.failed = true;
		return;
	}
	path_rows = path_table(c, path, end_ns);
	sums = sum_table(c, path, end_ns);
	if (run->conf->mi) {
		rut_an_results_take(&run->results, path_rows);
		rut_an_results_take(&run->results, sums);
	} else {
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
		if (!path->n)
			rut_buf_printf(&run->out, "Thread %lld never ran.\n", (long long)tid);
		if (path->n && path_rows)
			print_path(path_rows, run->conf, &run->out);
		if (path->n && sums)
			print_sums(sums, &run->out);
		if (hidden_ns(path)) {
			char us[40];

			rut_an_fmt_us(us, sizeof(us), (double)hidden_ns(path));
			rut_buf_printf(
				&run->out,
				"\nOf %s us the state is unknown: switches of the thread are "
				"missing from the trace (lost, or hidden by the kernel).\n",
				us);
		}
		if (c->waits.lossy)
			rut_buf_printf(&run->out,
				       "\nOf sleeps with more than %zu waits of other threads, "
				       "the begin is unknown.\n",
				       c->waits.max);
		rut_an_result_free(path_rows);
		rut_an_result_free(sums);
	}
}

static void fini(struct rut_instance *inst)
{
	rut_an_waits_fini(&((struct chain *)inst)->waits);
}

static const char *const tags[] = {"linux-kernel", "rutile", "sched", "log", NULL};
static const struct rut_lami_class *const classes[] = {&path_class, &sum_class, NULL};

static const char *const needs[] = {"sched_switch", NULL};

const struct rut_analysis rut_analysis_wakeupchain = {
	.info = {"Wakeup chain", "Who woke whom: the critical path of a thread", tags, classes},
	.own_size = sizeof(struct own),
	.option = option,
	.argument = "which thread? Give its TID before the trace",
	.needs = needs,
	.instance_size = sizeof(struct chain),
	.hooks = hooks,
	.init = init,
	.report = report,
	.fini = fini,
};
