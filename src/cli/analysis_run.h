/* SPDX-License-Identifier: MIT */
/* A pass of analyses over traces, from the command line's point of view. */
#ifndef RUT_CLI_ANALYSIS_RUN_H
#define RUT_CLI_ANALYSIS_RUN_H

#include "cli/analysis_opts.h"

/* Opens the traces, runs the analyses in one pass and prints. Returns the exit code. */
int rut_cli_analysis_run(struct rut_analysis_args *a, const struct rut_analysis *const *analyses,
			 size_t n);

#endif
