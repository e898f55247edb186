/* SPDX-License-Identifier: MIT */
#include "analysis/where.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/ruby.h"
#include "analysis/state.h"
#include "analysis/where_call.h"
#include "analysis/where_tables.h"

enum { AT_UNKNOWN, AT_CPU, AT_QUEUE, AT_BLOCKED };

/* A thread that was let on to an idle CPU only after this time was kept from running. */
#define IDLE_NS 2000000

/*
 * Shorter waits are those for the mutexes inside of Ruby's locks. Who gets the GVL names the next
 * one that asks for it, as soon as that.
 */
#define SHORT_NS 200000
/* Who has computed for that long since it waited for something else did not come to unlock. */
#define TIMER_LATE_NS 2000000 /* a timeout is over no later than this */
#define COMPUTES_NS   1000000

static const struct {
	const char *name, *text;
} places[RUT_PLACES] = {
	[RUT_PLACE_RUBY] = {"ruby", "running Ruby"},
	[RUT_PLACE_SYSTEM] = {"system", "running in the kernel"},
	[RUT_PLACE_GC] = {"gc", "collecting garbage"},
	[RUT_PLACE_IRQ] = {"interrupts", "interrupted"},
	[RUT_PLACE_GVL] = {"gvl", "waiting for the GVL"},
	[RUT_PLACE_RUNQ] = {"run-queue", "waiting for a CPU"},
	[RUT_PLACE_THROTTLED] = {"throttled", "kept from running"},
	[RUT_PLACE_DISK] = {"disk", "waiting for a disk"},
	[RUT_PLACE_NET] = {"network", "waiting for the network"},
	[RUT_PLACE_PIPE] = {"pipe", "waiting for a pipe"},
	[RUT_PLACE_LOCK] = {"lock", "waiting for a lock"},
	[RUT_PLACE_SLEEP] = {"sleep", "sleeping"},
	[RUT_PLACE_CHILD] = {"child", "waiting for a child process"},
	[RUT_PLACE_FAULT] = {"page-fault", "waiting for a page"},
	[RUT_PLACE_STOPPED] = {"stopped", "stopped"},
	[RUT_PLACE_FIBER] = {"fiber", "waiting in the scheduler of fibers"},
	[RUT_PLACE_OTHER] = {"other",
			     "waiting in another system call, or one that is not recorded"},
	[RUT_PLACE_UNKNOWN] = {"unknown", "unknown"},
};

const char *rut_an_place_name(enum rut_place p)
{
	return places[p].name;
}

const char *rut_an_place_text(enum rut_place p)
{
	return places[p].text;
}

static int64_t busy_until(const struct rut_where_process *p, int64_t now_ns)
{
	return p->busy_ns + (p->busy > 0 ? now_ns - p->since_ns : 0);
}

static void make_busy(struct rut_where_process *p, int64_t now_ns, int by)
{
	if (p->busy > 0)
		p->busy_ns += now_ns - p->since_ns;
	p->since_ns = now_ns;
	p->busy += by;
	if (p->busy < 0)
		p->busy = 0;
}

/* ---- Slices ---- */

static void emit(struct rut_where *w, struct rut_where_thread *t, int64_t end_ns,
		 enum rut_place place, int cpu)
{
	const bool waits = rut_place_waits(place);
	const struct rut_slice s = {
		.begin_ns = t->since_ns,
		.end_ns = end_ns,
		.tid = t->thread->tid,
		.place = place,
		.cpu = cpu,
		.call = waits		     ? t->call
			: t->thread->syscall ? t->thread->syscall->name
					     : NULL,
		.what = waits ? t->what : t->call_what,
		.by = waits ? t->by : 0,
		.nr = t->nr,
	};

	if (end_ns <= t->since_ns)
		return;
	if (t->user && w->slice)
		w->slice(w->arg, t, &s);
	t->since_ns = end_ns;
}

/* When the current interrupt of this CPU began; RUT_NO_TIME: there is none. */
static int64_t irq_begin(const struct rut_where *w, int cpu)
{
	const struct rut_cpu *c;
	int64_t begin = RUT_NO_TIME;

	if (cpu < 0 || (size_t)cpu >= w->st->n_cpus)
		return RUT_NO_TIME;
	c = &w->st->cpus[cpu];
	if (c->in_irq)
		begin = c->irq_begin_ns;
	for (int v = 0; v < RUT_SOFTIRQS; v++)
		if (c->n_softirqs[v] && c->softirqs[v][0].begin_ns != RUT_NO_TIME &&
		    (begin == RUT_NO_TIME || c->softirqs[v][0].begin_ns < begin))
			begin = c->softirqs[v][0].begin_ns;
	return begin;
}

static enum rut_place running_place(const struct rut_where *w, const struct rut_where_thread *t)
{
	if (t->gvl)
		return RUT_PLACE_GVL;
	if (t->in_gc)
		return RUT_PLACE_GC;
	/* Without switches it is not known whether it is on a CPU. */
	if (w->st->use_context)
		return t->thread->syscall ? (enum rut_place)t->call_place : RUT_PLACE_UNKNOWN;
	return t->thread->syscall ? RUT_PLACE_SYSTEM : RUT_PLACE_RUBY;
}

static void close_running(struct rut_where *w, struct rut_where_thread *t, int64_t now_ns)
{
	int64_t irq_ns = irq_begin(w, t->cpu);

	if (irq_ns != RUT_NO_TIME && irq_ns < now_ns) {
		emit(w, t, irq_ns, running_place(w, t), t->cpu);
		emit(w, t, now_ns, RUT_PLACE_IRQ, t->cpu);
	} else {
		emit(w, t, now_ns, running_place(w, t), t->cpu);
	}
}

/*
 * The thread that ended the wait stopped running Ruby: it gave the GVL away. Who unlocks a Mutex
 * goes on.
 */
static bool gave_gvl(struct rut_where *w, const struct rut_where_thread *t)
{
	struct rut_thread *thread = t->woken_by ? rut_an_state_thread(w->st, t->woken_by) : NULL;
	const struct rut_where_thread *by = thread ? rut_an_where_thread(w, thread) : NULL;

	if (!by || thread->pid != t->thread->pid)
		return false;
	/* Ruby's own timer thread, which makes the holder give it away. */
	if (!by->ruby || t->named)
		return true;
	/* It may also have been preempted by the thread that it woke, before it could show. */
	return by->at != AT_CPU || thread->syscall;
}

/*
 * Without events that would say so, a thread waits for the GVL when it waits for a futex while
 * others of its process compute: with a time limit the first of those that wait, without one the
 * others.
 */
static enum rut_place blocked_place(struct rut_where *w, struct rut_where_thread *t, int64_t now_ns)
{
	int64_t ns = now_ns - t->out_ns;

	if (t->gvl)
		return RUT_PLACE_GVL;
	if (t->block != RUT_PLACE_LOCK)
		return t->block;
	/* It slept, whatever the others computed meanwhile: it had the GVL, and none woke it. */
	if (t->timed && t->had_gvl && !t->woken_by && !t->asks_again)
		return RUT_PLACE_SLEEP;
	if (t->ruby && !w->has_gvl &&
	    busy_until(rut_an_where_process(w, t->thread), now_ns) - t->others_ns >= ns / 2 &&
	    (t->timed || gave_gvl(w, t)))
		return RUT_PLACE_GVL;
	if (!t->timed)
		return RUT_PLACE_LOCK;
	/* It was not released: the time limit expired. That is how threads of Ruby sleep. */
	return t->woken_by || t->asks_again ? t->block : RUT_PLACE_SLEEP;
}

void rut_an_where_touch(struct rut_where *w, struct rut_where_thread *t, int64_t now_ns, bool runs)
{
	int64_t wake_ns = t->thread->last_wakeup_ns;

	t->by = t->woken_by;
	if (t->since_ns == RUT_NO_TIME)
		t->since_ns = now_ns;
	if (runs && (t->at == AT_BLOCKED || t->at == AT_QUEUE)) {
		/* Its switch is not in the trace; until it was woken it waited. */
		rut_an_where_touch(w, t, now_ns, false);
		t->at = AT_CPU;
	}
	if (runs && t->at != AT_CPU) {
		/* The first that is heard of it. */
		emit(w, t, now_ns, RUT_PLACE_UNKNOWN, -1);
		t->at = AT_CPU;
	}
	switch (t->at) {
	case AT_CPU:
		close_running(w, t, now_ns);
		break;
	case AT_BLOCKED:
		if (wake_ns != RUT_NO_TIME && wake_ns <= now_ns) {
			emit(w, t, wake_ns, blocked_place(w, t, wake_ns), -1);
			t->at = AT_QUEUE;
			emit(w, t, now_ns, RUT_PLACE_RUNQ, -1);
		} else {
			emit(w, t, now_ns, blocked_place(w, t, now_ns), -1);
		}
		break;
	case AT_QUEUE:
		emit(w, t, now_ns, RUT_PLACE_RUNQ, t->cpu);
		break;
	default:
		emit(w, t, now_ns, RUT_PLACE_UNKNOWN, -1);
		break;
	}
}

bool rut_an_where_now(struct rut_where *w, struct rut_where_thread *t, int64_t now_ns,
		      struct rut_slice *ret)
{
	if (t->at == AT_UNKNOWN || t->out_ns == RUT_NO_TIME || t->out_ns >= now_ns)
		return false;
	*ret = (struct rut_slice){
		.begin_ns = t->out_ns,
		.end_ns = now_ns,
		.tid = t->thread->tid,
		.place = t->at == AT_CPU     ? RUT_PLACE_RUBY
			 : t->at == AT_QUEUE ? RUT_PLACE_RUNQ
					     : blocked_place(w, t, now_ns),
		.cpu = t->cpu,
		.call = t->call,
		.what = t->what,
		.method = t->ruby ? rut_an_ruby_innermost(w->st, t->thread->tid) : NULL,
	};
	return true;
}

/* ---- Switches ---- */

#define STATE_STOPPED (4 | 8)
#define STATE_RUNS(s) ((s) == 0 || ((s)&0x100)) /* 0x100: preempted */

static void tell(struct rut_where *w, struct rut_where_thread *t, int64_t begin_ns, int64_t end_ns,
		 enum rut_place place, int cpu)
{
	const struct rut_slice s = {
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.tid = t->thread->tid,
		.place = place,
		.cpu = cpu,
		.call = t->call,
		.what = t->what,
		.by = t->by,
		.nr = t->nr,
		.method = place == RUT_PLACE_RUBY && t->ruby
				  ? rut_an_ruby_innermost(w->st, t->thread->tid)
				  : NULL,
	};

	if (w->stretch && begin_ns != RUT_NO_TIME && end_ns > begin_ns)
		w->stretch(w->arg, &s);
}

static void switch_out(struct rut_where *w, struct rut_where_thread *t,
		       const struct rut_hook_switch *h)
{
	struct rut_where_process *p = rut_an_where_process(w, t->thread);
	bool runs = STATE_RUNS(h->prev_state), has_calls = w->st->syscall_names.count > 0;
	int64_t in_ns = t->at == AT_CPU ? t->out_ns : RUT_NO_TIME;

	t->cpu = h->cpu;
	rut_an_where_touch(w, t, h->ts_ns, true);
	t->call = t->what = NULL;
	tell(w, t, in_ns, h->ts_ns, RUT_PLACE_RUBY, h->cpu);
	if (in_ns != RUT_NO_TIME) {
		t->computed_ns += h->ts_ns - in_ns;
		t->after_ns += h->ts_ns - (in_ns > t->freed_ns ? in_ns : t->freed_ns);
	}
	t->out_ns = h->ts_ns;
	t->at = runs ? AT_QUEUE : AT_BLOCKED;
	t->by = t->woken_by = 0;
	t->named = false;
	t->call = t->thread->syscall ? t->thread->syscall->name : NULL;
	t->what = t->call_what;
	/* Page faults are waited for uninterruptibly; other calls may not be recorded. */
	t->block = t->thread->syscall		    ? t->call_place
		   : has_calls && h->prev_state & 2 ? RUT_PLACE_FAULT
						    : RUT_PLACE_OTHER;
	/* Disks are waited for uninterruptibly; the open of a FIFO waits for its other end. */
	if (t->block == RUT_PLACE_DISK && (h->prev_state & 1) && t->call &&
	    !strncmp(t->call, "open", 4))
		t->block = RUT_PLACE_PIPE;
	if (h->prev_state & STATE_STOPPED)
		t->block = RUT_PLACE_STOPPED;
	if (runs)
		t->call = NULL;
	else if (t->busy)
		make_busy(p, h->ts_ns, -1);
	t->busy = runs;
	t->queue_ns = runs ? h->ts_ns : RUT_NO_TIME;
	t->others_ns = busy_until(p, h->ts_ns);
}

/* `idle_ns`: since when the CPU had nothing to do. */
static void switch_in(struct rut_where *w, struct rut_where_thread *t,
		      const struct rut_hook_switch *h, int64_t idle_ns)
{
	int64_t queue_ns = t->queue_ns != RUT_NO_TIME ? t->queue_ns : h->wakeup_ns;
	enum rut_place place = RUT_PLACE_UNKNOWN;

	t->by = t->woken_by;
	if (t->at == AT_BLOCKED || (t->at == AT_QUEUE && t->queue_ns == RUT_NO_TIME)) {
		int64_t end_ns = h->wakeup_ns == RUT_NO_TIME ? h->ts_ns : h->wakeup_ns;

		place = blocked_place(w, t, end_ns);
		tell(w, t, t->out_ns, end_ns, place, h->cpu);
		emit(w, t, end_ns, place, -1);
		if (end_ns - t->out_ns > SHORT_NS) {
			t->waited = place;
			t->computed_ns = place == RUT_PLACE_GVL ? t->computed_ns : 0;
		}
	}
	if (!t->busy)
		make_busy(rut_an_where_process(w, t->thread), h->ts_ns, 1);
	t->busy = true;
	t->by = t->woken_by = 0;
	t->call = t->what = NULL;
	if (t->at != AT_UNKNOWN && t->at != AT_CPU && queue_ns != RUT_NO_TIME) {
		int64_t held_ns = idle_ns > queue_ns ? idle_ns : queue_ns;

		if (idle_ns == RUT_NO_TIME || h->ts_ns - held_ns < IDLE_NS)
			held_ns = h->ts_ns;
		tell(w, t, queue_ns, held_ns, RUT_PLACE_RUNQ, h->cpu);
		tell(w, t, held_ns, h->ts_ns, RUT_PLACE_THROTTLED, h->cpu);
		emit(w, t, held_ns, RUT_PLACE_RUNQ, h->cpu);
		emit(w, t, h->ts_ns, RUT_PLACE_THROTTLED, h->cpu);
	}
	emit(w, t, h->ts_ns, RUT_PLACE_UNKNOWN, -1);
	t->since_ns = t->out_ns = h->ts_ns;
	t->at = AT_CPU;
	t->cpu = h->cpu;
}

/* A thread has left the CPU without an event: when, and for what, is not known. */
static void lose(struct rut_where *w, int64_t tid, int64_t now_ns)
{
	struct rut_thread *thread = rut_an_state_thread(w->st, tid);
	struct rut_where_thread *t = thread ? rut_an_where_thread(w, thread) : NULL;

	if (!t || t->at != AT_CPU)
		return;
	t->at = AT_UNKNOWN;
	t->out_ns = RUT_NO_TIME;
	emit(w, t, now_ns, RUT_PLACE_UNKNOWN, -1);
	if (t->busy)
		make_busy(rut_an_where_process(w, thread), now_ns, -1);
	t->busy = false;
}

/*
 * A thread leaves the CPU that has not come to it as far as the trace tells: it came after the one
 * that was there last, at the earliest when that one came.
 */
static void find_switch_in(struct rut_where *w, struct rut_where_thread *t, int64_t gap_tid,
			   int64_t now_ns)
{
	struct rut_thread *gap = rut_an_state_thread(w->st, gap_tid);
	const struct rut_where_thread *before = gap ? rut_an_where_thread(w, gap) : NULL;
	int64_t wake_ns = t->thread->last_wakeup_ns, in_ns;

	if (!before || before->at != AT_CPU || before->out_ns == RUT_NO_TIME ||
	    (t->at != AT_QUEUE && t->at != AT_BLOCKED))
		return;
	in_ns = wake_ns != RUT_NO_TIME && wake_ns > before->out_ns ? wake_ns : before->out_ns;
	if (in_ns <= t->since_ns || in_ns >= now_ns)
		return;
	rut_an_where_touch(w, t, in_ns, false);
	t->at = AT_CPU;
	t->out_ns = in_ns;
}

static void on_switch(void *arg, const void *data)
{
	const struct rut_hook_switch *h = data;
	struct rut_where *w = arg;
	struct rut_where_cpu *c = rut_an_where_cpu(w, h->cpu);
	struct rut_where_thread *t;

	t = h->prev_tid ? rut_an_where_thread(w, h->prev) : NULL;
	if (t && h->gap_tid > 0)
		find_switch_in(w, t, h->gap_tid, h->ts_ns);
	if (h->gap_tid > 0)
		lose(w, h->gap_tid, h->ts_ns);
	if (t)
		switch_out(w, t, h);
	t = h->next_tid ? rut_an_where_thread(w, h->next) : NULL;
	if (t)
		switch_in(w, t, h, h->prev_tid ? RUT_NO_TIME : c->idle_ns);
	c->idle_ns = h->next_tid ? RUT_NO_TIME : h->ts_ns;
}

/* ---- Wakeups ---- */

/* The thread that woke this one, in its own context or by what it sent (state_wake.c); NULL: none.
 */
static struct rut_thread *waker_of(const struct rut_where *w, const struct rut_thread *thread)
{
	const struct rut_wake *wake = &thread->wake;

	if (wake->kind != RUT_WAKE_THREAD && (wake->kind != RUT_WAKE_NET || !wake->tid))
		return NULL;
	return rut_an_state_thread(w->st, wake->tid);
}

/* The timer's interrupt comes in any call of any thread, a futex is released by one of its own. */
static bool ends_futex(const char *call, bool kills, bool own_process, bool exiting)
{
	if (!call)
		return own_process;
	return !strncmp(call, "futex", 5) || kills ||
	       (own_process && (exiting || !strncmp(call, "exit", 4)));
}

/*
 * Does a wakeup by this thread end what the other one waits for? Data come from calls that send and
 * from threads that end. A signal that interrupts a wait for data does not bring them, but servers
 * that wait for many things at once also get signals by epoll_wait(). Readers make room in a pipe.
 * Timeout interrupts a thread by a signal.
 */
static bool ends_wait(const struct rut_where_thread *t, const struct rut_thread *by)
{
	const char *call = by->syscall ? by->syscall->name : NULL;
	bool kills = call && strstr(call, "kill");

	if (t->call && !strncmp(t->call, "futex", 5))
		return ends_futex(call, kills, by->pid == t->thread->pid, by->exiting);
	if (t->block != RUT_PLACE_NET && t->block != RUT_PLACE_PIPE)
		return true;
	if (!call || rut_an_state_sends(call))
		return true;
	if (kills && (t->timed || (t->call && !strncmp(t->call, "epoll", 5))))
		return true;
	return t->block == RUT_PLACE_PIPE &&
	       (!strncmp(call, "read", 4) || !strncmp(call, "open", 4));
}

static void on_wakeup(void *arg, const void *data)
{
	const struct rut_hook_wakeup *h = data;
	struct rut_where *w = arg;
	struct rut_where_thread *t = rut_an_where_thread(w, h->thread);
	struct rut_thread *by = waker_of(w, h->thread);
	const struct rut_where_thread *waker;

	if (!t || t->woken_by || t->asks_again || !by || by == h->thread)
		return;
	/* Of what kernel threads do, requests know nothing. */
	if ((!by->syscall && !by->exiting) || !ends_wait(t, by))
		return;
	/* The timer's interrupt has no event on x86; the thread that it interrupted woke none. */
	if (t->expires_ns && h->ts_ns >= t->expires_ns && h->ts_ns < t->expires_ns + TIMER_LATE_NS)
		return;
	waker = rut_an_where_thread(w, by);
	if (!waker)
		return;
	t->woken_by = by->tid;
	t->named = waker->waited == RUT_PLACE_GVL && waker->at == AT_CPU &&
		   waker->computed_ns > COMPUTES_NS && h->ts_ns - waker->out_ns < SHORT_NS;
}

/* ---- Interrupts ---- */

static struct rut_where_thread *on_cpu(struct rut_where *w, int cpu)
{
	struct rut_thread *t =
		cpu >= 0 && (size_t)cpu < w->st->n_cpus ? w->st->cpus[cpu].current : NULL;

	return t ? rut_an_where_thread(w, t) : NULL;
}

static void on_irq_entry(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;
	struct rut_where *w = arg;
	struct rut_where_thread *t = on_cpu(w, h->cpu);

	if (t && t->at == AT_CPU && t->user)
		rut_an_where_touch(w, t, h->begin_ns, true);
}

/* The model has forgotten the interrupt already: its begin is in the hook. */
static void on_irq_exit(void *arg, const void *data)
{
	const struct rut_hook_irq *h = data;
	struct rut_where *w = arg;
	struct rut_where_thread *t = on_cpu(w, h->cpu);

	if (!t || t->at != AT_CPU || !t->user)
		return;
	if (h->begin_ns > t->since_ns)
		rut_an_where_touch(w, t, h->begin_ns, true);
	emit(w, t, h->end_ns, RUT_PLACE_IRQ, h->cpu);
}

/* ---- System calls ---- */

static void on_syscall_entry(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct rut_where *w = arg;
	struct rut_where_thread *t = rut_an_where_thread(w, h->thread);
	const struct rut_syscall_info *info = h->thread->syscall;

	if (!t)
		return;
	/* What ends here was not in the call. */
	h->thread->syscall = NULL;
	if (t->user || t->at == AT_UNKNOWN)
		rut_an_where_touch(w, t, h->ts_ns, true);
	h->thread->syscall = info;
	t->nr++;
	rut_an_where_call_entry(w, t, h);
}

static void on_syscall_exit(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct rut_where *w = arg;
	struct rut_where_thread *t = rut_an_where_thread(w, h->thread);

	if (!t)
		return;
	if (t->user || t->at == AT_UNKNOWN)
		rut_an_where_touch(w, t, h->ts_ns, true);
	rut_an_where_call_exit(w, t, h);
	t->call_what = NULL;
}

/* ---- Ruby ---- */

static void on_ruby_event(void *arg, const void *data)
{
	const struct rut_hook_ruby_event *h = data;
	struct rut_where *w = arg;
	struct rut_where_thread *t = h->thread ? rut_an_where_thread(w, h->thread) : NULL;

	if (h->what >= RUT_RUBY_GVL_WAIT)
		w->has_gvl = true;
	if (!t)
		return;
	t->ruby = true;
	/* What Ruby reports, it reports with the GVL. */
	if (h->what < RUT_RUBY_GVL_WAIT)
		t->ran_ns = h->ts_ns;
	if (h->what < RUT_RUBY_GC_ENTER)
		return;
	rut_an_where_touch(w, t, h->ts_ns, true);
	if (h->what == RUT_RUBY_GC_ENTER || h->what == RUT_RUBY_GC_EXIT)
		t->in_gc = h->what == RUT_RUBY_GC_ENTER;
	if (h->what >= RUT_RUBY_GVL_WAIT)
		t->gvl = h->what == RUT_RUBY_GVL_WAIT;
}

/* ---- Life ---- */

int rut_an_where_init(struct rut_where *w, struct rut_state *st)
{
	static const struct {
		enum rut_hook hook;
		rut_hook_fn fn;
	} subs[] = {
		{RUT_HOOK_SWITCH, on_switch},
		{RUT_HOOK_IRQ_ENTRY, on_irq_entry},
		{RUT_HOOK_IRQ_EXIT, on_irq_exit},
		{RUT_HOOK_SOFTIRQ_EXIT, on_irq_exit},
		{RUT_HOOK_SYSCALL_ENTRY, on_syscall_entry},
		{RUT_HOOK_SYSCALL_EXIT, on_syscall_exit},
		{RUT_HOOK_WAKEUP, on_wakeup},
		{RUT_HOOK_RUBY_EVENT, on_ruby_event},
	};

	w->st = st;
	w->purge_at = 8192;
	for (size_t i = 0; i < sizeof(subs) / sizeof(*subs); i++)
		if (rut_an_state_subscribe(st, subs[i].hook, subs[i].fn, w))
			return -ENOMEM;
	return 0;
}
