/* SPDX-License-Identifier: MIT */
/* Between `rutile run` and its command line. */
#ifndef RUT_CLI_RUN_OPTIONS_H
#define RUT_CLI_RUN_OPTIONS_H

#include "cli/cmd.h"
#include "cli/ruby_target.h"
#include "cli/run_session.h"
#include "script/run.h"
#include "script/script.h"

struct rut_run_data {
	const char *program, *file, *output;
	struct rut_script_opts script;
	struct rut_script_run_opts run;
	bool dump, list, verbose, scripts, monitor, ctf;
	bool as_bpftrace; /* called by that name */
	const char *command;
	struct rut_words words; /* of -p, that are not a number */
	struct rut_targets targets;
	struct rut_run_session session;
	char *path;		      /* owned; of a script that was found by name */
	const char **params, **named; /* owned */
};

extern const struct rut_opt rut_cli_run_opts[];

/*
 * Options may stand behind the script, too; "--" comes before options of the script itself. Returns
 * as rut_cli_args_words(). d->params and d->named are the caller's to free in any case.
 */
int rut_cli_run_parse(const struct rut_cmd *cmd, int argc, char **argv, struct rut_run_data *d);

/* The verb, and the same under the name bpftrace. */
extern const struct rut_cmd cmd_bpftrace;
/* Runs the verb: argv[0] is ignored. */
int rut_cli_run(const struct rut_cmd *cmd, int argc, char **argv);

#endif
