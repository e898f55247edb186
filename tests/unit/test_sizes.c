/* SPDX-License-Identifier: MIT */
/* What --buffer gets: as much as rings can have, and a reason when that is less. */
#include "session/sizes.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static uint64_t taken(uint64_t buffer, uint64_t subbuf, int ncpus, uint64_t memory, uint64_t max,
		      const char *note)
{
	const struct rut_sizes_limits limits = {ncpus, memory, max};
	const struct rut_record_conf conf = {.buffer_bytes = buffer, .subbuf_bytes = subbuf};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_sizes s;

	assert_int_equal(rut_sizes_choose(&s, &conf, &limits, &err), 0);
	assert_in_range(s.count, 2, 256);
	assert_int_equal(s.count & (s.count - 1), 0);
	assert_string_equal(s.note, note);
	return (uint64_t)ncpus * s.count << s.shift;
}

static void test_honoured(void **state)
{
	for (uint64_t b = 64 << 10; b <= 2 * GIB; b *= 2)
		assert_int_equal(taken(b, 0, 2, 16 * GIB, RUT_SUBBUF_MAX, ""), b);
	assert_int_equal(taken(8 * GIB, 0, 2, 32 * GIB, RUT_SUBBUF_BIG, ""), 8 * GIB);
	assert_int_equal(taken(48 * MIB, 0, 3, 16 * GIB, RUT_SUBBUF_MAX, ""), 48 * MIB);
	assert_int_equal(taken(0, 0, 4, 16 * GIB, RUT_SUBBUF_MAX, ""), 64 * MIB);
}

static void test_less(void **state)
{
	assert_int_equal(
		taken(100 * MIB, 0, 2, 16 * GIB, RUT_SUBBUF_MAX,
		      "the buffer has 64M instead of 100M: each CPU's part is a power of two"),
		64 * MIB);
	assert_int_equal(taken(12 * GIB, 0, 2, 16 * GIB, RUT_SUBBUF_BIG,
			       "the buffer has 8G instead of 12G: at most half of the machine's "
			       "memory is taken"),
			 8 * GIB);
	assert_int_equal(taken(8 * GIB, 0, 2, 32 * GIB, RUT_SUBBUF_MAX,
			       "the buffer has 2G instead of 8G: this kernel has no larger rings"),
			 2 * GIB);
	assert_int_equal(
		taken(64 * MIB, 16 << 10, 2, 32 * GIB, RUT_SUBBUF_MAX,
		      "the buffer has 8M instead of 64M: a ring has at most 256 sub-buffers, "
		      "which --subbuf makes small"),
		8 * MIB);
}

static void test_too_small(void **state)
{
	const struct rut_sizes_limits limits = {4, 16 * GIB, RUT_SUBBUF_MAX};
	struct rut_record_conf conf = {.buffer_bytes = 64 << 10};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_sizes s;

	assert_int_equal(rut_sizes_choose(&s, &conf, &limits, &err), -EINVAL);
	assert_string_equal(err.msg,
			    "a buffer of 65536 bytes is too small for 4 CPUs: at least 131072");
	conf = (struct rut_record_conf){.subbuf_bytes = 8 << 10};
	assert_int_equal(rut_sizes_choose(&s, &conf, &limits, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_honoured),
		cmocka_unit_test(test_less),
		cmocka_unit_test(test_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
