/* SPDX-License-Identifier: MIT */
/* What went wrong while a script ran. */
#ifndef RUT_SCRIPT_RUN_REPORT_H
#define RUT_SCRIPT_RUN_REPORT_H

#include <stdint.h>

struct rut_script_program;
struct rut_script_run_opts;

/*
 * Prints what was lost or failed, by statement. `words`: the counters, or NULL; `discarded`:
 * records that were not printed in time.
 */
void rut_run_report(const struct rut_script_program *p, const struct rut_script_run_opts *opts,
		    const uint64_t *words, uint64_t discarded);

/* Records that are in no trace: those that found the ring full, and `discarded`. */
uint64_t rut_run_lost(const struct rut_script_program *p, const uint64_t *words,
		      uint64_t discarded);

#endif
