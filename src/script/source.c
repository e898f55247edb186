/* SPDX-License-Identifier: MIT */
#include "script/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rut_source_init(struct rut_source *s, const char *name, const char *text, size_t len)
{
	*s = (struct rut_source){.name = name, .text = text, .len = len, .whole = len};
}

void rut_source_fini(struct rut_source *s)
{
	rut_buf_fini(&s->messages);
}

/* The imported file of the position; NULL: it is in the script itself. */
static const struct rut_source_part *part_of(const struct rut_source *s, uint32_t pos)
{
	for (unsigned i = s->nparts; i-- > 0;)
		if (pos >= s->parts[i].begin)
			return &s->parts[i];
	return NULL;
}

const char *rut_source_name(const struct rut_source *s, uint32_t pos)
{
	const struct rut_source_part *part = part_of(s, pos);

	return part ? part->name : s->name;
}

static uint32_t line_begin(const struct rut_source *s, uint32_t pos)
{
	if (pos > s->whole)
		pos = (uint32_t)s->whole;
	while (pos && s->text[pos - 1] != '\n')
		pos--;
	return pos;
}

void rut_source_where(const struct rut_source *s, uint32_t pos, uint32_t *ret_line,
		      uint32_t *ret_column)
{
	uint32_t line = 1;

	const struct rut_source_part *part;

	if (pos > s->whole)
		pos = (uint32_t)s->whole;
	part = part_of(s, pos);
	for (uint32_t i = part ? part->begin : 0; i < pos; i++)
		line += s->text[i] == '\n';
	*ret_line = line;
	*ret_column = pos - line_begin(s, pos) + 1;
}

/* The line, and carets below the part that is meant. Long lines are cut. */
static void show_line(struct rut_source *s, struct rut_span at)
{
	uint32_t begin = line_begin(s, at.pos), end, column;
	struct rut_buf *out = &s->messages;

	if (at.pos > s->whole)
		at.pos = (uint32_t)s->whole;
	if (at.pos - begin > 120)
		begin = at.pos - 60;
	end = begin;
	while (end < s->whole && s->text[end] != '\n' && end - begin < 160)
		end++;
	column = at.pos - begin;
	for (uint32_t i = begin; i < end; i++)
		rut_buf_putc(out, (unsigned char)s->text[i] < ' ' ? ' ' : s->text[i]);
	rut_buf_putc(out, '\n');
	for (uint32_t i = 0; i < column; i++)
		rut_buf_putc(out, ' ');
	for (uint32_t i = 0; i < (at.len ? at.len : 1) && (i == 0 || at.pos + i < end); i++)
		rut_buf_putc(out, i || s->as_bpftrace ? '~' : '^');
	rut_buf_putc(out, '\n');
}

__attribute__((format(printf, 4, 0))) static void add_message(struct rut_source *s,
							      struct rut_span at, const char *kind,
							      const char *fmt, va_list ap)
{
	uint32_t line, column;

	rut_source_where(s, at.pos, &line, &column);
	rut_buf_printf(&s->messages, "%s:%u:%u", rut_source_name(s, at.pos), line, column);
	if (s->as_bpftrace)
		rut_buf_printf(&s->messages, "-%u", column + (at.len ? at.len : 1));
	rut_buf_printf(&s->messages, ": %s: ", kind);
	rut_buf_vprintf(&s->messages, fmt, ap);
	rut_buf_putc(&s->messages, '\n');
	show_line(s, at);
}

int rut_source_error(struct rut_source *s, struct rut_span at, const char *fmt, ...)
{
	va_list ap;

	if (s->errors++ >= RUT_SOURCE_ERRORS_MAX)
		return -EINVAL;
	va_start(ap, fmt);
	add_message(s, at, s->as_bpftrace ? "ERROR" : "error", fmt, ap);
	va_end(ap);
	return -EINVAL;
}

__attribute__((format(printf, 4, 5))) static void add_text(struct rut_source *s, struct rut_span at,
							   const char *kind, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_message(s, at, kind, fmt, ap);
	va_end(ap);
}

void rut_source_note(struct rut_source *s, struct rut_span at, const char *text)
{
	if (s->errors <= RUT_SOURCE_ERRORS_MAX)
		add_text(s, at, s->as_bpftrace ? "ERROR" : "note", "%s", text);
}

int rut_source_plain(struct rut_source *s, const char *fmt, ...)
{
	va_list ap;

	if (s->errors++ >= RUT_SOURCE_ERRORS_MAX)
		return -EINVAL;
	rut_buf_puts(&s->messages, s->as_bpftrace ? "ERROR: " : "error: ");
	va_start(ap, fmt);
	rut_buf_vprintf(&s->messages, fmt, ap);
	va_end(ap);
	rut_buf_putc(&s->messages, '\n');
	return -EINVAL;
}

void rut_source_warn(struct rut_source *s, struct rut_span at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_message(s, at, s->as_bpftrace ? "WARNING" : "warning", fmt, ap);
	va_end(ap);
}

void rut_source_hint(struct rut_source *s, const char *fmt, ...)
{
	va_list ap;

	if (s->errors > RUT_SOURCE_ERRORS_MAX)
		return;
	rut_buf_puts(&s->messages, s->as_bpftrace ? "HINT: " : "hint: ");
	va_start(ap, fmt);
	rut_buf_vprintf(&s->messages, fmt, ap);
	va_end(ap);
	rut_buf_putc(&s->messages, '\n');
}

/* Levenshtein's distance, of short names. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t row[64];

	for (size_t k = 0; k <= nb; k++)
		row[k] = k;
	for (size_t i = 0; i < na; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t k = 1; k <= nb; k++) {
			size_t changed = diagonal + (a[i] != b[k - 1]);
			size_t other = 1 + (row[k] < row[k - 1] ? row[k] : row[k - 1]);

			diagonal = row[k];
			row[k] = changed < other ? changed : other;
		}
	}
	return row[nb];
}

void rut_nearest_add(struct rut_nearest *n, const char *name)
{
	size_t len = strlen(name), d, limit = n->wanted_len / 3 + 1;

	if (len >= sizeof(n->name) || n->wanted_len >= sizeof(n->name))
		return;
	d = distance(n->wanted, n->wanted_len, name, len);
	if (d > limit || (n->name[0] && d >= n->distance))
		return;
	snprintf(n->name, sizeof(n->name), "%s", name);
	n->distance = d;
}
