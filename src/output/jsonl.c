/* SPDX-License-Identifier: MIT */
#include "output/jsonl.h"

#include <string.h>

#include "base/buf.h"
#include "output/text.h"

static bool needs_comma(const struct rut_buf *b)
{
	char last = b->len ? b->data[b->len - 1] : '\n';

	return last != '{' && last != '[' && last != '\n' && last != ':';
}

void rut_jsonl_begin(struct rut_buf *b)
{
	if (needs_comma(b))
		rut_buf_putc(b, ',');
	rut_buf_putc(b, '{');
}

static void add_key(struct rut_buf *b, const char *key)
{
	if (needs_comma(b))
		rut_buf_putc(b, ',');
	rut_buf_putc(b, '"');
	rut_buf_puts(b, key);
	rut_buf_puts(b, "\":");
}

static void add_escaped(struct rut_buf *b, const char *s, size_t len)
{
	uint32_t cp;
	size_t n = rut_text_decode(s, len, &cp);

	if (cp == UINT32_MAX)
		rut_buf_puts(b, "\xef\xbf\xbd");
	else if (cp == '"' || cp == '\\')
		rut_buf_printf(b, "\\%c", (int)cp);
	else if (cp == '\n')
		rut_buf_puts(b, "\\n");
	else if (cp == '\t')
		rut_buf_puts(b, "\\t");
	else if (cp < 0x20 || cp == 0x7f)
		rut_buf_printf(b, "\\u%04x", (unsigned)cp);
	else
		rut_buf_add(b, s, n);
}

static void add_text(struct rut_buf *b, const char *s)
{
	while (*s) {
		size_t n = 0;
		uint32_t cp;

		while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
			n++;
		if (n) {
			rut_buf_add(b, s, n);
		} else {
			size_t left = strlen(s);

			add_escaped(b, s, left);
			n = rut_text_decode(s, left, &cp);
		}
		s += n;
	}
}

void rut_jsonl_text(struct rut_buf *b, const char *s)
{
	rut_buf_putc(b, '"');
	add_text(b, s);
	rut_buf_putc(b, '"');
}

void rut_jsonl_str(struct rut_buf *b, const char *key, const char *s)
{
	add_key(b, key);
	if (s)
		rut_jsonl_text(b, s);
	else
		rut_buf_puts(b, "null");
}

void rut_jsonl_join(struct rut_buf *b, const char *key, const char *first, char between,
		    const char *second)
{
	add_key(b, key);
	rut_buf_putc(b, '"');
	if (first) {
		add_text(b, first);
		rut_buf_putc(b, between);
	}
	add_text(b, second);
	rut_buf_putc(b, '"');
}

void rut_jsonl_u64(struct rut_buf *b, const char *key, uint64_t value)
{
	add_key(b, key);
	rut_text_number(b, value, 1);
}

void rut_jsonl_i64(struct rut_buf *b, const char *key, int64_t value)
{
	add_key(b, key);
	if (value < 0)
		rut_buf_putc(b, '-');
	rut_text_number(b, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
}

void rut_jsonl_bool(struct rut_buf *b, const char *key, bool value)
{
	add_key(b, key);
	rut_buf_puts(b, value ? "true" : "false");
}

void rut_jsonl_close(struct rut_buf *b)
{
	rut_buf_putc(b, '}');
}

void rut_jsonl_end(struct rut_buf *b)
{
	rut_buf_puts(b, "}\n");
}

void rut_jsonl_array_open(struct rut_buf *b, const char *key)
{
	add_key(b, key);
	rut_buf_putc(b, '[');
}

void rut_jsonl_array_close(struct rut_buf *b)
{
	rut_buf_putc(b, ']');
}
