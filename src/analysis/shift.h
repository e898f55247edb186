/* SPDX-License-Identifier: MIT */
/*
 * Has something changed? Two questions asked of ranks, so that the answers do not depend on how the
 * values are distributed: system calls and rates have long tails, and a mean follows the tail.
 *
 * Values that follow each other in time resemble each other. Where they do, there is less evidence
 * in them than their number says; both tests estimate the correlation of neighbours and ask for
 * more.
 */
#ifndef RUT_ANALYSIS_SHIFT_H
#define RUT_ANALYSIS_SHIFT_H

#include <stddef.h>

enum { RUT_SHIFT_MAX = 1024 /* values of one series */ };

/*
 * Mann-Whitney's test, two-sided: how likely `a` and `b` differ as much as they do when nothing
 * differs between where they come from. With at most 24 values the exact distribution over all
 * permutations, with ties as they are; else the normal approximation. Values are in order of time.
 * *ret_above (or NULL): how likely a value of `b` is above one of `a`, 0 to 1. Returns 1 when there
 * is nothing to compare, or no memory.
 */
double rut_an_rank_test(const double *a, size_t n_a, const double *b, size_t n_b,
			double *ret_above);

/* The least that rut_an_rank_test() returns for so many values: all of `a` above all of `b`. */
double rut_an_rank_least(size_t n_a, size_t n_b);

/*
 * Where the level of a series changes: the partition that minimises the squares of the normal
 * scores of ranks around the means of its parts, plus a penalty for each part. ret[i] is the first
 * value behind change i, in order of time. Returns how many, at most `max`; 0 also without memory.
 */
size_t rut_an_change_points(const double *v, size_t n, size_t *ret, size_t max);

#endif
