/* SPDX-License-Identifier: MIT */
/*
 * How threads spend their time.
 *
 * At each moment a thread is in exactly one place (enum rut_place): it runs Ruby, it runs in the
 * kernel, it waits for a CPU, for a lock, for a disk ... Whatever changes the place closes a slice
 * of time, and the next one begins where the last ended. So the slices of a thread have neither
 * gaps nor overlaps, and what they are added up to is exact by construction.
 *
 * What a blocked thread waits for follows from the system call that it is in and from its file
 * descriptors. Before Ruby 3.2, which has no events for it, a wait for the GVL is recognised by
 * the timed wait for a futex while other threads of the process compute.
 */
#ifndef RUT_ANALYSIS_WHERE_H
#define RUT_ANALYSIS_WHERE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

struct rut_ruby_method;
struct rut_state;
struct rut_thread;

enum rut_place {
	RUT_PLACE_RUBY,	     /* on a CPU, in the program's own code */
	RUT_PLACE_SYSTEM,    /* on a CPU, in a system call */
	RUT_PLACE_GC,	     /* on a CPU, collecting garbage */
	RUT_PLACE_IRQ,	     /* interrupted: its CPU serves interrupts */
	RUT_PLACE_GVL,	     /* waits for Ruby's lock */
	RUT_PLACE_RUNQ,	     /* could run, other threads use the CPU */
	RUT_PLACE_THROTTLED, /* could run, and does not although its CPU is idle */
	RUT_PLACE_DISK,
	RUT_PLACE_NET,
	RUT_PLACE_PIPE,
	RUT_PLACE_LOCK, /* futexes and locks of files */
	RUT_PLACE_SLEEP,
	RUT_PLACE_CHILD,
	RUT_PLACE_FAULT,   /* blocked outside of system calls: a page fault */
	RUT_PLACE_STOPPED, /* by a signal or a debugger */
	RUT_PLACE_FIBER,   /* another fiber of its thread has the thread */
	RUT_PLACE_OTHER,   /* blocked in any other system call */
	RUT_PLACE_UNKNOWN, /* the trace does not say */
	RUT_PLACES,
};

/* "run-queue": the name in tables and JSON. "waiting for a CPU": in text. */
const char *rut_an_place_name(enum rut_place p);
const char *rut_an_place_text(enum rut_place p);
/* Is the thread off the CPU? */
static inline bool rut_place_waits(enum rut_place p)
{
	return p >= RUT_PLACE_GVL && p != RUT_PLACE_UNKNOWN;
}

struct rut_slice {
	int64_t begin_ns, end_ns;
	int64_t tid;
	enum rut_place place;
	int cpu;	  /* runs there, or ran there next; -1: not known */
	const char *call; /* the system call; NULL: none; interned */
	const char *what; /* file, peer, interrupt ...; NULL: not known; interned */
	int64_t by;	  /* the thread that ended the wait; 0: none is known */
	uint32_t nr;	  /* of the system call, counted by thread */
	/* Of an interval on a CPU: the innermost Ruby call at its end; NULL: not known. */
	const struct rut_ruby_method *method;
};

struct rut_where_cpu;
struct rut_where_thread;

/* Where a thread is. `user` is the subscriber's. */
struct rut_where_thread {
	struct rut_thread *thread; /* borrowed; freed by the state some time after it ended */
	uint64_t serial;	   /* of the state's thread */
	void *user;		   /* its slices are wanted; NULL: they are not */
	int64_t since_ns;
	uint8_t at;		 /* enum in where.c */
	uint8_t block;		 /* enum rut_place of the current wait */
	uint8_t call_place;	 /* where it would wait in the current system call */
	int64_t expires_ns;	 /* then its poll() is over; 0: never, or not known */
	bool in_gc, gvl, timed;	 /* timed: the wait for a futex has a timeout */
	bool had_gvl;		 /* timed, and it ran Ruby when it began to wait */
	bool frees;		 /* Ruby may give the GVL away for the current system call */
	int64_t freed_ns;	 /* when it returned from such a call last */
	int64_t after_ns;	 /* on CPUs since then, until it left the CPU last */
	int64_t ran_ns;		 /* of its last event of Ruby that needs the GVL */
	bool ruby;		 /* it made Ruby events */
	bool child;		 /* asked for a child's end in vain just now */
	int cpu;		 /* that it is on, or was on last; -1: none */
	const char *call, *what; /* of the current wait */
	const char *call_what;	 /* of the current system call */
	const char *asked;	 /* the file of the lock that the call asks for; NULL: none */
	const char *refused;	 /* the file of the lock that was refused last; NULL: none */
	uint32_t refused_nr;	 /* of that call */
	bool asks_again;	 /* it sleeps until it asks for `refused` again */
	bool busy;		 /* it counts as one that computes */
	bool named;		 /* woken by one that had just got the GVL */
	uint8_t waited;		 /* enum rut_place of its last wait that was not short */
	int64_t computed_ns;	 /* on CPUs since it last waited for something but the GVL */
	int64_t out_ns;		 /* when it left the CPU, or came to it */
	int64_t queue_ns;	 /* since when it could run again, unless it was woken */
	int64_t others_ns;	 /* of its process: when it left the CPU */
	int64_t by;
	int64_t woken_by; /* since it left the CPU */
	uint32_t nr;	  /* system calls so far */
};

struct rut_where {
	struct rut_state *st;		   /* borrowed */
	struct rut_where_thread **threads; /* owned, by index of the state's thread */
	size_t n_threads;
	struct rut_where_cpu *cpus; /* owned */
	size_t n_cpus;
	struct rut_map processes; /* pid + 1 -> struct rut_where_process, owned */
	struct rut_map fds;	  /* of pipes and sockets; owned */
	struct rut_map decoders;  /* event class -> how its arguments are read; owned */
	bool has_gvl;
	bool failed;

	/* Of threads with `user` set: each slice, in order of time. */
	void (*slice)(void *arg, struct rut_where_thread *t, const struct rut_slice *s);
	/* Of all threads: what they did between two switches. NULL: not wanted. */
	void (*stretch)(void *arg, const struct rut_slice *s);
	/* Frees `user` of a thread that the state has forgotten. */
	void (*forget)(void *arg, void *user);
	void *arg;
	size_t purge_at; /* entries of `fds` and `processes` at which ended processes are removed */
};

/* The hooks that rut_an_where_init() subscribes to, for rut_analysis.wants. */
#define RUT_WHERE_HOOKS                                                                            \
	(RUT_HOOK_BIT(RUT_HOOK_SWITCH) | RUT_HOOK_BIT(RUT_HOOK_IRQ_ENTRY) |                        \
	 RUT_HOOK_BIT(RUT_HOOK_IRQ_EXIT) | RUT_HOOK_BIT(RUT_HOOK_SOFTIRQ_EXIT) |                   \
	 RUT_HOOK_BIT(RUT_HOOK_SYSCALL_ENTRY) | RUT_HOOK_BIT(RUT_HOOK_SYSCALL_EXIT) |              \
	 RUT_HOOK_BIT(RUT_HOOK_RUBY_EVENT) | RUT_HOOK_BIT(RUT_HOOK_IO_EXIT) |                      \
	 RUT_HOOK_BIT(RUT_HOOK_WAKEUP))

/* Subscribes to the state's hooks with `w` as argument. Returns 0 or -ENOMEM. */
int rut_an_where_init(struct rut_where *w, struct rut_state *st);
void rut_an_where_fini(struct rut_where *w);

/* Is there a thread with this index, and does the state still know it? */
bool rut_an_where_exists(const struct rut_where *w, size_t index);

/* The thread, made at first sight. NULL: no memory. */
struct rut_where_thread *rut_an_where_thread(struct rut_where *w, struct rut_thread *t);

/* What the thread does at `now_ns`, since it last came to a CPU or left one. Returns whether known.
 */
bool rut_an_where_now(struct rut_where *w, struct rut_where_thread *t, int64_t now_ns,
		      struct rut_slice *ret);

/*
 * Closes the thread's slice at `now_ns`. `runs`: the caller knows that it is on a CPU now (it made
 * a record), also when no switch has said so yet.
 */
void rut_an_where_touch(struct rut_where *w, struct rut_where_thread *t, int64_t now_ns, bool runs);

#endif
