/* SPDX-License-Identifier: MIT */
/*
 * Formats of scripts: the first byte chooses the types of the arguments, what follows up to a NUL
 * is the format, the rest the record. What parses is rendered, as text and as values of a map.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/format.h"
#include "script/hist.h"
#include "script/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORD 256

static const struct rut_type number = {.kind = RUT_T_INT, .size = 8, .is_signed = true};
static const struct rut_type small = {.kind = RUT_T_INT, .size = 2};
static const struct rut_type text = {.kind = RUT_T_STRING, .size = 24};
static const struct rut_type bytes = {.kind = RUT_T_BUF, .size = 32};
static const struct rut_type average = {.kind = RUT_T_AVG, .size = 16, .is_signed = true};
static const struct rut_type inet = {.kind = RUT_T_INET, .size = 20};
static const struct rut_type error = {.kind = RUT_T_STRERROR, .size = 8};
static const struct rut_type stack = {.kind = RUT_T_USTACK, .size = 16};

static void show_fields(const struct rut_type *args, const uint8_t *record, struct rut_buf *out)
{
	static const struct rut_script_style style = {.max_strlen = 24, .trailer = ".."};

	rut_script_value_text(&style, args, record, RUT_SCRIPT_IN_VALUE, out);
	rut_script_value_json(&style, args, record, out);
	rut_script_key_json(&style, args, record, out);
}

static void show_aggregations(const uint8_t *record, struct rut_buf *out)
{
	static const struct rut_script_style style;
	const struct rut_type lhist = {.kind = RUT_T_LHIST, .min = 0, .max = 20, .step = 7};
	const struct rut_type series = {.kind = RUT_T_TSERIES,
					.is_signed = record[0] & 1,
					.count = 8,
					.interval_ns = 1000,
					.agg = record[1] & 1 ? RUT_T_AVG : RUT_T_NONE};
	uint64_t words[RECORD / 8];

	memcpy(words, record, sizeof(words));
	rut_script_hist_text(&style, &lhist, words, record[0], out);
	/* Bounded times, or each of 2^64 intervals would be a line. */
	for (size_t i = 0; i < RECORD / 8; i += RUT_SCRIPT_TSERIES_WORDS)
		words[i] %= 64;
	rut_script_tseries_text(&style, &series, words, rut_script_tseries_last(&series, words),
				out);
	rut_script_tseries_json(&style, &series, words, rut_script_tseries_last(&series, words),
				out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rut_type *const choice[] = {&number,  &small, &text,  &bytes,
							&average, &inet,  &error, &stack};
	static const struct rut_script_style style;
	struct rut_type_field fields[4];
	struct rut_type args = {.kind = RUT_T_TUPLE, .fields = fields, .size = RECORD};
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	struct rut_script_format *f = NULL;
	uint8_t record[RECORD] = {0};
	struct rut_err err;
	char *format;
	size_t len;

	if (size < 2)
		return 0;
	args.nfields = data[0] & 3;
	for (uint32_t i = 0; i < args.nfields; i++)
		fields[i] = (struct rut_type_field){
			.type = choice[(data[0] >> 2 ^ data[1] >> (2 * i)) % 8], .offset = i * 32};
	data += 2;
	size -= 2;
	len = strnlen((const char *)data, size);
	format = strndup((const char *)data, len);
	if (!format)
		return 0;
	if (len < size)
		memcpy(record, data + len + 1, size - len - 1 < RECORD ? size - len - 1 : RECORD);
	if (!rut_script_format_parse(&f, format, &args, NULL, &err))
		rut_script_format_text(f, &style, record, &out);
	rut_script_format_free(f);
	free(format);
	show_fields(&args, record, &out);
	show_aggregations(record, &out);
	return 0;
}
