/* SPDX-License-Identifier: MIT */
/* Writing single values; between text.c and text_value.c. */
#ifndef RUT_CTF_TEXT_VALUE_H
#define RUT_CTF_TEXT_VALUE_H

#include <string.h>

#include "base/buf.h"
#include "ctf/reader.h"

/* A position in a buffer, and the buffer's end. */
struct rut_text_out {
	char *p, *end;
	struct rut_buf *buf;
};

/* Makes room; without memory the text is discarded and the buffer is marked failed. */
void rut_text_grow(struct rut_text_out *o, size_t need);

static inline void rut_text_need(struct rut_text_out *o, size_t need)
{
	if (__builtin_expect((size_t)(o->end - o->p) < need, 0))
		rut_text_grow(o, need);
}

static inline void rut_text_put(struct rut_text_out *o, const char *s, size_t len)
{
	rut_text_need(o, len);
	if (__builtin_expect((size_t)(o->end - o->p) < len, 0))
		return; /* no memory */
	memcpy(o->p, s, len);
	o->p += len;
}

enum { RUT_TEXT_CHUNK = 32 };

/*
 * The same of a text behind which RUT_TEXT_CHUNK bytes can be read, where there is room for as many
 * more: most texts are copied as one chunk.
 */
static inline void rut_text_put_padded(struct rut_text_out *o, const char *s, size_t len)
{
	if (__builtin_expect(len > RUT_TEXT_CHUNK || (size_t)(o->end - o->p) < RUT_TEXT_CHUNK, 0)) {
		rut_text_put(o, s, len);
		return;
	}
	memcpy(o->p, s, RUT_TEXT_CHUNK);
	o->p += len;
}

#define rut_text_lit(o, s) rut_text_put(o, s, sizeof(s) - 1)

extern const char rut_text_digits[200]; /* "00" to "99" */

/* Writes exactly n digits. */
static inline char *rut_text_fixed(char *p, uint32_t v, unsigned int n)
{
	while (n >= 2) {
		n -= 2;
		memcpy(p + n, rut_text_digits + 2 * (v % 100), 2);
		v /= 100;
	}
	if (n)
		*p = (char)('0' + v % 10);
	return p;
}

char *rut_text_u64(char *p, uint64_t v);

/* 0xABC */
static inline char *rut_text_hex(char *p, uint64_t v)
{
	int n = v ? (67 - __builtin_clzll(v)) / 4 : 1;

	*p++ = '0';
	*p++ = 'x';
	for (int i = n; i-- > 0; v >>= 4)
		p[i] = "0123456789ABCDEF"[v & 15];
	return p + n;
}

static inline char *rut_text_i64(char *p, int64_t v)
{
	if (v < 0) {
		*p++ = '-';
		return rut_text_u64(p, 0 - (uint64_t)v);
	}
	return rut_text_u64(p, (uint64_t)v);
}

struct rut_text_style {
	bool json;
	bool names;
};

/* A quoted string with escapes: babeltrace2's, or JSON's. */
void rut_text_string(struct rut_text_out *o, const struct rut_text_style *style, const char *s,
		     size_t len);
/* Any value where the iterator stands. */
void rut_text_tree(struct rut_text_out *o, const struct rut_text_style *style,
		   struct rut_ctf_iter *it, const struct rut_ctf_type *t);

#endif
