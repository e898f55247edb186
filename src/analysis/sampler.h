/* SPDX-License-Identifier: MIT */
/*
 * What happens, as samples: one stream of "this thread spent this time on that" for the analyses
 * that follow quantities of all kinds (series, changes, diff). The options --cpu, --tid, --pid and
 * --procname are applied here.
 */
#ifndef RUT_ANALYSIS_SAMPLER_H
#define RUT_ANALYSIS_SAMPLER_H

#include "analysis/engine.h"

enum rut_sample_kind {
	RUT_SAMPLE_CPU,	   /* a thread ran from begin to end; where it ran through, in one sample */
	RUT_SAMPLE_SWITCH, /* a CPU switched to the thread */
	RUT_SAMPLE_SCHED,  /* from wakeup to running */
	RUT_SAMPLE_SYSCALL, /* what: the call */
	RUT_SAMPLE_IO,	    /* a request of a system call; hook: struct rut_hook_io */
	RUT_SAMPLE_DISK,    /* what: the disk; hook: struct rut_hook_block */
	RUT_SAMPLE_IRQ,	    /* what: the interrupt; no thread */
	RUT_SAMPLE_SOFTIRQ,
	RUT_SAMPLE_PAGE, /* a page was allocated */
};

struct rut_sample {
	enum rut_sample_kind kind;
	int cpu;
	struct rut_thread *thread; /* NULL: unknown, or none */
	const char *what;	   /* interned; NULL: nothing more to say */
	int64_t begin_ns, end_ns;  /* the same for what takes no time */
	bool error;		   /* SYSCALL: it failed */
	const void *hook;	   /* what the state model said; see the kinds */
};

/* The first member of an analysis's instance; rut_an_sampler_hooks are its hooks. */
struct rut_sampler {
	struct rut_instance base;
	void (*fn)(struct rut_sampler *s, const struct rut_sample *sample);
	int64_t *since_ns; /* owned, by CPU: when its thread began to run; RUT_NO_TIME: idle */
	size_t n_cpus;
	struct rut_map irq_names; /* number + 1 -> interned name */
};

extern const struct rut_analysis_hook rut_an_sampler_hooks[];
/* Events of which a trace must have one. */
extern const char *const rut_an_sampler_needs[];

/* Within init(), with `fn` set. Returns 0 or -ENOMEM. */
int rut_an_sampler_init(struct rut_sampler *s);
/* First in report(): samples of those that still run. */
void rut_an_sampler_finish(struct rut_sampler *s, int64_t end_ns);
void rut_an_sampler_fini(struct rut_sampler *s);

#endif
