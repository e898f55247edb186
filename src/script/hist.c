/* SPDX-License-Identifier: MIT */
#include "script/hist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "script/rows.h"
#include "script/type.h"
#include "script/value.h"

#define BAR_WIDTH   52
#define LABEL_WIDTH 16
/* The frame of a time series takes the columns 0 and GRAPH_LAST. */
#define GRAPH_LAST 52

int64_t rut_script_average(const struct rut_type *t, const uint64_t *words)
{
	if (!words[1])
		return 0;
	if (t->is_signed && (int64_t)words[0] < 0)
		return (int64_t)(0 - (0 - words[0]) / words[1]);
	return (int64_t)(words[0] / words[1]);
}

/* The lowest value of slot `i` > 0 of hist(). */
static uint64_t hist_low(uint32_t i, unsigned bits)
{
	uint32_t n = i - 1, group;

	if (n < 1u << bits)
		return n;
	group = (n >> bits) - 1;
	return ((uint64_t)(1u << bits) | (n & ((1u << bits) - 1))) << group;
}

/* What a slot holds: [low, high). */
struct range {
	int64_t low, high;
	bool below, above; /* no lower or upper end */
};

static struct range range_of(const struct rut_type *t, uint32_t slot, uint32_t slots)
{
	if (t->kind == RUT_T_LHIST)
		return (struct range){
			.low = t->min + ((int64_t)slot - 1) * t->step,
			.high = t->min + (int64_t)slot * t->step,
			.below = slot == 0,
			.above = slot == slots - 1,
		};
	if (slot == 0)
		return (struct range){.below = true};
	return (struct range){.low = (int64_t)hist_low(slot, t->bits),
			      .high = (int64_t)hist_low(slot + 1, t->bits)};
}

static uint32_t slots_of(const struct rut_type *t)
{
	return t->kind == RUT_T_LHIST ? rut_script_lhist_words(t) : rut_script_hist_words(t->bits);
}

/* 4096 as "4K", when all labels of the histogram are such. */
static void add_bound(int64_t v, bool short_form, struct rut_buf *out)
{
	static const char units[] = "KMGTPE";
	int unit = -1;

	while (short_form && v && v % 1024 == 0 && unit < 5) {
		v /= 1024;
		unit++;
	}
	rut_buf_printf(out, "%" PRId64, v);
	if (unit >= 0)
		rut_buf_putc(out, units[unit]);
}

static void add_label(const struct rut_script_style *s, const struct rut_type *t,
		      const struct range *r, struct rut_buf *out)
{
	/* Old releases show ranges in all of lhist(). */
	bool single = t->kind == RUT_T_HIST || !rut_script_style_old(s);
	bool short_form = t->kind == RUT_T_LHIST ? t->step % 1024 == 0 : t->bits == 0;
	size_t begin = out->len;

	if (r->below) {
		rut_buf_puts(out, "(..., ");
		add_bound(r->high, short_form, out);
		rut_buf_putc(out, ')');
	} else if (single && !r->above && r->high == r->low + 1) {
		rut_buf_printf(out, "[%" PRId64 "]", r->low);
	} else {
		rut_buf_putc(out, '[');
		add_bound(r->low, short_form, out);
		rut_buf_puts(out, ", ");
		if (r->above)
			rut_buf_puts(out, "...");
		/* 2^63 is the one bound that is no int64_t. */
		else if (r->high == INT64_MIN)
			rut_buf_puts(out, short_form ? "8E" : "9223372036854775808");
		else
			add_bound(r->high, short_form, out);
		rut_buf_putc(out, ')');
	}
	if (out->len - begin < LABEL_WIDTH)
		rut_buf_printf(out, "%*s", (int)(LABEL_WIDTH - (out->len - begin)), "");
}

/* The first and one behind the last slot in use. */
static void used_slots(const uint64_t *words, uint32_t slots, uint32_t *first, uint32_t *end)
{
	*end = slots;
	while (*end && !words[*end - 1])
		--*end;
	*first = 0;
	while (*first < *end && !words[*first])
		++*first;
}

void rut_script_hist_text(const struct rut_script_style *s, const struct rut_type *t,
			  const uint64_t *words, uint64_t div, struct rut_buf *out)
{
	uint32_t slots = slots_of(t), first, end;
	uint64_t most = 0;

	used_slots(words, slots, &first, &end);
	for (uint32_t i = first; i < end; i++)
		if (words[i] > most)
			most = words[i];
	for (uint32_t i = first; i < end; i++) {
		struct range r = range_of(t, i, slots);
		int bar = (int)((unsigned __int128)words[i] * BAR_WIDTH / most);

		add_label(s, t, &r, out);
		rut_buf_printf(out, "%8" PRIu64 " |", words[i] / (div ? div : 1));
		for (int k = 0; k < BAR_WIDTH; k++)
			rut_buf_putc(out, k < bar ? '@' : ' ');
		rut_buf_puts(out, "|\n");
	}
}

void rut_script_hist_json(const struct rut_type *t, const uint64_t *words, uint64_t div,
			  struct rut_buf *out)
{
	uint32_t slots = slots_of(t), first, end;

	used_slots(words, slots, &first, &end);
	rut_buf_putc(out, '[');
	for (uint32_t i = first; i < end; i++) {
		struct range r = range_of(t, i, slots);

		if (i > first)
			rut_buf_puts(out, ", ");
		rut_buf_putc(out, '{');
		if (!r.below)
			rut_buf_printf(out, "\"min\": %" PRId64 ", ", r.low);
		if (!r.above)
			rut_buf_printf(out, "\"max\": %" PRId64 ", ",
				       r.high == INT64_MIN ? INT64_MAX : r.high - 1);
		rut_buf_printf(out, "\"count\": %" PRIu64 "}", words[i] / (div ? div : 1));
	}
	rut_buf_putc(out, ']');
}

void rut_script_hist_each(const struct rut_type *t, const uint64_t *words,
			  void (*fn)(void *arg, int64_t low, int64_t high, bool above,
				     uint64_t count),
			  void *arg)
{
	uint32_t slots = slots_of(t), first, end;

	used_slots(words, slots, &first, &end);
	for (uint32_t i = first; i < end; i++) {
		struct range r = range_of(t, i, slots);

		fn(arg, r.below ? INT64_MIN : r.low, r.high == INT64_MIN ? INT64_MAX : r.high - 1,
		   r.above, words[i]);
	}
}

/* ---- time series ---- */

static const uint64_t *interval_at(const struct rut_type *t, const uint64_t *words, uint64_t number)
{
	const uint64_t *w;

	if (!t->count || !number)
		return NULL;
	w = words + (number - 1) % t->count * RUT_SCRIPT_TSERIES_WORDS;
	return w[0] == number && w[2] ? w : NULL;
}

static int64_t interval_value(const struct rut_type *t, const uint64_t *w)
{
	return t->agg == RUT_T_AVG ? rut_script_average(t, w + 1) : (int64_t)w[1];
}

uint64_t rut_script_tseries_last(const struct rut_type *t, const uint64_t *words)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		const uint64_t *w = words + (size_t)i * RUT_SCRIPT_TSERIES_WORDS;

		if (w[2] && w[0] > last)
			last = w[0];
	}
	return last;
}

int64_t rut_script_tseries_latest(const struct rut_type *t, const uint64_t *words)
{
	uint64_t last = rut_script_tseries_last(t, words);

	return last ? interval_value(t, interval_at(t, words, last)) : 0;
}

/* The first interval with a value that is among the last t->count ones; 0: none. */
static uint64_t first_interval(const struct rut_type *t, const uint64_t *words, uint64_t last)
{
	for (uint64_t n = last > t->count ? last - t->count + 1 : 1; n <= last; n++)
		if (interval_at(t, words, n))
			return n;
	return 0;
}

static uint64_t interval_wall(const struct rut_script_style *s, const struct rut_type *t,
			      uint64_t number)
{
	uint64_t ns = (number - 1) * t->interval_ns;

	/* The time of bpftrace's tests is one of day already (calls_agg.c). */
	if (getenv("BPFTRACE_DUMMY_TS_MAP"))
		return ns;
	if (s->names && s->names->wall_ns)
		return s->names->wall_ns(s->names->symbols, RUT_SCRIPT_CLOCK_BOOT, ns);
	return ns;
}

struct graph {
	int64_t min, max;
	unsigned digits; /* of a second */
	int left;	 /* columns of the times */
};

static const char *heading(unsigned digits)
{
	return digits == 0   ? "hh:mm:ss"
	       : digits == 3 ? "hh:mm:ss.ms"
	       : digits == 6 ? "hh:mm:ss.us"
			     : "hh:mm:ss.ns";
}

static void measure(const struct rut_type *t, const uint64_t *words, uint64_t first, uint64_t last,
		    struct graph *g)
{
	bool any = false;

	for (uint64_t n = first; n <= last; n++) {
		const uint64_t *w = interval_at(t, words, n);
		int64_t v;

		if (!w)
			continue;
		v = interval_value(t, w);
		if (!any || v < g->min)
			g->min = v;
		if (!any || v > g->max)
			g->max = v;
		any = true;
	}
	if (g->min == g->max) {
		if (t->is_signed || g->min > 0)
			g->min--;
		g->max++;
	}
	g->digits = first == last		       ? 9
		    : t->interval_ns % 1000000000 == 0 ? 0
		    : t->interval_ns % 1000000 == 0    ? 3
		    : t->interval_ns % 1000 == 0       ? 6
						       : 9;
	g->left = 9 + (int)(g->digits ? g->digits + 1 : 0);
}

static void add_scale(const struct graph *g, struct rut_buf *out)
{
	char low[24];
	int n = snprintf(low, sizeof(low), "%" PRId64, g->min);

	rut_buf_printf(out, "%*s%s%*" PRId64 "\n", g->left, "", low, GRAPH_LAST + 1 - n, g->max);
}

static void add_border(const struct graph *g, const char *title, char corner, struct rut_buf *out)
{
	char line[GRAPH_LAST + 2];

	memset(line, '_', sizeof(line));
	line[0] = line[GRAPH_LAST] = corner;
	line[GRAPH_LAST + 1] = '\0';
	rut_buf_printf(out, "%-*s%s\n", g->left, title, line);
}

static int column(const struct graph *g, int64_t v)
{
	return (int)((__int128)GRAPH_LAST * ((__int128)v - g->min) / ((__int128)g->max - g->min));
}

static void add_clock(uint64_t wall_ns, unsigned digits, struct rut_buf *out)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	uint64_t part = wall_ns % 1000000000;
	struct tm tm;

	localtime_r(&seconds, &tm);
	rut_buf_printf(out, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
	for (unsigned i = digits; i && i < 9; i++)
		part /= 10;
	if (digits)
		rut_buf_printf(out, ".%0*" PRIu64, (int)digits, part);
}

void rut_script_tseries_text(const struct rut_script_style *s, const struct rut_type *t,
			     const uint64_t *words, uint64_t last, struct rut_buf *out)
{
	uint64_t first = first_interval(t, words, last);
	struct graph g = {0};

	if (!first) {
		rut_buf_puts(out, "<no data>\n");
		return;
	}
	measure(t, words, first, last, &g);
	add_scale(&g, out);
	add_border(&g, heading(g.digits), '|', out);
	for (uint64_t n = first; n <= last; n++) {
		const uint64_t *w = interval_at(t, words, n);
		char line[GRAPH_LAST + 2];

		memset(line, ' ', sizeof(line));
		line[0] = line[GRAPH_LAST] = '|';
		line[GRAPH_LAST + 1] = '\0';
		if (g.min < 0 && g.max > 0)
			line[column(&g, 0)] = '.';
		if (w)
			line[column(&g, interval_value(t, w))] = '*';
		add_clock(interval_wall(s, t, n), g.digits, out);
		rut_buf_printf(out, " %s ", line);
		if (w)
			rut_buf_printf(out, t->is_signed ? "%" PRId64 "\n" : "%" PRIu64 "\n",
				       interval_value(t, w));
		else
			rut_buf_puts(out, "-\n");
	}
	add_border(&g, "", 'v', out);
	add_scale(&g, out);
}

void rut_script_tseries_json(const struct rut_script_style *s, const struct rut_type *t,
			     const uint64_t *words, uint64_t last, struct rut_buf *out)
{
	uint64_t first = first_interval(t, words, last);
	const char *between = "";

	rut_buf_putc(out, '[');
	for (uint64_t n = first; first && n <= last; n++) {
		const uint64_t *w = interval_at(t, words, n);
		uint64_t wall = interval_wall(s, t, n);

		if (!w)
			continue;
		rut_buf_printf(out, "%s{\"interval_start\":\"", between);
		rut_script_time_text("%F %T", wall, out);
		rut_buf_printf(out, ".%09u\",\"value\":", (unsigned)(wall % 1000000000));
		rut_buf_printf(out, t->is_signed ? "%" PRId64 "}" : "%" PRIu64 "}",
			       interval_value(t, w));
		between = ",";
	}
	rut_buf_putc(out, ']');
}
