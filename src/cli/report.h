/* SPDX-License-Identifier: MIT */
/* Which analyses `report` and `top` run: those that the events of a trace are enough for. */
#ifndef RUT_CLI_REPORT_H
#define RUT_CLI_REPORT_H

#include "analysis/engine.h"
#include "base/buf.h"
#include "cli/verbs.h"

#define A(verb, analysis, ...) extern const struct rut_analysis rut_analysis_##analysis;
RUT_ANALYSES(A)
#undef A

/* Fills `ret`, at most `max`; returns how many. The choose() of struct rut_analysis_args. */
size_t rut_cli_report_choose(const struct rut_ctf_set *set, const struct rut_analysis **ret,
			     size_t max);

/* The kernel analysis of that name: "cputop", "io", "sched"... NULL: there is none. */
const struct rut_analysis *rut_cli_report_find(const char *name);

/* Appends all those names, separated by spaces. */
void rut_cli_report_names(struct rut_buf *ret);

#endif
