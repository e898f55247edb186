/* SPDX-License-Identifier: MIT */
/* The table of Ruby versions: complete, in order, and nothing but released versions at its ends. */
#include "unit.h"

#include "ruby_abi/ruby_abi.h"

static void test_numbers_of_versions(void **state)
{
	assert_int_equal(rut_ruby_abi_number("3.1.2"), 301);
	assert_int_equal(rut_ruby_abi_number("2.5.9"), 205);
	assert_int_equal(rut_ruby_abi_number("4.1.0dev"), 401);
	assert_int_equal(rut_ruby_abi_number(""), 0);
	assert_int_equal(rut_ruby_abi_number("3"), 0);
	assert_int_equal(rut_ruby_abi_number("x.1.2"), 0);
	assert_int_equal(rut_ruby_abi_number("10.1"), 0);
}

static void test_versions_without_a_row(void **state)
{
	static const int unknown[] = {0, 108, 204, 208, 305, 402, 500};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		assert_null(rut_ruby_abi_get(unknown[i]));
}

static void test_the_ends_are_released(void **state)
{
	assert_int_equal(rut_ruby_abi_oldest()->version, 205);
	assert_int_equal(rut_ruby_abi_newest()->version, 400);
	assert_false(rut_ruby_abi_newest()->unreleased);
	assert_true(rut_ruby_abi_get(401)->unreleased);
}

/* A layout that one macro gives and another forgets would be 0. */
static void test_rows_are_complete(void **state)
{
	for (int number = 200; number < 500; number++) {
		const struct rut_ruby_abi *r = rut_ruby_abi_get(number);

		if (!r)
			continue;
		assert_int_equal(r->version, number);
		assert_true(r->array_embed_mask == 3 || r->array_embed_mask == 127);
		assert_true(r->promoted_mask == 0x60 || r->promoted_mask == 0x20);
		assert_int_equal(r->has_ractors, number >= 300);
		assert_true(!r->walks_frames || r->frame_words);
		if (!r->insns_info)
			continue;
		assert_true(r->frame_words == 7 || r->frame_words == 8);
		assert_true(r->insn_info_bytes == 8 || r->insn_info_bytes == 12);
		assert_true(r->singleton_flag == 1u << 12 || r->singleton_flag == 1u << 13);
		assert_int_equal(r->ec_is_tls, number >= 300);
		assert_int_equal(!r->ec_is_tls, r->thread_ec && r->thread_pthread);
		assert_int_equal(r->string_len_word, number >= 302);
		assert_int_equal(r->line_is_value, number < 302);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_of_versions),
		cmocka_unit_test(test_versions_without_a_row),
		cmocka_unit_test(test_the_ends_are_released),
		cmocka_unit_test(test_rows_are_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
