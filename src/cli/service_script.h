/* SPDX-License-Identifier: MIT */
/* Scripts that the service runs: NAME.bt, and the options of its session in NAME.conf beside it. */
#ifndef RUT_CLI_SERVICE_SCRIPT_H
#define RUT_CLI_SERVICE_SCRIPT_H

#include "cli/record_opts.h"

/*
 * Reads DIR/NAME.bt's options: a line "options = ..." of what `start` takes. Without --output it is
 * a flight recorder; with both a flight recorder that writes its snapshot when it is stopped.
 * Returns 0, or RUT_EXIT_USAGE after a message.
 */
int rut_cli_service_script_read(const struct rut_cmd *cmd, struct rut_record_opts *o,
				const char *dir, const char *name);

/* Compiles DIR/NAME.bt for other machines into DIR/NAME.rbc. 0 or an exit code: reported. */
int rut_cli_service_script_compile(const struct rut_cmd *cmd, const char *dir, const char *name);

/* Writes a snapshot of the session to where `output` says. -ENOENT: there is no such session. */
int rut_cli_service_script_keep(const char *name, const struct rut_output_conf *output,
				struct rut_err *err);

#endif
