/* SPDX-License-Identifier: MIT */
/*
 * offcpu: where threads wait.
 *
 * From the moment a thread leaves a CPU to the moment it runs again it waits: for what its system
 * call was about, or for what woke it (state_wake.c), and from its wakeup on for a CPU. A thread
 * that was preempted waits for a CPU all the time. So for each thread the waits and the time on
 * CPUs add up to the interval that is reported, from when it was first seen.
 */
#include "analysis/an_offcpu.h"

#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"
#include "analysis/where_call.h"

#include <stdio.h>
#include <string.h>

static const char *const reason_names[] = {"run queue", "timer", "disk", "network", "lock",
					   "pipe",	"child", "poll", "other"};

/* A reason, with its object; of one thread, or (tid 0) of all. */
struct wait_stats {
	int64_t tid; /* 0: all */
	const char *comm;
	bool is_init;
	uint8_t reason;
	const char *what, *call; /* interned; NULL: none */
	uint64_t futex;
	struct rut_stat ns;
};

/* The wait that a thread is in. */
struct thread {
	int64_t out_ns; /* RUT_NO_TIME: it runs, or was not seen */
	bool preempted;
	const char *polled; /* the only descriptor of its poll(); NULL: none */
	struct rut_offcpu_wait why;
	const char *comm;
	int64_t tid;
	bool wanted;
	/*
	 * What its waits were counted for last, in both tables: waits for a CPU, and others. Most
	 * often it is so again.
	 */
	struct wait_stats *last[2][2];
};

struct offcpu {
	struct rut_instance base;
	struct rut_ordered threads; /* tid -> struct thread */
	struct rut_ordered by_reason, by_thread;
};

static const struct rut_lami_column reason_columns[] = {
	{"reason", "Waits for", RUT_LAMI_STRING, NULL},
	{"what", "What", RUT_LAMI_STRING, NULL},
	{"call", "System call", RUT_LAMI_STRING, NULL},
	{"count", "Waits", RUT_LAMI_NUMBER, "waits"},
	{"total", "Total", RUT_LAMI_DURATION, NULL},
	{"avg", "Average", RUT_LAMI_DURATION, NULL},
	{"max", "Maximum", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_column thread_columns[] = {
	{"process", "Thread", RUT_LAMI_PROCESS, NULL},
	{"reason", "Waits for", RUT_LAMI_STRING, NULL},
	{"what", "What", RUT_LAMI_STRING, NULL},
	{"call", "System call", RUT_LAMI_STRING, NULL},
	{"count", "Waits", RUT_LAMI_NUMBER, "waits"},
	{"total", "Total", RUT_LAMI_DURATION, NULL},
	{"avg", "Average", RUT_LAMI_DURATION, NULL},
	{"max", "Maximum", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_class reason_class =
	RUT_LAMI_CLASS("per-reason", "Waits by what is waited for", reason_columns);
static const struct rut_lami_class thread_class =
	RUT_LAMI_CLASS("per-tid", "Waits by thread", thread_columns);

/* ---- What is waited for ---- */

void rut_an_offcpu_classify(struct rut_state *st, struct rut_offcpu_wait *w, struct rut_thread *t)
{
	const struct rut_fd *f = NULL;

	w->reason = RUT_OFFCPU_OTHER;
	w->what = NULL;
	w->call = t->syscall ? t->syscall->name : NULL;
	w->futex = 0;
	if (!t->syscall)
		return;
	if (t->rq.op != RUT_IO_NONE && t->rq.has_fd)
		f = rut_an_state_fd(rut_an_state_leader(st, t), t->rq.fd);
	switch (t->syscall->wait) {
	case RUT_WAIT_TIME:
		w->reason = RUT_OFFCPU_TIMER;
		return;
	case RUT_WAIT_FUTEX:
		w->reason = RUT_OFFCPU_LOCK;
		w->futex = t->futex;
		return;
	case RUT_WAIT_CHILD:
		w->reason = RUT_OFFCPU_CHILD;
		return;
	case RUT_WAIT_POLL:
		w->reason = RUT_OFFCPU_POLL;
		return;
	default:
		break;
	}
	w->what = f ? f->filename : NULL;
	if (t->syscall->of_socket || (f && (f->type == RUT_FD_NET || f->type == RUT_FD_MAYBE_NET)))
		w->reason = RUT_OFFCPU_NET;
	else if (f && f->type == RUT_FD_PIPE)
		w->reason = RUT_OFFCPU_PIPE;
	else if ((f && f->type == RUT_FD_DISK) || t->rq.op == RUT_IO_SYNC)
		w->reason = RUT_OFFCPU_DISK;
}

void rut_an_offcpu_refine(struct rut_offcpu_wait *w, const struct rut_wake *wake)
{
	switch (wake->kind) {
	case RUT_WAKE_TIMER:
		if (w->reason != RUT_OFFCPU_LOCK)
			w->reason = RUT_OFFCPU_TIMER;
		break;
	case RUT_WAKE_DISK:
		w->reason = RUT_OFFCPU_DISK;
		if (wake->what)
			w->what = wake->what;
		break;
	case RUT_WAKE_NET:
		w->reason = RUT_OFFCPU_NET;
		if (!w->what)
			w->what = wake->what;
		break;
	default:
		break;
	}
}

static bool is_of(const struct wait_stats *s, int64_t tid, enum rut_offcpu_reason reason,
		  const struct rut_offcpu_wait *why)
{
	return s && s->tid == tid && s->reason == reason && s->what == why->what &&
	       s->call == why->call && s->futex == why->futex;
}

/* NULL: no memory. */
static struct wait_stats *find_stats(struct rut_ordered *table, int64_t tid,
				     enum rut_offcpu_reason reason,
				     const struct rut_offcpu_wait *why)
{
	uint64_t key = (uint64_t)tid * 16 + reason;
	struct wait_stats *s;

	if (reason != RUT_OFFCPU_QUEUE) {
		key = key * 0x9e3779b97f4a7c15ull ^ (uintptr_t)why->what;
		key = rut_hash_u64(key) ^ (uintptr_t)why->call;
		key = key * 0xbf58476d1ce4e5b9ull ^ why->futex;
	}
	key = rut_hash_u64(key);
	s = rut_an_ordered_add(table, key, sizeof(*s));
	if (s && !s->is_init) {
		s->is_init = true;
		s->tid = tid;
		s->reason = (uint8_t)reason;
		s->what = why->what;
		s->call = why->call;
		s->futex = why->futex;
		(void)rut_an_stat_init(&s->ns, 0);
	}
	return s;
}

static void count_in(struct offcpu *o, struct rut_ordered *table, struct wait_stats **last,
		     const struct thread *w, int64_t tid, const char *comm,
		     enum rut_offcpu_reason reason, int64_t ns)
{
	static const struct rut_offcpu_wait none = {0};
	const struct rut_offcpu_wait *why = reason == RUT_OFFCPU_QUEUE ? &none : &w->why;

	if (!is_of(*last, tid, reason, why))
		*last = find_stats(table, tid, reason, why);
	if (!*last) {
		o->base.run->engine->state.failed = true;
		return;
	}
	(*last)->comm = comm;
	rut_stat_add(&(*last)->ns, ns);
}

static void count(struct offcpu *o, struct thread *w, enum rut_offcpu_reason reason,
		  int64_t begin_ns, int64_t end_ns)
{
	struct wait_stats **last = w->last[reason == RUT_OFFCPU_QUEUE];
	const struct rut_thread *row = NULL;
	struct rut_thread *t;

	if (begin_ns < o->base.begin_ns)
		begin_ns = o->base.begin_ns;
	if (end_ns <= begin_ns || !w->wanted)
		return;
	count_in(o, &o->by_reason, &last[0], w, 0, w->comm, reason, end_ns - begin_ns);
	if (o->base.run->conf->by && (t = rut_an_state_thread(&o->base.run->engine->state, w->tid)))
		row = rut_an_run_row(o->base.run, t);
	count_in(o, &o->by_thread, &last[1], w, row ? row->tid : w->tid, row ? row->comm : w->comm,
		 reason, end_ns - begin_ns);
}

/* The wait ends at `end_ns`; woken at wake->ns unless that is RUT_NO_TIME. */
static void finish(struct offcpu *o, struct thread *w, const struct rut_wake *wake, int64_t end_ns)
{
	int64_t woken = wake->ns;

	if (w->out_ns == RUT_NO_TIME)
		return;
	if (w->preempted && woken == RUT_NO_TIME) {
		count(o, w, RUT_OFFCPU_QUEUE, w->out_ns, end_ns);
	} else if (woken == RUT_NO_TIME) {
		count(o, w, w->why.reason, w->out_ns, end_ns);
	} else {
		rut_an_offcpu_refine(&w->why, wake);
		count(o, w, w->why.reason, w->out_ns, woken);
		count(o, w, RUT_OFFCPU_QUEUE, woken > w->out_ns ? woken : w->out_ns, end_ns);
	}
	w->out_ns = RUT_NO_TIME;
}

static struct thread *get(struct offcpu *o, const struct rut_thread *t, const char *comm)
{
	struct thread *w = rut_ordered_get(&o->threads, (uint64_t)t->tid);

	if (!w) {
		w = rut_an_ordered_add(&o->threads, (uint64_t)t->tid, sizeof(*w));
		if (!w)
			return NULL;
		w->tid = t->tid;
		w->out_ns = RUT_NO_TIME;
	}
	w->comm = comm;
	w->wanted = rut_an_conf_thread(o->base.run->conf, t);
	return w;
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct offcpu *o = arg;
	struct thread *w;

	if (h->next_tid && (w = get(o, h->next, h->next_comm))) {
		struct rut_wake wake = {.ns = RUT_NO_TIME};

		if (h->next->wake.ns != RUT_NO_TIME)
			wake = h->next->wake;
		finish(o, w, &wake, h->ts_ns);
	}
	if (h->prev_tid && !h->prev->exiting && !(h->prev_state & RUT_OFFCPU_ENDED) &&
	    (w = get(o, h->prev, h->prev_comm))) {
		w->out_ns = h->ts_ns;
		w->preempted = !h->prev_state;
		rut_an_offcpu_classify(&o->base.run->engine->state, &w->why, h->prev);
		if (w->why.reason == RUT_OFFCPU_POLL)
			w->why.what = w->polled;
	}
}

struct polled {
	int64_t fd;
	int n;
};

static void count_polled(void *arg, int64_t fd)
{
	struct polled *p = arg;

	p->fd = fd;
	p->n++;
}

/* A poll of one descriptor waits for that. */
static void on_poll(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct offcpu *o = arg;
	struct rut_state *st = &o->base.run->engine->state;
	struct polled p = {0};
	const struct rut_fd *f;
	struct thread *w;

	if (!(w = get(o, h->thread, h->thread->comm)))
		return;
	rut_an_poll_each(h->ev, count_polled, &p);
	f = p.n == 1 ? rut_an_state_fd(rut_an_state_leader(st, h->thread), p.fd) : NULL;
	w->polled = f ? f->filename : NULL;
}

/* Causes are computed only while there is a subscriber. */
static void on_wakeup(void *arg, const void *data)
{
	(void)arg;
	(void)data;
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct offcpu, threads, struct thread, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},
	{RUT_HOOK_POLL, on_poll},
	{RUT_HOOK_WAKEUP, on_wakeup},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

static int init(struct rut_instance *inst)
{
	((struct offcpu *)inst)->threads.by_tid = !inst->period;
	return 0;
}

/* ---- Report ---- */

static int by_total(const void *a, const void *b)
{
	const struct wait_stats *x = a, *y = b;

	return x->ns.sum > y->ns.sum ? -1 : x->ns.sum < y->ns.sum;
}

static void add_text(struct rut_result *t, const char *s)
{
	if (s)
		rut_an_result_text(t, RUT_LAMI_STRING, s);
	else
		rut_an_result_empty(t);
}

static struct rut_result *table(struct offcpu *o, const struct rut_lami_class *cls,
				const struct rut_ordered *from, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(cls, o->base.begin_ns, end_ns, NULL);
	struct wait_stats **list = (struct wait_stats **)rut_an_ordered_sorted(from, by_total);
	int64_t limit = o->base.run->conf->limit;
	char address[32];

	for (size_t i = 0; t && list && i < from->n && (limit <= 0 || (int64_t)i < limit); i++) {
		const struct wait_stats *s = list[i];
		const struct thread *w = rut_ordered_get(&o->threads, (uint64_t)s->tid);

		if (cls == &thread_class)
			rut_an_result_process(t, w ? w->comm : s->comm, RUT_LAMI_NONE, s->tid);
		rut_an_result_text(t, RUT_LAMI_STRING, reason_names[s->reason]);
		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)s->futex);
		add_text(t, s->futex ? address : s->what);
		add_text(t, s->call);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->ns.count);
		rut_an_result_int(t, RUT_LAMI_DURATION, s->ns.sum);
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(&s->ns));
		rut_an_result_int(t, RUT_LAMI_DURATION, s->ns.max);
	}
	free(list);
	return t;
}

static void print(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<28} {:<10} {:<28} {:<18} {:>8} {:>14} {:>12} {:>12}\n";
	size_t first = t->cls == &thread_class;
	char who[64], number[24], us[3][40];

	rut_buf_printf(out, "\n%s\n", t->cls->title);
	rut_an_fmt_line(out, line + (first ? 0 : 7), first ? "Thread" : "Waits for",
			first ? "Waits for" : "What", first ? "What" : "System call",
			first ? "System call" : "Waits", first ? "Waits" : "Total (us)",
			first ? "Total (us)" : "Average", first ? "Average" : "Maximum", "Maximum");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i), *c = row + first;
		const char *what = c[1].str ? c[1].str : "-", *call = c[2].str ? c[2].str : "-";

		snprintf(number, sizeof(number), "%lld", (long long)c[3].i);
		for (int k = 0; k < 3; k++)
			rut_an_fmt_us(us[k], sizeof(us[k]), rut_an_cell_value(&c[4 + k]));
		if (first)
			rut_an_fmt_process(who, sizeof(who), row);
		if (first)
			rut_an_fmt_line(out, line, who, c[0].str, what, call, number, us[0], us[1],
					us[2]);
		else
			rut_an_fmt_line(out, line + 7, c[0].str, what, call, number, us[0], us[1],
					us[2]);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct offcpu *o = (struct offcpu *)inst;
	struct rut_state *st = &inst->run->engine->state;

	for (size_t i = 0; i < o->threads.n; i++) {
		struct thread *w = o->threads.items[i];
		const struct rut_thread *t = rut_an_state_thread(st, w->tid);
		struct rut_wake wake = {.ns = RUT_NO_TIME};

		if (t && !t->dead)
			wake = t->wake;
		finish(o, w, &wake, end_ns);
	}
	if (!inst->run->conf->mi)
		rut_an_run_print_range(inst->run, inst->begin_ns, end_ns);
	rut_an_run_take(inst->run, table(o, &reason_class, &o->by_reason, end_ns), print);
	rut_an_run_take(inst->run, table(o, &thread_class, &o->by_thread, end_ns), print);
}

static void fini(struct rut_instance *inst)
{
	struct offcpu *o = (struct offcpu *)inst;

	rut_an_ordered_fini(&o->threads);
	rut_an_ordered_fini(&o->by_reason);
	rut_an_ordered_fini(&o->by_thread);
}

static const char *const tags[] = {"linux-kernel", "rutile", "sched", "top", NULL};
static const struct rut_lami_class *const classes[] = {&reason_class, &thread_class, NULL};
static const char *const needs[] = {"sched_switch", NULL};

const struct rut_analysis rut_analysis_offcpu = {
	.info = {"Off-CPU time", "Where threads wait: run queue, disk, network, lock, timer", tags,
		 classes},
	.needs = needs,
	.instance_size = sizeof(struct offcpu),
	.hooks = hooks,
	.init = init,
	.report = report,
	.fini = fini,
};
