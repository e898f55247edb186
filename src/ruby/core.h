/* SPDX-License-Identifier: MIT */
/*
 * The last events of `rutile trace` out of a core dump of the Ruby process: the agent's rings and
 * tables are in its memory, and cores contain them.
 */
#ifndef RUT_RUBY_CORE_H
#define RUT_RUBY_CORE_H

#include "base/core.h"
#include "ruby/tracer.h"

struct rut_ruby_core {
	pid_t pid;
	int64_t clock_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC; 0: not known */
};

/*
 * Calls `begin` for each ring in the core, then `fn` for each of its events, in order of time, what
 * the tracer has read already included. Returns the number of rings or -errno.
 */
int rut_ruby_core_read(const struct rut_core *core,
		       int (*begin)(const struct rut_ruby_core *ring, void *arg,
				    struct rut_err *err),
		       rut_ruby_event_fn fn, void *arg, struct rut_err *err);

#endif
