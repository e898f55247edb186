/* SPDX-License-Identifier: MIT */
/* Which analyses `report` and `top` run: those that the events of a trace are enough for. */
#ifndef RUT_CLI_REPORT_H
#define RUT_CLI_REPORT_H

#include "analysis/engine.h"

/* Fills `ret`, at most `max`; returns how many. The choose() of struct rut_analysis_args. */
size_t rut_report_choose(const struct rut_ctf_set *set, const struct rut_analysis **ret,
			 size_t max);

/* The analysis of that name: "cputop", "io", "sched"... NULL: there is none. */
const struct rut_analysis *rut_report_find(const char *name);

/* All those names, separated by spaces. */
extern const char rut_report_names[];

#endif
