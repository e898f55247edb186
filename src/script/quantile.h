/* SPDX-License-Identifier: MIT */
/* Percentiles of histograms, which are calculated when a record that shows them is read. */
#ifndef RUT_SCRIPT_QUANTILE_H
#define RUT_SCRIPT_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

#include "script/program.h"

struct rut_buf;
struct rut_type;

/* HIST, LHIST: within its slot in proportion; 0 without values. */
int64_t rut_script_quantile(const struct rut_type *t, const uint64_t *words, uint32_t permille);

/*
 * Puts the percentiles that the action shows into a copy of its event in `buf`. Returns the event,
 * `e` itself when there are none; NULL: no memory.
 */
const struct rut_script_event *rut_script_quantiles_fill(const struct rut_script_action *a,
							 const struct rut_script_map *maps,
							 const struct rut_script_event *e,
							 size_t size, struct rut_buf *buf);

#endif
