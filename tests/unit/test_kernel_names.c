/* SPDX-License-Identifier: MIT */
/* Names of kernel functions are those of /proc/kallsyms, which is read once a minute at most. */
#include "session/kernel_names.h"
#include "unit.h"

#include "probe/kallsyms.h"

#define SECOND 1000000000ull

static int opened, missing;

int __real_rut_kallsyms_open(struct rut_kallsyms **ret, bool data);
int __wrap_rut_kallsyms_open(struct rut_kallsyms **ret, bool data);

int __wrap_rut_kallsyms_open(struct rut_kallsyms **ret, bool data)
{
	opened++;
	return missing ? -missing : __real_rut_kallsyms_open(ret, data);
}

static void test_names(void **state)
{
	struct rut_kernel_names n = {0};
	struct rut_kallsyms *k;
	uint64_t address, distance;

	opened = missing = 0;
	assert_int_equal(__real_rut_kallsyms_open(&k, false), 0);
	address = rut_kallsyms_address(k, "schedule");
	for (uint64_t i = 1; i < 1000; i++) {
		const char *want = rut_kallsyms_find(k, address + i * 64, &distance);

		assert_string_equal(rut_kernel_names_find(&n, address + i * 64, i * SECOND / 20),
				    want ? want : "?");
		rut_kernel_names_age(&n, i * SECOND / 20);
	}
	assert_int_equal(opened, 1);
	/* Modules come and go. */
	rut_kernel_names_age(&n, 100 * SECOND);
	assert_null(n.syms);
	rut_kernel_names_find(&n, address, 100 * SECOND);
	assert_int_equal(opened, 2);
	rut_kernel_names_fini(&n);
	rut_kallsyms_free(k);
}

/* Where it cannot be read this is not tried for each function. */
static void test_unreadable(void **state)
{
	struct rut_kernel_names n = {0};

	opened = 0;
	missing = 13;
	for (uint64_t i = 1; i < 100; i++)
		assert_string_equal(rut_kernel_names_find(&n, ~0ull << 32 | i, SECOND), "?");
	assert_int_equal(opened, 1);
	rut_kernel_names_fini(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
