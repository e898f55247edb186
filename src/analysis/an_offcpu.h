/* SPDX-License-Identifier: MIT */
/* What a thread waits for from the moment it leaves a CPU: shared by offcpu and rubyoffcpu. */
#ifndef RUT_ANALYSIS_AN_OFFCPU_H
#define RUT_ANALYSIS_AN_OFFCPU_H

#include "analysis/engine.h"

/* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD in prev_state: it waits for nothing any more. */
#define RUT_OFFCPU_ENDED (16 | 32 | 64)

enum rut_offcpu_reason {
	RUT_OFFCPU_QUEUE,
	RUT_OFFCPU_TIMER,
	RUT_OFFCPU_DISK,
	RUT_OFFCPU_NET,
	RUT_OFFCPU_LOCK,
	RUT_OFFCPU_PIPE,
	RUT_OFFCPU_CHILD,
	RUT_OFFCPU_POLL,
	RUT_OFFCPU_OTHER,
};

struct rut_offcpu_wait {
	uint8_t reason;		 /* enum rut_offcpu_reason */
	const char *what, *call; /* a file, disk or peer; the system call; interned, NULL: none */
	uint64_t futex;		 /* its address; 0: none */
};

/* As far as it is known when the thread leaves the CPU. */
void rut_an_offcpu_classify(struct rut_state *st, struct rut_offcpu_wait *w, struct rut_thread *t);

/* What woke the thread may know better. */
void rut_an_offcpu_refine(struct rut_offcpu_wait *w, const struct rut_wake *wake);

#endif
