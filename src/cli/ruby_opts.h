/* SPDX-License-Identifier: MIT */
/*
 * What the verbs that trace Ruby have in common on their command lines: the targets, the filters,
 * the output and the duration.
 */
#ifndef RUT_CLI_RUBY_OPTS_H
#define RUT_CLI_RUBY_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cmd.h"

/* A list of words, ending with NULL; not the words themselves but the list is owned. */
struct rut_words {
	const char **v;
	size_t count;
};

/* Returns 0 or -ENOMEM. */
int rut_cli_words_add(struct rut_words *w, const char *word);
void rut_cli_words_fini(struct rut_words *w);

enum {
	RUT_OPT_CLASS = 256,
	RUT_OPT_PATH,
	RUT_OPT_METHOD,
	RUT_OPT_C_CALLS,
	RUT_OPT_JSON,
	RUT_OPT_DURATION,
	RUT_OPT_TRY_NEWER,
	RUT_OPT_OWN, /* the first number that a verb's own options may use */
};

/* clang-format off */
#define RUT_RUBY_OPTIONS                                                                           \
	{"path", "GLOB", "only files that match; '!GLOB' leaves them out (repeatable)", RUT_OPT_PATH}, \
	{"class", "GLOB", "only classes that match; '!GLOB' leaves them out (repeatable)", RUT_OPT_CLASS}, \
	{"method", "NAME", "only 'Class#name' or 'Class.name', globs; '!' leaves out (repeatable)", RUT_OPT_METHOD}, \
	{"c-calls", NULL, "methods written in C as well, by the line that calls them", RUT_OPT_C_CALLS}, \
	{"duration", "TIME", "stop after TIME (for example 10s, 5m)", RUT_OPT_DURATION},                      \
	{"json", NULL, "JSON Lines, one object a row", RUT_OPT_JSON},                              \
	{"try-newer", NULL, "trace a Ruby that is not released, too: it may crash", RUT_OPT_TRY_NEWER}, \
	{"output", "FILE", "write to a file", 'o'}
/* clang-format on */

struct rut_ruby_opts {
	struct rut_words targets;
	char **command; /* after "--"; NULL: none */
	bool app, all;	/* the words of that name were given */
	struct rut_words paths, classes, methods;
	size_t quiet_classes; /* of `classes`: not asked for, but left out by the verb */
	bool c_calls, json, try_newer;
	const char *output;
	uint64_t duration_ns; /* 0: until stopped */
	/* Says why one of those that a name means is left out; NULL: as a warning. */
	void (*tell)(void *arg, const char *why);
	void *tell_arg;
};

void rut_cli_ruby_opts_fini(struct rut_ruby_opts *o);

/*
 * Takes what rut_cli_args_next() returned. Returns true when it was one of these options, a
 * positional argument, "--", the help or an error; *ret_exit is then < 0 to go on, or the exit
 * code.
 */
bool rut_cli_ruby_opts_take(struct rut_ruby_opts *o, struct rut_args *a, int id, int *ret_exit);

/* After the last word: is there exactly one kind of target? < 0, or the exit code. */
int rut_cli_ruby_opts_check(const struct rut_ruby_opts *o, const struct rut_cmd *cmd);

/*
 * Opens --output, saying so when it replaces a file, or gives standard output. Returns the
 * descriptor or -errno.
 */
int rut_cli_ruby_opts_open(const struct rut_ruby_opts *o, struct rut_err *err);

/* "rutile VERB: " and a line on standard error: a notice, not a failure. */
void rut_cli_notice(const struct rut_cmd *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

struct rut_tracer;
/* On standard error, when a command could not be traced. */
void rut_cli_notice_untraced(const struct rut_cmd *cmd, const struct rut_tracer *t);

/* A duration option: < 0, or the exit code with the message printed. */
int rut_cli_take_duration(struct rut_args *a, const char *option, uint64_t *ret_ns);
/* --interval, at least 1 ms, and --limit: likewise. */
int rut_cli_take_interval(struct rut_args *a, uint64_t *ret_ns);
int rut_cli_take_limit(struct rut_args *a, uint64_t *ret);

#endif
