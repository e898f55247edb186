/* SPDX-License-Identifier: MIT */
/*
 * rubyoffcpu: where Ruby code waits, by method and by line, from a trace with sched_switch events
 * that have Ruby stacks.
 *
 * A wait lasts from the switch away from a thread to the switch back to it, and is split at the
 * wake-up: from then on the thread waits for a CPU. It counts for the innermost method written in
 * Ruby (self) and once for every one on the stack (total). The C method that waits stands with the
 * line that calls it.
 */
#include "analysis/an_offcpu.h"
#include "analysis/an_ruby.h"
#include "analysis/callstack.h"
#include "analysis/fmt.h"
#include "analysis/freq.h"
#include "analysis/off.h"
#include "analysis/ordered.h"
#include "base/err.h"

#include <stdio.h>
#include <string.h>

struct method {
	bool is_init;
	const char *name, *path; /* interned */
	uint64_t waits, self_ns, total_ns, max_ns;
	uint64_t seen; /* the wait that counted it last */
};

/* A line and what it waits for. */
struct line {
	bool is_init;
	const char *path, *method, *what; /* interned; NULL: none */
	uint32_t line;
	enum rut_off off;
	struct rut_stat ns;
};

struct frame {
	struct method *method; /* borrowed from the instance */
	const char *name;      /* interned */
	bool is_c;
};

/* The wait that a thread is in. */
struct thread {
	int64_t tid;
	int64_t out_ns; /* RUT_NO_TIME: it runs, or was not seen */
	bool preempted, wanted;
	struct rut_offcpu_wait why;
	enum rut_off kernel; /* from the kernel's stack */
	bool futex;
	struct frame *frames; /* innermost first; owned */
	size_t n, cap;
	const char *path; /* of the innermost frame that has a line; interned; NULL: none */
	uint32_t line;
};

struct rubyoffcpu {
	struct rut_instance base;
	struct rut_ordered threads; /* tid -> struct thread */
	struct rut_ordered methods, lines;
	uint64_t waits;
};

static const struct rut_lami_column method_columns[] = {
	{"method", "Method", RUT_LAMI_STRING, NULL},  {"path", "File", RUT_LAMI_PATH, NULL},
	{"count", "Waits", RUT_LAMI_NUMBER, "waits"}, {"self", "Self", RUT_LAMI_DURATION, NULL},
	{"total", "Total", RUT_LAMI_DURATION, NULL},  {"max", "Maximum", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_column line_columns[] = {
	{"line", "Line", RUT_LAMI_PATH, NULL},		{"method", "Method", RUT_LAMI_STRING, NULL},
	{"reason", "Waits for", RUT_LAMI_STRING, NULL}, {"what", "What", RUT_LAMI_STRING, NULL},
	{"count", "Waits", RUT_LAMI_NUMBER, "waits"},	{"total", "Total", RUT_LAMI_DURATION, NULL},
	{"avg", "Average", RUT_LAMI_DURATION, NULL},	{"max", "Maximum", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_class method_class =
	RUT_LAMI_CLASS("per-method", "Off-CPU time by Ruby method", method_columns);
static const struct rut_lami_class line_class =
	RUT_LAMI_CLASS("per-line", "Off-CPU time by line and what it waits for", line_columns);

static struct rut_state *state_of(const struct rubyoffcpu *o)
{
	return &o->base.run->engine->state;
}

/* ---- Stacks ---- */

static const char *intern(struct rut_state *st, const char *s)
{
	return rut_an_state_intern(st, s, strlen(s));
}

struct collecting {
	struct rubyoffcpu *o;
	struct thread *w;
};

static void add_frame(const struct rut_ruby_frame *f, void *arg)
{
	const struct collecting *c = arg;
	struct rut_state *st = state_of(c->o);
	const char *name = intern(st, f->method), *path = intern(st, f->path);
	struct thread *w = c->w;
	struct method *m;

	m = rut_an_ordered_add(&c->o->methods,
			       rut_hash_u64((uintptr_t)name) ^ rut_hash_u64(~(uintptr_t)path),
			       sizeof(*m));
	if (m && w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct frame *more = reallocarray(w->frames, cap, sizeof(*more));

		if (more) {
			w->frames = more;
			w->cap = cap;
		}
	}
	if (!m || w->n == w->cap) {
		st->failed = true;
		return;
	}
	if (!m->is_init)
		*m = (struct method){.is_init = true, .name = name, .path = path};
	w->frames[w->n++] = (struct frame){m, name, f->is_c};
	if (!w->path && f->path[0] && !f->is_c) {
		w->path = path;
		w->line = f->line;
	}
}

static void note_kernel(const char *frame, uint64_t address, void *arg)
{
	struct thread *w = arg;
	enum rut_off off = rut_an_off_kernel(frame, &w->futex);

	(void)address;
	if (w->kernel == RUT_OFF_OTHER)
		w->kernel = off;
}

/* ---- Waits ---- */

static enum rut_off reason_of(const struct thread *w)
{
	static const enum rut_off by_call[] = {
		[RUT_OFFCPU_QUEUE] = RUT_OFF_RUN_QUEUE, [RUT_OFFCPU_TIMER] = RUT_OFF_SLEEP,
		[RUT_OFFCPU_DISK] = RUT_OFF_DISK,	[RUT_OFFCPU_NET] = RUT_OFF_NETWORK,
		[RUT_OFFCPU_LOCK] = RUT_OFF_LOCK,	[RUT_OFFCPU_PIPE] = RUT_OFF_PIPE,
		[RUT_OFFCPU_CHILD] = RUT_OFF_CHILD,	[RUT_OFFCPU_POLL] = RUT_OFF_POLL,
		[RUT_OFFCPU_OTHER] = RUT_OFF_OTHER,
	};
	const struct rut_ruby_frame inner = {
		.path = "", .method = w->frames[0].name, .is_c = w->frames[0].is_c};
	enum rut_off off = by_call[w->why.reason];

	if (off == RUT_OFF_OTHER)
		off = w->kernel;
	return rut_an_off_ruby(&inner, w->futex || w->why.reason == RUT_OFFCPU_LOCK, off);
}

static void count_line(struct rubyoffcpu *o, const struct thread *w, enum rut_off off, int64_t ns)
{
	const char *what = off == RUT_OFF_RUN_QUEUE ? NULL : w->why.what;
	uint64_t key = rut_hash_u64((uintptr_t)w->path + w->line) ^
		       rut_hash_u64(~(uintptr_t)w->frames[0].method) ^
		       rut_hash_u64((uintptr_t)what * RUT_OFFS + off + 1);
	struct line *l;

	if (ns <= 0)
		return;
	l = rut_an_ordered_add(&o->lines, key, sizeof(*l));
	if (!l) {
		state_of(o)->failed = true;
		return;
	}
	if (!l->is_init) {
		*l = (struct line){.is_init = true,
				   .path = w->path,
				   .line = w->line,
				   .method = w->frames[0].name,
				   .what = what,
				   .off = off};
		(void)rut_an_stat_init(&l->ns, 0);
	}
	rut_stat_add(&l->ns, ns);
}

static void count_methods(struct rubyoffcpu *o, const struct thread *w, uint64_t ns)
{
	struct method *self = w->frames[0].method;
	size_t inner = 0;

	while (inner < w->n && w->frames[inner].is_c)
		inner++;
	if (inner < w->n)
		self = w->frames[inner].method;
	o->waits++;
	self->waits++;
	self->self_ns += ns;
	self->max_ns = ns > self->max_ns ? ns : self->max_ns;
	for (size_t i = 0; i < w->n; i++) {
		struct method *m = w->frames[i].method;

		if (m->seen != o->waits && (m == self || !w->frames[i].is_c))
			m->total_ns += ns;
		m->seen = o->waits;
	}
}

/* The wait ends at `end_ns`; the thread was woken at wake->ns unless that is RUT_NO_TIME. */
static void finish(struct rubyoffcpu *o, struct thread *w, const struct rut_wake *wake,
		   int64_t end_ns)
{
	int64_t begin_ns = w->out_ns, woken_ns = end_ns;

	w->out_ns = RUT_NO_TIME;
	if (begin_ns == RUT_NO_TIME || !w->n || !w->wanted)
		return;
	if (begin_ns < o->base.begin_ns)
		begin_ns = o->base.begin_ns;
	if (end_ns <= begin_ns)
		return;
	if (wake->ns != RUT_NO_TIME) {
		woken_ns = wake->ns > begin_ns ? wake->ns : begin_ns;
		rut_an_offcpu_refine(&w->why, wake);
	} else if (w->preempted) {
		woken_ns = begin_ns;
	}
	count_methods(o, w, (uint64_t)(end_ns - begin_ns));
	count_line(o, w, reason_of(w), woken_ns - begin_ns);
	count_line(o, w, RUT_OFF_RUN_QUEUE, end_ns - woken_ns);
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct rubyoffcpu *o = arg;
	struct thread *w = rut_ordered_get(&o->threads, (uint64_t)h->next_tid);

	if (w && h->next_tid)
		finish(o, w, &h->next->wake, h->ts_ns);
	if (!h->prev_tid || h->prev->exiting || h->prev_state & RUT_OFFCPU_ENDED)
		return;
	w = rut_an_ordered_add(&o->threads, (uint64_t)h->prev_tid, sizeof(*w));
	if (!w)
		return;
	w->tid = h->prev_tid;
	w->n = 0;
	w->path = NULL;
	w->line = 0;
	w->kernel = RUT_OFF_OTHER;
	w->futex = false;
	w->out_ns = h->ts_ns;
	w->preempted = !h->prev_state;
	w->wanted = rut_an_conf_thread(o->base.run->conf, h->prev);
	rut_an_offcpu_classify(state_of(o), &w->why, h->prev);
}

/* Behind the hook: the stacks of the thread that was switched away from. */
static void on_event(struct rut_instance *inst, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c, const struct rut_ctf_ref *f)
{
	struct rubyoffcpu *o = (struct rubyoffcpu *)inst;
	struct rut_callstacks *stacks = inst->run->priv;
	int64_t tid = rut_ctf_ref_ok(&f[0]) ? rut_ctf_i64(ev, &f[0]) : 0;
	struct thread *w = tid ? rut_ordered_get(&o->threads, (uint64_t)tid) : NULL;
	struct collecting to = {o, w};

	(void)c;
	if (!w || w->out_ns == RUT_NO_TIME || !stacks)
		return;
	rut_an_callstacks_ruby(stacks, ev, add_frame, &to);
	if (w->n)
		rut_an_callstacks_each(stacks, ev, RUT_CALLSTACK_KERNEL, note_kernel, w);
}

/* Causes are computed only while there is a subscriber. */
static void on_wakeup(void *arg, const void *data)
{
	(void)arg;
	(void)data;
}

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_SWITCH, on_switch},
	{RUT_HOOK_WAKEUP, on_wakeup},
	{0, NULL},
};

static const struct rut_analysis_event events[] = {
	{"sched_switch", {"prev_tid"}, on_event},
	{0},
};

static int run_init(struct rut_run *run)
{
	struct rut_callstacks *stacks = NULL;
	struct rut_err err = RUT_ERR_INIT;

	if (rut_an_callstacks_load(&stacks, run->engine->set, "", &err))
		return -ENOMEM;
	run->priv = stacks;
	return 0;
}

static void run_fini(struct rut_run *run)
{
	rut_an_callstacks_free(run->priv);
}

/* ---- Report ---- */

static int methods_by_self(const void *a, const void *b)
{
	const struct method *x = a, *y = b;

	if (x->self_ns != y->self_ns)
		return x->self_ns > y->self_ns ? -1 : 1;
	return x->total_ns > y->total_ns ? -1 : x->total_ns < y->total_ns;
}

static int lines_by_total(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return x->ns.sum > y->ns.sum ? -1 : x->ns.sum < y->ns.sum;
}

static bool within(const struct rubyoffcpu *o, size_t i)
{
	int64_t limit = o->base.run->conf->limit;

	return limit <= 0 || (int64_t)i < limit;
}

static struct rut_result *method_table(const struct rubyoffcpu *o, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&method_class, o->base.begin_ns, end_ns, NULL);
	struct method **list =
		(struct method **)rut_an_ordered_sorted(&o->methods, methods_by_self);

	for (size_t i = 0; t && list && i < o->methods.n && within(o, i); i++) {
		const struct method *m = list[i];

		if (!m->total_ns)
			continue;
		rut_an_result_text(t, RUT_LAMI_STRING, m->name);
		rut_an_result_text(t, RUT_LAMI_PATH, m->path[0] ? m->path : "-");
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)m->waits);
		rut_an_result_int(t, RUT_LAMI_DURATION, (int64_t)m->self_ns);
		rut_an_result_int(t, RUT_LAMI_DURATION, (int64_t)m->total_ns);
		rut_an_result_int(t, RUT_LAMI_DURATION, (int64_t)m->max_ns);
	}
	free(list);
	return t;
}

static struct rut_result *line_table(const struct rubyoffcpu *o, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&line_class, o->base.begin_ns, end_ns, NULL);
	struct line **list = (struct line **)rut_an_ordered_sorted(&o->lines, lines_by_total);
	char place[1100];

	for (size_t i = 0; t && list && i < o->lines.n && within(o, i); i++) {
		const struct line *l = list[i];

		snprintf(place, sizeof(place), l->path ? "%s:%u" : "%s", l->path ? l->path : "-",
			 l->line);
		rut_an_result_text(t, RUT_LAMI_PATH, place);
		rut_an_result_text(t, RUT_LAMI_STRING, l->method);
		rut_an_result_text(t, RUT_LAMI_STRING, rut_an_off_names[l->off]);
		if (l->what)
			rut_an_result_text(t, RUT_LAMI_STRING, l->what);
		else
			rut_an_result_empty(t);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)l->ns.count);
		rut_an_result_int(t, RUT_LAMI_DURATION, l->ns.sum);
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(&l->ns));
		rut_an_result_int(t, RUT_LAMI_DURATION, l->ns.max);
	}
	free(list);
	return t;
}

static void print_methods(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<44} {:>8} {:>9} {:>9} {:>9}  {:<0}\n";
	char waits[24], d[3][32], name[RUT_RUBY_NAME_SIZE];

	rut_buf_printf(out, "%s\n", t->cls->title);
	rut_an_fmt_line(out, line, "Method", "Waits", "Self", "Total", "Max", "Defined in");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(waits, sizeof(waits), "%lld", (long long)row[2].i);
		for (int k = 0; k < 3; k++)
			rut_an_ruby_duration(d[k], sizeof(d[k]), row[3 + k].i);
		rut_an_fmt_line(out, line, rut_an_ruby_name(name, row[0].str), waits, d[0], d[1],
				d[2], row[1].str);
	}
}

static void print_lines(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<36} {:<10} {:<20} {:>8} {:>9} {:>9} {:>9}  {:<0}\n";
	char waits[24], d[3][32], name[RUT_RUBY_NAME_SIZE];

	rut_buf_printf(out, "\n%s\n", t->cls->title);
	rut_an_fmt_line(out, line, "Method", "Waits for", "What", "Waits", "Total", "Average",
			"Max", "At");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(waits, sizeof(waits), "%lld", (long long)row[4].i);
		for (int k = 0; k < 3; k++)
			rut_an_ruby_duration(d[k], sizeof(d[k]),
					     (int64_t)rut_an_cell_value(&row[5 + k]));
		rut_an_fmt_line(out, line, rut_an_ruby_name(name, row[1].str), row[2].str,
				row[3].str ? row[3].str : "-", waits, d[0], d[1], d[2], row[0].str);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct rubyoffcpu *o = (struct rubyoffcpu *)inst;

	for (size_t i = 0; i < o->threads.n; i++) {
		struct thread *w = o->threads.items[i];
		const struct rut_thread *t = rut_an_state_thread(state_of(o), w->tid);
		struct rut_wake wake = {.ns = RUT_NO_TIME};

		if (t && !t->dead)
			wake = t->wake;
		finish(o, w, &wake, end_ns);
	}
	if (!inst->run->conf->mi) {
		rut_an_run_print_range(inst->run, inst->begin_ns, end_ns);
		if (!o->methods.n) {
			rut_buf_puts(
				&inst->run->out,
				"No context switch has a Ruby stack: 'rutile record -e "
				"sched_switch:ruby-stack,sched_waking,syscall' records them\n");
			return;
		}
	}
	rut_an_run_take(inst->run, method_table(o, end_ns), print_methods);
	rut_an_run_take(inst->run, line_table(o, end_ns), print_lines);
}

static void fini(struct rut_instance *inst)
{
	struct rubyoffcpu *o = (struct rubyoffcpu *)inst;

	for (size_t i = 0; i < o->threads.n; i++)
		free(((struct thread *)o->threads.items[i])->frames);
	rut_an_ordered_fini(&o->threads);
	rut_an_ordered_fini(&o->methods);
	rut_an_ordered_fini(&o->lines);
}

static const char *const tags[] = {"ruby", "rutile", "sched", "top", NULL};
static const struct rut_lami_class *const classes[] = {&method_class, &line_class, NULL};
static const char *const needs[] = {"sched_switch", NULL};

const struct rut_analysis rut_analysis_rubyoffcpu = {
	.info = {"Ruby off-CPU time", "Where Ruby methods wait, and for what", tags, classes},
	.needs = needs,
	.instance_size = sizeof(struct rubyoffcpu),
	.hooks = hooks,
	.events = events,
	.run_init = run_init,
	.run_fini = run_fini,
	.report = report,
	.fini = fini,
};
