/* SPDX-License-Identifier: MIT */
/*
 * `trace --slow TIME --tree`: the whole tree of a call that took long.
 *
 * That a call is slow is known when it ends. So the events of each fiber are kept until its
 * outermost call has ended, or a slow one has: then its tree is passed on, and what is kept of it
 * is the call itself, for the trees of its callers. A fiber keeps a bounded number of events; calls
 * that do not fit are counted.
 */
#ifndef RUT_CLI_TRACE_SLOW_H
#define RUT_CLI_TRACE_SLOW_H

#include "base/hash.h"
#include "cli/trace_print.h"

struct rut_trace_slow {
	uint64_t slow_ns;
	struct rut_trace_print *print; /* borrowed */
	struct rut_map fibers;	       /* struct fiber, owned */
	struct rut_strtab names;
};

void rut_cli_trace_slow_init(struct rut_trace_slow *s, struct rut_trace_print *print,
			     uint64_t slow_ns);
void rut_cli_trace_slow_fini(struct rut_trace_slow *s);

/* Takes an event of a trace with calls, returns and exceptions, in order of time. */
void rut_cli_trace_slow_event(struct rut_trace_slow *s, const struct rut_ruby_event *ev);

#endif
