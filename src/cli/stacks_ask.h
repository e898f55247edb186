/* SPDX-License-Identifier: MIT */
/* Asks the processes of targets what each of their threads does now, for `stacks` and others. */
#ifndef RUT_CLI_STACKS_ASK_H
#define RUT_CLI_STACKS_ASK_H

#include <stdbool.h>

#include "cli/ruby_target.h"
#include "ruby/tracer.h"

/*
 * Calls `fn` with a RUT_RUBY_EVENT_SLOW for each thread: method_name is the thread's name and
 * state, callers its frames, innermost first; all threads of a process in a row, unless several
 * answer at once. Says on standard error (`cmd` NULL: not) which processes did not answer. Returns
 * 0 or -errno with the reason; -ETIME: none answered.
 */
int rut_cli_stacks_ask(const struct rut_targets *targets, bool try_newer, const struct rut_cmd *cmd,
		       rut_ruby_event_fn fn, void *arg, struct rut_err *err);

#endif
