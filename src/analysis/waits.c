/* SPDX-License-Identifier: MIT */
#include "analysis/waits.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_DEPTH 64

static const char *const names[RUT_SEGMENT_STATES] = {
	"runs",	     "waits for a CPU", "preempted", "timer",  "disk",	  "network",
	"interrupt", "other CPU",	"user",	     "sleeps", "unknown",
};

const char *rut_an_segment_name(enum rut_segment_state s)
{
	return names[s];
}

static struct rut_waits_thread *get(struct rut_waits *w, int64_t tid, const char *comm)
{
	struct rut_waits_thread *t = rut_an_ordered_add(&w->threads, (uint64_t)tid, sizeof(*t));

	if (!t) {
		w->failed = true;
		return NULL;
	}
	if (!t->is_init) {
		t->is_init = true;
		t->tid = tid;
		t->comm = "";
	}
	if (comm && *comm)
		t->comm = comm;
	return t;
}

static struct rut_wait *append(struct rut_waits *w, struct rut_waits_thread *t)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 4;
		void *waits = realloc(t->waits, cap * sizeof(*t->waits));

		if (!waits) {
			w->failed = true;
			return NULL;
		}
		t->waits = waits;
		t->cap = cap;
	}
	t->waits[t->n] = (struct rut_wait){.out_ns = RUT_NO_TIME, .in_ns = RUT_NO_TIME};
	t->waits[t->n].wake.ns = RUT_NO_TIME;
	return &t->waits[t->n++];
}

static void leave(struct rut_waits *w, const struct rut_hook_switch *h)
{
	struct rut_waits_thread *t = get(w, h->prev_tid, h->prev_comm);
	const struct rut_thread *th = h->prev;
	struct rut_wait *wait = t ? append(w, t) : NULL;
	const struct rut_fd *f = NULL;

	if (!wait)
		return;
	t->running = false;
	wait->out_ns = h->ts_ns;
	wait->preempted = !h->prev_state;
	wait->by_tid = wait->preempted ? h->next_tid : 0;
	wait->call = th->syscall;
	wait->futex = th->syscall ? th->futex : 0;
	if (th->syscall && th->rq.op != RUT_IO_NONE && th->rq.has_fd)
		f = rut_an_state_fd(rut_an_state_leader(w->st, h->prev), th->rq.fd);
	wait->file = f ? f->filename : NULL;
}

static void enter(struct rut_waits *w, const struct rut_hook_switch *h)
{
	struct rut_waits_thread *t = get(w, h->next_tid, h->next_comm);
	struct rut_wait *wait = t && t->n ? &t->waits[t->n - 1] : NULL;

	/* It came from before the trace, or its leaving was lost. */
	if (t && (!wait || wait->in_ns != RUT_NO_TIME))
		wait = append(w, t);
	if (!wait)
		return;
	t->running = true;
	wait->in_ns = h->ts_ns;
	wait->after_tid = h->prev_tid;
	if (h->wakeup_ns != RUT_NO_TIME && h->next->wake.ns == h->wakeup_ns)
		wait->wake = h->next->wake;
	if (wait->wake.ns != RUT_NO_TIME)
		wait->preempted = false;
}

void rut_an_waits_on_switch(struct rut_waits *w, const struct rut_hook_switch *h)
{
	if (h->prev_tid)
		leave(w, h);
	if (h->next_tid)
		enter(w, h);
}

void rut_an_waits_on_wakeup(struct rut_waits *w, const struct rut_hook_wakeup *h)
{
	struct rut_waits_thread *t = get(w, h->thread->tid, h->thread->comm);
	struct rut_wait *wait = t && t->n ? &t->waits[t->n - 1] : NULL;

	if (!t || t->running)
		return;
	if (!wait || wait->in_ns != RUT_NO_TIME)
		wait = append(w, t);
	if (wait)
		wait->wake = h->thread->wake;
}

void rut_an_waits_on_syscall_exit(struct rut_waits *w, const struct rut_hook_syscall *h)
{
	struct rut_waits_thread *t;
	struct rut_wait *wait;

	if (!h->has_ret || !rut_an_state_timed_out(h->info, h->ret))
		return;
	t = rut_ordered_get(&w->threads, (uint64_t)h->thread->tid);
	wait = t && t->n ? &t->waits[t->n - 1] : NULL;
	/* A preemption may lie between the sleep and the return. */
	for (; wait && wait->preempted && wait > t->waits; wait--)
		;
	if (!wait || wait->call != h->info || wait->wake.ns == RUT_NO_TIME ||
	    wait->wake.ns < h->ts_ns - h->duration_ns)
		return;
	wait->wake.kind = RUT_WAKE_TIMER;
	wait->wake.tid = 0;
	wait->wake.what = h->info->name;
}

const struct rut_waits_thread *rut_an_waits_get(const struct rut_waits *w, int64_t tid)
{
	return rut_ordered_get(&w->threads, (uint64_t)tid);
}

void rut_an_waits_fini(struct rut_waits *w)
{
	for (size_t i = 0; i < w->threads.n; i++)
		free(((struct rut_waits_thread *)w->threads.items[i])->waits);
	rut_an_ordered_fini(&w->threads);
}

void rut_an_path_fini(struct rut_path *p)
{
	free(p->segments);
	*p = (struct rut_path){0};
}

/* ---- The walk ---- */

struct walk {
	struct rut_waits *w;
	struct rut_path *path;
};

static void add(const struct walk *k, const struct rut_segment *s)
{
	struct rut_path *p = k->path;
	struct rut_segment *last = p->n ? &p->segments[p->n - 1] : NULL;

	if (s->end_ns <= s->begin_ns)
		return;
	if (last && last->who == s->who && last->state == s->state && last->what == s->what &&
	    last->call == s->call && last->by == s->by && last->begin_ns == s->end_ns) {
		last->begin_ns = s->begin_ns;
		return;
	}
	if (!p->segments || p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		void *segments = realloc(p->segments, cap * sizeof(*p->segments));

		if (!segments) {
			k->w->failed = true;
			return;
		}
		p->segments = segments;
		p->cap = cap;
	}
	p->segments[p->n++] = *s;
}

static void add_plain(const struct walk *k, const struct rut_waits_thread *who, int64_t begin_ns,
		      int64_t end_ns, enum rut_segment_state state, int64_t by)
{
	const struct rut_segment s = {
		.who = who,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.state = state,
		.by = by ? rut_an_waits_get(k->w, by) : NULL,
	};

	add(k, &s);
}

static int64_t max_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* How many waits began before this time. A wait that began before the trace is the first. */
static size_t waits_before(const struct rut_waits_thread *t, int64_t ns)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (t->waits[middle].out_ns < ns)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

static enum rut_segment_state state_of(enum rut_wake_kind kind)
{
	switch (kind) {
	case RUT_WAKE_TIMER:
		return RUT_SEGMENT_TIMER;
	case RUT_WAKE_DISK:
		return RUT_SEGMENT_DISK;
	case RUT_WAKE_NET:
		return RUT_SEGMENT_NET;
	case RUT_WAKE_IRQ:
		return RUT_SEGMENT_IRQ;
	case RUT_WAKE_IPI:
		return RUT_SEGMENT_IPI;
	case RUT_WAKE_USER:
		return RUT_SEGMENT_USER;
	default:
		return RUT_SEGMENT_SLEEPS;
	}
}

static void walk(const struct walk *k, const struct rut_waits_thread *t, int64_t lo, int64_t hi,
		 int depth);

/* [lo, hi]: asleep until the wait's wakeup at hi, or still asleep. */
static void add_sleep(const struct walk *k, const struct rut_waits_thread *t,
		      const struct rut_wait *wait, int64_t lo, int64_t hi, int depth)
{
	bool woken = wait->wake.ns != RUT_NO_TIME;
	bool follows = woken && (wait->wake.kind == RUT_WAKE_THREAD ||
				 (wait->wake.kind == RUT_WAKE_NET && wait->wake.tid));
	const struct rut_waits_thread *waker =
		follows && wait->wake.tid != t->tid ? rut_an_waits_get(k->w, wait->wake.tid) : NULL;
	struct rut_segment s = {
		.who = t,
		.begin_ns = lo,
		.end_ns = hi,
		.state = woken ? state_of(wait->wake.kind) : RUT_SEGMENT_SLEEPS,
		.call = wait->call ? wait->call->name : NULL,
		.what = woken && wait->wake.what ? wait->wake.what : wait->file,
	};

	if (lo >= hi)
		return;
	if (waker && waker->n && depth < MAX_DEPTH) {
		walk(k, waker, lo, hi, depth + 1);
		return;
	}
	if (woken && wait->wake.kind == RUT_WAKE_DISK && wait->wake.tid)
		s.by = rut_an_waits_get(k->w, wait->wake.tid);
	add(k, &s);
}

/* What the thread did off the CPU from lo to hi, in this wait. */
static void add_wait(const struct walk *k, const struct rut_waits_thread *t,
		     const struct rut_wait *wait, int64_t lo, int64_t hi, int depth)
{
	int64_t out = wait->out_ns == RUT_NO_TIME ? lo : max_ns(wait->out_ns, lo);
	int64_t woken = wait->wake.ns;

	if (wait->out_ns == RUT_NO_TIME && woken == RUT_NO_TIME) {
		add_plain(k, t, lo, hi, RUT_SEGMENT_UNKNOWN, 0);
		return;
	}
	if (wait->preempted) {
		add_plain(k, t, out, hi, RUT_SEGMENT_PREEMPTED, wait->by_tid);
		return;
	}
	if (woken != RUT_NO_TIME && woken < hi) {
		add_plain(k, t, max_ns(woken, out), hi, RUT_SEGMENT_QUEUE, wait->after_tid);
		hi = max_ns(woken, out);
	}
	add_sleep(k, t, wait, out, hi, depth);
}

static void walk(const struct walk *k, const struct rut_waits_thread *t, int64_t lo, int64_t hi,
		 int depth)
{
	for (size_t i = waits_before(t, hi); i && hi > lo; i--) {
		const struct rut_wait *wait = &t->waits[i - 1];
		int64_t in = wait->in_ns == RUT_NO_TIME || wait->in_ns > hi ? hi : wait->in_ns;

		add_plain(k, t, max_ns(in, lo), hi, RUT_SEGMENT_RUNS, 0);
		if (in <= lo)
			return;
		add_wait(k, t, wait, lo, in, depth);
		hi = wait->out_ns == RUT_NO_TIME ? lo : wait->out_ns;
	}
	/* Before its first wait it ran: it left a CPU then. Without any nothing is known. */
	add_plain(k, t, lo, hi, t->n ? RUT_SEGMENT_RUNS : RUT_SEGMENT_UNKNOWN, 0);
}

int rut_an_waits_path(struct rut_waits *w, int64_t tid, int64_t begin_ns, int64_t end_ns,
		      struct rut_path *ret)
{
	const struct walk k = {w, ret};
	const struct rut_waits_thread *t = rut_an_waits_get(w, tid);

	*ret = (struct rut_path){0};
	if (t)
		walk(&k, t, begin_ns, end_ns, 0);
	if (!w->failed)
		return 0;
	rut_an_path_fini(ret);
	return -ENOMEM;
}
