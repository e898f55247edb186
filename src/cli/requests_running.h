/* SPDX-License-Identifier: MIT */
/* `rutile requests --running`: the requests that run now, also those that began long ago. */
#ifndef RUT_CLI_REQUESTS_RUNNING_H
#define RUT_CLI_REQUESTS_RUNNING_H

#include <stdbool.h>

#include "base/buf.h"
#include "cli/ruby_target.h"
#include "ruby/tracer.h"

struct rut_layers;

/* Threads as they were when they were asked. */
struct rut_hangs {
	const struct rut_layers *layers; /* borrowed; NULL: none */
	const char *request; /* a glob of methods that are requests, too; borrowed; or NULL */
	struct rut_hang_thread *threads; /* owned */
	size_t count;
	bool failed; /* out of memory */
};

/* A thread and its frames, as RUT_RUBY_EVENT_SLOW has them (stacks_ask.h). */
void rut_cli_hangs_add(struct rut_hangs *r, const struct rut_ruby_event *ev);
/* What each of them waits for in the kernel, as it is now. Not for the tests. */
void rut_cli_hangs_look(struct rut_hangs *r);
/* Appends those that are in a request; `explain`: with frames and what they wait for. Returns how
 * many. */
size_t rut_cli_hangs_print(const struct rut_hangs *r, bool explain, struct rut_buf *out);
void rut_cli_hangs_fini(struct rut_hangs *r);

/* The same for a screen: those of targets that were found, explained, or why not, as text. */
void rut_cli_hangs_page(const struct rut_targets *targets, bool try_newer, struct rut_buf *out);

/* The verb: finds the targets, asks, prints. Returns the exit code. */
int rut_cli_requests_show_running(const struct rut_cmd *cmd, const struct rut_ruby_opts *opts,
				  const char *request, bool explain);

#endif
