/* SPDX-License-Identifier: MIT */
/* What a thread that is off the CPUs waits for, as the analyses of stacks name it. */
#ifndef RUT_ANALYSIS_OFF_H
#define RUT_ANALYSIS_OFF_H

#include <stdbool.h>

struct rut_ruby_frame;

enum rut_off {
	RUT_OFF_CPU, /* nothing: it ran */
	RUT_OFF_DISK,
	RUT_OFF_NETWORK,
	RUT_OFF_LOCK,
	RUT_OFF_GVL,
	RUT_OFF_SLEEP,
	RUT_OFF_PIPE,
	RUT_OFF_CHILD,
	RUT_OFF_POLL, /* any descriptor */
	RUT_OFF_RUN_QUEUE,
	RUT_OFF_OTHER,
	RUT_OFFS
};

extern const char *const rut_an_off_names[RUT_OFFS];

/*
 * What a function of the kernel on the stack waits for; RUT_OFF_OTHER: not known. Sets
 * *ret_futex when it is the futex's, and leaves it otherwise.
 */
enum rut_off rut_an_off_kernel(const char *function, bool *ret_futex);

/*
 * What a Ruby thread waits for, by its innermost frame and what the kernel shows (`futex`: it waits
 * for one).
 */
enum rut_off rut_an_off_ruby(const struct rut_ruby_frame *innermost, bool futex,
			     enum rut_off kernel);

#endif
