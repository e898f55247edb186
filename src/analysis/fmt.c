/* SPDX-License-Identifier: MIT */
#include "analysis/fmt.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/lami.h"
#include "base/buf.h"

#define GRAPH_WIDTH	80
#define GRAPH_WIDTH_MIN 10 /* below that lines wrap */
#define BOUND_WIDTH	8
#define NSEC		1000000000ll

void rut_an_fmt_time(char *out, size_t size, int64_t ns, bool date, bool gmt)
{
	int64_t s = ns >= 0 ? ns / NSEC : -((-ns + NSEC - 1) / NSEC);
	time_t t = (time_t)s;
	struct tm tm = {0};
	size_t n = 0;

	if (gmt)
		gmtime_r(&t, &tm);
	else
		localtime_r(&t, &tm);
	if (date)
		n = (size_t)snprintf(out, size, "%04d-%02d-%02d ", tm.tm_year + 1900, tm.tm_mon + 1,
				     tm.tm_mday);
	snprintf(out + n, size - n, "%02d:%02d:%02d.%09lld", tm.tm_hour, tm.tm_min, tm.tm_sec,
		 (long long)(ns - s * NSEC));
}

void rut_an_fmt_range(char *out, size_t size, int64_t begin_ns, int64_t end_ns, bool date, bool gmt)
{
	char b[64], e[64];

	rut_an_fmt_time(b, sizeof(b), begin_ns, date, gmt);
	rut_an_fmt_time(e, sizeof(e), end_ns, date, gmt);
	snprintf(out, size, "[%s, %s]", b, e);
}

void rut_an_fmt_size(char *out, size_t size, double bytes)
{
	static const char *const units[] = {"  B", "KiB", "MiB", "GiB", "TiB",
					    "PiB", "EiB", "ZiB", "YiB"};
	int exponent = bytes > 0 ? (int)(log(bytes) / log(1024)) : 0;

	if (exponent > 8)
		exponent = 8;
	if (exponent < 0)
		exponent = 0;
	bytes /= pow(1024, exponent);
	snprintf(out, size, exponent ? "%0.2f %s" : "%0.0f %s", bytes, units[exponent]);
}

size_t rut_an_fmt_u64(char *out, uint64_t v)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	for (size_t i = 0; i < n; i++)
		out[i] = digits[n - 1 - i];
	out[n] = '\0';
	return n;
}

static void put_us(char *out, uint64_t ns)
{
	unsigned int rest = (unsigned int)(ns % 1000);

	out += rut_an_fmt_u64(out, ns / 1000);
	out[0] = '.';
	out[1] = (char)('0' + rest / 100);
	out[2] = (char)('0' + rest / 10 % 10);
	out[3] = (char)('0' + rest % 10);
	out[4] = '\0';
}

void rut_an_fmt_us(char *out, size_t size, double ns)
{
	/* Whole nanoseconds need no floating point, which prints decimals slowly. */
	if (ns >= 0 && ns < 1e15 && ns == (double)(int64_t)ns && size > 24)
		put_us(out, (uint64_t)ns);
	else
		snprintf(out, size, "%0.03f", ns / 1000);
}

void rut_an_fmt_us_cell(char *out, size_t size, const struct rut_cell *c)
{
	if (c->type == RUT_LAMI_UNKNOWN)
		snprintf(out, size, "?");
	else
		rut_an_fmt_us(out, size, rut_an_cell_value(c));
}

void rut_an_fmt_process(char *out, size_t size, const struct rut_cell *c)
{
	if (c->type == RUT_LAMI_EMPTY)
		snprintf(out, size, "Unknown (N/A)");
	else if (c->j == RUT_LAMI_NONE)
		snprintf(out, size, "%s", c->str ? c->str : "");
	else
		snprintf(out, size, "%s (%lld)", c->str ? c->str : "", (long long)c->j);
}

void rut_an_fmt_thread(char *out, size_t size, const char *name, int64_t tid)
{
	if (tid < 0)
		snprintf(out, size, "%s", name);
	else
		snprintf(out, size, "%s (%lld)", name, (long long)tid);
}

static int characters(const char *s)
{
	const size_t len = strlen(s);
	int n = (int)len;

	for (size_t i = 0; i < len; i++)
		n -= (s[i] & 0xc0) == 0x80;
	return n;
}

static void spaces(struct rut_buf *b, int n)
{
	if (n > 0)
		rut_buf_fill(b, ' ', (size_t)n);
}

void rut_an_fmt_pad(struct rut_buf *b, const char *s, int width, bool right)
{
	size_t len = strlen(s), fill;
	int n = width - characters(s);
	char *to;

	fill = n > 0 ? (size_t)n : 0;
	if (rut_buf_reserve(b, len + fill))
		return;
	to = b->data + b->len;
	memset(right ? to : to + len, ' ', fill);
	memcpy(right ? to + fill : to, s, len);
	to[len + fill] = '\0';
	b->len += len + fill;
}

void rut_an_fmt_line(struct rut_buf *b, const char *layout, ...)
{
	va_list ap;

	va_start(ap, layout);
	for (const char *p = layout; *p;) {
		size_t plain = strcspn(p, "{");
		bool right;
		int width = 0;

		rut_buf_add(b, p, plain);
		p += plain;
		if (!*p)
			break;
		right = p[2] == '>';
		for (p += 3; *p != '}'; p++)
			width = 10 * width + *p - '0';
		p++;
		rut_an_fmt_pad(b, va_arg(ap, const char *), width, right);
	}
	va_end(ap);
}

/* ---- Graphs ---- */

void rut_an_graph_fini(struct rut_graph *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->rows[i].label);
	free(g->rows);
	*g = (struct rut_graph){0};
}

void rut_an_graph_add(struct rut_graph *g, double value, const char *text, double lower,
		      const char *label)
{
	struct rut_graph_row *r;

	if (g->n == g->cap) {
		size_t cap = g->cap ? g->cap * 2 : 32;

		r = realloc(g->rows, cap * sizeof(*r));
		if (!r)
			return;
		g->rows = r;
		g->cap = cap;
	}
	r = &g->rows[g->n++];
	*r = (struct rut_graph_row){.value = value, .lower = lower};
	snprintf(r->text, sizeof(r->text), "%s", text);
	r->label = label ? strdup(label) : NULL;
}

static size_t graph_columns; /* 0: no terminal */

void rut_an_graph_set_columns(size_t columns)
{
	graph_columns = columns;
}

/* Of the bars, beside which stand `beside` columns. */
static int graph_width(int beside)
{
	int width = (int)graph_columns - beside;

	if (!graph_columns)
		return GRAPH_WIDTH;
	return width > GRAPH_WIDTH_MIN ? width : GRAPH_WIDTH_MIN;
}

static void rule(struct rut_buf *out, int width)
{
	for (int i = 0; i < width; i++)
		rut_buf_putc(out, '#');
	rut_buf_putc(out, '\n');
}

static void bar(struct rut_buf *out, double value, double max, int width)
{
	int n = max > 0 ? (int)(width * value / max) : 0;

	for (int i = 0; i < n; i++)
		rut_buf_puts(out, "█");
	spaces(out, width - n);
}

static void extremes(const struct rut_graph *g, double *ret_max, int *ret_len, int *ret_label)
{
	*ret_max = 0;
	*ret_len = 0;
	*ret_label = 0;
	for (size_t i = 0; i < g->n; i++) {
		int len = characters(g->rows[i].text);
		int label = g->rows[i].label ? characters(g->rows[i].label) : 0;

		if (label > *ret_label)
			*ret_label = label;
		if (g->rows[i].value > *ret_max)
			*ret_max = g->rows[i].value;
		if (len > *ret_len)
			*ret_len = len;
	}
}

void rut_an_graph_bars(struct rut_graph *g, struct rut_buf *out, const char *title,
		       const char *label_header)
{
	int len, label, width;
	double max;

	extremes(g, &max, &len, &label);
	if (label_header && characters(label_header) > label)
		label = characters(label_header);
	width = graph_width(len + label + 2);
	if (g->n) {
		rut_buf_puts(out, title);
		if (label_header) {
			spaces(out, width - characters(title) + 2 + len);
			rut_buf_puts(out, label_header);
		}
		rut_buf_putc(out, '\n');
		rule(out, width);
		for (size_t i = 0; i < g->n; i++) {
			bar(out, g->rows[i].value, max, width);
			rut_buf_putc(out, ' ');
			rut_an_fmt_pad(out, g->rows[i].text, len, true);
			rut_buf_printf(out, " %s\n", g->rows[i].label ? g->rows[i].label : "");
		}
		rut_buf_putc(out, '\n');
	}
	rut_an_graph_fini(g);
}

void rut_an_graph_frequencies(struct rut_graph *g, struct rut_buf *out, const char *title,
			      const char *unit)
{
	int len, label, width;
	double max;

	extremes(g, &max, &len, &label);
	width = graph_width(len + 1);
	if (g->n) {
		rut_buf_printf(out, "%s (%s)\n", title, unit);
		rule(out, width);
		for (size_t i = 0; i < g->n; i++) {
			rut_buf_printf(out, "%7.03f ", g->rows[i].lower);
			bar(out, g->rows[i].value, max, width - BOUND_WIDTH);
			rut_buf_putc(out, ' ');
			rut_an_fmt_pad(out, g->rows[i].text, len, true);
			rut_buf_putc(out, '\n');
		}
		rut_buf_putc(out, '\n');
	}
	rut_an_graph_fini(g);
}

void rut_an_fmt_bar_value(char *out, size_t size, double v, bool is_float, const char *unit)
{
	char num[48];

	snprintf(num, sizeof(num), is_float ? "%0.02f" : "%0.0f", v);
	snprintf(out, size, "%s%s%s", num, unit ? " " : "", unit ? unit : "");
}
