/* SPDX-License-Identifier: MIT */
/*
 * Which bit means what differs from kernel to kernel, and only a trace event's print format says
 * so: kmem:mm_page_alloc lists names and values, the composed ones first, which is the order in
 * which they are to be tried. Flags are shown in hexadecimal where that is not readable.
 */
#include "script/gfp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define FORMAT "events/kmem/mm_page_alloc/format"

struct gfp {
	char name[40];
	uint64_t bits;
};

static struct gfp *gfp_table;
static size_t gfp_count;

/* What stands there is a C expression of numbers, casts and the operators ~ << & |. */
static uint64_t parse_or(const char **s, unsigned depth);

static void skip_spaces(const char **s)
{
	*s += strspn(*s, " ");
}

static uint64_t parse_unary(const char **s, unsigned depth)
{
	uint64_t v = 0;
	char *end;

	skip_spaces(s);
	if (!depth)
		return 0;
	if (**s == '~') {
		++*s;
		return ~parse_unary(s, depth - 1);
	}
	if (**s == '(') {
		++*s;
		skip_spaces(s);
		if ((**s | 0x20) >= 'a' && (**s | 0x20) <= 'z') {
			*s += strcspn(*s, ")"); /* a cast */
			*s += **s == ')';
			return parse_unary(s, depth - 1);
		}
		v = parse_or(s, depth - 1);
		skip_spaces(s);
		*s += **s == ')';
		return v;
	}
	v = strtoull(*s, &end, 0);
	*s = end + strspn(end, "uUlL");
	return v;
}

static uint64_t parse_shift(const char **s, unsigned depth)
{
	uint64_t v = parse_unary(s, depth);

	for (skip_spaces(s); !strncmp(*s, "<<", 2); skip_spaces(s)) {
		*s += 2;
		v <<= parse_unary(s, depth) & 63;
	}
	return v;
}

static uint64_t parse_and(const char **s, unsigned depth)
{
	uint64_t v = parse_shift(s, depth);

	for (skip_spaces(s); **s == '&'; skip_spaces(s)) {
		++*s;
		v &= parse_shift(s, depth);
	}
	return v;
}

static uint64_t parse_or(const char **s, unsigned depth)
{
	uint64_t v = parse_and(s, depth);

	for (skip_spaces(s); **s == '|'; skip_spaces(s)) {
		++*s;
		v |= parse_and(s, depth);
	}
	return v;
}

static void parse_table(const char *text)
{
	const char *s = strstr(text, "gfp_flags=");

	for (s = s ? strchr(s, '{') : NULL; s; s = strchr(s + 1, '{')) {
		const char *name = strstr(s, ", \""), *end, *value = s + 1;
		struct gfp *more;

		if (!name || !(end = strchr(name + 3, '"')))
			return;
		if ((size_t)(end - name - 3) >= sizeof(more->name))
			continue;
		more = reallocarray(gfp_table, gfp_count + 1, sizeof(*more));
		if (!more)
			return;
		gfp_table = more;
		more += gfp_count++;
		memset(more, 0, sizeof(*more));
		memcpy(more->name, name + 3, (size_t)(end - name - 3));
		more->bits = parse_or(&value, 64);
		s = end;
	}
}

static void load_table(void)
{
	static const char *const places[] = {"/sys/kernel/tracing/" FORMAT,
					     "/sys/kernel/debug/tracing/" FORMAT};
	static bool tried;

	for (size_t i = 0; i < 2 && !tried; i++) {
		_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

		if (!rut_buf_read_file(&text, places[i], 1 << 20) && text.data) {
			parse_table(text.data);
			tried = true;
		}
	}
	tried = true;
}

void rut_script_gfp_text(uint64_t flags, struct rut_buf *out)
{
	const char *between = "";

	load_table();
	if (!flags)
		rut_buf_putc(out, '0');
	for (size_t i = 0; i < gfp_count && flags; i++) {
		uint64_t bits = gfp_table[i].bits;

		if (bits && (flags & bits) == bits) {
			rut_buf_printf(out, "%s%s", between, gfp_table[i].name);
			between = "|";
			flags &= ~bits;
		}
	}
	if (flags)
		rut_buf_printf(out, "%s0x%" PRIx64, between, flags);
}
