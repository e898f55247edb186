/* SPDX-License-Identifier: MIT */
/* `rutile requests TRACE`: the requests of a recorded trace. */
#ifndef RUT_CLI_REQUESTS_TRACE_H
#define RUT_CLI_REQUESTS_TRACE_H

#include "cli/cmd.h"

extern const struct rut_opt rut_cli_opts_requests[];

/* Reads the whole command line and analyses the traces in it. Returns the exit code. */
int rut_cli_requests_trace(const struct rut_cmd *cmd, int argc, char **argv);

#endif
