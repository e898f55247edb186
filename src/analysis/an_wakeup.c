/* SPDX-License-Identifier: MIT */
/*
 * wakeupchain: where the time of a thread went, and in whom.
 *
 * The stretch is walked from its end backwards, in the thread asked for. While it ran, it ran; when
 * it was woken and waited for a CPU, it waited; while it slept, the path is in whoever woke it, for
 * as long as the sleep lasted, and so on through that one's own sleeps. A sleep that nobody known
 * ended (an interrupt, a timer) is a sleep. What comes out covers the stretch without gaps: it is
 * the critical path, what would have to be faster.
 */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/ordered.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 64

/* A thread's turn on a CPU, and how it came to it. */
struct turn {
	int64_t wake_ns;       /* RUT_NO_TIME: it was not woken, it had been preempted */
	int64_t waker;	       /* tid; 0: nobody known */
	int64_t in_ns, out_ns; /* RUT_NO_TIME: still runs */
};

struct history {
	int64_t tid;
	const char *comm;
	struct turn *turns; /* owned */
	size_t n, cap;
};

enum { RUNS, WAITS, PREEMPTED, SLEEPS, UNKNOWN };

static const char *const state_names[] = {"runs", "waits for a CPU", "preempted", "sleeps",
					  "unknown"};

struct segment {
	const struct history *who;
	int64_t begin_ns, end_ns;
	int state;
};

struct chain {
	struct rut_instance base;
	struct rut_ordered threads;
	struct segment *path; /* owned; backwards */
	size_t n, cap;
};

static const struct rut_lami_column path_columns[] = {
	{"time_range", "Time range", RUT_LAMI_TIME_RANGE, NULL},
	{"duration", "Duration", RUT_LAMI_DURATION, NULL},
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"state", "State", RUT_LAMI_STRING, NULL},
};

static const struct rut_lami_column sum_columns[] = {
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"runs", "Runs", RUT_LAMI_DURATION, NULL},
	{"waits", "Waits for a CPU", RUT_LAMI_DURATION, NULL},
	{"preempted", "Preempted", RUT_LAMI_DURATION, NULL},
	{"sleeps", "Sleeps", RUT_LAMI_DURATION, NULL},
	{"unknown", "Unknown", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_class path_class =
	RUT_LAMI_CLASS("path", "Critical path", path_columns);
static const struct rut_lami_class sum_class =
	RUT_LAMI_CLASS("per-tid", "Time on the critical path", sum_columns);

static struct history *get_history(struct chain *c, int64_t tid, const char *comm)
{
	struct history *h = rut_ordered_add(&c->threads, (uint64_t)tid, sizeof(*h));

	if (h && comm) {
		h->tid = tid;
		h->comm = comm;
	}
	return h;
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *s = data;
	struct chain *c = arg;
	struct history *prev = get_history(c, s->prev_tid, s->prev_comm);
	struct history *next = get_history(c, s->next_tid, s->next_comm);

	if (!prev || !next)
		return;
	/* What ran when the stretch began came in before it. */
	if (!prev->n && s->prev_tid) {
		prev->turns = malloc(4 * sizeof(*prev->turns));
		if (!prev->turns)
			return;
		prev->cap = 4;
		prev->turns[prev->n++] =
			(struct turn){RUT_NO_TIME, 0, c->base.begin_ns, RUT_NO_TIME};
	}
	if (prev->n)
		prev->turns[prev->n - 1].out_ns = s->ts_ns;
	if (!s->next_tid)
		return;
	if (next->n == next->cap) {
		size_t cap = next->cap ? next->cap * 2 : 4;
		void *turns = realloc(next->turns, cap * sizeof(*next->turns));

		if (!turns) {
			c->base.run->engine->state.failed = true;
			return;
		}
		next->turns = turns;
		next->cap = cap;
	}
	next->turns[next->n++] =
		(struct turn){s->wakeup_ns, s->waker ? s->waker->tid : 0, s->ts_ns, RUT_NO_TIME};
}

static const struct rut_analysis_hook hooks[] = {{RUT_HOOK_SWITCH, on_switch}, {0, NULL}};

/* ---- The walk ---- */

static void add(struct chain *c, const struct history *h, int64_t begin_ns, int64_t end_ns,
		int state)
{
	struct segment *last = c->n ? &c->path[c->n - 1] : NULL;

	if (end_ns <= begin_ns)
		return;
	if (last && last->who == h && last->state == state && last->begin_ns == end_ns) {
		last->begin_ns = begin_ns;
		return;
	}
	if (!c->path || c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		void *path = realloc(c->path, cap * sizeof(*c->path));

		if (!path) {
			c->base.run->engine->state.failed = true;
			return;
		}
		c->path = path;
		c->cap = cap;
	}
	c->path[c->n++] = (struct segment){h, begin_ns, end_ns, state};
}

static int64_t max_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The last turn that began before this time, counted from 1; 0: none. */
static size_t turn_before(const struct history *h, int64_t ns)
{
	size_t lo = 0, hi = h->n;

	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (h->turns[middle].in_ns < ns)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

static void walk(struct chain *c, const struct history *h, int64_t lo, int64_t hi, int depth)
{
	size_t i = turn_before(h, hi);

	/* Asleep at the end: who would have woken it is not known. */
	if (i && h->turns[i - 1].out_ns != RUT_NO_TIME && h->turns[i - 1].out_ns < hi) {
		add(c, h, max_ns(h->turns[i - 1].out_ns, lo), hi, SLEEPS);
		hi = h->turns[i - 1].out_ns;
	}
	for (; hi > lo && i; i--) {
		const struct turn *t = &h->turns[i - 1];
		int64_t out = i > 1 ? h->turns[i - 2].out_ns : lo;
		const struct history *waker;

		add(c, h, max_ns(t->in_ns, lo), hi, RUNS);
		if (t->in_ns <= lo)
			return;
		if (t->wake_ns == RUT_NO_TIME) {
			add(c, h, max_ns(out, lo), t->in_ns, i > 1 ? PREEMPTED : UNKNOWN);
			hi = out;
			continue;
		}
		add(c, h, max_ns(t->wake_ns, lo), t->in_ns, WAITS);
		waker = t->waker && t->waker != h->tid
				? rut_ordered_get(&c->threads, (uint64_t)t->waker)
				: NULL;
		if (t->wake_ns > lo && waker && waker->n && depth < MAX_DEPTH)
			walk(c, waker, max_ns(out, lo), t->wake_ns, depth + 1);
		else
			add(c, h, max_ns(out, lo), t->wake_ns, SLEEPS);
		hi = out;
	}
	add(c, h, lo, hi, UNKNOWN);
}

/* ---- Report ---- */

static struct rut_result *path_table(struct chain *c, int64_t end_ns)
{
	struct rut_result *t = rut_result_new(&path_class, c->base.begin_ns, end_ns, NULL);

	for (size_t i = c->n; t && i-- > 0;) {
		const struct segment *s = &c->path[i];

		rut_result_range(t, s->begin_ns, s->end_ns);
		rut_result_int(t, RUT_LAMI_DURATION, s->end_ns - s->begin_ns);
		rut_result_process(t, s->who->comm, RUT_LAMI_NONE, s->who->tid);
		rut_result_text(t, RUT_LAMI_STRING, state_names[s->state]);
	}
	return t;
}

struct sum {
	const struct history *who;
	int64_t ns[5];
};

static int by_total(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;
	int64_t sx = 0, sy = 0;

	for (int i = 0; i < 5; i++) {
		sx += x->ns[i];
		sy += y->ns[i];
	}
	return sx > sy ? -1 : sx < sy;
}

static struct rut_result *sum_table(struct chain *c, int64_t end_ns)
{
	struct rut_result *t = rut_result_new(&sum_class, c->base.begin_ns, end_ns, NULL);
	struct rut_ordered sums = {0};
	struct sum **list;

	for (size_t i = c->n; i-- > 0;) {
		const struct segment *s = &c->path[i];
		struct sum *sum = rut_ordered_add(&sums, (uint64_t)s->who->tid, sizeof(*sum));

		if (!sum)
			continue;
		sum->who = s->who;
		sum->ns[s->state] += s->end_ns - s->begin_ns;
	}
	list = (struct sum **)rut_ordered_sorted(&sums, by_total);
	for (size_t i = 0; t && list && i < sums.n; i++) {
		rut_result_process(t, list[i]->who->comm, RUT_LAMI_NONE, list[i]->who->tid);
		for (int k = 0; k < 5; k++)
			rut_result_int(t, RUT_LAMI_DURATION, list[i]->ns[k]);
	}
	free(list);
	rut_ordered_fini(&sums);
	return t;
}

static void print_path(const struct rut_result *t, const struct rut_conf *c, struct rut_buf *out)
{
	char begin[64], end[64], us[40], who[64];

	rut_buf_puts(out, "\nCritical path\n");
	rut_fmt_line(out, "{:<20} {:<19} {:>15}  {:<28} {:<0}\n", "Begin", "End", "Duration (us)",
		     "Thread", "State");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_fmt_time(begin, sizeof(begin), row[0].i, c->multi_day, c->gmt);
		rut_fmt_time(end, sizeof(end), row[0].j, c->multi_day, c->gmt);
		rut_fmt_us(us, sizeof(us), (double)row[1].i);
		snprintf(who, sizeof(who), "%.40s (%lld)", row[2].str ? row[2].str : "",
			 (long long)row[2].j);
		rut_fmt_line(out, "[{:<18}, {:<18}] {:>15}  {:<28} {:<0}\n", begin, end, us, who,
			     row[3].str);
	}
}

static void print_sums(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<28} {:>14} {:>16} {:>14} {:>14} {:>14}\n";
	char who[64], us[5][40];

	rut_buf_puts(out, "\nTime on the critical path (us)\n");
	rut_fmt_line(out, line, "Thread", "Runs", "Waits for a CPU", "Preempted", "Sleeps",
		     "Unknown");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(who, sizeof(who), "%.40s (%lld)", row[0].str ? row[0].str : "",
			 (long long)row[0].j);
		for (int k = 0; k < 5; k++)
			rut_fmt_us(us[k], sizeof(us[k]), (double)row[1 + k].i);
		rut_fmt_line(out, line, who, us[0], us[1], us[2], us[3], us[4]);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct chain *c = (struct chain *)inst;
	struct rut_run *run = inst->run;
	const struct history *target =
		rut_ordered_get(&c->threads, (uint64_t)run->conf->target_tid);
	struct rut_result *path, *sums;

	if (target)
		walk(c, target, inst->begin_ns, end_ns, 0);
	path = path_table(c, end_ns);
	sums = sum_table(c, end_ns);
	if (run->conf->mi) {
		rut_results_take(&run->results, path);
		rut_results_take(&run->results, sums);
		return;
	}
	rut_run_print_range(run, inst->begin_ns, end_ns);
	if (!target)
		rut_buf_printf(&run->out, "Thread %lld never ran.\n",
			       (long long)run->conf->target_tid);
	else
		print_path(path, run->conf, &run->out);
	if (target)
		print_sums(sums, &run->out);
	rut_result_free(path);
	rut_result_free(sums);
}

static void fini(struct rut_instance *inst)
{
	struct chain *c = (struct chain *)inst;

	for (size_t i = 0; i < c->threads.n; i++)
		free(((struct history *)c->threads.items[i])->turns);
	rut_ordered_fini(&c->threads);
	free(c->path);
}

static const char *const tags[] = {"linux-kernel", "rutile", "sched", "log", NULL};
static const struct rut_lami_class *const classes[] = {&path_class, &sum_class, NULL};

const struct rut_analysis rut_analysis_wakeupchain = {
	.info = {"Wakeup chain", "Who woke whom: the critical path of a thread", tags, classes},
	.instance_size = sizeof(struct chain),
	.hooks = hooks,
	.report = report,
	.fini = fini,
};
