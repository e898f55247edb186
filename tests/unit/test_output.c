/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "output/jsonl.h"
#include "output/table.h"
#include "output/text.h"

static void assert_fit(const char *in, size_t width, int flags, const char *want)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_text_fit(&b, in, width, flags);
	assert_string_equal(b.data ? b.data : "", want);
}

static void test_text_fits_its_width(void **state)
{
	assert_fit("abc", 5, 0, "abc  ");
	assert_fit("abc", 5, RUT_TEXT_RIGHT, "  abc");
	assert_fit("abcdef", 4, 0, "abcd");
	assert_fit("/srv/app/x.rb", 6, RUT_TEXT_RIGHT | RUT_TEXT_KEEP_RIGHT, "p/x.rb");
	assert_fit("", 2, 0, "  ");
	assert_fit("abc", 0, 0, "");
	/* Two columns each: what is left over is padded. */
	assert_fit("漢字", 4, 0, "漢字");
	assert_fit("漢字", 3, 0, "漢 ");
	assert_fit("漢字", 3, RUT_TEXT_KEEP_RIGHT, " 字");
	assert_fit("é=1", 3, RUT_TEXT_RIGHT, "é=1");
}

static void test_text_is_harmless(void **state)
{
	assert_int_equal(rut_text_width("a\x1b[31m"), 9);
	assert_fit("a\x1b[31m", 9, 0, "a\\x1b[31m");
	assert_fit("\xff\xc3", 8, 0, "\\xff\\xc3");
	assert_fit("\xe2\x80\xae", 6, 0, "\\u202e");
	assert_fit("\xc2\x9b", 4, 0, "\\x9b");
	/* Overlong, surrogate, too large: not UTF-8. */
	assert_int_equal(rut_text_width("\xc0\x80"), 8);
	assert_int_equal(rut_text_width("\xed\xa0\x80"), 12);
	assert_int_equal(rut_text_width("\xf5\x80\x80\x80"), 16);
}

/* Eight bytes are checked at once: none may hide among the others. */
static void test_no_byte_hides_among_plain_ones(void **state)
{
	for (int c = 1; c < 128; c++) {
		for (size_t at = 0; at < 17; at++) {
			_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
			char in[18] = "~ abcdefgh}~ ~ ~z", want[24];
			bool plain = c >= 0x20 && c < 0x7f;

			in[at] = (char)c;
			snprintf(want, sizeof(want), plain ? "%.*s%c%s" : "%.*s\\x%02x%s", (int)at,
				 in, c, in + at + 1);
			rut_text_add(&b, in);
			assert_string_equal(b.data, want);
			assert_int_equal(rut_text_width(in), strlen(want));
		}
	}
}

static void test_durations_have_three_digits(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} cases[] = {
		{0, "0ns"},
		{999, "999ns"},
		{1000, "1.00us"},
		{12345, "12.3us"},
		{999499, "999us"},
		{999500, "1.00ms"},
		{99949999, "99.9ms"},
		{99950000, "100ms"},
		{1234567890, "1.23s"},
		{99900000000, "99.9s"},
		{99949999999, "99.9s"},
		{99950000000, "100s"},
		{UINT64_MAX, "307445734m34s"},
		{200000000000, "3m20s"},
	};
	char buf[RUT_TEXT_DURATION_SIZE];

	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_text_number(&b, 0, 1);
	rut_text_number(&b, 42, 6);
	rut_text_number(&b, UINT64_MAX, 3);
	assert_string_equal(b.data, "000004218446744073709551615");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(rut_text_duration(buf, cases[i].ns), cases[i].want);
}

static const struct rut_table_column columns[] = {
	{.title = "FILENAME", .min_width = 8, .grow = true, .keep_right = true},
	{.title = "LINE"},
	{.title = "METHOD", .min_width = 6},
};

static void render(struct rut_buf *b, size_t width)
{
	struct rut_table t;

	rut_table_init(&t, columns, 3);
	rut_table_add(&t, "/srv/shop/lib/cart.rb");
	rut_table_addf(&t, "%d", 12);
	rut_table_add(&t, "Cart#total");
	rut_table_add(&t, "a.rb");
	rut_table_addf(&t, "%d", 1234567);
	rut_table_add(&t, "Ü.x");
	rut_buf_clear(b);
	rut_table_render(&t, b, width);
	rut_table_fini(&t);
}

static void test_tables_fit_the_width(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	render(&b, 0);
	assert_string_equal(b.data, "             FILENAME    LINE     METHOD\n"
				    "/srv/shop/lib/cart.rb      12 Cart#total\n"
				    "                 a.rb 1234567        Ü.x\n");
	render(&b, 45);
	assert_string_equal(b.data, "                  FILENAME    LINE     METHOD\n"
				    "     /srv/shop/lib/cart.rb      12 Cart#total\n"
				    "                      a.rb 1234567        Ü.x\n");
	/* The path gives way first, being the widest; then both, down to their least. */
	render(&b, 30);
	assert_string_equal(b.data, "   FILENAME    LINE     METHOD\n"
				    "lib/cart.rb      12 Cart#total\n"
				    "       a.rb 1234567        Ü.x\n");
	render(&b, 5);
	assert_string_equal(b.data, "FILENAME    LINE METHOD\n"
				    "/cart.rb      12 Cart#t\n"
				    "    a.rb 1234567    Ü.x\n");
}

static void test_long_names_lose_their_middle(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char name[4097], want[RUT_TABLE_CELL_MAX + 1];
	struct rut_table t;

	(void)state;
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = (char)('a' + i % 26);
	name[sizeof(name) - 1] = '\0';
	memcpy(want, name, 99);
	memcpy(want + 99, "...", 3);
	memcpy(want + 102, name + sizeof(name) - 1 - 98, 99);
	rut_table_init(&t, columns, 3);
	rut_table_add(&t, "a.rb");
	rut_table_add(&t, "1");
	rut_table_add(&t, name);
	rut_table_render(&t, &b, 0);
	assert_int_equal(strcspn(b.data, "\n"), strlen("FILENAME LINE ") + RUT_TABLE_CELL_MAX);
	assert_non_null(strstr(b.data, "    a.rb    1 "));
	assert_non_null(strstr(b.data, want));
	assert_int_equal(strlen(want), RUT_TABLE_CELL_MAX);
	/* In a screen's width columns give way as ever. */
	rut_buf_clear(&b);
	rut_table_render(&t, &b, 40);
	assert_int_equal(strcspn(b.data, "\n"), 40);
	assert_null(strstr(b.data, "..."));
	rut_table_fini(&t);
}

/* Cells of a row stay near each other on a wide screen. */
static void test_tables_are_not_stretched_without_end(void **state)
{
	static const struct rut_table_column two[] = {{.title = "FILE", .grow = true},
						      {.title = "N"}};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_table t;

	(void)state;
	rut_table_init(&t, two, 2);
	rut_table_add(&t, "a.rb");
	rut_table_add(&t, "1");
	rut_table_render(&t, &b, 80);
	assert_int_equal(strcspn(b.data, "\n"), 80);
	rut_buf_clear(&b);
	rut_table_render(&t, &b, 200);
	assert_int_equal(strcspn(b.data, "\n"), RUT_TABLE_STRETCH);
	rut_table_fini(&t);
}

static void test_wrapped_lines(void **state)
{
	static const struct {
		const char *text;
		size_t width;
		const char *want;
	} cases[] = {
		{"one two three\n", 13, "one two three\n"},
		{"one two three\n", 12, "one two\n  three\n"},
		{"  one two three\n\nx", 9, "  one two\n    three\n\nx\n"},
		{"    abcdefghij k\n", 8, "    abcd\n      ef\n      gh\n      ij\n      k\n"},
		{"漢漢漢 漢\n", 6, "漢漢漢\n  漢\n"},
		{"漢漢漢漢\n", 7, "漢漢漢\n  漢\n"},
		{"table    \n", 5, "table\n"}, /* what was padded for a wider screen */
		{"ab\n", 0, "\n"},
		{"", 10, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

		rut_text_wrap(&b, cases[i].text, cases[i].width);
		if (cases[i].want)
			assert_string_equal(b.data, cases[i].want);
		else
			assert_null(b.data);
	}
}

static void test_jsonl_is_read_by_json_c(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct json_object *o, *v;

	for (int i = 0; i < 2; i++) {
		rut_jsonl_begin(&b);
		rut_jsonl_str(&b, "file", "a\"b\\c\n\x01\x7f\xff é漢");
		rut_jsonl_str(&b, "none", NULL);
		rut_jsonl_u64(&b, "ns", UINT64_MAX);
		rut_jsonl_bool(&b, "final", true);
		rut_jsonl_array_open(&b, "callers");
		for (uint64_t k = 0; k < 2; k++) {
			rut_jsonl_begin(&b);
			rut_jsonl_u64(&b, "k", k);
			rut_jsonl_close(&b);
		}
		rut_jsonl_array_close(&b);
		rut_jsonl_u64(&b, "last", 7);
		rut_jsonl_end(&b);
	}
	assert_memory_equal(b.data, strchr(b.data, '\n') + 1, b.len / 2);
	*strchr(b.data, '\n') = '\0';
	o = json_tokener_parse(b.data);
	assert_non_null(o);
	assert_true(json_object_object_get_ex(o, "file", &v));
	assert_string_equal(json_object_get_string(v), "a\"b\\c\n\x01\x7f\xef\xbf\xbd é漢");
	assert_true(json_object_object_get_ex(o, "none", &v));
	assert_null(v);
	assert_true(json_object_object_get_ex(o, "ns", &v));
	assert_true(json_object_get_uint64(v) == UINT64_MAX);
	assert_true(json_object_object_get_ex(o, "callers", &v));
	assert_int_equal(json_object_array_length(v), 2);
	assert_true(json_object_object_get_ex(o, "last", &v));
	json_object_put(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_fits_its_width),
		cmocka_unit_test(test_text_is_harmless),
		cmocka_unit_test(test_no_byte_hides_among_plain_ones),
		cmocka_unit_test(test_durations_have_three_digits),
		cmocka_unit_test(test_tables_fit_the_width),
		cmocka_unit_test(test_long_names_lose_their_middle),
		cmocka_unit_test(test_tables_are_not_stretched_without_end),
		cmocka_unit_test(test_wrapped_lines),
		cmocka_unit_test(test_jsonl_is_read_by_json_c),
	};

	rut_text_init();
	return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
