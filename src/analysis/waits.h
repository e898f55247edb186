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
 *
 * Switches may be missing: lost, or hidden from tracers by the kernel. A CPU then goes on with
 * another thread than the one that came to it last, a thread leaves a CPU to which it has not come,
 * or comes to one that it has not left. The time in which that happened is unknown, and is said to
 * be so; what is known of it besides (a wakeup) bounds it. Missing switches that cancel each other
 * out leave no trace.
 *
 * Memory does not grow with the trace. When many waits are kept, the path is walked up to the time
 * at which its thread ran last: no later event changes it, and no wait before that time is needed
 * any more. Only a sleep of that thread with more than RUT_WAITS_MAX waits of others in it loses
 * the oldest of these; the path is unknown there.
 */
#ifndef RUT_ANALYSIS_WAITS_H
#define RUT_ANALYSIS_WAITS_H

#include "analysis/ordered.h"
#include "analysis/state.h"

/* A thread's time off the CPU, up to when it runs again. */
struct rut_wait {
	int64_t out_ns;	  /* when it left the CPU; RUT_NO_TIME: before the trace */
	int64_t in_ns;	  /* when it came to a CPU again; RUT_NO_TIME: it has not, or unseen */
	int64_t wake_ns;  /* RUT_NO_TIME: not woken yet, or preempted */
	const char *what; /* of what woke it, as in struct rut_wake */
	const struct rut_syscall_info *call; /* in which it slept; NULL: in none, or unknown */
	const char *file;   /* that this call was about: path, peer; interned; NULL: none */
	int32_t by_tid;	    /* preempted: what took the CPU; 0: the idle thread, or unknown */
	int32_t after_tid;  /* what left the CPU on which it came to run; 0: nothing, or unknown */
	int32_t wake_tid;   /* as in struct rut_wake */
	uint8_t wake_kind;  /* enum rut_wake_kind */
	bool preempted : 1; /* it could have run on: nothing needed to wake it */
	/* Switches are missing. It left the CPU at some time after out_ns, when it was seen last:
	 */
	bool hidden_out : 1;
	/* and it came to one at some time before the next wait. */
	bool hidden_in : 1;
};
_Static_assert(sizeof(struct rut_wait) <= 64, "there are many");

struct rut_waits_thread {
	int64_t tid;
	const char *comm;	/* the last that is known; interned by the state */
	struct rut_wait *waits; /* owned, in order of time */
	uint32_t n, cap;
	int cpu; /* that it came to last */
	bool is_init, running;
	bool hidden_first; /* before its first wait it came to a CPU unseen */
	bool kept;	   /* a segment refers to it */
};

enum rut_segment_state {
	RUT_SEGMENT_RUNS,
	RUT_SEGMENT_QUEUE,     /* woken, and no CPU runs it yet; by: what ran there before */
	RUT_SEGMENT_PREEMPTED, /* by: what took the CPU */
	RUT_SEGMENT_TIMER,
	RUT_SEGMENT_DISK, /* by: the thread with requests ahead */
	RUT_SEGMENT_NET,
	RUT_SEGMENT_IRQ,
	RUT_SEGMENT_IPI,
	RUT_SEGMENT_USER,
	RUT_SEGMENT_SLEEPS,  /* what woke it is not known, or has not come */
	RUT_SEGMENT_UNKNOWN, /* before anything is known of it */
	RUT_SEGMENT_STATES,
};

struct rut_segment {
	struct rut_waits_thread *who; /* borrowed from the waits */
	int64_t begin_ns, end_ns;
	enum rut_segment_state state;
	const char *what, *call;     /* interned; NULL: unknown */
	struct rut_waits_thread *by; /* NULL: not known */
};

struct rut_an_path {
	struct rut_segment *segments; /* owned; in order of time */
	size_t n, cap;
};

#define RUT_WAITS_SWEEP 65536u	 /* so many waits, then those that are not needed are dropped */
#define RUT_WAITS_MAX	1000000u /* 64 MB */

/* Zeroed memory with the first five set is an empty struct. */
struct rut_waits {
	struct rut_state *st; /* borrowed */
	int64_t tid;	      /* whose path it will be */
	int64_t done_ns;   /* up to here `path` is complete; at first the begin of the interval */
	size_t sweep, max; /* RUT_WAITS_SWEEP, RUT_WAITS_MAX; less in tests */
	struct rut_ordered threads; /* tid -> struct rut_waits_thread */
	struct rut_an_path path;
	size_t n_waits, sweep_at;
	bool lossy;	 /* waits before lost_ns were dropped although the path may need them */
	int64_t lost_ns; /* the last time up to which that happened */
	bool failed;	 /* out of memory */
};

/* `what` of unknown segments: why. */
extern const char rut_an_hidden_switch[], rut_an_before_trace[];

/* "runs", "waits for a CPU", "preempted", "timer" ... */
const char *rut_an_segment_name(enum rut_segment_state s);

void rut_an_waits_fini(struct rut_waits *w);

/* For the hooks of the same names. */
void rut_an_waits_on_switch(struct rut_waits *w, const struct rut_hook_switch *h);
void rut_an_waits_on_wakeup(struct rut_waits *w, const struct rut_hook_wakeup *h);
/* Corrects what it was woken by when the result says that its time was over. */
void rut_an_waits_on_syscall_exit(struct rut_waits *w, const struct rut_hook_syscall *h);

/*
 * The critical path of the thread from the begin to end_ns, borrowed. Empty: nothing is known of
 * the thread. NULL: no memory.
 */
const struct rut_an_path *rut_an_waits_path(struct rut_waits *w, int64_t end_ns);

#endif
