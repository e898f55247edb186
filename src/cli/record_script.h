/* SPDX-License-Identifier: MIT */
/* The option --script of sessions. */
#ifndef RUT_CLI_RECORD_SCRIPT_H
#define RUT_CLI_RECORD_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/ruby_opts.h"

struct rut_cmd;
struct rut_companion;
struct rut_err;
struct rut_script_session;

/*
 * Takes a file, as an absolute path, or the name of an installed script. Returns 0, or
 * RUT_EXIT_USAGE after a message.
 */
int rut_cli_record_script_set(const struct rut_cmd *cmd, char *to, size_t size, const char *value);

/* The processes of probes of Ruby, as they were named. */
struct rut_script_targets {
	struct rut_words words; /* owned */
	uint64_t *starts;	/* by word: when the process of that PID was started; owned */
	struct rut_words told;	/* why some are left out, to be said once; owned */
	bool begun;		/* they were looked for */
};

/* Compiles and loads it for a session; what the compiler says is printed. 0 or -errno. */
int rut_cli_record_script_load(struct rut_script_session **ret, const char *path, bool flight,
			       struct rut_script_targets *targets, struct rut_err *err);

/*
 * Takes one more. A PID means the process that has it now: another one that gets it later has
 * nothing to do with the session. 0 or RUT_EXIT_FAIL.
 */
int rut_cli_record_script_target(struct rut_script_targets *targets, const char *value);
void rut_cli_record_script_fini(struct rut_script_targets *targets);

/*
 * The script of a session, to be freed. NULL: it has none, or one that cannot be opened (another
 * version started it), which is warned of: the kernel's events do not need it.
 */
struct rut_script_session *rut_cli_record_script_beside(const char *session);

#endif
