/* SPDX-License-Identifier: MIT */
/*
 * Names out of other people's programs: whatever the bytes, what reaches the terminal is printable
 * UTF-8 of exactly the width asked for, and a line of JSON is one that json-c reads.
 */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "output/jsonl.h"
#include "output/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printable(const struct rut_buf *b)
{
	for (size_t i = 0, n; i < b->len; i += n) {
		uint32_t cp;

		n = rut_text_decode(b->data + i, b->len - i, &cp);
		if (cp == UINT32_MAX || cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x202e)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct json_object *o;
	size_t width = size ? data[0] % 100 : 0;
	char *s = malloc(size + 1);

	rut_text_init();
	if (size)
		memcpy(s, data, size);
	s[size] = '\0';
	for (int flags = 0; flags < 4; flags++) {
		rut_buf_clear(&b);
		rut_text_fit(&b, s, width, flags);
		if (rut_text_width(b.data ? b.data : "") != width)
			abort();
		check_printable(&b);
	}
	rut_buf_clear(&b);
	rut_jsonl_begin(&b);
	rut_jsonl_str(&b, "a", s);
	rut_jsonl_join(&b, "b", s, '#', s);
	rut_jsonl_end(&b);
	if (memchr(b.data, '\n', b.len - 1))
		abort();
	o = json_tokener_parse(b.data);
	if (!o)
		abort();
	json_object_put(o);
	free(s);
	return 0;
}
