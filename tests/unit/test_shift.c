/* SPDX-License-Identifier: MIT */
/* Do the tests for changes find what is there, and nothing where nothing is? */
#include "unit.h"

#include <math.h>

#include "analysis/bins.h"
#include "analysis/shift.h"

static uint64_t seed;

/* From 0 to 1, both excluded (Knuth's 64-bit linear congruential generator). */
static double uniform(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(seed >> 12) + 0.5) / 4503599627370496.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Values of the mean 0 and the variance 1, neighbours correlated by rho. */
static void series(double *v, size_t n, double rho)
{
	double x = normal();

	for (size_t i = 0; i < n; i++) {
		x = rho * x + sqrt(1 - rho * rho) * normal();
		v[i] = x;
	}
}

/* How many of the ways to choose n_a of the values are as extreme as the first n_a. */
static double by_hand(const double *v, unsigned int n, unsigned int n_a)
{
	double sums[2] = {0}, far = 0, all = 0, mean;

	for (int pass = 0; pass < 2; pass++) {
		for (unsigned int set = 0; set < 1u << n; set++) {
			double sum = 0;

			if ((unsigned int)__builtin_popcount(set) != n_a ||
			    (!pass && set != (1u << n_a) - 1))
				continue;
			for (unsigned int i = 0; i < n; i++)
				for (unsigned int k = 0; set >> i & 1 && k < n; k++)
					sum += v[k] < v[i] ? 1 : k != i && v[k] <= v[i] ? 0.5 : 0;
			sum += n_a;
			mean = n_a * (n + 1) / 2.0;
			if (!pass) {
				sums[0] = fabs(sum - mean);
				continue;
			}
			all++;
			far += fabs(sum - mean) >= sums[0] - 1e-9;
		}
	}
	return far / all;
}

static void test_few_values_are_compared_exactly(void **state)
{
	static const double apart[] = {1, 2, 3, 4, 5, 6, 7, 8};
	double above, v[12];

	/* 2 of 70 ways to choose four of eight. */
	assert_true(fabs(rut_an_rank_test(apart, 4, apart + 4, 4, &above) - 2.0 / 70) < 1e-12);
	assert_true(fabs(above - 1) < 1e-12);
	assert_true(fabs(rut_an_rank_least(4, 4) - 2.0 / 70) < 1e-12);
	assert_true(fabs(rut_an_rank_least(9, 3) - 2.0 / 220) < 1e-12);
	assert_true(rut_an_rank_least(0, 9) >= 1);
	assert_true(fabs(rut_an_rank_test(apart, 4, apart, 4, &above) - 1) < 1e-12);
	assert_true(fabs(above - 0.5) < 1e-12);
	seed = 1;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 12; i++)
			v[i] = floor(uniform() * (3 + round)); /* with ties */
		assert_true(fabs(rut_an_rank_test(v, 5, v + 5, 7, NULL) - by_hand(v, 12, 5)) <
			    1e-9);
	}
}

static void test_alike_samples_differ_as_often_as_by_chance(void **state)
{
	double v[200];
	int found = 0, correlated = 0;

	seed = 2;
	for (int round = 0; round < 1000; round++) {
		series(v, 200, 0);
		found += rut_an_rank_test(v, 100, v + 100, 100, NULL) < 0.01;
		series(v, 200, 0.5);
		correlated += rut_an_rank_test(v, 100, v + 100, 100, NULL) < 0.01;
	}
	assert_in_range(found, 0, 20);
	assert_in_range(correlated, 0, 40);
	for (int i = 100; i < 200; i++)
		v[i] += 2;
	assert_true(rut_an_rank_test(v, 100, v + 100, 100, NULL) < 1e-3);
	assert_true(rut_an_rank_least(100, 100) < 1e-30);
}

static void test_series_without_a_change_have_none(void **state)
{
	double v[200];
	size_t cuts[8];
	int found = 0, correlated = 0, counts = 0;

	seed = 3;
	for (int round = 0; round < 300; round++) {
		series(v, 200, 0);
		for (int i = 0; i < 200; i++)
			v[i] = exp(2 * v[i]); /* ranks do not see tails */
		found += rut_an_change_points(v, 200, cuts, 8) > 0;
		series(v, 200, 0.5);
		correlated += rut_an_change_points(v, 200, cuts, 8) > 0;
		for (int i = 0; i < 200; i++) { /* small numbers, mostly equal */
			v[i] = 0;
			for (int k = 0; k < 40; k++)
				v[i] += uniform() < 0.02;
		}
		counts += rut_an_change_points(v, 200, cuts, 8) > 0;
	}
	assert_int_equal(found, 0);
	assert_in_range(correlated, 0, 5);
	assert_int_equal(counts, 0);
}

static void test_changes_are_found_where_they_are(void **state)
{
	double v[200];
	size_t cuts[8];
	int near = 0;

	for (int i = 0; i < 200; i++)
		v[i] = i < 100 || i >= 160 ? 10 : 20;
	assert_int_equal(rut_an_change_points(v, 200, cuts, 8), 2);
	assert_int_equal(cuts[0], 100);
	assert_int_equal(cuts[1], 160);
	assert_int_equal(rut_an_change_points(v, 200, cuts, 1), 1);
	assert_int_equal(cuts[0], 100);
	seed = 4;
	for (int round = 0; round < 100; round++) {
		series(v, 200, 0.3);
		for (int i = 150; i < 200; i++)
			v[i] += 4;
		near += rut_an_change_points(v, 200, cuts, 8) == 1 && cuts[0] >= 147 &&
			cuts[0] <= 153;
	}
	assert_in_range(near, 90, 100);
	assert_int_equal(rut_an_change_points(v, 0, cuts, 8), 0);
	assert_int_equal(rut_an_change_points(v, 11, cuts, 8), 0);
}

static void test_bins_keep_sums_when_they_widen(void **state)
{
	struct rut_bins b = {.begin_ns = 1000};
	double sum = 0;
	uint64_t n = 0;

	for (int64_t i = 0; i < 5000; i++)
		assert_int_equal(rut_an_bins_add(&b, 1000 + i * 100000, i, true), 0);
	assert_in_range(b.n, RUT_BINS / 2, RUT_BINS);
	rut_an_bins_widen(&b, 27);
	assert_int_equal(b.n, 4); /* 500 ms in parts of 134 */
	assert_int_equal(b.bins[0].n, 1343);
	for (size_t i = 0; i < b.n; i++) {
		n += b.bins[i].n;
		sum += b.bins[i].sum;
	}
	assert_int_equal(n, 5000);
	assert_true(fabs(sum - 5000.0 * 4999 / 2) < 0.5);
	rut_an_bins_fini(&b);
	b = (struct rut_bins){.begin_ns = 0};
	assert_int_equal(rut_an_bins_add_span(&b, 100000, 10000000), 0);
	for (size_t i = 1; i + 1 < b.n; i++)
		assert_true(fabs(b.bins[i].sum - 131072) < 0.5);
	assert_true(fabs(b.bins[0].sum - 31072) < 0.5);
	rut_an_bins_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_values_are_compared_exactly),
		cmocka_unit_test(test_alike_samples_differ_as_often_as_by_chance),
		cmocka_unit_test(test_series_without_a_change_have_none),
		cmocka_unit_test(test_changes_are_found_where_they_are),
		cmocka_unit_test(test_bins_keep_sums_when_they_widen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
