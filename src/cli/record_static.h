/* SPDX-License-Identifier: MIT */
/* `record -e ruby_static:PROVIDER:NAME`: what the two ways of recording share. */
#ifndef RUT_CLI_RECORD_STATIC_H
#define RUT_CLI_RECORD_STATIC_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct rut_cmd;
struct rut_usdt_taps;

struct rut_record_static {
	const char *globs[64]; /* borrowed from argv */
	size_t nglobs;
	pid_t pids[65];
	size_t npids, nadded;
	struct rut_usdt_taps *taps; /* owned; NULL: not started */
	char dir[4096];		    /* where they write now */
};

/* Takes "ruby_static:PROVIDER:NAME". Returns 0, RUT_EXIT_USAGE, or -ENOENT for another event. */
int rut_cli_record_static_event(const struct rut_cmd *cmd, struct rut_record_static *s,
				const char *value);

/* Before the command is forked, so that it can be recorded from its first instruction. */
int rut_cli_record_static_prepare(struct rut_record_static *s, struct rut_err *err);

/* In the child that becomes the command. */
void rut_cli_record_static_command(const struct rut_record_static *s);

/* Begins, or continues in another directory. Does nothing when no such event was asked for. */
int rut_cli_record_static_open(struct rut_record_static *s, const char *dir, struct rut_err *err);

/* One round; problems are printed once. Call it at least five times a second. */
void rut_cli_record_static_step(struct rut_record_static *s);

/* Ends, and says what was recorded. */
void rut_cli_record_static_close(struct rut_record_static *s);

#endif
