/* SPDX-License-Identifier: MIT */
/* `rutile requests TARGET`: the requests of running processes, as a screen or as tables. */
#ifndef RUT_CLI_REQUESTS_LIVE_H
#define RUT_CLI_REQUESTS_LIVE_H

#include "cli/cmd.h"

/* The verb's whole command line, argv[0] its name. Returns the exit code. */
int rut_cli_requests_live(const struct rut_cmd *cmd, int argc, char **argv);

/* Its options; those of traces are rut_cli_opts_requests. */
extern const struct rut_opt rut_cli_requests_live_options[];

#endif
