/* SPDX-License-Identifier: MIT */
/* Why the slowest call of a method takes as long as it does, recorded for a moment and explained.
 */
#ifndef RUT_CLI_METHOD_EXPLAIN_H
#define RUT_CLI_METHOD_EXPLAIN_H

#include <sys/types.h>

#include "base/buf.h"

struct rut_err;

/*
 * Records the tree of processes below `pid` for two seconds, with what the kernel did for the whole
 * machine, and appends what `rutile requests --request METHOD --explain` says. The trace is removed
 * then. Returns 0 or -errno with the reason.
 */
int rut_cli_method_explain(pid_t pid, const char *method, struct rut_buf *out, struct rut_err *err);

#endif
