/* SPDX-License-Identifier: MIT */
/*
 * Statistics in constant memory.
 *
 * A rut_stat keeps count, extremes, sum and sum of squares exactly (in 128 bits), so that mean and
 * deviation come out correctly rounded however long the trace is. Percentiles are optional: a
 * histogram of 32 buckets for each power of two, with an error of at most 1.6 %. A rut_values
 * keeps how often each value occurred: what frequency distributions with exact bounds need.
 */
#ifndef RUT_ANALYSIS_STATS_H
#define RUT_ANALYSIS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUT_HIST_SUB	 32
#define RUT_HIST_BUCKETS (60 * RUT_HIST_SUB)

struct rut_hist {
	uint64_t total;
	uint64_t counts[RUT_HIST_BUCKETS];
};

void rut_an_hist_add(struct rut_hist *h, int64_t v);
/* The value below which the fraction `q` (0 to 1) of the values lies; 0 when there are none. */
double rut_an_hist_quantile(const struct rut_hist *h, double q);

struct rut_value_slot {
	int64_t value;
	uint64_t count; /* 0: free */
};

struct rut_values {
	struct rut_value_slot *slots; /* owned */
	size_t mask, used;
};

void rut_an_values_fini(struct rut_values *v);
/* Returns 0 or -ENOMEM. */
int rut_an_values_add(struct rut_values *v, int64_t value);

#define rut_values_each(v, slot)                                                                   \
	for (struct rut_value_slot *slot = (v)->slots; slot && slot <= (v)->slots + (v)->mask;     \
	     slot++)                                                                               \
		if (slot->count)

struct rut_stat {
	uint64_t count;
	int64_t min, max, sum;
	unsigned __int128 sum_squares;
	struct rut_hist *hist;	   /* owned; NULL: no percentiles */
	struct rut_values *values; /* owned; NULL: not kept */
};

/* What a stat keeps besides the sums. */
enum { RUT_STAT_HIST = 1, RUT_STAT_VALUES = 2 };

/* Returns 0 or -ENOMEM. */
int rut_an_stat_init(struct rut_stat *s, unsigned keep);
void rut_an_stat_fini(struct rut_stat *s);

static inline void rut_stat_add(struct rut_stat *s, int64_t v)
{
	uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	if (!s->count || v < s->min)
		s->min = v;
	if (!s->count || v > s->max)
		s->max = v;
	s->count++;
	s->sum += v;
	s->sum_squares += (unsigned __int128)magnitude * magnitude;
	if (s->hist)
		rut_an_hist_add(s->hist, v);
	if (s->values)
		(void)rut_an_values_add(s->values, v);
}

static inline double rut_stat_mean(const struct rut_stat *s)
{
	return s->count ? (double)s->sum / (double)s->count : 0;
}

/* Sample standard deviation, correctly rounded; NaN for fewer than two values. */
double rut_an_stat_stdev(const struct rut_stat *s);

/* The same of floats. */
double rut_an_stdev_floats(const double *v, size_t n);

#endif
