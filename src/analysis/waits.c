/* SPDX-License-Identifier: MIT */
#include "analysis/waits.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

static const char *const names[RUT_SEGMENT_STATES] = {
	"runs",	     "waits for a CPU", "preempted", "timer",  "disk",	  "network",
	"interrupt", "other CPU",	"user",	     "sleeps", "unknown",
};

const char *rut_an_segment_name(enum rut_segment_state s)
{
	return names[s];
}

const char rut_an_hidden_switch[] = "hidden switch", rut_an_before_trace[] = "before the trace";

static struct rut_waits_thread *find(const struct rut_waits *w, int64_t tid)
{
	return rut_ordered_get(&w->threads, (uint64_t)tid);
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
		uint32_t cap = t->cap ? t->cap + t->cap / 2 + 1 : 2;
		void *waits = realloc(t->waits, cap * sizeof(*t->waits));

		if (!waits) {
			w->failed = true;
			return NULL;
		}
		t->waits = waits;
		t->cap = cap;
	}
	t->waits[t->n] = (struct rut_wait){
		.out_ns = RUT_NO_TIME, .in_ns = RUT_NO_TIME, .wake_ns = RUT_NO_TIME};
	w->n_waits++;
	return &t->waits[t->n++];
}

static void set_wake(struct rut_wait *wait, const struct rut_wake *wake)
{
	wait->wake_ns = wake->ns;
	wait->wake_kind = (uint8_t)wake->kind;
	wait->wake_tid = (int32_t)wake->tid;
	wait->what = wake->what;
}

/* ---- The walk ---- */

struct walk {
	struct rut_waits *w;
	struct rut_an_path path; /* from the end to the begin */
};

/* Appends to the path; `before` says that it gets its segments from the end to the begin. */
static bool add_to(struct rut_an_path *p, const struct rut_segment *s, bool before)
{
	struct rut_segment *last = p->n ? &p->segments[p->n - 1] : NULL;

	if (last && last->who == s->who && last->state == s->state && last->what == s->what &&
	    last->call == s->call && last->by == s->by &&
	    (before ? last->begin_ns == s->end_ns : last->end_ns == s->begin_ns)) {
		if (before)
			last->begin_ns = s->begin_ns;
		else
			last->end_ns = s->end_ns;
		return true;
	}
	if (!p->segments || p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		void *segments = realloc(p->segments, cap * sizeof(*p->segments));

		if (!segments)
			return false;
		p->segments = segments;
		p->cap = cap;
	}
	p->segments[p->n++] = *s;
	return true;
}

static void add(struct walk *k, const struct rut_segment *s)
{
	if (s->end_ns > s->begin_ns && !add_to(&k->path, s, true))
		k->w->failed = true;
}

static void add_unknown(struct walk *k, struct rut_waits_thread *who, int64_t begin_ns,
			int64_t end_ns, const char *why)
{
	const struct rut_segment s = {.who = who,
				      .begin_ns = begin_ns,
				      .end_ns = end_ns,
				      .state = RUT_SEGMENT_UNKNOWN,
				      .what = why};

	add(k, &s);
}

static void add_plain(struct walk *k, struct rut_waits_thread *who, int64_t begin_ns,
		      int64_t end_ns, enum rut_segment_state state, int64_t by)
{
	const struct rut_segment s = {
		.who = who,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.state = state,
		.by = by ? find(k->w, by) : NULL,
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

static enum rut_segment_state state_of(uint8_t kind)
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

static void walk(struct walk *k, struct rut_waits_thread *t, int64_t lo, int64_t hi, int depth);

/* As walk(); of the time whose waits were dropped nothing is known. */
static void walk_waker(struct walk *k, struct rut_waits_thread *t, int64_t lo, int64_t hi,
		       int depth)
{
	int64_t known = k->w->lossy && k->w->lost_ns > lo ? k->w->lost_ns : lo;

	if (known < hi)
		walk(k, t, known, hi, depth);
	add_plain(k, t, lo, known < hi ? known : hi, RUT_SEGMENT_UNKNOWN, 0);
}

/* [lo, hi]: asleep until the wait's wakeup at hi, or still asleep. */
static void add_sleep(struct walk *k, struct rut_waits_thread *t, const struct rut_wait *wait,
		      int64_t lo, int64_t hi, int depth)
{
	bool woken = wait->wake_ns != RUT_NO_TIME;
	bool follows = woken && (wait->wake_kind == RUT_WAKE_THREAD ||
				 (wait->wake_kind == RUT_WAKE_NET && wait->wake_tid));
	struct rut_waits_thread *waker =
		follows && wait->wake_tid != t->tid ? find(k->w, wait->wake_tid) : NULL;
	struct rut_segment s = {
		.who = t,
		.begin_ns = lo,
		.end_ns = hi,
		.state = woken ? state_of(wait->wake_kind) : RUT_SEGMENT_SLEEPS,
		.call = wait->call ? wait->call->name : NULL,
		.what = woken && wait->what ? wait->what : wait->file,
	};

	if (lo >= hi)
		return;
	if (waker && waker->n && depth < MAX_DEPTH) {
		walk_waker(k, waker, lo, hi, depth + 1);
		return;
	}
	if (woken && wait->wake_kind == RUT_WAKE_DISK && wait->wake_tid)
		s.by = find(k->w, wait->wake_tid);
	add(k, &s);
}

/*
 * As add_wait(), of a wait of which an end was not seen. Before the wakeup it slept at last, and
 * after it it waited for a CPU at first.
 */
static void add_hidden(struct walk *k, struct rut_waits_thread *t, const struct rut_wait *wait,
		       int64_t out, int64_t hi, int depth)
{
	int64_t woken = wait->wake_ns;

	if (woken == RUT_NO_TIME || woken <= out || woken >= hi) {
		add_unknown(k, t, out, hi, rut_an_hidden_switch);
		return;
	}
	if (wait->hidden_in)
		add_unknown(k, t, woken, hi, rut_an_hidden_switch);
	else
		add_plain(k, t, woken, hi, RUT_SEGMENT_QUEUE, wait->after_tid);
	if (wait->hidden_out)
		add_unknown(k, t, out, woken, rut_an_hidden_switch);
	else
		add_sleep(k, t, wait, out, woken, depth);
}

/* What the thread did off the CPU from lo to hi, in this wait. */
static void add_wait(struct walk *k, struct rut_waits_thread *t, const struct rut_wait *wait,
		     int64_t lo, int64_t hi, int depth)
{
	int64_t out = wait->out_ns == RUT_NO_TIME ? lo : max_ns(wait->out_ns, lo);
	int64_t woken = wait->wake_ns;

	if (wait->out_ns == RUT_NO_TIME && woken == RUT_NO_TIME) {
		add_unknown(k, t, lo, hi, rut_an_before_trace);
		return;
	}
	if (wait->hidden_in || wait->hidden_out) {
		add_hidden(k, t, wait, out, hi, depth);
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

static void walk(struct walk *k, struct rut_waits_thread *t, int64_t lo, int64_t hi, int depth)
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
	if (t->hidden_first)
		add_unknown(k, t, lo, hi, rut_an_hidden_switch);
	else
		add_plain(k, t, lo, hi, t->n ? RUT_SEGMENT_RUNS : RUT_SEGMENT_UNKNOWN, 0);
}

/* ---- What is kept ---- */

/* Completes the path up to `ns`. */
static void resolve(struct rut_waits *w, int64_t ns)
{
	struct walk k = {.w = w};
	struct rut_waits_thread *t = find(w, w->tid);

	if (t && ns > w->done_ns)
		walk(&k, t, w->done_ns, ns, 0);
	for (size_t i = k.path.n; i-- > 0;) {
		const struct rut_segment *s = &k.path.segments[i];

		s->who->kept = true;
		if (s->by)
			s->by->kept = true;
		if (!add_to(&w->path, s, false))
			w->failed = true;
	}
	free(k.path.segments);
	if (ns > w->done_ns)
		w->done_ns = ns;
}

/* When the thread ran last: what comes can change nothing of its path before. */
static int64_t settled_ns(const struct rut_waits *w)
{
	const struct rut_waits_thread *t = find(w, w->tid);
	const struct rut_wait *last = t && t->n ? &t->waits[t->n - 1] : NULL;

	if (!last) /* it may sleep since the begin */
		return w->done_ns;
	return last->in_ns != RUT_NO_TIME ? last->in_ns : last->out_ns;
}

/* Drops waits that were over before `ns`, but the last one: what the thread did then follows it. */
static void drop_waits(struct rut_waits *w, int64_t ns)
{
	w->n_waits = 0;
	for (size_t i = 0; i < w->threads.n; i++) {
		struct rut_waits_thread *t = w->threads.items[i];
		uint32_t k = 0;

		while (k < t->n && t->waits[k].in_ns != RUT_NO_TIME && t->waits[k].in_ns <= ns)
			k++;
		if (k > 1) {
			t->n -= k - 1;
			memmove(t->waits, t->waits + k - 1, t->n * sizeof(*t->waits));
		}
		if (t->cap > 2 * t->n + 2) {
			void *less = realloc(t->waits, (t->n + 1) * sizeof(*t->waits));

			if (less) {
				t->waits = less;
				t->cap = t->n + 1;
			}
		}
		w->n_waits += t->n;
	}
}

static uint64_t key_of(const void *item)
{
	return (uint64_t)((const struct rut_waits_thread *)item)->tid;
}

/* It has ended before what is left to be walked. */
static bool is_over(void *arg, const void *item)
{
	const struct rut_waits_thread *t = item;
	const struct rut_waits *w = arg;
	const struct rut_wait *last = t->n ? &t->waits[t->n - 1] : NULL;

	return !t->kept && t->tid != w->tid && last && last->in_ns == RUT_NO_TIME &&
	       last->out_ns != RUT_NO_TIME && last->out_ns <= w->done_ns &&
	       rut_an_state_has_ended(w->st, t->tid);
}

static void drop_thread(void *arg, void *item)
{
	struct rut_waits_thread *t = item;
	struct rut_waits *w = arg;

	w->n_waits -= t->n;
	free(t->waits);
}

static void sweep(struct rut_waits *w, int64_t now_ns)
{
	const struct rut_prune prune = {
		.key = key_of, .ended = is_over, .drop = drop_thread, .arg = w};
	int64_t settled = settled_ns(w);

	if (settled != RUT_NO_TIME)
		resolve(w, settled);
	drop_waits(w, w->done_ns);
	if (rut_an_ordered_prune(&w->threads, &prune) < 0)
		w->failed = true;
	while (w->n_waits > w->max / 4 * 3) {
		int64_t lost = w->lossy && w->lost_ns > w->done_ns ? w->lost_ns : w->done_ns;

		if (now_ns - lost < 2)
			break;
		w->lossy = true;
		w->lost_ns = lost + (now_ns - lost) / 2;
		drop_waits(w, w->lost_ns);
	}
	w->sweep_at = 2 * w->n_waits > w->sweep ? 2 * w->n_waits : w->sweep;
	if (w->sweep_at > w->max)
		w->sweep_at = w->max;
}

/* ---- What happens ---- */

/* It runs no longer, but was not seen to leave the CPU. NULL: no memory. */
static struct rut_wait *left_unseen(struct rut_waits *w, struct rut_waits_thread *t)
{
	int64_t seen_ns = t->waits[t->n - 1].in_ns;
	struct rut_wait *wait = append(w, t);

	t->running = false;
	if (!wait)
		return NULL;
	wait->out_ns = seen_ns;
	wait->hidden_out = true;
	return wait;
}

/* What came to this CPU last is not what leaves it: it has left before. */
static void leave_gap(struct rut_waits *w, const struct rut_hook_switch *h)
{
	const struct rut_thread *gone = rut_an_state_thread(w->st, h->gap_tid);
	struct rut_waits_thread *t = find(w, h->gap_tid);

	/* Unless it runs elsewhere by now. */
	if (t && t->running && t->n && !(gone && gone->running))
		left_unseen(w, t);
}

static void leave(struct rut_waits *w, const struct rut_hook_switch *h)
{
	struct rut_waits_thread *t = get(w, h->prev_tid, h->prev_comm);
	const struct rut_thread *th = h->prev;
	struct rut_wait *wait;
	const struct rut_fd *f = NULL;

	/* It has come here unseen, from another CPU. */
	if (t && t->running && (t->cpu != h->cpu || h->gap_tid >= 0))
		left_unseen(w, t);
	if (t && t->n)
		t->waits[t->n - 1].hidden_in = t->waits[t->n - 1].in_ns == RUT_NO_TIME;
	else if (t)
		t->hidden_first = h->gap_tid >= 0;
	wait = t ? append(w, t) : NULL;

	if (!wait)
		return;
	t->running = false;
	wait->out_ns = h->ts_ns;
	wait->preempted = !h->prev_state;
	wait->by_tid = wait->preempted ? (int32_t)h->next_tid : 0;
	wait->call = th->syscall;
	if (th->syscall && th->rq.op != RUT_IO_NONE && th->rq.has_fd)
		f = rut_an_state_fd(rut_an_state_leader(w->st, h->prev), th->rq.fd);
	wait->file = f ? f->filename : NULL;
}

static void enter(struct rut_waits *w, const struct rut_hook_switch *h)
{
	struct rut_waits_thread *t = get(w, h->next_tid, h->next_comm);
	struct rut_wait *wait = t && t->n ? &t->waits[t->n - 1] : NULL;

	if (t && !wait) /* it came from before the trace */
		wait = append(w, t);
	else if (wait && wait->in_ns != RUT_NO_TIME)
		wait = left_unseen(w, t);
	if (!wait)
		return;
	t->running = true;
	t->cpu = h->cpu;
	wait->in_ns = h->ts_ns;
	wait->after_tid = (int32_t)h->prev_tid;
	if (h->wakeup_ns != RUT_NO_TIME && h->next->wake.ns == h->wakeup_ns)
		set_wake(wait, &h->next->wake);
	if (wait->wake_ns != RUT_NO_TIME)
		wait->preempted = false;
}

void rut_an_waits_on_switch(struct rut_waits *w, const struct rut_hook_switch *h)
{
	if (h->gap_tid > 0)
		leave_gap(w, h);
	if (h->prev_tid)
		leave(w, h);
	if (h->next_tid)
		enter(w, h);
	if (__builtin_expect(w->n_waits > w->sweep_at, 0))
		sweep(w, h->ts_ns);
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
		set_wake(wait, &h->thread->wake);
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
	if (!wait || wait->call != h->info || wait->wake_ns == RUT_NO_TIME ||
	    wait->wake_ns < h->ts_ns - h->duration_ns)
		return;
	wait->wake_kind = RUT_WAKE_TIMER;
	wait->wake_tid = 0;
	wait->what = h->info->name;
}

const struct rut_an_path *rut_an_waits_path(struct rut_waits *w, int64_t end_ns)
{
	resolve(w, end_ns);
	return w->failed ? NULL : &w->path;
}

void rut_an_waits_fini(struct rut_waits *w)
{
	for (size_t i = 0; i < w->threads.n; i++)
		free(((struct rut_waits_thread *)w->threads.items[i])->waits);
	rut_an_ordered_fini(&w->threads);
	free(w->path.segments);
	w->path = (struct rut_an_path){0};
}
