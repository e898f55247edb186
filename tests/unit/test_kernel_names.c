/* SPDX-License-Identifier: MIT */
/* Names of kernel functions are those of /proc/kallsyms, which is read once a minute at most. */
#include "session/kernel_names.h"
#include "unit.h"

#include "probe/kallsyms.h"

#define SECOND	1000000000ull
#define PROGRAM 0xffffffffc0000000ull

static int opened, missing;

int __real_rut_kallsyms_open(struct rut_kallsyms **ret, bool data);
int __wrap_rut_kallsyms_open(struct rut_kallsyms **ret, bool data);

int __wrap_rut_kallsyms_open(struct rut_kallsyms **ret, bool data)
{
	opened++;
	return missing ? -missing : __real_rut_kallsyms_open(ret, data);
}

/* Programs of eBPF: each has a number, and one that is not there yet when names are read has its
 * name in what is read later. */
static uint32_t programs;
static bool made_up;

int __wrap_bpf_prog_get_next_id(uint32_t start, uint32_t *next);
const char *__real_rut_kallsyms_find(const struct rut_kallsyms *k, uint64_t address,
				     uint64_t *ret_distance);
const char *__wrap_rut_kallsyms_find(const struct rut_kallsyms *k, uint64_t address,
				     uint64_t *ret_distance);

int __wrap_bpf_prog_get_next_id(uint32_t start, uint32_t *next)
{
	if (start >= programs)
		return -2;
	*next = start + 1;
	return 0;
}

const char *__wrap_rut_kallsyms_find(const struct rut_kallsyms *k, uint64_t address,
				     uint64_t *ret_distance)
{
	if (!made_up || address < PROGRAM)
		return __real_rut_kallsyms_find(k, address, ret_distance);
	*ret_distance = address - PROGRAM;
	return opened == 1 ? "before" : "its own";
}

/* A program that is loaded later does not get the name of the one before it. */
static void test_programs(void **state)
{
	struct rut_kernel_names n = {0};
	struct rut_kallsyms *k;
	uint64_t address;

	assert_int_equal(__real_rut_kallsyms_open(&k, false), 0);
	address = rut_kallsyms_address(k, "schedule");
	rut_kallsyms_free(k);
	if (!address)
		skip(); /* hidden here */
	opened = missing = 0;
	programs = 5;
	made_up = true;
	assert_string_equal(rut_kernel_names_find(&n, PROGRAM + 100, SECOND), "before");
	assert_string_equal(rut_kernel_names_find(&n, PROGRAM + 70000, SECOND), "?");
	assert_int_equal(opened, 1);
	programs++;
	/* The kernel's own functions are where they were. */
	assert_string_equal(rut_kernel_names_find(&n, address, 3 * SECOND / 2), "schedule");
	assert_string_equal(rut_kernel_names_find(&n, PROGRAM + 200, 3 * SECOND / 2), "?");
	assert_int_equal(opened, 1);
	assert_string_equal(rut_kernel_names_find(&n, PROGRAM + 200, 2 * SECOND), "its own");
	assert_string_equal(rut_kernel_names_find(&n, PROGRAM + 300, 4 * SECOND), "its own");
	assert_int_equal(opened, 2);
	rut_kernel_names_fini(&n);
	made_up = false;
	programs = 0;
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
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
