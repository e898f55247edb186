/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "agent/abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/foreman_tracer.h"
#include "cli/ruby_rows.h"
#include "cli/ruby_target.h"
#include "output/text.h"

static struct rut_ruby_row method(pid_t pid, const char *class_name, const char *name,
				  uint32_t line, uint64_t calls)
{
	return (struct rut_ruby_row){.pid = pid,
				     .path = "/srv/a.rb",
				     .line = line,
				     .class_name = class_name,
				     .method_name = name,
				     .calls = calls,
				     .total_ns = calls * 100,
				     .self_ns = calls * 10,
				     .max_ns = calls};
}

static struct rut_ruby_row object(pid_t pid, const char *class_name, uint32_t line, uint64_t count)
{
	return (struct rut_ruby_row){.pid = pid,
				     .path = "/srv/a.rb",
				     .line = line,
				     .class_name = class_name,
				     .count = count,
				     .bytes = count * 40};
}

static void test_processes_are_added_up(void **state)
{
	struct rut_ruby_row in[] = {
		method(1, "A", "x", 3, 5), method(2, "A", "x", 3, 7),  method(2, "A", "y", 3, 1),
		method(2, "B", "x", 3, 2), method(2, NULL, "x", 3, 4), method(1, "A", "x", 4, 3),
		method(1, "A", "z", 9, 0),
	};
	struct rut_rows rows;

	in[3].singleton = true;
	for (int per_process = 0; per_process < 2; per_process++) {
		rut_cli_rows_init(&rows, RUT_RUBY_TIME, per_process);
		assert_int_equal(rut_cli_rows_update(&rows, in, 7, 1), 0);
		assert_int_equal(rows.count, per_process ? 6 : 5); /* what was not called: no row */
		assert_int_equal(rows.sum_calls, 22);
		assert_string_equal(rows.order[0]->r.method_name, "x");
		assert_int_equal(rows.order[0]->r.calls, per_process ? 7 : 12);
		assert_int_equal(rows.order[0]->r.total_ns, per_process ? 700 : 1200);
		assert_int_equal(rows.order[0]->r.self_ns, per_process ? 70 : 120);
		assert_int_equal(rows.order[0]->r.max_ns, 7);
		assert_int_equal(rows.order[0]->r.pid, per_process ? 2 : 0);
		rut_cli_rows_fini(&rows);
	}
	/* Names apart where only the kind of method, or nothing but the boundary, differs. */
	in[0] = method(1, "A", "b", 1, 1);
	in[1] = method(1, "A", "b", 1, 1);
	in[1].singleton = true;
	in[2] = method(1, "Ab", "", 1, 1);
	rut_cli_rows_init(&rows, RUT_RUBY_CALLS, false);
	assert_int_equal(rut_cli_rows_update(&rows, in, 3, 1), 0);
	assert_int_equal(rows.count, 3);
	rut_cli_rows_fini(&rows);
}

static void test_objects_are_by_line_and_class_or_by_class(void **state)
{
	const struct rut_ruby_row in[] = {object(1, "A", 1, 5), object(1, "A", 2, 6),
					  object(2, "A", 1, 7), object(1, "B", 1, 1)};
	struct rut_rows rows;

	rut_cli_rows_init(&rows, RUT_RUBY_OBJECTS, false);
	assert_int_equal(rut_cli_rows_update(&rows, in, 4, 1), 0);
	assert_int_equal(rows.count, 3);
	assert_int_equal(rows.order[0]->r.count, 12);
	assert_int_equal(rows.order[0]->r.bytes, 480);
	assert_int_equal(rows.order[1]->r.line, 2);
	rut_cli_rows_fini(&rows);
	rut_cli_rows_init(&rows, RUT_RUBY_OBJECTS_TOTAL, false);
	assert_int_equal(rut_cli_rows_update(&rows, in, 4, 1), 0);
	assert_int_equal(rows.count, 2);
	assert_int_equal(rows.order[0]->r.count, 18);
	rut_cli_rows_fini(&rows);
}

static void test_rates_are_of_the_last_interval(void **state)
{
	struct rut_ruby_row in = method(1, "A", "x", 1, 100);
	struct rut_rows rows;

	rut_cli_rows_init(&rows, RUT_RUBY_CALLS, false);
	rut_cli_rows_update(&rows, &in, 1, 2);
	assert_int_equal((int)rows.order[0]->rate, 50);
	in.calls = 130;
	rut_cli_rows_update(&rows, &in, 1, 0); /* too early: the rate stays */
	assert_int_equal((int)rows.order[0]->rate, 50);
	rut_cli_rows_update(&rows, &in, 1, 0.5);
	assert_int_equal((int)rows.order[0]->rate, 60);
	rut_cli_rows_reset(&rows);
	rut_cli_rows_update(&rows, NULL, 0, 1);
	assert_int_equal(rows.count, 0);
	in.calls = 7;
	rut_cli_rows_update(&rows, &in, 1, 1);
	assert_int_equal((int)rows.order[0]->rate, 7);
	/* Another tool's reset under our feet: counters went back. */
	in.calls = 3;
	rut_cli_rows_update(&rows, &in, 1, 1);
	assert_int_equal((int)rows.order[0]->rate, 3);
	rut_cli_rows_fini(&rows);
}

/* Against a plain sum: 40 methods in 5 processes, growing at random over 50 readings. */
static void test_sums_agree_with_an_array(void **state)
{
	static char names[40][16];
	static struct rut_ruby_row in[200];
	struct rut_rows rows;

	srand(7);
	rut_cli_rows_init(&rows, RUT_RUBY_CALLS, false);
	for (int m = 0; m < 40; m++)
		snprintf(names[m], sizeof(names[m]), "m%d", m);
	for (int i = 0; i < 200; i++)
		in[i] = method(1 + i / 40, "A", names[i % 40], 1, 0);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 200; i++)
			in[i].calls += (uint64_t)(rand() % 100) + 1;
		assert_int_equal(rut_cli_rows_update(&rows, in, 200, 1), 0);
		assert_int_equal(rows.count, 40);
		for (size_t k = 0; k < rows.count; k++) {
			uint64_t want = 0;

			for (int i = 0; i < 200; i++)
				if (!strcmp(in[i].method_name, rows.order[k]->r.method_name))
					want += in[i].calls;
			assert_int_equal(rows.order[k]->r.calls, want);
			if (k)
				assert_true(rows.order[k - 1]->r.calls >= rows.order[k]->r.calls);
		}
	}
	rut_cli_rows_fini(&rows);
}

static void test_every_column_sorts(void **state)
{
	struct rut_ruby_row in[] = {method(1, "A", "x", 3, 5), method(2, "B", "y", 2, 7),
				    method(3, "C", "z", 1, 6)};
	static const struct {
		const char *column, *first;
	} cases[] = {{"pid", "x"},   {"file", "z"}, {"line", "z"}, {"method", "x"}, {"calls", "y"},
		     {"total", "y"}, {"self", "x"}, {"mean", "z"}, {"max", "y"}};
	struct rut_rows rows;

	in[0].self_ns = 1000;
	in[2].total_ns = 690;
	rut_cli_rows_init(&rows, RUT_RUBY_TIME, true);
	rut_cli_rows_update(&rows, in, 3, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		rows.sort = rut_cli_rows_find_column(RUT_RUBY_TIME, true, cases[i].column);
		assert_int_not_equal(rows.sort, RUT_COL_NONE);
		rows.reverse = false;
		rut_cli_rows_sort(&rows);
		assert_string_equal(rows.order[0]->r.method_name, cases[i].first);
	}
	assert_int_equal(rut_cli_rows_find_column(RUT_RUBY_CALLS, false, "bytes"), RUT_COL_NONE);
	assert_int_equal(rut_cli_rows_find_column(RUT_RUBY_CALLS, false, "pid"), RUT_COL_NONE);
	rut_cli_rows_fini(&rows);
}

static void test_text_filter_and_scroll(void **state)
{
	const struct rut_ruby_row in[] = {method(1, "Cart", "x", 1, 9),
					  method(1, "Item", "y", 2, 8),
					  method(1, "Item", "z", 3, 7)};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_rows rows;

	rut_cli_rows_init(&rows, RUT_RUBY_CALLS, false);
	rut_cli_rows_update(&rows, in, 3, 1);
	rut_cli_rows_print(&rows, &b, 0, 1, 1, "Item#");
	assert_string_equal(b.data, " FILENAME LINE METHOD CALLS PER SEC\n"
				    "/srv/a.rb    3 Item#z     7     7.0\n");
	assert_true(rut_cli_row_matches(&in[0], "a.rb"));
	assert_false(rut_cli_row_matches(&in[0], "A.rb"));
	rut_cli_rows_fini(&rows);
}

static void test_foreman_columns(void **state)
{
	struct rut_ruby_row in[] = {method(1, "A", "x", 3, 5), method(1, "B", "x", 3, 7),
				    method(1, "B", "y", 3, 1234567)};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char want[1024];
	struct rut_rows rows;

	in[2].path =
		"/srv/"
		"12345678901234567890123456789012345678901234567890123456789012345678901234567890";
	rut_cli_rows_init(&rows, RUT_RUBY_CALLS, false);
	rut_cli_rows_update(&rows, in, 3, 1);
	assert_int_equal(rut_cli_foreman_table(&b, RUT_RUBY_CALLS, &rows, 25), 0);
	/* Its rows know no class; numbers too large are not cut, paths keep their right end. */
	snprintf(want, sizeof(want), "%80s %6s %30s %6s\n%80s %6d %30s %6d\n%80s %6d %30s %6d\n",
		 "FILENAME", "LINE", "METHOD", "CALLS", in[2].path + 5, 3, "y", 1234567,
		 "/srv/a.rb", 3, "x", 12);
	assert_string_equal(b.data, want);
	rut_buf_clear(&b);
	rut_cli_foreman_table(&b, RUT_RUBY_OBJECTS_TOTAL, &rows, 0);
	snprintf(want, sizeof(want), "%110s %8s\n", "OBJECT", "COUNT");
	assert_string_equal(b.data, want);
	rut_buf_clear(&b);
	rut_cli_foreman_table(&b, RUT_RUBY_OBJECTS, &rows, 0);
	snprintf(want, sizeof(want), "%70s %6s %40s %6s\n", "FILENAME", "LINE", "OBJECT", "COUNT");
	assert_string_equal(b.data, want);
	rut_buf_clear(&b);
	rut_cli_foreman_table(&b, RUT_RUBY_STRINGS, &rows, 0);
	snprintf(want, sizeof(want), "%90s %6s %6s\n", "FILENAME", "LINE", "COUNT");
	assert_string_equal(b.data, want);
	rut_cli_rows_fini(&rows);
}

static bool has(const struct rut_words *w, const char *word)
{
	for (size_t i = 0; i < w->count; i++)
		if (!strcmp(w->v[i], word))
			return true;
	return false;
}

static void test_app_is_its_root_without_gems(void **state)
{
	struct rut_targets t = {0};

	assert_int_equal(rut_cli_targets_add_app(&t, "/srv/a[1]*", false), 0);
	assert_int_equal(t.app_paths.count, 2);
	assert_true(has(&t.app_paths, "[!/<(]*"));
	assert_true(has(&t.app_paths, "/srv/a\\[1]\\*/*"));
	assert_true(has(&t.not_paths, "/srv/a\\[1]\\*/vendor/bundle/*"));
	rut_cli_targets_fini(&t);
	t = (struct rut_targets){0};
	assert_int_equal(rut_cli_targets_add_app(&t, "/usr/share/foreman", true), 0);
	assert_true(has(&t.app_paths, "/usr/share/foreman*"));
	assert_true(has(&t.app_paths, "*/gems/dynflow*"));
	rut_cli_targets_fini(&t);
	/* The root of the file system is not an application. */
	t = (struct rut_targets){0};
	assert_int_equal(rut_cli_targets_add_app(&t, "/", false), 0);
	assert_int_equal(t.app_paths.count, 0);
	rut_cli_targets_fini(&t);
}

/* Each duration is in its bucket, and percentiles are those of the durations, nearly. */
static void test_percentiles(void **state)
{
	enum { CALLS = 10000 };
	struct rut_ruby_buckets one = {.tick_ns = 0.5}, two = one;
	struct rut_ruby_row in[] = {
		{.pid = 1,
		 .class_name = "A",
		 .method_name = "a",
		 .calls = CALLS / 2,
		 .max_ns = CALLS * 1000,
		 .buckets = &one},
		{.pid = 2,
		 .class_name = "A",
		 .method_name = "a",
		 .calls = CALLS / 2,
		 .max_ns = CALLS * 1000,
		 .buckets = &two},
	};
	struct rut_rows rows;

	for (unsigned i = 0; i < RUT_BUCKETS - 1; i++) {
		assert_int_equal(rut_bucket(rut_bucket_ticks(i)), i);
		assert_int_equal(rut_bucket(rut_bucket_ticks(i + 1) - 1), i);
	}
	assert_int_equal(rut_bucket(UINT64_MAX), RUT_BUCKETS - 1);
	/* Of 1000, 2000, ... nanoseconds. */
	for (uint64_t i = 1; i <= CALLS; i++)
		(i % 2 ? &one : &two)->calls[rut_bucket(i * 1000 * 2)]++;
	rut_cli_rows_init(&rows, RUT_RUBY_TIME, RUT_ROWS_PERCENTILES);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(rut_cli_rows_update(&rows, in, 2, 1), 0);
		assert_int_equal(rows.count, 1);
		for (int percent = 1; percent < 100; percent++) {
			double want = percent * 0.01 * CALLS * 1000;
			double got =
				(double)rut_cli_row_percentile(&rows.order[0]->r, percent * 0.01);

			assert_true(got > want * 0.98 && got < want * 1.02);
		}
	}
	rut_cli_rows_fini(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_processes_are_added_up),
		cmocka_unit_test(test_objects_are_by_line_and_class_or_by_class),
		cmocka_unit_test(test_rates_are_of_the_last_interval),
		cmocka_unit_test(test_sums_agree_with_an_array),
		cmocka_unit_test(test_every_column_sorts),
		cmocka_unit_test(test_text_filter_and_scroll),
		cmocka_unit_test(test_foreman_columns),
		cmocka_unit_test(test_app_is_its_root_without_gems),
	};

	rut_text_init();
	return cmocka_run_group_tests_name("ruby_rows", tests, NULL, NULL);
}
