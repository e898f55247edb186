/* SPDX-License-Identifier: MIT */
#include "ctf/text_value.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void rut_text_grow(struct rut_text_out *o, size_t need)
{
	struct rut_buf *b = o->buf;

	b->len = (size_t)(o->p - b->data);
	if (rut_buf_reserve(b, need + 65536) < 0) {
		/* The caller sees b->failed; until then the same memory is written again. */
		b->len = 0;
		o->p = b->data;
		return;
	}
	o->p = b->data + b->len;
	o->end = b->data + b->cap;
}

char *rut_text_u64_long(char *p, uint64_t v)
{
	p = rut_text_u64(p, v / 100000000);
	return rut_text_put_eight(p, rut_text_eight((uint32_t)(v % 100000000)));
}

/* ---- Strings ---- */

static char *escape_plain(char *p, unsigned char c)
{
	static const char from[] = "\a\b\f\n\r\t\v\x1b", to[] = "abfnrtve";
	const char *e;

	if (c == '\\' || c == '\'' || c == '"' || c == '?') {
		*p++ = '\\';
		*p++ = (char)c;
	} else if (c && (e = strchr(from, c))) {
		*p++ = '\\';
		*p++ = to[e - from];
	} else {
		p += sprintf(p, c ? "\\x%02x" : "\\0", c);
	}
	return p;
}

static bool needs_escape(unsigned char c, bool json)
{
	if (json)
		return c < 32 || c == '"' || c == '\\' || c >= 127;
	return c < 32 || c == 127 || c == '\\' || c == '\'' || c == '"' || c == '?';
}

/* Length of the UTF-8 sequence at s, or 0 when it is not one. */
static size_t utf8_len(const unsigned char *s, size_t len)
{
	size_t n = s[0] < 0x80	 ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;

	if (!n || n > len)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

/* U+0080 to U+009F: control characters for terminals, like those below 32. */
static bool is_c1(const unsigned char *s, size_t len)
{
	return len > 1 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0;
}

static char *escape_json(char *p, const unsigned char *s, size_t len, size_t *ret_used)
{
	static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
	size_t n = utf8_len(s, len);
	const char *e;

	*ret_used = n ? n : 1;
	if (!n) /* not text: the replacement character */
		return p + sprintf(p, "\\ufffd");
	if (is_c1(s, n))
		return p + sprintf(p, "\\u%04x", s[1]);
	if (n > 1) {
		memcpy(p, s, n);
		return p + n;
	}
	e = s[0] ? strchr(from, s[0]) : NULL;
	if (e) {
		*p++ = '\\';
		*p++ = to[e - from];
		return p;
	}
	if (s[0] >= 32 && s[0] < 127) {
		*p++ = (char)s[0];
		return p;
	}
	return p + sprintf(p, "\\u%04x", s[0]);
}

/* As it is, but for the C1 control characters; bytes that are not UTF-8 too, as babeltrace2 does.
 */
static char *put_high(char *p, const unsigned char *s, size_t len, size_t *ret_used)
{
	size_t n = utf8_len(s, len);

	*ret_used = n ? n : 1;
	if (is_c1(s, n))
		return p + sprintf(p, "\\u%04x", s[1]);
	memcpy(p, s, *ret_used);
	return p + *ret_used;
}

/* Copies up to the first byte that is written as something else. Returns how many. */
static size_t put_plain(char *p, const unsigned char *s, size_t len, bool json)
{
	/* Letters, digits and punctuation but " ' ? \\, by the byte; JSON has two of them more. */
	static const bool plain[256] = {
		[' '] = true,	      ['!'] = true,	    ['#' ... '&'] = true,
		['(' ... '>'] = true, ['@' ... '['] = true, [']' ... '~'] = true,
	};
	size_t n = 0;

	for (; n < len && (plain[s[n]] || (json && (s[n] == '\'' || s[n] == '?'))); n++)
		p[n] = (char)s[n];
	return n;
}

void rut_text_string(struct rut_text_out *o, const struct rut_text_style *style, const char *str,
		     size_t len)
{
	const unsigned char *s = (const unsigned char *)str;
	size_t i;
	char *p;

	rut_text_need(o, 6 * len + 8);
	if ((size_t)(o->end - o->p) < 6 * len + 8)
		return; /* no memory */
	p = o->p;
	*p++ = '"';
	i = put_plain(p, s, len, style->json);
	p += i;
	while (i < len) {
		size_t used = 1;

		if (s[i] >= 0x80 && !style->json)
			p = put_high(p, s + i, len - i, &used);
		else if (!needs_escape(s[i], style->json))
			*p++ = (char)s[i];
		else if (style->json)
			p = escape_json(p, s + i, len - i, &used);
		else
			p = escape_plain(p, s[i]);
		i += used;
	}
	*p++ = '"';
	o->p = p;
}

/* UTF-16 and UTF-32 become UTF-8; `unit` is 2 or 4 bytes. */
static void put_wide(struct rut_text_out *o, const struct rut_text_style *style,
		     const struct rut_ctf_type *t, const char *str, size_t len)
{
	struct rut_buf utf8 = RUT_BUF_INIT;
	const uint8_t *s = (const uint8_t *)str;
	uint32_t high = 0;

	for (size_t i = 0; i + t->char_bytes <= len; i += t->char_bytes) {
		uint32_t c = 0;

		for (unsigned int k = 0; k < t->char_bytes; k++)
			c = t->big_endian ? c << 8 | s[i + k] : c | (uint32_t)s[i + k] << 8 * k;
		if (t->char_bytes == 2 && c >= 0xd800 && c < 0xdc00) {
			high = c;
			continue;
		}
		if (t->char_bytes == 2 && high && c >= 0xdc00 && c < 0xe000)
			c = 0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00);
		high = 0;
		if (c < 0x80) {
			rut_buf_putc(&utf8, (char)c);
		} else if (c < 0x800) {
			rut_buf_putc(&utf8, (char)(0xc0 | c >> 6));
			rut_buf_putc(&utf8, (char)(0x80 | (c & 63)));
		} else if (c < 0x10000) {
			rut_buf_putc(&utf8, (char)(0xe0 | c >> 12));
			rut_buf_putc(&utf8, (char)(0x80 | (c >> 6 & 63)));
			rut_buf_putc(&utf8, (char)(0x80 | (c & 63)));
		} else {
			rut_buf_putc(&utf8, (char)(0xf0 | (c >> 18 & 7)));
			rut_buf_putc(&utf8, (char)(0x80 | (c >> 12 & 63)));
			rut_buf_putc(&utf8, (char)(0x80 | (c >> 6 & 63)));
			rut_buf_putc(&utf8, (char)(0x80 | (c & 63)));
		}
	}
	rut_text_string(o, style, utf8.data ? utf8.data : "", utf8.len);
	rut_buf_fini(&utf8);
}

/* ---- Numbers ---- */

static void put_based(struct rut_text_out *o, const struct rut_ctf_type *t, uint64_t v)
{
	unsigned int size = t->vlen ? 64 : (unsigned int)t->size;
	/* As babeltrace2 does it: whole digits, so that those of a negative number are all alike.
	 */
	unsigned int keep = t->base == 8    ? (size + 2) / 3 * 3
			    : t->base == 16 ? (size + 3) / 4 * 4
					    : size;

	rut_text_need(o, 80);
	if (keep < 64)
		v &= ((uint64_t)1 << keep) - 1;
	switch (t->base) {
	case 2:
		*o->p++ = '0';
		*o->p++ = 'b';
		for (unsigned int i = size; i-- > 0;)
			*o->p++ = (char)('0' + (v >> i & 1));
		return;
	case 8:
		o->p += sprintf(o->p, "0%" PRIo64, v);
		return;
	default:
		o->p = rut_text_hex(o->p, v);
	}
}

static void put_int(struct rut_text_out *o, const struct rut_text_style *style,
		    const struct rut_ctf_type *t, uint64_t v)
{
	rut_text_need(o, 24);
	if (t->base != 10 && !style->json)
		put_based(o, t, v);
	else
		o->p = t->is_signed ? rut_text_i64(o->p, (int64_t)v) : rut_text_u64(o->p, v);
}

static void put_double(struct rut_text_out *o, const struct rut_text_style *style, double d)
{
	rut_text_need(o, 40);
	if (!style->json)
		o->p += sprintf(o->p, "%g", d);
	else if (!isfinite(d))
		o->p += sprintf(o->p, "null");
	else
		o->p += sprintf(o->p, "%.17g", d);
}

/* The first range that may hold the value. */
static uint32_t first_range(const struct rut_ctf_type *t, uint64_t v)
{
	uint32_t lo = 0, hi = t->ordered ? t->n_ranges : 0;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (t->ranges[mid].hi < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Every label with a range that holds the value (BITMAP: with its bits set). */
static size_t put_labels(struct rut_text_out *o, const struct rut_text_style *style,
			 const struct rut_ctf_type *t, uint64_t v)
{
	uint32_t last = UINT32_MAX;
	size_t n = 0;

	for (uint32_t i = first_range(t, v); i < t->n_ranges; i++) {
		const struct rut_ctf_range *r = &t->ranges[i];
		bool in = t->is_signed
				  ? (int64_t)v >= (int64_t)r->lo && (int64_t)v <= (int64_t)r->hi
				  : v >= r->lo && v <= r->hi;

		if (t->kind == RUT_CTF_KIND_BITMAP) {
			in = false;
			for (uint64_t b = r->lo; b <= r->hi && b < 64; b++)
				in |= v >> b & 1;
		}
		if (!in && t->ordered)
			break;
		if (!in || r->label == last)
			continue;
		if (n++)
			rut_text_put(o, ", ", style->json ? 1 : 2);
		rut_text_string(o, style, t->labels[r->label], strlen(t->labels[r->label]));
		last = r->label;
	}
	return n;
}

static void put_enum(struct rut_text_out *o, const struct rut_text_style *style,
		     const struct rut_ctf_type *t, uint64_t v)
{
	if (style->json) {
		rut_text_lit(o, "{\"value\":");
		put_int(o, style, t, v);
		rut_text_lit(o, ",\"labels\":[");
		put_labels(o, style, t, v);
		rut_text_lit(o, "]}");
		return;
	}
	rut_text_lit(o, "( ");
	if (!put_labels(o, style, t, v))
		rut_text_lit(o, "<unknown>");
	rut_text_lit(o, " : container = ");
	put_int(o, style, t, v);
	rut_text_lit(o, " )");
}

static void put_blob(struct rut_text_out *o, const struct rut_text_style *style, const char *s,
		     size_t len)
{
	static const char hex[] = "0123456789abcdef";

	rut_text_put(o, "\"", style->json);
	if (!style->json)
		rut_text_lit(o, "{ ");
	for (size_t i = 0; i < len; i++) {
		char two[3] = {hex[(uint8_t)s[i] >> 4], hex[s[i] & 15], ' '};

		rut_text_put(o, two, style->json ? 2 : 3);
	}
	rut_text_put(o, style->json ? "\"" : "}", 1);
}

static void put_scalar(struct rut_text_out *o, const struct rut_text_style *style,
		       const struct rut_ctf_type *t, const struct rut_ctf_value *v)
{
	switch (t->kind) {
	case RUT_CTF_KIND_ENUM:
		put_enum(o, style, t, v->u);
		break;
	case RUT_CTF_KIND_BITMAP:
		if (t->n_labels)
			put_enum(o, style, t, v->u);
		else
			put_int(o, style, t, v->u);
		break;
	case RUT_CTF_KIND_BOOL:
		if (v->u)
			rut_text_lit(o, "true");
		else
			rut_text_lit(o, "false");
		break;
	case RUT_CTF_KIND_FLOAT:
		put_double(o, style, v->d);
		break;
	case RUT_CTF_KIND_BLOB:
		put_blob(o, style, v->str, v->len);
		break;
	case RUT_CTF_KIND_INT:
		put_int(o, style, t, v->u);
		break;
	default:
		if (t->char_bytes > 1)
			put_wide(o, style, t, v->str, v->len);
		else
			rut_text_string(o, style, v->str, v->len);
	}
}

/* ---- Compounds ---- */

static void put_member_name(struct rut_text_out *o, const struct rut_text_style *style,
			    const char *name)
{
	if (style->json) {
		rut_text_string(o, style, name, strlen(name));
		rut_text_lit(o, ":");
	} else if (style->names) {
		rut_text_put(o, name, strlen(name));
		rut_text_lit(o, " = ");
	}
}

static void put_list(struct rut_text_out *o, const struct rut_text_style *style,
		     struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	bool is_struct = t->kind == RUT_CTF_KIND_STRUCT;
	uint64_t n = rut_ctf_iter_enter(it, t);

	rut_text_put(o, is_struct ? "{ " : "[ ", style->json ? 1 : 2);
	for (uint64_t i = 0; i < n && !it->failed && !o->buf->failed; i++) {
		if (i)
			rut_text_put(o, ", ", style->json ? 1 : 2);
		if (is_struct) {
			put_member_name(o, style, t->fields[i].name);
		} else if (style->names && !style->json) {
			rut_text_need(o, 32);
			*o->p++ = '[';
			o->p = rut_text_u64(o->p, i);
			rut_text_lit(o, "] = ");
		}
		rut_text_tree(o, style, it, is_struct ? t->fields[i].type : t->elem);
	}
	if (n && !style->json)
		rut_text_lit(o, " ");
	rut_text_put(o, is_struct ? "}" : "]", 1);
}

void rut_text_tree(struct rut_text_out *o, const struct rut_text_style *style,
		   struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	struct rut_ctf_value v;
	uint64_t n;

	switch (t->kind) {
	case RUT_CTF_KIND_ARRAY:
	case RUT_CTF_KIND_SEQUENCE:
		if (t->text && t->elem->size == 8)
			break;
		__attribute__((fallthrough));
	case RUT_CTF_KIND_STRUCT:
		put_list(o, style, it, t);
		return;
	case RUT_CTF_KIND_VARIANT:
		n = rut_ctf_iter_enter(it, t);
		if (it->failed)
			return;
		if (!style->json)
			rut_text_lit(o, "{ ");
		rut_text_tree(o, style, it, t->fields[n].type);
		if (!style->json)
			rut_text_lit(o, " }");
		return;
	case RUT_CTF_KIND_OPTIONAL:
		if (rut_ctf_iter_enter(it, t)) {
			rut_text_tree(o, style, it, t->elem);
			return;
		}
		if (style->json)
			rut_text_lit(o, "null");
		else
			rut_text_lit(o, "<none>");
		return;
	default:
		break;
	}
	rut_ctf_iter_value(it, t, &v);
	if (v.kind != RUT_CTF_VALUE_NONE)
		put_scalar(o, style, t, &v);
	else if (style->json)
		rut_text_lit(o, "null");
}
