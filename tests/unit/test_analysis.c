/* SPDX-License-Identifier: MIT */
/* Statistics, numbers and layouts of the reports. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "analysis/lami.h"
#include "analysis/ordered.h"
#include "analysis/stats.h"
#include "base/buf.h"

static void test_sums_are_exact(void **state)
{
	struct rut_stat s;

	assert_int_equal(rut_an_stat_init(&s, 0), 0);
	assert_true(isnan(rut_an_stat_stdev(&s)));
	rut_stat_add(&s, 5);
	assert_true(isnan(rut_an_stat_stdev(&s)));
	rut_stat_add(&s, 1);
	rut_stat_add(&s, 9);
	assert_int_equal(s.min, 1);
	assert_int_equal(s.max, 9);
	assert_true(rut_stat_mean(&s) == 5.0);
	assert_true(rut_an_stat_stdev(&s) == 4.0);
	rut_an_stat_fini(&s);
	/* Python: statistics.stdev([10**9 + 1, 10**9 + 2, 10**9 + 4]) */
	assert_int_equal(rut_an_stat_init(&s, 0), 0);
	rut_stat_add(&s, 1000000001);
	rut_stat_add(&s, 1000000002);
	rut_stat_add(&s, 1000000004);
	assert_true(rut_an_stat_stdev(&s) == 1.5275252316519468);
	rut_an_stat_fini(&s);
}

static void test_percentiles_are_within_their_bucket(void **state)
{
	struct rut_hist *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	assert_true(rut_an_hist_quantile(h, 0.5) == 0);
	for (int64_t v = 1; v <= 100000; v++)
		rut_an_hist_add(h, v * 37);
	for (double q = 0.01; q < 1; q += 0.01) {
		double want = q * 100000 * 37, got = rut_an_hist_quantile(h, q);

		assert_true(fabs(got - want) <= want * 0.016);
	}
	rut_an_hist_add(h, INT64_MAX);
	rut_an_hist_add(h, -5);
	assert_true(rut_an_hist_quantile(h, 1) > 9e18);
	assert_true(rut_an_hist_quantile(h, 0) == 0);
	free(h);
}

static void test_values_count_how_often(void **state)
{
	struct rut_values v = {0};
	uint64_t total = 0, distinct = 0;

	for (int i = 0; i < 10000; i++)
		assert_int_equal(rut_an_values_add(&v, i % 700 - 350), 0);
	rut_values_each(&v, slot)
	{
		total += slot->count;
		distinct++;
		assert_in_range(slot->count, 14, 15);
	}
	assert_int_equal(total, 10000);
	assert_int_equal(distinct, 700);
	rut_an_values_fini(&v);
}

static void test_floats_are_the_shortest_that_read_back(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {
		{0, "0.0"},
		{1, "1.0"},
		{0.1, "0.1"},
		{1.0 / 3, "0.3333333333333333"},
		{100, "100.0"},
		{1e15, "1000000000000000.0"},
		{1e16, "1e+16"},
		{123456789012345680.0, "1.2345678901234568e+17"},
		{0.0001, "0.0001"},
		{0.00001, "1e-05"},
		{5842.8745863666445, "5842.8745863666445"},
		{-2.5, "-2.5"},
		{5e-324, "5e-324"},
		{INFINITY, "Infinity"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

		rut_an_json_float(&b, cases[i].v);
		assert_string_equal(b.data, cases[i].text);
	}
}

static void test_json_strings_are_ascii(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_an_json_str(&b, "a\"b\\\n\x01 é \xf0\x9f\x98\x80 \xff");
	assert_string_equal(b.data, "\"a\\\"b\\\\\\n\\u0001 \\u00e9 \\ud83d\\ude00 \\udcff\"");
}

static void test_sizes_and_times(void **state)
{
	char s[160];

	rut_an_fmt_size(s, sizeof(s), 0);
	assert_string_equal(s, "0   B");
	rut_an_fmt_size(s, sizeof(s), 1023);
	assert_string_equal(s, "1023   B");
	rut_an_fmt_size(s, sizeof(s), 1024);
	assert_string_equal(s, "1.00 KiB");
	rut_an_fmt_size(s, sizeof(s), 1.5 * 1024 * 1024);
	assert_string_equal(s, "1.50 MiB");
	rut_an_fmt_time(s, sizeof(s), 1521484759831423009, true, true);
	assert_string_equal(s, "2018-03-19 18:39:19.831423009");
	rut_an_fmt_time(s, sizeof(s), -1, false, true);
	assert_string_equal(s, "23:59:59.999999999");
}

static void test_microseconds_are_written_as_printf_does(void **state)
{
	static const int64_t ns[] = {0,		 1,
				     9,		 10,
				     999,	 1000,
				     1001,	 999999,
				     1000000,	 1234567890123,
				     -1,	 -12345,
				     1000100010, 999999999999999};
	char got[64], expected[64];

	(void)state;
	for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++) {
		rut_an_fmt_us(got, sizeof(got), (double)ns[i]);
		snprintf(expected, sizeof(expected), "%0.03f", (double)ns[i] / 1000);
		assert_string_equal(got, expected);
	}
	rut_an_fmt_us(got, sizeof(got), 1234.5678);
	assert_string_equal(got, "1.235");
	assert_int_equal(rut_an_fmt_u64(got, UINT64_MAX), 20);
	assert_string_equal(got, "18446744073709551615");
}

static void test_padding_counts_characters(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_an_fmt_line(&b, "[{:<4}|{:>4}|{:<2}]", "é", "é", "abc");
	assert_string_equal(b.data, "[é   |   é|abc]");
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a / 10 - *(const int *)b / 10;
}

/* A graph of two rows at this many columns: the widths of its longest bar and of its longest line.
 */
static void graph_at(size_t columns, size_t *ret_bar, size_t *ret_line)
{
	struct rut_graph g = {0};
	struct rut_buf b = RUT_BUF_INIT;
	char *at;

	rut_an_graph_set_columns(columns);
	rut_an_graph_add(&g, 50, "50.00 %", 0, "ruby (1)");
	rut_an_graph_add(&g, 100, "100.00 %", 0, "ruby (22)");
	rut_an_graph_bars(&g, &b, "Usage", "Process");
	rut_an_graph_set_columns(0);
	*ret_bar = *ret_line = 0;
	for (char *line = strtok_r(b.data, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		size_t bar = 0, n = 0;

		for (const char *c = line; *c; c++)
			n += (*c & 0xc0) != 0x80;
		while (!strncmp(line + bar * strlen("█"), "█", strlen("█")))
			bar++;
		*ret_bar = bar > *ret_bar ? bar : *ret_bar;
		*ret_line = n > *ret_line ? n : *ret_line;
	}
	rut_buf_fini(&b);
}

static void test_graphs_fit_the_terminal(void **state)
{
	size_t bar, line;

	(void)state;
	graph_at(0, &bar, &line);
	assert_int_equal(bar, 80);
	graph_at(80, &bar, &line);
	assert_int_equal(line, 80);
	assert_int_equal(bar, 80 - strlen(" 100.00 % ruby (22)"));
	graph_at(200, &bar, &line);
	assert_int_equal(line, 200);
	graph_at(15, &bar, &line); /* too narrow: that many remain */
	assert_int_equal(bar, 10);
}

static void test_sorting_keeps_the_order_of_equals(void **state)
{
	int values[] = {31, 12, 33, 11, 32, 10, 25};
	static const int want[] = {12, 11, 10, 25, 31, 33, 32};
	void *list[7];

	for (int i = 0; i < 7; i++)
		list[i] = &values[i];
	assert_int_equal(rut_an_sort_stable(list, 7, by_value), 0);
	for (int i = 0; i < 7; i++)
		assert_int_equal(*(int *)list[i], want[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_are_exact),
		cmocka_unit_test(test_percentiles_are_within_their_bucket),
		cmocka_unit_test(test_values_count_how_often),
		cmocka_unit_test(test_floats_are_the_shortest_that_read_back),
		cmocka_unit_test(test_json_strings_are_ascii),
		cmocka_unit_test(test_sizes_and_times),
		cmocka_unit_test(test_microseconds_are_written_as_printf_does),
		cmocka_unit_test(test_padding_counts_characters),
		cmocka_unit_test(test_graphs_fit_the_terminal),
		cmocka_unit_test(test_sorting_keeps_the_order_of_equals),
	};

	return cmocka_run_group_tests_name("analysis", tests, NULL, NULL);
}
