/* SPDX-License-Identifier: MIT */
/* The cost of a program, out of what the kernel measured. */
#include "session/budget.h"
#include "unit.h"

#include <string.h>

#define LEN(a) (sizeof(a) / sizeof(*(a)))

static void test_steady(void **state)
{
	struct rut_budget_slice s[] = {{100, 7000}, {50, 3600}, {200, 14200}};

	assert_int_equal(rut_budget_typical_ns(s, LEN(s)), 71);
}

/* The hypervisor took the CPU away in one slice, for 4 ms: the mean of all would be 2,250 ns. */
static void test_stolen_time(void **state)
{
	struct rut_budget_slice s[10];

	for (size_t i = 0; i < 10; i++)
		s[i] = (struct rut_budget_slice){200, 200 * (70 + i)};
	s[3].ns += 4000000;
	assert_in_range(rut_budget_typical_ns(s, 10), 70, 79);
	/* ... in four of ten. */
	for (size_t i = 0; i < 10; i++)
		s[i] = (struct rut_budget_slice){200, 200 * (70 + i) + (i % 5 < 2 ? 4000000 : 0)};
	assert_in_range(rut_budget_typical_ns(s, 10), 70, 79);
}

/* What ran seldom weighs little; where nothing ran is no measure. */
static void test_uneven(void **state)
{
	struct rut_budget_slice s[] = {{0, 0},	 {1, 90000}, {0, 0}, {1000, 150000},
				       {1, 800}, {1, 70000}, {0, 0}, {2, 100000}};

	assert_int_equal(rut_budget_typical_ns(s, LEN(s)), 150);
}

static void test_too_few(void **state)
{
	struct rut_budget_slice s[] = {{10, 700}, {9, 630}}, none[4] = {{0, 0}};

	assert_int_equal(rut_budget_typical_ns(s, LEN(s)), 0);
	assert_int_equal(rut_budget_typical_ns(none, LEN(none)), 0);
	assert_int_equal(rut_budget_typical_ns(NULL, 0), 0);
	s[1].runs = 10;
	assert_int_equal(rut_budget_typical_ns(s, LEN(s)), 63);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_stolen_time),
		cmocka_unit_test(test_uneven),
		cmocka_unit_test(test_too_few),
	};

	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
