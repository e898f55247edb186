/* SPDX-License-Identifier: MIT */
/* Is the critical path the same when waits that it no longer needs are dropped on the way? */
#include "unit.h"

#include "analysis/waits.h"

enum { CPUS = 4, THREADS = 60, STEPS = 60000, TARGET = 7 };

static uint64_t seed;

static unsigned int any(unsigned int n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)(seed >> 33) % n;
}

/* Threads that run, wake each other, sleep and are preempted at random. */
struct world {
	struct rut_state st;
	struct rut_waits waits[2];
	struct rut_thread *threads[THREADS + 1]; /* by tid, from 1 */
	bool runnable[THREADS + 1];
	struct rut_thread *on[CPUS];
	int64_t ns;
	unsigned int one_of; /* the target is woken once in so many times */
	size_t most;	     /* waits that the second one kept */
};

static void world_init(struct world *w, unsigned int one_of, size_t sweep, size_t max)
{
	*w = (struct world){.ns = 1000, .one_of = one_of};
	seed = 16;
	assert_int_equal(rut_an_state_init(&w->st), 0);
	w->waits[0] = (struct rut_waits){&w->st, TARGET, w->ns, SIZE_MAX, SIZE_MAX};
	w->waits[1] = (struct rut_waits){&w->st, TARGET, w->ns, sweep, max};
	for (int64_t tid = 1; tid <= THREADS; tid++) {
		w->threads[tid] = rut_an_state_thread_new(&w->st, tid);
		w->runnable[tid] = any(2);
	}
}

static void world_fini(struct world *w)
{
	rut_an_waits_fini(&w->waits[0]);
	rut_an_waits_fini(&w->waits[1]);
	rut_an_state_fini(&w->st);
}

static void wake(struct world *w, struct rut_thread *waker)
{
	struct rut_thread *t = w->threads[1 + any(THREADS)];
	const struct rut_hook_wakeup h = {.ts_ns = w->ns, .thread = t};

	if (t->running || w->runnable[t->tid] || (t->tid == TARGET && any(w->one_of)))
		return;
	w->runnable[t->tid] = true;
	t->wake = (struct rut_wake){.ns = w->ns, .kind = RUT_WAKE_TIMER};
	if (waker) {
		t->wake.kind = RUT_WAKE_THREAD;
		t->wake.tid = waker->tid;
	}
	t->last_wakeup_ns = w->ns;
	for (int i = 0; i < 2; i++)
		rut_an_waits_on_wakeup(&w->waits[i], &h);
}

static struct rut_thread *next(struct world *w)
{
	for (int i = 0; i < 20; i++) {
		struct rut_thread *t = w->threads[1 + any(THREADS)];

		if (w->runnable[t->tid] && !t->running)
			return t;
	}
	return NULL;
}

static void change(struct world *w, unsigned int cpu)
{
	static struct rut_thread idle = {.comm = "idle"};
	struct rut_thread *prev = w->on[cpu] ? w->on[cpu] : &idle, *to = next(w);
	struct rut_thread *t = to ? to : &idle;
	struct rut_hook_switch h = {
		.ts_ns = w->ns,
		.prev_tid = prev->tid,
		.next_tid = t->tid,
		.gap_tid = -1,
		.prev_state = any(3) != 0,
		.prev_comm = prev->comm,
		.next_comm = t->comm,
		.prev = prev,
		.next = t,
		.wakeup_ns = t->tid ? t->last_wakeup_ns : RUT_NO_TIME,
	};

	for (int i = 0; i < 2; i++)
		rut_an_waits_on_switch(&w->waits[i], &h);
	if (prev->tid) {
		prev->running = 0;
		w->runnable[prev->tid] = !h.prev_state;
	}
	w->on[cpu] = to;
	if (to)
		to->running = 1;
	t->last_wakeup_ns = t->wake.ns = RUT_NO_TIME;
}

static void run(struct world *w)
{
	for (int i = 0; i < STEPS; i++) {
		unsigned int cpu = any(CPUS);

		w->ns += 1 + any(1000);
		if (any(2))
			wake(w, w->on[cpu]);
		else
			change(w, cpu);
		if (w->waits[1].n_waits > w->most)
			w->most = w->waits[1].n_waits;
	}
}

static void assert_whole(const struct rut_an_path *p, int64_t begin_ns, int64_t end_ns)
{
	assert_non_null(p);
	assert_true(p->n > 0);
	assert_int_equal(p->segments[0].begin_ns, begin_ns);
	assert_int_equal(p->segments[p->n - 1].end_ns, end_ns);
	for (size_t i = 1; i < p->n; i++)
		assert_int_equal(p->segments[i].begin_ns, p->segments[i - 1].end_ns);
}

static void test_nothing_that_is_needed_is_dropped(void **state)
{
	static struct world w;
	const struct rut_an_path *a, *b;

	world_init(&w, 1, 16, SIZE_MAX);
	run(&w);
	assert_true(w.waits[0].n_waits > 10000);
	assert_true(w.most < 2000);
	a = rut_an_waits_path(&w.waits[0], w.ns);
	b = rut_an_waits_path(&w.waits[1], w.ns);
	assert_whole(a, 1000, w.ns);
	assert_int_equal(a->n, b->n);
	assert_true(a->n > 1000);
	for (size_t i = 0; i < a->n; i++) {
		const struct rut_segment *x = &a->segments[i], *y = &b->segments[i];

		assert_int_equal(x->begin_ns, y->begin_ns);
		assert_int_equal(x->end_ns, y->end_ns);
		assert_int_equal(x->state, y->state);
		assert_int_equal(x->who->tid, y->who->tid);
		assert_int_equal(x->by ? x->by->tid : 0, y->by ? y->by->tid : 0);
	}
	world_fini(&w);
}

/* It sleeps nearly all the time: what others did before the last 500 waits is given up. */
static void test_a_long_sleep_is_bounded(void **state)
{
	static struct world w;
	const struct rut_an_path *a, *b;
	int64_t unknown = 0;

	world_init(&w, 100000, 16, 500);
	run(&w);
	assert_true(w.most <= 500 + CPUS);
	a = rut_an_waits_path(&w.waits[0], w.ns);
	b = rut_an_waits_path(&w.waits[1], w.ns);
	assert_whole(a, 1000, w.ns);
	assert_whole(b, 1000, w.ns);
	assert_false(w.waits[0].lossy);
	for (size_t i = 0; i < b->n; i++)
		if (b->segments[i].state == RUT_SEGMENT_UNKNOWN)
			unknown += b->segments[i].end_ns - b->segments[i].begin_ns;
	assert_true(unknown == 0 || w.waits[1].lossy);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_that_is_needed_is_dropped),
		cmocka_unit_test(test_a_long_sleep_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
