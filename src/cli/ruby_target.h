/* SPDX-License-Identifier: MIT */
/*
 * From the words of a command line to the processes they mean, and to what "the application" is in
 * them: the files under its root without its gems, or Foreman's own paths.
 */
#ifndef RUT_CLI_RUBY_TARGET_H
#define RUT_CLI_RUBY_TARGET_H

#include <sys/types.h>

#include "cli/ruby_opts.h"

struct rut_targets {
	pid_t *pids; /* owned; roots of trees, none below another */
	size_t count;
	struct rut_words app_paths; /* globs; the words are owned as well */
	struct rut_words not_paths;
	bool try_newer; /* those with an unreleased Ruby are not refused */
	char *title;	/* owned; for people: "puma: cluster [shop] (PID 17)" */
	void (*tell)(void *arg, const char *why); /* as in struct rut_ruby_opts */
	void *tell_arg;
};

/*
 * Finds what the options name: existing processes, or for a command what it will run. Returns 0 or
 * -errno with the reason. Call rut_cli_targets_fini() in either case.
 */
int rut_cli_targets_find(struct rut_targets *ret, const struct rut_ruby_opts *o,
			 struct rut_err *err);
void rut_cli_targets_fini(struct rut_targets *t);

/* The globs of an application under `root`, with `role` deciding about Foreman's. For the tests. */
int rut_cli_targets_add_app(struct rut_targets *t, const char *root, bool foreman);

struct rut_tracer;
struct rut_ruby_filter;

/* The filter that options and targets make together; borrows from both. */
void rut_cli_targets_filter(const struct rut_targets *t, const struct rut_ruby_opts *o, bool all,
			    struct rut_ruby_filter *ret);

/*
 * Attaches to every target. Those that fail are said on standard error (`cmd` NULL: they are not);
 * when none can be traced, the error of the first is returned.
 */
int rut_cli_targets_attach(const struct rut_targets *t, struct rut_tracer *tracer,
			   const struct rut_cmd *cmd, struct rut_err *err);

#endif
