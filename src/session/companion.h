/* SPDX-License-Identifier: MIT */
/*
 * What is recorded beside the kernel's events into the same trace directories: Ruby events, static
 * tracepoints. The consumer calls these as it opens and closes directories.
 */
#ifndef RUT_SESSION_COMPANION_H
#define RUT_SESSION_COMPANION_H

#include <stdbool.h>
#include <stdint.h>

struct rut_err;
struct rut_trace_clock;

struct rut_companion {
	/*
	 * From now on into `dir`, which exists and begins at clock->begin_ns; those before it end
	 * there. Returns 0 or -errno.
	 */
	int (*open)(void *arg, const char *dir, const struct rut_trace_clock *clock,
		    struct rut_err *err);
	/* One round, several times a second. Returns 0, or -errno: what is not written is kept. */
	int (*step)(void *arg, struct rut_err *err);
	/* All that is left; the trace ends at `end_ns`. */
	int (*close)(void *arg, uint64_t end_ns, struct rut_err *err);
	/* A flight recorder: copies what is in memory into `dir`; NULL: it has none. */
	int (*snapshot)(void *arg, const char *dir, const struct rut_trace_clock *clock,
			uint64_t end_ns, struct rut_err *err);
	/* Ends recording, and begins it again: the session was stopped, or resumed. */
	void (*pause)(void *arg, bool pause);
	/*
	 * Records more while the session runs, or less; `what` is the companion's own (an argument
	 * of
	 * --ruby). Returns 0 or -errno.
	 */
	int (*change)(void *arg, bool add, const char *what, struct rut_err *err);
	/*
	 * After a round: all its records before that are in the files, CLOCK_MONOTONIC. NULL: those
	 * before the last flush of the kernel's rings.
	 */
	uint64_t (*complete)(void *arg);
	void *arg;
};

#endif
