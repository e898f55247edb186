/* SPDX-License-Identifier: MIT */
/* Counts of heaps, subtracted and added up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "cli/heap_rows.h"

static struct rut_ruby_heap_row row(pid_t pid, const char *path, uint32_t line, const char *class,
				    uint64_t count, uint64_t bytes, uint64_t old)
{
	return (struct rut_ruby_heap_row){.pid = pid,
					  .path = path,
					  .line = line,
					  .class_name = class,
					  .count = count,
					  .bytes = bytes,
					  .old = old,
					  .old_bytes = old * 40,
					  .generations = path ? 1ull << count % 8 : 0,
					  .oldest = path ? (uint32_t)count % 8 : 0};
}

static const char *text(struct rut_buf *b, const struct rut_heap_table *t, size_t limit)
{
	rut_buf_clear(b);
	rut_cli_heap_table_print(t, b, 0, limit);
	return b->data;
}

static void classes_are_added_up_over_lines_and_processes(void **state)
{
	struct rut_ruby_heap_row rows[] = {
		row(1, NULL, 0, "String", 100, 4000, 90), row(1, "a.rb", 3, "String", 10, 400, 1),
		row(1, "a.rb", 3, "Gone", 0, 0, 0),	  row(2, NULL, 0, "Array", 7, 9000, 7),
		row(2, NULL, 0, "String", 1, 40, 0),
	};
	struct rut_heap_look look = {.rows = rows, .count = 5};
	struct rut_heap_table t = {0};
	struct rut_buf b = RUT_BUF_INIT;

	(void)state;
	assert_int_equal(rut_cli_heap_table_build(&t, NULL, &look), 0);
	assert_string_equal(text(&b, &t, 0), "OBJECT COUNT BYTES OLD\n"
					     " Array     7  9000   7\n"
					     "String   111  4440  91\n");
	assert_int_equal(t.processes, 2);
	assert_int_equal(t.now.count, 118);
	rut_cli_heap_table_fini(&t);
	t.sort = RUT_HEAP_SORT_COUNT;
	assert_int_equal(rut_cli_heap_table_build(&t, NULL, &look), 0);
	assert_string_equal(text(&b, &t, 1), "OBJECT COUNT BYTES OLD\n"
					     "String   111  4440  91\n");
	rut_cli_heap_table_fini(&t);
	rut_buf_fini(&b);
}

/* What survived comes before what is only there, and what became less last. */
static void growth_is_sorted_by_what_survived(void **state)
{
	struct rut_ruby_heap_row first[] = {
		row(1, "a.rb", 3, "String", 100, 4000, 100),
		row(1, NULL, 0, "String", 50, 2000, 50), row(1, "a.rb", 9, "Array", 5, 200, 5),
		row(3, "a.rb", 3, "String", 1000, 40000, 0), /* has ended */
	};
	struct rut_ruby_heap_row second[] = {
		row(1, "a.rb", 3, "String", 103, 4120, 103),
		row(1, "b.rb", 1, "String", 900, 36000, 0),
		row(1, NULL, 0, "String", 40, 1600, 40),
		row(1, "a.rb", 9, "Array", 5, 200, 5),
		row(2, "a.rb", 3, "String", 1000, 40000, 0), /* has begun */
	};
	struct rut_heap_look before = {.rows = first, .count = 4},
			     now = {.rows = second, .count = 5};
	struct rut_heap_table t = {.by_line = true};
	struct rut_buf b = RUT_BUF_INIT;

	(void)state;
	assert_int_equal(rut_cli_heap_table_build(&t, &before, &now), 0);
	assert_string_equal(text(&b, &t, 0),
			    "FILENAME LINE OBJECT +COUNT +BYTES COUNT BYTES OLD GENS OLDEST\n"
			    "    a.rb    3 String     +3   +120   103  4120 103    1      7\n"
			    "    b.rb    1 String   +900 +36000   900 36000   0    1      4\n"
			    "       -    - String    -10   -400    40  1600  40    0      -\n");
	assert_int_equal(t.processes, 1);
	assert_int_equal(t.left_out, 2);
	assert_int_equal(t.before.count, 155);
	rut_buf_clear(&b);
	rut_cli_heap_table_json(&t, &b, 1, 2);
	assert_string_equal(b.data, "{\"look\":2,\"file\":\"a.rb\",\"line\":3,\"class\":\"String\","
				    "\"count\":103,\"bytes\":4120,\"old\":103,\"old_bytes\":4120,"
				    "\"grew_count\":3,\"grew_bytes\":120,\"grew_old\":3,"
				    "\"grew_old_bytes\":120,\"born\":0,\"generations\":1,"
				    "\"oldest\":7}\n");
	rut_cli_heap_table_fini(&t);
	rut_buf_fini(&b);
}

static void names_of_columns(void **state)
{
	(void)state;
	assert_int_equal(rut_cli_heap_sort_find("gens"), RUT_HEAP_SORT_GENERATIONS);
	assert_int_equal(rut_cli_heap_sort_find("growth"), RUT_HEAP_SORT_GROWTH);
	assert_int_equal(rut_cli_heap_sort_find("file"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_added_up_over_lines_and_processes),
		cmocka_unit_test(growth_is_sorted_by_what_survived),
		cmocka_unit_test(names_of_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
