/* SPDX-License-Identifier: MIT */
/* Writing single values; between text.c and text_value.c. */
#ifndef RUT_CTF_TEXT_VALUE_H
#define RUT_CTF_TEXT_VALUE_H

#include <endian.h>
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

/*
 * The eight digits of a number below 10^8, the first in the lowest byte: halves, quarters and
 * digits are separated in all parts of a word at once.
 */
static inline uint64_t rut_text_eight(uint32_t v)
{
	uint64_t x = (uint64_t)(v % 10000) << 32 | v / 10000, q;

	q = x * 10486 >> 20 & 0x7f0000007full; /* each half by 100 */
	x = (x - q * 100) << 16 | q;
	q = x * 103 >> 10 & 0x000f000f000f000full; /* each quarter by 10 */
	return (x - q * 10) << 8 | q;
}

#define RUT_TEXT_ZEROS 0x3030303030303030ull

static inline char *rut_text_put_eight(char *p, uint64_t digits)
{
	digits = htole64(digits | RUT_TEXT_ZEROS);
	memcpy(p, &digits, sizeof(digits));
	return p + sizeof(digits);
}

/* Writes the nine digits of a number below 10^9. */
static inline char *rut_text_nine(char *p, uint32_t v)
{
	*p++ = (char)('0' + v / 100000000);
	return rut_text_put_eight(p, rut_text_eight(v % 100000000));
}

/* For larger ones. */
char *rut_text_u64_long(char *p, uint64_t v);

/* There is room for 20 bytes, also where fewer digits are written. */
static inline char *rut_text_u64(char *p, uint64_t v)
{
	unsigned int zeros;
	uint64_t digits;

	if (__builtin_expect(v >= 100000000, 0))
		return rut_text_u64_long(p, v);
	digits = rut_text_eight((uint32_t)v);
	zeros = (unsigned int)__builtin_ctzll(digits | 1ull << 56) / 8;
	(void)rut_text_put_eight(p, (digits | RUT_TEXT_ZEROS) >> 8 * zeros);
	return p + 8 - zeros;
}

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
