/* SPDX-License-Identifier: MIT */
/* What is expected here is what bpftrace prints (0.27.1, and 0.17 where a comment says so). */
#include "unit.h"

#include <arpa/inet.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/format.h"
#include "script/hist.h"
#include "script/output.h"
#include "script/symbolize.h"

#define INT_TYPE(bytes, sign)                                                                      \
	{                                                                                          \
		.kind = RUT_T_INT, .size = bytes, .align = bytes, .is_signed = sign                \
	}

static const struct rut_type int8_type = INT_TYPE(1, true);
static const struct rut_type int32_type = INT_TYPE(4, true);
static const struct rut_type int64_type = INT_TYPE(8, true);
static const struct rut_type uint64_type = INT_TYPE(8, false);
static const struct rut_type bool_type = {.kind = RUT_T_BOOL, .size = 1, .align = 1};
static const struct rut_type str_type = {.kind = RUT_T_STRING, .size = 16, .align = 1};
static const struct rut_type buf_type = {.kind = RUT_T_BUF, .size = 20, .align = 4};
static const struct rut_type pointer_type = {.kind = RUT_T_POINTER, .size = 8, .align = 8};
static const struct rut_type hist_type = {.kind = RUT_T_HIST, .is_signed = true};
static const struct rut_type fine_type = {.kind = RUT_T_HIST, .is_signed = true, .bits = 3};
static const struct rut_type stats_type = {.kind = RUT_T_STATS, .is_signed = true};
static const struct rut_type avg_type = {.kind = RUT_T_AVG, .is_signed = true, .size = 16};

static const struct rut_script_style plain;

/* A record of fields of 32 bytes each, which is room for every type here. */
struct args {
	struct rut_type tuple;
	struct rut_type_field fields[8];
	char data[8 * 32];
};

static void add_arg(struct args *a, const struct rut_type *t, const void *v, size_t len)
{
	uint32_t n = a->tuple.nfields++;

	a->fields[n] = (struct rut_type_field){.type = t, .offset = n * 32};
	memcpy(a->data + (size_t)n * 32, v, len);
	a->tuple.kind = RUT_T_TUPLE;
	a->tuple.fields = a->fields;
	a->tuple.size = a->tuple.nfields * 32;
}

static void add_int(struct args *a, const struct rut_type *t, int64_t v)
{
	add_arg(a, t, &v, t->size);
}

static void add_str(struct args *a, const char *s)
{
	add_arg(a, &str_type, s, strlen(s) + 1);
}

static void add_buf(struct args *a, const char *s, uint32_t len)
{
	char data[32] = {0};

	memcpy(data, &len, sizeof(len));
	memcpy(data + sizeof(len), s, len);
	add_arg(a, &buf_type, data, sizeof(data));
}

static void assert_printf(const struct args *a, const char *format, const char *want)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	struct rut_script_format *f = NULL;
	struct rut_err err = RUT_ERR_INIT;

	if (rut_script_format_parse(&f, format, &a->tuple, NULL, &err))
		fail_msg("'%s': %s", format, err.msg);
	rut_script_format_text(f, &plain, a->data, &out);
	rut_script_format_free(f);
	assert_string_equal(out.data ? out.data : "", want);
}

static void assert_refused(const struct args *a, const char *format, size_t at)
{
	struct rut_script_format *f = NULL;
	struct rut_err err = RUT_ERR_INIT;
	size_t where = 99;

	assert_int_equal(rut_script_format_parse(&f, format, &a->tuple, &where, &err), -EINVAL);
	assert_int_equal(where, at);
	assert_true(err.msg[0]);
}

static void test_numbers_have_width_flags_and_length(void **state)
{
	struct args a = {0}, b = {0}, wide = {0};

	for (int i = 0; i < 3; i++)
		add_int(&a, &int64_type, i + 1);
	assert_printf(&a, "%5d|%-5d|%05d", "    1|2    |00003");
	assert_printf(&a, "%+d|%#x|%-+5d|", "+1|0x2|+3   |");
	assert_printf(&a, "%i%u%o", "123");
	assert_printf(&a, "%05.2d|% d|%.3d", "   01| 2|003");

	for (int i = 0; i < 4; i++)
		add_int(&b, &int64_type, 0x12345678abcdef);
	assert_printf(&b, "%hhx %hx %x %jx", "ef cdef 78abcdef 12345678abcdef");
	assert_printf(&b, "%d %lld %u %llX",
		      "2024525295 5124095577148911 2024525295 12345678ABCDEF");
	for (int i = 0; i < 4; i++)
		add_int(&wide, &int64_type, -1);
	assert_printf(&wide, "%ld|%zu|%hu|%lx", "-1|18446744073709551615|65535|ffffffffffffffff");
	assert_printf(&wide, "%u|%x|%hhd|%o", "4294967295|ffffffff|-1|37777777777");
}

static void test_small_numbers_keep_their_sign(void **state)
{
	struct args a = {0};

	add_int(&a, &int8_type, -100);
	add_int(&a, &int32_type, -5);
	add_int(&a, &uint64_type, -1);
	assert_printf(&a, "%d %lld %llu", "-100 -5 18446744073709551615");
	assert_printf(&a, "%llx %x %s", "ffffffffffffff9c fffffffb 18446744073709551615");
}

static void test_strings_characters_and_pointers(void **state)
{
	struct args a = {0}, b = {0};

	add_str(&a, "hi");
	add_str(&a, "hi");
	add_str(&a, "abcdef");
	assert_printf(&a, "%s|%10s|%-10s|", "hi|        hi|abcdef    |");
	assert_printf(&a, "%s%s%.3s", "hihiabc");
	add_int(&b, &int64_type, 65);
	add_int(&b, &pointer_type, 4096);
	add_int(&b, &bool_type, 1);
	add_int(&b, &bool_type, 1);
	add_int(&b, &int64_type, 0);
	assert_printf(&b, "%c%p %d %s %p", "A0x1000 1 true 0");
}

static void test_buffers_as_text_and_as_bytes(void **state)
{
	struct args a = {0};

	add_buf(&a, "a\\\"b\x7f\xff ", 7);
	assert_printf(&a, "%r", "a\\\"b\\x7f\\xff ");
	assert_printf(&a, "%rx.", "\\x61\\x5c\\x22\\x62\\x7f\\xff\\x20.");
	assert_printf(&a, "%rh.", "61 5c 22 62 7f ff 20.");
	assert_printf(&a, "%rr", "a\\\"b\\x7f\\xff r");
	assert_printf(&a, "%s", "a\\\"b\\x7f\\xff ");
}

static void test_decimals_of_numbers_and_averages(void **state)
{
	const int64_t words[2] = {-7, 2};
	struct args a = {0};

	add_int(&a, &int64_type, 3);
	add_arg(&a, &avg_type, words, sizeof(words));
	add_arg(&a, &avg_type, words, sizeof(words));
	assert_printf(&a, "%.2f %.2f %d", "3.00 -3.50 -3");
	assert_printf(&a, "%08.3f|%8.1f|%g", "0003.000|    -3.5|-3.5");
}

static void test_percent_signs_that_are_text(void **state)
{
	struct args none = {0};

	none.tuple.kind = RUT_T_TUPLE;
	assert_printf(&none, "100%", "100%");
	assert_printf(&none, "%%d", "%d");
	assert_printf(&none, "%y %5% %%%%", "%y % %%");
	assert_printf(&none, "", "");
}

static void test_formats_are_checked_against_arguments(void **state)
{
	struct args number = {0}, text = {0}, both = {0};

	add_int(&number, &int64_type, 1);
	add_str(&text, "x");
	add_int(&both, &int64_type, 1);
	add_str(&both, "x");
	assert_refused(&number, "%d %d", 0);
	assert_refused(&number, "none", 0);
	assert_refused(&text, "%d", 0);
	assert_refused(&text, "a %c", 2);
	assert_refused(&both, "%d and %p", 7);
	assert_refused(&number, "%r", 0);
	assert_refused(&text, "%.2f", 0);
	assert_printf(&number, "%s", "1");
}

/* ---- maps ---- */

static const struct rut_type_field pair_fields[] = {{.type = &int64_type, .offset = 0},
						    {.type = &str_type, .offset = 8}};
static const struct rut_type pair_type = {.kind = RUT_T_TUPLE,
					  .size = 24,
					  .align = 8,
					  .nfields = 2,
					  .fields = (struct rut_type_field *)pair_fields};

static char *show(const struct rut_script_map *m, struct rut_script_rows *rows, int64_t top,
		  int64_t div, bool json, unsigned compat)
{
	struct rut_script_out_config config = {.json = json, .style.compat = compat};
	struct rut_script_out *o;
	char *text = NULL;
	size_t len;

	config.out = open_memstream(&text, &len);
	assert_non_null(config.out);
	assert_int_equal(rut_script_rows_sort(rows, m, RUT_SCRIPT_BY_VALUE, false), 0);
	assert_int_equal(rut_script_out_new(&o, &config), 0);
	rut_script_out_rows(o, m, rows, top, div);
	rut_script_out_free(o);
	fclose(config.out);
	return text;
}

static void assert_map(const struct rut_script_map *m, struct rut_script_rows *rows, int64_t top,
		       int64_t div, const char *want)
{
	char *text = show(m, rows, top, div, false, 0);

	assert_string_equal(text, want);
	free(text);
}

static void assert_map_json(const struct rut_script_map *m, struct rut_script_rows *rows,
			    const char *want)
{
	char *text = show(m, rows, 0, 1, true, 0);
	json_object *got = json_tokener_parse(text), *expected = json_tokener_parse(want);

	assert_non_null(got);
	assert_non_null(expected);
	if (!json_object_equal(got, expected))
		fail_msg("%s is not %s", text, want);
	json_object_put(got);
	json_object_put(expected);
	free(text);
}

static void add_row(struct rut_script_rows *r, const struct rut_script_map *m, const void *key,
		    const void *value, size_t bytes)
{
	assert_int_equal(rut_script_rows_add(r, m, key, value, 1, bytes), 0);
}

static void test_maps_are_sorted_by_value(void **state)
{
	static const int64_t values[][2] = {{1, 1}, {3, 5}, {2, 3}, {4, -1}};
	struct rut_script_map m = {.name = "@k", .key = &int64_type, .value = &int64_type};
	struct rut_script_rows r;

	rut_script_rows_init(&r, &m);
	for (size_t i = 0; i < 4; i++)
		add_row(&r, &m, &values[i][0], &values[i][1], 8);
	assert_map(&m, &r, 0, 1, "@k[4]: -1\n@k[1]: 1\n@k[2]: 3\n@k[3]: 5\n");
	assert_map(&m, &r, 2, 1, "@k[2]: 3\n@k[3]: 5\n");
	assert_map(&m, &r, 2, 2, "@k[2]: 1\n@k[3]: 2\n");
	assert_map_json(&m, &r,
			"{\"type\":\"map\",\"data\":{\"@k\":{\"4\":-1,\"1\":1,\"2\":3,\"3\":5}}}");
	rut_script_rows_fini(&r);
}

static void test_keys_of_several_values_and_text(void **state)
{
	struct rut_script_map m = {.name = "@", .key = &pair_type, .value = &str_type};
	struct rut_script_rows r;
	struct {
		int64_t n;
		char text[16];
	} keys[2] = {{10, "a\"b"}, {-2, "z"}};
	char values[2][16] = {"x", "y"};

	rut_script_rows_init(&r, &m);
	for (size_t i = 0; i < 2; i++)
		add_row(&r, &m, &keys[i], values[i], 16);
	assert_map(&m, &r, 0, 1, "@[-2, z]: y\n@[10, a\"b]: x\n");
	assert_map_json(&m, &r,
			"{\"type\":\"map\",\"data\":{\"@\":{\"-2,z\":\"y\",\"10,a\\\"b\":\"x\"}}}");
	rut_script_rows_fini(&r);
}

static void add_hist(uint64_t *words, const struct rut_type *t, int64_t v)
{
	if (t->kind == RUT_T_LHIST)
		words[rut_script_lhist_slot(v, t->min, t->max, t->step)]++;
	else
		words[rut_script_hist_slot(v, t->bits)]++;
}

static void assert_hist(const struct rut_type *t, const int64_t *values, size_t n, uint64_t div,
			const char *want)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	uint64_t words[2048] = {0};

	for (size_t i = 0; i < n; i++)
		add_hist(words, t, values[i]);
	rut_script_hist_text(&plain, t, words, div, &out);
	assert_string_equal(out.data ? out.data : "", want);
}

#define FULL "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"
#define HALF "@@@@@@@@@@@@@@@@@@@@@@@@@@                          |\n"
#define NONE "                                                    |\n"

static void test_histograms_have_powers_of_two(void **state)
{
	static const int64_t values[] = {-1, 2, 3, 7, 20}, large[] = {1ll << 62, 1ll << 62},
			     kilo[] = {1000, 1025};

	assert_hist(&hist_type, values, 5, 1,
		    "(..., 0)               1 |" HALF "[0]                    0 |" NONE
		    "[1]                    0 |" NONE "[2, 4)                 2 |" FULL
		    "[4, 8)                 1 |" HALF "[8, 16)                0 |" NONE
		    "[16, 32)               1 |" HALF);
	assert_hist(&hist_type, large, 2, 1, "[4E, 8E)               2 |" FULL);
	assert_hist(&hist_type, large, 2, 2, "[4E, 8E)               1 |" FULL);
	assert_hist(&hist_type, kilo, 2, 1,
		    "[512, 1K)              1 |" FULL "[1K, 2K)               1 |" FULL);
	assert_hist(&hist_type, values, 0, 1, "");
}

static void test_finer_histograms_split_the_powers(void **state)
{
	static const int64_t values[] = {15, 16, 17, 19}, edge[] = {1023, 1024};

	assert_hist(&fine_type, values, 4, 1,
		    "[15]                   1 |" HALF "[16, 18)               2 |" FULL
		    "[18, 20)               1 |" HALF);
	assert_hist(&fine_type, edge, 2, 1,
		    "[960, 1024)            1 |" FULL "[1024, 1152)           1 |" FULL);
}

static void test_linear_histograms(void **state)
{
	static const int64_t values[] = {2, 3, 7, -1, 11}, odd[] = {5, 100}, kilo[] = {-5, 3000};
	const struct rut_type ten = {.kind = RUT_T_LHIST, .min = 0, .max = 10, .step = 2};
	const struct rut_type five = {.kind = RUT_T_LHIST, .min = 0, .max = 5, .step = 2};
	const struct rut_type k = {.kind = RUT_T_LHIST, .min = 0, .max = 2048, .step = 1024};

	assert_hist(&ten, values, 5, 1,
		    "(..., 0)               1 |" HALF "[0, 2)                 0 |" NONE
		    "[2, 4)                 2 |" FULL "[4, 6)                 0 |" NONE
		    "[6, 8)                 1 |" HALF "[8, 10)                0 |" NONE
		    "[10, ...)              1 |" HALF);
	assert_hist(&five, odd, 2, 1, "[4, ...)               2 |" FULL);
	assert_hist(&k, kilo, 2, 1,
		    "(..., 0)               1 |" FULL "[0, 1K)                0 |" NONE
		    "[1K, 2K)               0 |" NONE "[2K, ...)              1 |" FULL);
}

static void test_histograms_of_keys(void **state)
{
	struct rut_script_map m = {.name = "@h", .key = &int64_type, .value = &hist_type};
	struct rut_script_rows r;
	uint64_t words[66] = {0};
	char *old;

	rut_script_rows_init(&r, &m);
	add_hist(words, &hist_type, 3);
	add_hist(words, &hist_type, 3);
	add_row(&r, &m, &(int64_t){7}, words, sizeof(words));
	memset(words, 0, sizeof(words));
	add_hist(words, &hist_type, -1);
	add_row(&r, &m, &(int64_t){-1}, words, sizeof(words));
	assert_map(&m, &r, 0, 1,
		   "@h[-1]:\n(..., 0)               1 |" FULL
		   "\n@h[7]:\n[2, 4)                 2 |" FULL "\n");
	assert_map_json(&m, &r,
			"{\"type\":\"hist\",\"data\":{\"@h\":{\"-1\":[{\"max\":-1,\"count\":1}],"
			"\"7\":[{\"min\":2,\"max\":3,\"count\":2}]}}}");
	old = show(&m, &r, 1, 1, false, 17);
	assert_string_equal(old, "@h[7]: \n[2, 4)                 2 |" FULL "\n");
	free(old);
	rut_script_rows_fini(&r);
}

static void test_averages_and_stats(void **state)
{
	struct rut_script_map m = {.name = "@s", .key = &int64_type, .value = &stats_type};
	struct rut_script_map avg = {.name = "@v", .value = &avg_type};
	static const int64_t words[][2] = {{10, 1}, {3, 1}, {-61, 2}};
	struct rut_script_rows r, one;
	char *old;

	rut_script_rows_init(&r, &m);
	for (int64_t i = 0; i < 3; i++)
		add_row(&r, &m, &i, words[i], 16);
	assert_map(&m, &r, 0, 1,
		   "@s[2]: { .count = 2, .average = -30, .total = -61 }\n"
		   "@s[1]: { .count = 1, .average = 3, .total = 3 }\n"
		   "@s[0]: { .count = 1, .average = 10, .total = 10 }\n");
	assert_map(&m, &r, 1, 3, "@s[0]: { .count = 1, .average = 3, .total = 10 }\n");
	/* Of 0.17 and 0.23. */
	old = show(&m, &r, 1, 1, false, 23);
	assert_string_equal(old, "@s[0]: count 1, average 10, total 10\n\n");
	free(old);

	rut_script_rows_init(&one, &avg);
	add_row(&one, &avg, NULL, words[2], 16);
	assert_map(&avg, &one, 0, 1, "@v: -30\n");
	assert_map_json(&avg, &one, "{\"type\":\"stats\",\"data\":{\"@v\":-30}}");
	rut_script_rows_fini(&r);
	rut_script_rows_fini(&one);
}

static void test_averages_of_extreme_numbers(void **state)
{
	const struct rut_type u = {.kind = RUT_T_AVG};

	assert_int_equal(rut_script_average(&avg_type, (uint64_t[]){1ull << 63, UINT64_MAX}), 0);
	assert_true(rut_script_average(&avg_type, (uint64_t[]){1ull << 63, 1}) == INT64_MIN);
	assert_true((uint64_t)rut_script_average(&u, (uint64_t[]){UINT64_MAX, 1}) == UINT64_MAX);
}

static void test_cpus_are_merged(void **state)
{
	const struct rut_type max = {.kind = RUT_T_MAX, .is_signed = true};
	const struct rut_type min = {.kind = RUT_T_MIN, .is_signed = false};
	const struct rut_type count = {.kind = RUT_T_COUNT};
	static const uint64_t cpus[3][2] = {{(uint64_t)-5, 1}, {0, 0}, {(uint64_t)-9, 1}};
	uint64_t into[2] = {0};

	rut_script_merge(&max, into, cpus, 3, sizeof(cpus[0]));
	assert_int_equal((int64_t)into[0], -5);
	memset(into, 0, sizeof(into));
	rut_script_merge(&min, into, cpus, 3, sizeof(cpus[0]));
	assert_int_equal((int64_t)into[0], -9);
	memset(into, 0, sizeof(into));
	rut_script_merge(&count, into, cpus, 3, sizeof(cpus[0]));
	assert_int_equal((int64_t)into[0], -14);
	memset(into, 0, sizeof(into));
	rut_script_merge(&stats_type, into, cpus, 3, sizeof(cpus[0]));
	assert_int_equal(into[1], 2);
}

/* Interval n (from 1) of 100 ms has the value v on CPU `cpu`. */
static void set_interval(uint64_t *words, const struct rut_type *t, uint64_t n, int64_t v,
			 uint64_t at)
{
	uint64_t *w = words + (n - 1) % t->count * RUT_SCRIPT_TSERIES_WORDS;

	w[0] = n;
	w[1] = (uint64_t)v;
	w[2] = 1;
	w[3] = at;
}

static void test_time_series(void **state)
{
	const struct rut_type t = {
		.kind = RUT_T_TSERIES, .is_signed = true, .count = 4, .interval_ns = 100000000};
	struct rut_script_map m = {.name = "@", .value = &t};
	uint64_t cpus[2][16] = {0};
	struct rut_script_rows r;

	setenv("TZ", "UTC0", 1);
	set_interval(cpus[0], &t, 10, -5, 1000);
	set_interval(cpus[0], &t, 11, 1, 1100);
	set_interval(cpus[1], &t, 11, 0, 1101);
	set_interval(cpus[1], &t, 13, 5, 1300);
	/* Older than the last four. */
	set_interval(cpus[1], &t, 4, 99, 400);
	rut_script_rows_init(&r, &m);
	assert_int_equal(rut_script_rows_add(&r, &m, NULL, cpus, 2, sizeof(cpus[0])), 0);
	assert_map(&m, &r, 0, 1,
		   "@:\n"
		   "             -5                                                  5\n"
		   "hh:mm:ss.ms  |___________________________________________________|\n"
		   "00:00:00.900 *                         .                         | -5\n"
		   "00:00:01.000 |                         *                         | 0\n"
		   "00:00:01.100 |                         .                         | -\n"
		   "00:00:01.200 |                         .                         * 5\n"
		   "             v___________________________________________________v\n"
		   "             -5                                                  5\n\n");
	assert_map_json(&m, &r,
			"{\"type\":\"tseries\",\"data\":{\"@\":["
			"{\"interval_start\":\"1970-01-01 00:00:00.900000000\",\"value\":-5},"
			"{\"interval_start\":\"1970-01-01 00:00:01.000000000\",\"value\":0},"
			"{\"interval_start\":\"1970-01-01 00:00:01.200000000\",\"value\":5}]}}");
	rut_script_rows_fini(&r);
}

static void test_a_series_of_one_value(void **state)
{
	const struct rut_type t = {.kind = RUT_T_TSERIES, .count = 2, .interval_ns = 1000000000};
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	uint64_t words[8] = {0};

	setenv("TZ", "UTC0", 1);
	rut_script_tseries_text(&plain, &t, words, 0, &out);
	assert_string_equal(out.data, "<no data>\n");
	rut_buf_clear(&out);
	set_interval(words, &t, 3661, 0, 1);
	rut_script_tseries_text(&plain, &t, words, 3661, &out);
	assert_string_equal(
		out.data,
		"                   0                                                   1\n"
		"hh:mm:ss.ns        |___________________________________________________|\n"
		"01:01:00.000000000 *                                                   | 0\n"
		"                   v___________________________________________________v\n"
		"                   0                                                   1\n");
}

/* ---- values ---- */

static void assert_value(const struct rut_type *t, const void *v, const char *text,
			 const char *json)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	rut_script_value_text(&plain, t, v, RUT_SCRIPT_IN_VALUE, &out);
	assert_string_equal(out.data ? out.data : "", text);
	rut_buf_clear(&out);
	rut_script_value_json(&plain, t, v, &out);
	assert_string_equal(out.data ? out.data : "", json);
}

static void test_records_arrays_and_bit_fields(void **state)
{
	const struct rut_type_field fields[] = {
		{.name = "a", .type = &int8_type, .offset = 0},
		{.name = "b", .type = &pair_type, .offset = 8},
		{.name = "c", .type = &uint64_type, .offset = 32, .bit_shift = 1, .bits = 3},
	};
	const struct rut_type record = {.kind = RUT_T_RECORD,
					.size = 40,
					.nfields = 3,
					.fields = (struct rut_type_field *)fields};
	const struct rut_type array = {
		.kind = RUT_T_ARRAY, .size = 3, .elem = &int8_type, .count = 3};
	struct {
		int8_t a;
		int64_t n;
		char text[16];
		uint64_t bits;
	} v = {-1, 5, "x", 0x1e | 0x100};

	assert_value(&record, &v, "{ .a = -1, .b = (5, x), .c = 7 }",
		     "{\"a\": -1, \"b\": [5,\"x\"], \"c\": 7}");
	assert_value(&array, (int8_t[]){1, -2, 3}, "[1,-2,3]", "[1,-2,3]");
}

static void test_values_that_are_names(void **state)
{
	const struct rut_type_enumerator enumerators[] = {{"ONE", 1}, {"TWO", 2}};
	const struct rut_type e = {
		.kind = RUT_T_ENUM, .size = 4, .nenumerators = 2, .enumerators = enumerators};
	const struct rut_type inet = {.kind = RUT_T_INET, .size = 20};
	const struct rut_type mac = {.kind = RUT_T_MAC, .size = 6};
	const struct rut_type error = {.kind = RUT_T_STRERROR, .size = 8};
	const struct rut_type sig = {.kind = RUT_T_SIGNAL_NAME, .size = 8};
	struct rut_script_inet_value address = {.family = AF_INET, .address = {127, 0, 0, 1}};

	assert_value(&e, &(uint32_t){2}, "TWO", "2");
	assert_value(&e, &(uint32_t){7}, "7", "7");
	assert_value(&bool_type, &(bool){true}, "true", "true");
	assert_value(&pointer_type, &(uint64_t){50}, "0x32", "50");
	assert_value(&inet, &address, "127.0.0.1", "\"127.0.0.1\"");
	address.family = AF_INET6;
	memset(address.address, 0, 16);
	address.address[15] = 1;
	assert_value(&inet, &address, "::1", "\"::1\"");
	assert_value(&mac, "\x05\x04\x03\x02\x01\xff", "05:04:03:02:01:FF",
		     "\"05:04:03:02:01:FF\"");
	assert_value(&error, &(uint64_t){7}, "Argument list too long",
		     "\"Argument list too long\"");
	assert_value(&sig, &(uint64_t){9}, "Killed", "\"Killed\"");
}

static void test_cut_strings_are_marked(void **state)
{
	const struct rut_script_style cut = {.max_strlen = 5, .trailer = ".."};
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	rut_script_value_text(&cut, &str_type, "/bin/", RUT_SCRIPT_IN_VALUE, &out);
	rut_script_value_text(&cut, &str_type, "/bin", RUT_SCRIPT_IN_VALUE, &out);
	assert_string_equal(out.data, "/bin/../bin");
}

static void test_times_have_microseconds(void **state)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	setenv("TZ", "UTC0", 1);
	rut_script_time_text("%H:%M:%S.%f %%f %m/%d/%y", 1000123456, &out);
	assert_string_equal(out.data, "00:00:01.000123 %f 01/01/70");
}

int main(void);

/* What is asked about this very process has known answers. */
static void assert_name(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			const char *want)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	rut_script_value_text(s, t, v, RUT_SCRIPT_IN_VALUE, &out);
	assert_string_equal(out.data ? out.data : "", want);
}

static size_t one_frame(void *arg, const struct rut_type *t, const struct rut_script_stack_value *v,
			uint64_t *ips, size_t max)
{
	ips[0] = (uint64_t)(uintptr_t)main + 2;
	ips[1] = 1;
	return 2;
}

static void test_numbers_get_names(void **state)
{
	const struct rut_type usym = {.kind = RUT_T_USYM, .size = 16};
	const struct rut_type user = {.kind = RUT_T_USERNAME, .size = 8};
	const struct rut_type call = {.kind = RUT_T_SYSCALL_NAME, .size = 8};
	const struct rut_type stack = {.kind = RUT_T_USTACK, .size = 16};
	struct rut_script_names names = {.stack = one_frame};
	const struct rut_script_style s = {.names = &names};
	struct rut_script_usym_value v = {(uint64_t)(uintptr_t)main, (uint32_t)getpid(), 0};
	struct rut_script_stack_value at = {1, (uint32_t)getpid(), 1};
	struct rut_script_symbols *symbols;

	assert_int_equal(rut_script_symbols_new(&symbols), 0);
	rut_script_symbols_fill(symbols, &names);
	assert_name(&s, &usym, &v, "main");
	assert_name(&s, &stack, &at, "\n        main+2\n        0x1\n");
	v.address = 12;
	assert_name(&s, &usym, &v, "0xc");
	assert_name(&s, &user, &(uint64_t){0}, "root");
	assert_name(&s, &user, &(uint64_t){4000000000}, "4000000000");
	assert_name(&s, &call, &(uint64_t){4}, "stat");
	assert_name(&s, &call, &(uint64_t){9999}, "9999");
	rut_script_symbols_free(symbols);
}

/* cat(PATH), what is printed and what is said. */
static void assert_cat(const char *path, uint32_t limit, const char *want, const char *want_err)
{
	const struct rut_script_action a = {.kind = RUT_ACTION_CAT, .format = path, .map = -1};
	struct rut_script_out_config config = {.cat_bytes = limit};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_script_out *o;
	char *text = NULL, *errors = NULL;
	size_t len, errors_len;

	config.out = open_memstream(&text, &len);
	config.err = open_memstream(&errors, &errors_len);
	assert_int_equal(rut_script_out_new(&o, &config), 0);
	assert_int_equal(rut_script_out_event(o, &a, NULL, 0, NULL, 0, &err), 0);
	rut_script_out_free(o);
	fclose(config.out);
	fclose(config.err);
	assert_string_equal(text, want);
	if (!strstr(errors, want_err) || (errors[0] && !want_err[0]))
		fail_msg("'%s' is not '%s'", errors, want_err);
	free(text);
	free(errors);
}

/* A pipe would be waited for, a device may act when it is opened. */
static void test_cat_shows_regular_files_up_to_a_limit(void **state)
{
	char path[] = "/tmp/rutile-cat-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "one two", 7), 7);
	close(fd);
	assert_cat(path, 0, "one two", "");
	assert_cat(path, 3, "one", "");
	unlink(path);
	assert_cat(path, 3, "", "No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_cat(path, 3, "", "(not a regular file)");
	unlink(path);
	assert_cat("/dev/zero", 3, "", "(not a regular file)");
	assert_cat("/proc/sys/kernel/ostype", 10240, "Linux\n", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_have_width_flags_and_length),
		cmocka_unit_test(test_small_numbers_keep_their_sign),
		cmocka_unit_test(test_strings_characters_and_pointers),
		cmocka_unit_test(test_buffers_as_text_and_as_bytes),
		cmocka_unit_test(test_decimals_of_numbers_and_averages),
		cmocka_unit_test(test_percent_signs_that_are_text),
		cmocka_unit_test(test_formats_are_checked_against_arguments),
		cmocka_unit_test(test_maps_are_sorted_by_value),
		cmocka_unit_test(test_keys_of_several_values_and_text),
		cmocka_unit_test(test_histograms_have_powers_of_two),
		cmocka_unit_test(test_finer_histograms_split_the_powers),
		cmocka_unit_test(test_linear_histograms),
		cmocka_unit_test(test_histograms_of_keys),
		cmocka_unit_test(test_averages_and_stats),
		cmocka_unit_test(test_averages_of_extreme_numbers),
		cmocka_unit_test(test_cpus_are_merged),
		cmocka_unit_test(test_time_series),
		cmocka_unit_test(test_a_series_of_one_value),
		cmocka_unit_test(test_records_arrays_and_bit_fields),
		cmocka_unit_test(test_values_that_are_names),
		cmocka_unit_test(test_cut_strings_are_marked),
		cmocka_unit_test(test_times_have_microseconds),
		cmocka_unit_test(test_numbers_get_names),
		cmocka_unit_test(test_cat_shows_regular_files_up_to_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
