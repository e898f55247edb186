/* SPDX-License-Identifier: MIT */
/*
 * diff: what takes longer, and what happens more often, in B than in A.
 *
 * A pass over each side makes tracks (tracks.h); that of B compares them. Both sides are cut into
 * parts of one length, and the values of the parts are compared by a rank test (shift.h), not the
 * single events: events that follow each other are alike, and millions of them would make any
 * difference significant. Probabilities are corrected for the number of comparisons (Holm), and
 * what remains is listed by the time that it costs.
 */
#include "analysis/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "analysis/shift.h"

enum {
	PARTS = 64,	 /* of the shorter side, at least */
	FEWEST_PARTS = 4 /* with values, on each side */
};

static const double significant = 0.01;

struct side {
	double n_per_s;
	double sum_per_s; /* of times: seconds in a second */
	double mean_ns;
	double typical; /* logarithm of the geometric mean */
};

struct row {
	const struct rut_track *track; /* of either side */
	enum rut_measure measure;
	struct side a, b;
	double p;
	double least_p; /* of values that are all apart */
};

struct diff {
	struct rut_sampler base;
};

static const struct rut_lami_column time_columns[] = {
	{"kind", "Quantity", RUT_LAMI_STRING, NULL},
	{"who", "Process or device", RUT_LAMI_STRING, NULL},
	{"what", "Detail", RUT_LAMI_STRING, NULL},
	{"mean_a", "Average in A", RUT_LAMI_DURATION, NULL},
	{"mean_b", "Average in B", RUT_LAMI_DURATION, NULL},
	{"typical", "Typical in B by that in A", RUT_LAMI_RATIO, NULL},
	{"time_a", "Time a second in A", RUT_LAMI_RATIO, NULL},
	{"time_b", "Time a second in B", RUT_LAMI_RATIO, NULL},
	{"share", "Share of all differences", RUT_LAMI_RATIO, NULL},
	{"p", "Probability of chance", RUT_LAMI_NUMBER, NULL},
};
static const struct rut_lami_column rate_columns[] = {
	{"kind", "Quantity", RUT_LAMI_STRING, NULL},
	{"who", "Process or device", RUT_LAMI_STRING, NULL},
	{"what", "Detail", RUT_LAMI_STRING, NULL},
	{"rate_a", "A second in A", RUT_LAMI_NUMBER, NULL},
	{"rate_b", "A second in B", RUT_LAMI_NUMBER, NULL},
	{"p", "Probability of chance", RUT_LAMI_NUMBER, NULL},
};
static const struct rut_lami_column short_columns[] = {
	{"parts_a", "Parts of A", RUT_LAMI_NUMBER, NULL},
	{"parts_b", "Parts of B", RUT_LAMI_NUMBER, NULL},
};
static const struct rut_lami_class time_class =
	RUT_LAMI_CLASS("times", "What takes longer or shorter", time_columns);
static const struct rut_lami_class rate_class =
	RUT_LAMI_CLASS("rates", "What happens more or less often", rate_columns);
/* Instead of both. */
static const struct rut_lami_class short_class =
	RUT_LAMI_CLASS("too-short", "Too short to compare", short_columns);

enum { OPT_A = RUT_ANALYSIS_OPT, OPT_B };

static const struct rut_opt options[] = {
	{"a", "RANGE", "the part of A that is compared: [BEGIN,END]", OPT_A},
	{"b", "RANGE", "the part of B, or of A where there is no B", OPT_B},
	{0},
};

static int option(void *own, int id, const char *value)
{
	struct rut_diff *d = own;

	d->ranges[id == OPT_B] = value;
	return 0;
}

static void own_fini(void *own)
{
	struct rut_diff *d = own;

	rut_an_tracks_fini(&d->sides[0]);
	rut_an_tracks_fini(&d->sides[1]);
}

/* ---- A side ---- */

static void on_sample(struct rut_sampler *s, const struct rut_sample *x)
{
	struct rut_run *run = s->base.run;
	struct rut_diff *d = run->conf->own;
	struct rut_tracks *t = &d->sides[d->n];
	const char *by = run->conf->by;

	rut_an_tracks_sample(t, &run->engine->state, x, by && !strcmp(by, "cgroup"));
	if (t->failed)
		run->engine->state.failed = true;
}

static int init(struct rut_instance *inst)
{
	struct diff *d = (struct diff *)inst;
	struct rut_diff *sides = inst->run->conf->own;

	if (sides->n >= 2)
		return -EINVAL; /* a third side */
	d->base.fn = on_sample;
	sides->sides[sides->n].begin_ns = inst->begin_ns;
	return rut_an_sampler_init(&d->base);
}

/* ---- Comparing ---- */

static void measure_side(struct side *ret, const struct rut_tracks *t,
			 const struct rut_track *track)
{
	double sum = 0, logs = 0, seconds = (double)(t->end_ns - t->begin_ns) / 1e9;
	uint64_t n = 0;

	for (size_t i = 0; i < track->bins.n; i++) {
		n += track->bins.bins[i].n;
		sum += track->bins.bins[i].sum;
		logs += track->bins.bins[i].logs;
	}
	if (seconds <= 0)
		return;
	ret->n_per_s = (double)n / seconds;
	ret->sum_per_s = sum / seconds;
	if (rut_an_track_is_time(track->kind))
		ret->sum_per_s /= 1e9;
	ret->mean_ns = n ? sum / (double)n : 0;
	ret->typical = n ? logs / (double)n : 0;
}

static struct rut_track *same_in(const struct rut_tracks *t, const struct rut_track *x)
{
	for (size_t i = 0; i < t->list.n; i++) {
		struct rut_track *y = t->list.items[i];

		if (x->kind == y->kind && !strcmp(x->who ? x->who : "", y->who ? y->who : "") &&
		    !strcmp(x->what ? x->what : "", y->what ? y->what : ""))
			return y;
	}
	return NULL;
}

/* Returns false when there is too little to compare. */
static bool compare(struct row *r, const struct rut_diff *d, struct rut_track *a,
		    struct rut_track *b, unsigned int shift)
{
	struct rut_track none_a = {.kind = r->track->kind}, none_b = none_a;
	double v[2][RUT_BINS];
	size_t n_a, n_b;

	measure_side(&r->a, &d->sides[0], a ? a : &none_a);
	measure_side(&r->b, &d->sides[1], b ? b : &none_b);
	n_a = rut_an_track_values(&d->sides[0], a ? a : &none_a, r->measure, shift, v[0], NULL);
	n_b = rut_an_track_values(&d->sides[1], b ? b : &none_b, r->measure, shift, v[1], NULL);
	if (n_a < FEWEST_PARTS || n_b < FEWEST_PARTS)
		return false;
	r->p = rut_an_rank_test(v[0], n_a, v[1], n_b, NULL);
	r->least_p = rut_an_rank_least(n_a, n_b);
	return true;
}

struct rows {
	struct row *items; /* owned */
	size_t n, cap;
};

static void compare_tracks(struct rows *rows, const struct rut_diff *d, struct rut_track *a,
			   struct rut_track *b, unsigned int shift)
{
	const struct rut_track *t = a ? a : b;

	for (int m = 0; m < RUT_MEASURES && rows->n < rows->cap; m++) {
		struct row *r = &rows->items[rows->n];

		*r = (struct row){.track = t, .measure = (enum rut_measure)m};
		if (rut_an_track_has(t->kind, r->measure))
			rows->n += compare(r, d, a, b, shift);
	}
}

static int by_p(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->p < y->p ? -1 : x->p > y->p;
}

/* Holm's correction: the k-th smallest of n is multiplied by n - k, and none falls below its left.
 */
static void correct(struct rows *rows)
{
	double least = 0;

	if (rows->n)
		qsort(rows->items, rows->n, sizeof(*rows->items), by_p);
	for (size_t i = 0; i < rows->n; i++) {
		double p = rows->items[i].p * (double)(rows->n - i);

		least = p > least ? p : least;
		rows->items[i].p = least < 1 ? least : 1;
	}
}

/* Could none be found, whatever the values are? */
static bool is_too_short(const struct rows *rows, const size_t parts[2])
{
	double least = rut_an_rank_least(parts[0], parts[1]);

	if (parts[0] < FEWEST_PARTS || parts[1] < FEWEST_PARTS)
		return true;
	for (size_t i = 0; i < rows->n; i++)
		if (!i || rows->items[i].least_p < least)
			least = rows->items[i].least_p;
	return least * (double)(rows->n ? rows->n : 1) > significant;
}

static unsigned int common_shift(const struct rut_diff *d)
{
	unsigned int a = rut_an_tracks_shift(&d->sides[0], PARTS);
	unsigned int b = rut_an_tracks_shift(&d->sides[1], PARTS);
	unsigned int short_one = a < b ? a : b;
	unsigned int fit_a = rut_an_tracks_shift(&d->sides[0], RUT_BINS / 2);
	unsigned int fit_b = rut_an_tracks_shift(&d->sides[1], RUT_BINS / 2);
	unsigned int fit = fit_a > fit_b ? fit_a : fit_b;

	return short_one > fit ? short_one : fit;
}

static int compare_all(struct rows *rows, const struct rut_diff *d, unsigned int shift)
{
	const struct rut_tracks *a = &d->sides[0], *b = &d->sides[1];

	rows->cap = (a->list.n + b->list.n) * RUT_MEASURES + 1;
	rows->items = calloc(rows->cap, sizeof(*rows->items));
	if (!rows->items)
		return -ENOMEM;
	for (size_t i = 0; i < a->list.n; i++)
		compare_tracks(rows, d, a->list.items[i], same_in(b, a->list.items[i]), shift);
	for (size_t i = 0; i < b->list.n; i++)
		if (!same_in(a, b->list.items[i]))
			compare_tracks(rows, d, NULL, b->list.items[i], shift);
	correct(rows);
	return 0;
}

/* ---- Report ---- */

static double time_difference(const struct row *r)
{
	return r->b.sum_per_s - r->a.sum_per_s;
}

/* Does the row belong to the table of times? CPU time is a level, all others are durations. */
static bool is_time(const struct row *r)
{
	return r->measure == RUT_MEASURE_DURATION ||
	       (r->measure == RUT_MEASURE_LEVEL && rut_an_track_is_time(r->track->kind));
}

static double value_of(const struct row *r, const struct side *s)
{
	return r->measure == RUT_MEASURE_RATE ? s->n_per_s : s->sum_per_s;
}

/* By the time that it costs; what has none by the factor. */
static double weight(const struct row *r)
{
	double a = value_of(r, &r->a), b = value_of(r, &r->b);

	if (is_time(r))
		return fabs(time_difference(r));
	return a > 0 && b > 0 ? fabs(log(b / a)) : INFINITY;
}

static int by_weight(const void *a, const void *b)
{
	double x = weight(a), y = weight(b);

	if (x > y || x < y)
		return x > y ? -1 : 1;
	return by_p(a, b);
}

static void add_name(struct rut_result *t, const char *s)
{
	if (s)
		rut_an_result_text(t, RUT_LAMI_STRING, s);
	else
		rut_an_result_empty(t);
}

static void add_duration(struct rut_result *t, const struct row *r, const struct side *s)
{
	if (r->measure == RUT_MEASURE_DURATION)
		rut_an_result_float(t, RUT_LAMI_DURATION, s->mean_ns);
	else
		rut_an_result_empty(t);
}

static void add_time_row(struct rut_result *t, const struct row *r, double all)
{
	add_duration(t, r, &r->a);
	add_duration(t, r, &r->b);
	if (r->measure == RUT_MEASURE_DURATION)
		rut_an_result_float(t, RUT_LAMI_RATIO, exp2(r->b.typical - r->a.typical));
	else
		rut_an_result_empty(t);
	rut_an_result_float(t, RUT_LAMI_RATIO, r->a.sum_per_s);
	rut_an_result_float(t, RUT_LAMI_RATIO, r->b.sum_per_s);
	rut_an_result_float(t, RUT_LAMI_RATIO, all > 0 ? fabs(time_difference(r)) / all : 0);
}

static struct rut_result *table(const struct rut_run *run, const struct rut_lami_class *cls,
				const struct rows *rows)
{
	const struct rut_tracks *b = &((const struct rut_diff *)run->conf->own)->sides[1];
	struct rut_result *t = rut_an_result_new(cls, b->begin_ns, b->end_ns, NULL);
	int64_t left = run->conf->limit > 0 ? run->conf->limit : INT64_MAX;
	bool times = cls == &time_class;
	double all = 0;

	for (size_t i = 0; i < rows->n; i++)
		if (rows->items[i].p <= significant && is_time(&rows->items[i]))
			all += fabs(time_difference(&rows->items[i]));
	for (size_t i = 0; t && i < rows->n && left; i++) {
		const struct row *r = &rows->items[i];

		if (r->p > significant || is_time(r) != times)
			continue;
		left--;
		rut_an_result_text(t, RUT_LAMI_STRING, rut_an_track_kind_name(r->track->kind));
		add_name(t, r->track->who);
		add_name(t, r->track->what);
		if (times) {
			add_time_row(t, r, all);
		} else {
			rut_an_result_float(t, RUT_LAMI_NUMBER, value_of(r, &r->a));
			rut_an_result_float(t, RUT_LAMI_NUMBER, value_of(r, &r->b));
		}
		rut_an_result_float(t, RUT_LAMI_NUMBER, r->p);
	}
	return t;
}

static const char *name_of(const struct rut_cell *c)
{
	return c->str ? c->str : "-";
}

static void print_times(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] =
		"{:<12} {:<20} {:<18} {:>12} {:>12} {:>9} {:>10} {:>10} {:>7} {:>8}\n";
	char us[2][40], typical[32], ms[2][32], share[32], p[32];

	rut_buf_printf(out, "\n%s\n", t->cls->title);
	if (!rut_result_rows(t)) {
		rut_buf_puts(out, "No significant difference.\n");
		return;
	}
	rut_an_fmt_line(out, line, "Quantity", "Process or device", "Detail", "A (us)", "B (us)",
			"Typical", "A (ms/s)", "B (ms/s)", "Share", "Chance");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *c = rut_result_row(t, i);

		for (int k = 0; k < 2; k++) {
			snprintf(us[k], sizeof(us[k]), "-");
			if (c[3 + k].type != RUT_LAMI_EMPTY)
				rut_an_fmt_us(us[k], sizeof(us[k]), rut_an_cell_value(&c[3 + k]));
			snprintf(ms[k], sizeof(ms[k]), "%.3f", rut_an_cell_value(&c[6 + k]) * 1e3);
		}
		snprintf(typical, sizeof(typical), "-");
		if (c[5].type != RUT_LAMI_EMPTY)
			snprintf(typical, sizeof(typical), "x %.3g", rut_an_cell_value(&c[5]));
		snprintf(share, sizeof(share), "%.1f%%", rut_an_cell_value(&c[8]) * 100);
		snprintf(p, sizeof(p), "%.0e", rut_an_cell_value(&c[9]));
		rut_an_fmt_line(out, line, c[0].str, name_of(&c[1]), name_of(&c[2]), us[0], us[1],
				typical, ms[0], ms[1], share, p);
	}
}

static void print_rates(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<16} {:<20} {:<18} {:>14} {:>14} {:>9} {:>8}\n";
	char a[32], b[32], change[32], p[32];

	rut_buf_printf(out, "\n%s\n", t->cls->title);
	if (!rut_result_rows(t)) {
		rut_buf_puts(out, "No significant difference.\n");
		return;
	}
	rut_an_fmt_line(out, line, "Quantity", "Process or device", "Detail", "A (per s)",
			"B (per s)", "Change", "Chance");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *c = rut_result_row(t, i);
		double x = rut_an_cell_value(&c[3]), y = rut_an_cell_value(&c[4]);

		snprintf(a, sizeof(a), "%.6g", x);
		snprintf(b, sizeof(b), "%.6g", y);
		if (x > 0 && y > 0)
			snprintf(change, sizeof(change), "x %.3g", y / x);
		else
			snprintf(change, sizeof(change), x > 0 ? "gone" : "new");
		snprintf(p, sizeof(p), "%.0e", rut_an_cell_value(&c[5]));
		rut_an_fmt_line(out, line, c[0].str, name_of(&c[1]), name_of(&c[2]), a, b, change,
				p);
	}
}

static struct rut_result *short_table(const struct rut_diff *d, const size_t parts[2])
{
	struct rut_result *t =
		rut_an_result_new(&short_class, d->sides[1].begin_ns, d->sides[1].end_ns, NULL);

	for (int i = 0; t && i < 2; i++)
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)parts[i]);
	return t;
}

static void print_short(const struct rut_result *t, struct rut_buf *out)
{
	rut_buf_printf(out, "\n%s: %lld parts of A, %lld of B.\n", t->cls->title,
		       (long long)t->cells[0].i, (long long)t->cells[1].i);
}

static void print_ranges(struct rut_run *run, const struct rut_diff *d)
{
	char range[160];

	for (int i = 0; i < 2; i++) {
		rut_an_fmt_range(range, sizeof(range), d->sides[i].begin_ns, d->sides[i].end_ns,
				 true, run->conf->gmt);
		rut_buf_printf(&run->out, "%c: %s\n", 'A' + i, range);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct rut_run *run = inst->run;
	struct rut_diff *d = run->conf->own;
	struct rows rows = {0};
	unsigned int shift;
	size_t parts[2];

	rut_an_sampler_finish(&((struct diff *)inst)->base, end_ns);
	d->sides[d->n++].end_ns = end_ns;
	if (d->n < 2)
		return;
	shift = common_shift(d);
	for (int i = 0; i < 2; i++)
		parts[i] = rut_an_tracks_parts(&d->sides[i], shift);
	if (compare_all(&rows, d, shift) < 0)
		run->engine->state.failed = true;
	if (rows.n)
		qsort(rows.items, rows.n, sizeof(*rows.items), by_weight);
	if (!run->conf->mi)
		print_ranges(run, d);
	if (is_too_short(&rows, parts)) {
		rut_an_run_take(run, short_table(d, parts), print_short);
	} else {
		rut_an_run_take(run, table(run, &time_class, &rows), print_times);
		rut_an_run_take(run, table(run, &rate_class, &rows), print_rates);
	}
	free(rows.items);
}

static void fini(struct rut_instance *inst)
{
	rut_an_sampler_fini(&((struct diff *)inst)->base);
}

static const char *const tags[] = {"linux-kernel", "rutile", "diff", NULL};
static const struct rut_lami_class *const classes[] = {&time_class, &rate_class, &short_class,
						       NULL};

const struct rut_analysis rut_analysis_diff = {
	.info = {"Differences", "What takes longer and what happens more often in B than in A",
		 tags, classes},
	.options = options,
	.own_size = sizeof(struct rut_diff),
	.option = option,
	.own_fini = own_fini,
	.needs = rut_an_sampler_needs,
	.instance_size = sizeof(struct diff),
	.hooks = rut_an_sampler_hooks,
	.asks_files = rut_an_asks_no_files,
	.init = init,
	.report = report,
	.fini = fini,
};
