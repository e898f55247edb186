/* SPDX-License-Identifier: MIT */
/* Tracing as the verb does it, for foreman-tracer to use as well. */
#ifndef RUT_CLI_CMD_TRACE_H
#define RUT_CLI_CMD_TRACE_H

#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "cli/trace_print.h"

struct rut_trace {
	const struct rut_cmd *cmd;
	struct rut_ruby_opts opts;
	struct rut_trace_style style;
	struct rut_targets targets;
	uint64_t slow_ns, ring_bytes;
	const char *inside; /* borrowed */
	bool all_classes;
	int wake_fd;
};

/* Traces until the end; returns the exit code. */
int rut_cli_trace_run(struct rut_trace *t);
void rut_cli_trace_fini(struct rut_trace *t);

#endif
