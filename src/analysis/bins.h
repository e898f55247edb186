/* SPDX-License-Identifier: MIT */
/*
 * A quantity over time in constant memory: at most RUT_BINS bins of equal width, which doubles when
 * the time does not fit any more. Widths are powers of two, so bins of one begin can be compared.
 */
#ifndef RUT_ANALYSIS_BINS_H
#define RUT_ANALYSIS_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUT_BINS = 256, RUT_BINS_NARROWEST = 17 /* 2^17 ns */ };

struct rut_bin {
	double sum;  /* of the values */
	double logs; /* of their logarithms (base 2) */
	uint64_t n;
};

/* Zero it and set begin_ns before the first value. */
struct rut_bins {
	int64_t begin_ns;
	unsigned int shift;   /* a bin is 1 << shift ns wide; 0: nothing was added yet */
	struct rut_bin *bins; /* owned; as many as `n` are valid, those behind are empty */
	size_t n, cap;
};

void rut_an_bins_fini(struct rut_bins *b);
/* The bin of a time, with room for it. NULL: no memory. */
struct rut_bin *rut_an_bins_reserve(struct rut_bins *b, int64_t ts_ns);

/* The bin of a time; those before the begin are in the first one. NULL: no memory. */
static inline struct rut_bin *rut_bins_at(struct rut_bins *b, int64_t ts_ns)
{
	uint64_t since = ts_ns > b->begin_ns ? (uint64_t)ts_ns - (uint64_t)b->begin_ns : 0;

	if (__builtin_expect(since >> b->shift < b->n, 1))
		return &b->bins[since >> b->shift];
	return rut_an_bins_reserve(b, ts_ns);
}

/* Adds a value; with its logarithm when `logs`. Return 0 or -ENOMEM. */
int rut_an_bins_add(struct rut_bins *b, int64_t ts_ns, int64_t value, bool logs);
/* Adds the nanoseconds from one time to the other, each to its bin; not those before the begin. */
int rut_an_bins_add_span(struct rut_bins *b, int64_t from_ns, int64_t to_ns);
/* Makes bins at least as wide as 1 << shift. */
void rut_an_bins_widen(struct rut_bins *b, unsigned int shift);

#endif
