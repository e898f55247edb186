/* SPDX-License-Identifier: MIT */
/* Why the slowest call of a method takes as long as it does, recorded for a moment and explained.
 */
#ifndef RUT_CLI_METHOD_EXPLAIN_H
#define RUT_CLI_METHOD_EXPLAIN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

struct rut_err;

/* Called some times a second meanwhile; false ends it. `fn` NULL: nothing. */
struct rut_method_idle {
	bool (*fn)(void *arg);
	void *arg;
};

/*
 * Records the tree of processes below `pid` for two seconds, with what the kernel did for the whole
 * machine, and appends what `rutile requests --request METHOD --explain` says. The trace is removed
 * then. Returns 0 or -errno with the reason.
 */
int rut_cli_method_explain(pid_t pid, const char *method, const struct rut_method_idle *idle,
			   struct rut_buf *out, struct rut_err *err);

/* The same of the slowest request of a route; with `all` of up to ten of them, each with its parts
 * and without an explanation. */
int rut_cli_route_explain(pid_t pid, const char *route, bool all,
			  const struct rut_method_idle *idle, struct rut_buf *out,
			  struct rut_err *err);

/* Appends the calls of the method within a second, with their arguments: `rutile trace`. */
int rut_cli_method_trace(pid_t pid, const char *method, const struct rut_method_idle *idle,
			 struct rut_buf *out, struct rut_err *err);

#endif
