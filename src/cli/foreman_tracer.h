/* SPDX-License-Identifier: MIT */
/* The installed name foreman-tracer: no verb of rutile, but the same program. */
#ifndef RUT_CLI_FOREMAN_TRACER_H
#define RUT_CLI_FOREMAN_TRACER_H

#include "cli/cmd.h"
#include "cli/ruby_rows.h"

extern const struct rut_cmd cmd_foreman_tracer;

/* Appends a table as foreman-tracer prints it. Returns 0 or -ENOMEM. */
int rut_cli_foreman_table(struct rut_buf *out, enum rut_ruby_mode mode, const struct rut_rows *rows,
			  uint64_t limit);

#endif
