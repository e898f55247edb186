/* SPDX-License-Identifier: MIT */
/* Merged aggregations as text and JSON: averages, histograms and time series. */
#ifndef RUT_SCRIPT_HIST_H
#define RUT_SCRIPT_HIST_H

#include <stdbool.h>
#include <stdint.h>

struct rut_buf;
struct rut_script_style;
struct rut_type;

/* The average of AVG and STATS, rounded to zero; 0 without a value. */
int64_t rut_script_average(const struct rut_type *t, const uint64_t *words);

/* HIST, LHIST: a line for each slot from the first to the last that is not empty. */
void rut_script_hist_text(const struct rut_script_style *s, const struct rut_type *t,
			  const uint64_t *words, uint64_t div, struct rut_buf *out);
void rut_script_hist_json(const struct rut_type *t, const uint64_t *words, uint64_t div,
			  struct rut_buf *out);

/*
 * Calls `fn` for each slot from the first to the last that is not empty: `low` and `high` are the
 * least and the largest value of it; the slot of what is below has the low INT64_MIN; `above`: it
 * has no end.
 */
void rut_script_hist_each(const struct rut_type *t, const uint64_t *words,
			  void (*fn)(void *arg, int64_t low, int64_t high, bool above,
				     uint64_t count),
			  void *arg);

/* The value of the latest interval that has one, or 0. */
int64_t rut_script_tseries_latest(const struct rut_type *t, const uint64_t *words);

/* The number of the latest interval + 1 that has a value; 0: none has. */
uint64_t rut_script_tseries_last(const struct rut_type *t, const uint64_t *words);

/* TSERIES: up to the interval `last`, which is the latest of all keys. */
void rut_script_tseries_text(const struct rut_script_style *s, const struct rut_type *t,
			     const uint64_t *words, uint64_t last, struct rut_buf *out);
void rut_script_tseries_json(const struct rut_script_style *s, const struct rut_type *t,
			     const uint64_t *words, uint64_t last, struct rut_buf *out);

#endif
