/* SPDX-License-Identifier: MIT */
/*
 * The intervals in which threads were off the CPUs, why each ended, and the critical path through
 * them: what would have had to be faster for a thread to be done earlier.
 *
 * The path is walked backwards from the end of an interval. While the thread ran, it ran. While it
 * was runnable, it waited for a CPU. While it slept, the path is in the thread that woke it, as far
 * back as the sleep lasted, and so on through the sleeps of that thread; a sleep that a timer, a
 * disk, the network or another interrupt ended is theirs. So the segments cover the interval
 * without gaps or overlaps.
 */
#ifndef RUT_ANALYSIS_WAITS_H
#define RUT_ANALYSIS_WAITS_H

#include "analysis/ordered.h"
#include "analysis/state.h"

/* A thread's time off the CPU, up to when it runs again. Memory: one for each switch. */
struct rut_wait {
	int64_t out_ns;	   /* when it left the CPU; RUT_NO_TIME: before the trace */
	int64_t in_ns;	   /* when it came to a CPU again; RUT_NO_TIME: it has not */
	bool preempted;	   /* it could have run on: nothing needed to wake it */
	int64_t by_tid;	   /* preempted: what took the CPU; 0: the idle thread, or unknown */
	int64_t after_tid; /* what left the CPU on which it came to run; 0: nothing, or unknown */
	const struct rut_syscall_info *call; /* in which it slept; NULL: in none, or unknown */
	const char *file;     /* that this call was about: path, peer; interned; NULL: none */
	uint64_t futex;	      /* address of the lock; 0: none */
	struct rut_wake wake; /* wake.ns RUT_NO_TIME: not woken yet, or preempted */
};

struct rut_waits_thread {
	int64_t tid;
	const char *comm;	/* the last that is known; interned by the state */
	struct rut_wait *waits; /* owned, in order of time */
	size_t n, cap;
	bool is_init, running;
};

struct rut_waits {
	struct rut_state *st;	    /* borrowed */
	struct rut_ordered threads; /* tid -> struct rut_waits_thread */
	int64_t begin_ns;
	bool failed; /* out of memory */
};

enum rut_segment_state {
	RUT_SEGMENT_RUNS,
	RUT_SEGMENT_QUEUE,     /* woken, and no CPU runs it yet; by: what ran there before */
	RUT_SEGMENT_PREEMPTED, /* by: what took the CPU */
	RUT_SEGMENT_TIMER,
	RUT_SEGMENT_DISK, /* by: whose requests were ahead */
	RUT_SEGMENT_NET,
	RUT_SEGMENT_IRQ,
	RUT_SEGMENT_IPI,
	RUT_SEGMENT_USER,
	RUT_SEGMENT_SLEEPS,  /* what woke it is not known, or has not come */
	RUT_SEGMENT_UNKNOWN, /* before anything is known of it */
	RUT_SEGMENT_STATES,
};

struct rut_segment {
	const struct rut_waits_thread *who; /* borrowed from the waits */
	int64_t begin_ns, end_ns;
	enum rut_segment_state state;
	const char *what, *call;	   /* interned; NULL: unknown */
	const struct rut_waits_thread *by; /* NULL: nobody known */
};

struct rut_path {
	struct rut_segment *segments; /* owned; from the end to the begin */
	size_t n, cap;
};

/* "runs", "waits for a CPU", "preempted", "timer" ... */
const char *rut_an_segment_name(enum rut_segment_state s);

/* Zeroed memory with `st` and `begin_ns` set is an empty struct. */
void rut_an_waits_fini(struct rut_waits *w);

/* For the hooks of the same names. */
void rut_an_waits_on_switch(struct rut_waits *w, const struct rut_hook_switch *h);
void rut_an_waits_on_wakeup(struct rut_waits *w, const struct rut_hook_wakeup *h);
/* Corrects what it was woken by when the result says that its time was over. */
void rut_an_waits_on_syscall_exit(struct rut_waits *w, const struct rut_hook_syscall *h);
#define RUT_WAITS_HOOKS                                                                            \
	(RUT_HOOK_BIT(RUT_HOOK_SWITCH) | RUT_HOOK_BIT(RUT_HOOK_WAKEUP) |                           \
	 RUT_HOOK_BIT(RUT_HOOK_SYSCALL_EXIT))

/* NULL: nothing is known of this thread. */
const struct rut_waits_thread *rut_an_waits_get(const struct rut_waits *w, int64_t tid);

/*
 * The critical path of the thread in [begin_ns, end_ns]. An unknown thread has an empty one.
 * Returns 0 or -ENOMEM. Free with rut_an_path_fini().
 */
int rut_an_waits_path(struct rut_waits *w, int64_t tid, int64_t begin_ns, int64_t end_ns,
		      struct rut_path *ret);
void rut_an_path_fini(struct rut_path *p);

#endif
