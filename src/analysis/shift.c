/* SPDX-License-Identifier: MIT */
#include "analysis/shift.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	EXACT_MAX = 24, /* values for which all permutations are counted */
	PART_MIN = 6,	/* values of the shortest part of a series */
};

struct ranked {
	double value;
	size_t at;
};

static int by_value(const void *a, const void *b)
{
	double x = ((const struct ranked *)a)->value, y = ((const struct ranked *)b)->value;

	return x < y ? -1 : x > y;
}

/*
 * ret[i]: twice the rank of v[i] from 1, equal values sharing the mean of theirs. Returns the sum
 * of t^3 - t over the groups of t equal values; below 0: no memory.
 */
static double rank(const double *v, size_t n, unsigned int *ret)
{
	_cleanup_free_ struct ranked *list = malloc((n + 1) * sizeof(*list));
	double ties = 0;

	if (!list)
		return -1;
	for (size_t i = 0; i < n; i++)
		list[i] = (struct ranked){v[i], i};
	qsort(list, n, sizeof(*list), by_value);
	for (size_t i = 0, end; i < n; i = end) {
		double t;

		for (end = i + 1; end < n && list[end].value <= list[i].value; end++)
			;
		t = (double)(end - i);
		ties += t * t * t - t;
		for (size_t k = i; k < end; k++)
			ret[list[k].at] = (unsigned int)(i + 1 + end);
	}
	return ties;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The mean square of the differences of values `lag` apart, without the largest `trim` of them. */
static double differences(const double *v, size_t n, size_t lag, size_t trim)
{
	double squares[RUT_SHIFT_MAX] = {0}, sum = 0;
	size_t kept;

	for (size_t i = lag; i < n; i++)
		squares[i - lag] = (v[i] - v[i - lag]) * (v[i] - v[i - lag]);
	n -= lag;
	qsort(squares, n, sizeof(*squares), by_number);
	kept = n > trim ? n - trim : 1;
	for (size_t i = 0; i < kept; i++)
		sum += squares[i];
	return sum / (double)kept;
}

/*
 * The correlation of neighbours, from 0 to 0.9. From differences, which changes of level hardly
 * touch (the largest are left out for that): those of values two apart are larger than those of
 * neighbours by 1 + rho. *ret_variance: of the values around their level.
 */
static double neighbours(const double *v, size_t n, double *ret_variance)
{
	size_t trim = n < 24 ? 0 : 3 + n / 128;
	double one, rho;

	*ret_variance = 0;
	if (n < 4)
		return 0;
	one = differences(v, n, 1, trim);
	rho = one > 0 ? differences(v, n, 2, trim) / one - 1 : 0;
	rho = rho < 0 ? 0 : rho > 0.9 ? 0.9 : rho;
	*ret_variance = one / (2 * (1 - rho));
	return rho;
}

/* By how much correlated values vary more in the mean than independent ones. */
static double inflation(double rho)
{
	return (1 + rho) / (1 - rho);
}

/* ---- Two samples ---- */

/*
 * Counts, over all ways to choose n_a of the values, those with a sum of ranks as far from the
 * mean as `sum` or farther.
 */
static double exact(const unsigned int *ranks, size_t n, size_t n_a, unsigned int sum)
{
	unsigned int most = 0;
	_cleanup_free_ double *ways = NULL;
	double all = 0, far = 0, mean = (double)n_a * (double)(n + 1); /* of doubled ranks */
	size_t width;

	for (size_t i = 0; i < n; i++)
		most += ranks[i];
	width = most + 1;
	ways = calloc((n_a + 1) * width, sizeof(*ways)); /* [how many][sum] */
	if (!ways)
		return 1;
	ways[0] = 1;
	for (size_t i = 0; i < n; i++)
		for (size_t k = n_a; k-- > 0;)
			for (size_t s = 0; s + ranks[i] < width; s++)
				ways[(k + 1) * width + s + ranks[i]] += ways[k * width + s];
	for (size_t s = 0; s < width; s++) {
		double w = ways[n_a * width + s];

		all += w;
		if (fabs((double)s - mean) >= fabs((double)sum - mean) - 0.25)
			far += w;
	}
	return all > 0 ? far / all : 1;
}

static double approximate(double distance, double n_a, double n_b, double ties, double rho)
{
	double n = n_a + n_b;
	double variance = n_a * n_b / 12 * (n + 1 - ties / (n * (n - 1))) * inflation(rho);

	distance = distance > 0.5 ? distance - 0.5 : 0; /* ranks are whole numbers */
	return variance > 0 ? erfc(distance / sqrt(2 * variance)) : 1;
}

static double pooled_rho(const unsigned int *ranks, size_t n_a, size_t n)
{
	double v[RUT_SHIFT_MAX], unused, a, b;

	for (size_t i = 0; i < n; i++)
		v[i] = ranks[i];
	a = neighbours(v, n_a, &unused);
	b = neighbours(v + n_a, n - n_a, &unused);
	return (a * (double)n_a + b * (double)(n - n_a)) / (double)n;
}

double rut_an_rank_test(const double *a, size_t n_a, const double *b, size_t n_b, double *ret_above)
{
	size_t n = n_a + n_b;
	unsigned int ranks[RUT_SHIFT_MAX], sum = 0;
	double both[RUT_SHIFT_MAX], ties, u;

	if (ret_above)
		*ret_above = 0.5;
	if (!n_a || !n_b || n > RUT_SHIFT_MAX)
		return 1;
	memcpy(both, a, n_a * sizeof(*a));
	memcpy(both + n_a, b, n_b * sizeof(*b));
	ties = rank(both, n, ranks);
	if (ties < 0)
		return 1;
	for (size_t i = 0; i < n_a; i++)
		sum += ranks[i];
	u = (double)sum / 2 - (double)n_a * (double)(n_a + 1) / 2; /* pairs in which a is above */
	if (ret_above)
		*ret_above = 1 - u / ((double)n_a * (double)n_b);
	if (n <= EXACT_MAX)
		return exact(ranks, n, n_a, sum);
	return approximate(fabs(u - (double)n_a * (double)n_b / 2), (double)n_a, (double)n_b, ties,
			   pooled_rho(ranks, n_a, n));
}

double rut_an_rank_least(size_t n_a, size_t n_b)
{
	double a = (double)n_a, b = (double)n_b, p = 2;

	if (!n_a || !n_b)
		return 1;
	if (n_a + n_b > EXACT_MAX)
		return approximate(a * b / 2, a, b, 0, 0);
	/* 2 of the ways to choose n_a values. */
	for (size_t i = 1; i <= n_a; i++)
		p *= (double)i / (b + (double)i);
	return p;
}

/* ---- One series ---- */

/* The quantile of the normal distribution; off by at most 4.5e-4 (Abramowitz and Stegun, 26.2.23).
 */
static double normal_quantile(double p)
{
	double q = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(q));
	double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
			       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

	return p < 0.5 ? -x : x;
}

struct part {
	double cost; /* of the best partition that ends here */
	size_t from; /* where its last part begins */
};

/* sums[i], squares[i]: of the values before i. */
static void partition(const double *sums, const double *squares, size_t n, double penalty,
		      size_t shortest, struct part *best)
{
	best[0] = (struct part){-penalty, 0};
	for (size_t end = 1; end <= n; end++) {
		best[end] = (struct part){INFINITY, 0};
		for (size_t from = 0; from + shortest <= end; from++) {
			double sum = sums[end] - sums[from], cost;

			if (from && from < shortest)
				continue;
			cost = best[from].cost + penalty + squares[end] - squares[from] -
			       sum * sum / (double)(end - from);
			if (cost < best[end].cost)
				best[end] = (struct part){cost, from};
		}
	}
}

/*
 * A change costs 6 ln n variances: the n^2 / 2 places where a part can stand make one that is due
 * to chance rarer than one in n^4 series; correlation that is not seen takes from that.
 */
static double penalty_of(const double *z, size_t n)
{
	double mean_square = 0, variance, rho = neighbours(z, n, &variance);

	for (size_t i = 0; i < n; i++)
		mean_square += z[i] * z[i] / (double)n;
	if (variance < mean_square / 4)
		variance = mean_square / 4;
	return 6 * log((double)n) * variance * inflation(rho);
}

size_t rut_an_change_points(const double *v, size_t n, size_t *ret, size_t max)
{
	size_t shortest = n / 32 > PART_MIN ? n / 32 : PART_MIN, found = 0, at, k;
	double z[RUT_SHIFT_MAX], sums[RUT_SHIFT_MAX + 1] = {0}, squares[RUT_SHIFT_MAX + 1] = {0};
	unsigned int ranks[RUT_SHIFT_MAX];
	struct part best[RUT_SHIFT_MAX + 1];

	if (n < 2 * shortest || n > RUT_SHIFT_MAX || rank(v, n, ranks) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		z[i] = normal_quantile((ranks[i] - 1.0) / (2.0 * (double)n));
		sums[i + 1] = sums[i] + z[i];
		squares[i + 1] = squares[i] + z[i] * z[i];
	}
	partition(sums, squares, n, penalty_of(z, n), shortest, best);
	for (at = best[n].from; at; at = best[at].from)
		found++;
	for (at = best[n].from, k = found; at; at = best[at].from)
		if (--k < max)
			ret[k] = at;
	return found < max ? found : max;
}
