/* SPDX-License-Identifier: MIT */
#include "output/text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/buf.h"

void rut_text_init(void)
{
	setlocale(LC_CTYPE, "");
	/* Names are UTF-8 whatever the shell of root says; C.UTF-8 is always there on Debian. */
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

size_t rut_text_decode(const char *s, size_t len, uint32_t *ret)
{
	const unsigned char *u = (const unsigned char *)s;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = u[0] < 0x80	     ? 1
		   : u[0] >> 5 == 6  ? 2
		   : u[0] >> 4 == 14 ? 3
		   : u[0] >> 3 == 30 ? 4
				     : 0;
	uint32_t cp;

	*ret = UINT32_MAX;
	if (!n || n > len)
		return 1;
	cp = n == 1 ? u[0] : u[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (u[i] >> 6 != 2)
			return 1;
		cp = cp << 6 | (u[i] & 0x3f);
	}
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 1;
	*ret = cp;
	return n;
}

static bool turns_direction(uint32_t cp)
{
	return cp == 0x061c || cp == 0x200e || cp == 0x200f || (cp >= 0x202a && cp <= 0x202e) ||
	       (cp >= 0x2066 && cp <= 0x2069);
}

/* One character made harmless: its bytes in `out`, its columns as the result. */
static size_t clean_char(const char *s, size_t len, size_t *ret_used, char out[12])
{
	uint32_t cp;
	int width;

	*ret_used = rut_text_decode(s, len, &cp);
	if (cp == UINT32_MAX || cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
		return (size_t)snprintf(out, 12, "\\x%02x",
					cp == UINT32_MAX ? (unsigned char)*s : (unsigned)cp);
	width = cp < 0x7f ? 1 : wcwidth((wchar_t)cp);
	if (width < 0 || turns_direction(cp))
		return (size_t)snprintf(out, 12, "\\u%04x", (unsigned)cp);
	memcpy(out, s, *ret_used);
	out[*ret_used] = '\0';
	return (size_t)width;
}

#define EACH_BYTE(v) (0x0101010101010101ull * (v))

/* Whether eight bytes are plain ASCII, from 0x20 to 0x7e. */
static bool eight_are_plain(const char *s)
{
	uint64_t w;

	memcpy(&w, s, sizeof(w));
	/* What borrows from its neighbour, or carries into it, is not plain itself. */
	return !((w | (w - EACH_BYTE(0x20)) | (w + EACH_BYTE(1))) & EACH_BYTE(0x80));
}

/* How many bytes of these are plain ASCII, up to the first other: nearly always all of them. */
static size_t plain_run(const char *s, size_t len)
{
	size_t n = 0;

	while (n + 8 <= len && eight_are_plain(s + n))
		n += 8;
	while (n < len && s[n] >= 0x20 && s[n] < 0x7f)
		n++;
	return n;
}

static size_t clean(struct rut_buf *b, const char *s)
{
	const char *end = s + strlen(s);
	size_t columns = 0;

	while (s < end) {
		size_t n = plain_run(s, (size_t)(end - s));
		char out[12];

		if (n) {
			if (b)
				rut_buf_add(b, s, n);
			columns += n;
		} else {
			columns += clean_char(s, strnlen(s, 4), &n, out);
			if (b)
				rut_buf_puts(b, out);
		}
		s += n;
	}
	return columns;
}

void rut_text_add(struct rut_buf *b, const char *s)
{
	clean(b, s);
}

void rut_text_add_lines(struct rut_buf *b, const char *s)
{
	const char *end = s + strlen(s);

	while (s < end) {
		size_t n = plain_run(s, (size_t)(end - s));
		char out[12];

		if (n) {
			rut_buf_add(b, s, n);
		} else if (*s == '\n') {
			rut_buf_putc(b, '\n');
			n = 1;
		} else {
			clean_char(s, strnlen(s, 4), &n, out);
			rut_buf_puts(b, out);
		}
		s += n;
	}
}

size_t rut_text_width(const char *s)
{
	return clean(NULL, s);
}

/* How many of the `len` bytes at `s` fit into `width` columns. */
static size_t prefix(const char *s, size_t len, size_t width)
{
	size_t at = 0, columns = 0, used;
	char out[12];

	while (at < len) {
		columns += clean_char(s + at, strnlen(s + at, 4), &used, out);
		if (columns > width)
			break;
		at += used;
	}
	return at < len ? at : len;
}

/* One line of `len` bytes, which has no line break. */
static void wrap_line(struct rut_buf *b, const char *s, size_t len, size_t width)
{
	size_t indent = strspn(s, " "), room = width;

	if (indent > width / 2)
		indent = width / 2;
	for (;;) {
		size_t cut = prefix(s, len, room), at = cut;

		while (cut < len && at && s[at] != ' ')
			at--;
		/* Nothing but the indentation before it: a word that is too long is broken. */
		if (at <= strspn(s, " "))
			at = cut;
		rut_buf_add(b, s, at);
		rut_buf_putc(b, '\n');
		s += at;
		len -= at;
		while (len && *s == ' ') {
			s++;
			len--;
		}
		if (!len || !at)
			return;
		rut_buf_fill(b, ' ', indent + 2);
		room = width > indent + 2 ? width - indent - 2 : 1;
	}
}

void rut_text_wrap(struct rut_buf *b, const char *s, size_t width)
{
	while (*s) {
		size_t len = strcspn(s, "\n");

		wrap_line(b, s, len, width);
		s += len + (s[len] == '\n');
	}
}

static void add_spaces(struct rut_buf *b, size_t n)
{
	rut_buf_fill(b, ' ', n);
}

/* The end of `s` that takes at most `width` columns; what is left over is padded. */
static void add_right_end(struct rut_buf *b, const char *s, size_t columns, size_t width)
{
	size_t used;
	char out[12];

	while (*s && columns > width) {
		columns -= clean_char(s, strnlen(s, 4), &used, out);
		s += used;
	}
	add_spaces(b, width - columns);
	clean(b, s);
}

static void add_left_end(struct rut_buf *b, const char *s, size_t width)
{
	size_t used, w, columns = 0;
	char out[12];

	while (*s && columns + (w = clean_char(s, strnlen(s, 4), &used, out)) <= width) {
		rut_buf_puts(b, out);
		columns += w;
		s += used;
	}
	add_spaces(b, width - columns);
}

static const char dots[] = "...";

void rut_text_fit(struct rut_buf *b, const char *s, size_t width, int flags)
{
	size_t columns = rut_text_width(s);

	if (columns <= width) {
		if (flags & RUT_TEXT_RIGHT)
			add_spaces(b, width - columns);
		clean(b, s);
		if (!(flags & RUT_TEXT_RIGHT))
			add_spaces(b, width - columns);
	} else if (flags & RUT_TEXT_KEEP_BOTH && width > strlen(dots)) {
		size_t right = (width - strlen(dots)) / 2;

		add_left_end(b, s, width - strlen(dots) - right);
		rut_buf_puts(b, dots);
		add_right_end(b, s, columns, right);
	} else if (flags & RUT_TEXT_KEEP_RIGHT) {
		add_right_end(b, s, columns, width);
	} else {
		add_left_end(b, s, width);
	}
}

void rut_text_number(struct rut_buf *b, uint64_t v, unsigned digits)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v || (at && sizeof(text) - at < digits));
	rut_buf_add(b, text + at, sizeof(text) - at);
}

/* `v` / 10^decimals, and the unit. */
static const char *put_decimal(char *buf, uint64_t v, unsigned decimals, const char *unit)
{
	char text[24];
	size_t at = sizeof(text), n;

	for (unsigned i = 0; v || i <= decimals; i++) {
		if (i == decimals && decimals)
			text[--at] = '.';
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	}
	n = sizeof(text) - at;
	memcpy(buf, text + at, n);
	memcpy(buf + n, unit, strlen(unit) + 1);
	return buf;
}

/* In integers: a trace can have a million of them a second. */
const char *rut_text_duration(char buf[RUT_TEXT_DURATION_SIZE], uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = {{1000, "us"}, {1000000, "ms"}, {1000000000, "s"}};

	if (ns < 1000)
		return put_decimal(buf, ns, 0, "ns");
	for (size_t u = 0; u < 3; u++) {
		uint64_t unit = units[u].ns;

		/* Three digits; what would round to four belongs to the next unit. */
		for (unsigned decimals = 3, scale = 100; decimals-- > 0; scale /= 10) {
			uint64_t v = ns > UINT64_MAX / 200 ? 1000 : (ns * scale + unit / 2) / unit;

			if (v < 1000 && (u < 2 || ns < 100 * unit))
				return put_decimal(buf, v, decimals, units[u].name);
		}
	}
	ns = ns / 1000000000 + (ns % 1000000000 >= 500000000);
	snprintf(buf, RUT_TEXT_DURATION_SIZE, "%" PRIu64 "m%02us", ns / 60, (unsigned)(ns % 60));
	return buf;
}
