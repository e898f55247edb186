/* SPDX-License-Identifier: MIT */
/*
 * changes: when latencies, rates, errors, bytes or memory jumped, and what jumped with them.
 *
 * Every track (tracks.h) is cut into at most RUT_BINS bins of time; each of its measures is
 * searched for changes of level (shift.h). What is found must also matter: by a quarter at least.
 * Changes of different tracks at about one time are one group, the strongest evidence first.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "analysis/shift.h"
#include "analysis/tracks.h"

enum {
	PARTS = RUT_BINS / 2, /* bins that the time is cut into, at least */
	FEWEST_BINS = 40,     /* with values */
	FEWEST_VALUES = 64,
	MOST_CHANGES = 32, /* of one measure */
};

static const double least_ratio = 1.25;

struct changes {
	struct rut_sampler base;
	struct rut_tracks tracks;
};

struct found {
	const struct rut_track *track; /* borrowed */
	enum rut_measure measure;
	size_t bin;
	double before, after, p;
};

struct list {
	struct found *items; /* owned */
	size_t n, cap;
	bool failed;
};

static const struct rut_lami_column columns[] = {
	{"time", "Time", RUT_LAMI_TIMESTAMP, NULL},
	{"kind", "Quantity", RUT_LAMI_STRING, NULL},
	{"who", "Process or device", RUT_LAMI_STRING, NULL},
	{"what", "Detail", RUT_LAMI_STRING, NULL},
	{"measure", "Measure", RUT_LAMI_STRING, NULL},
	{"before", "Before", RUT_LAMI_NUMBER, NULL},
	{"after", "After", RUT_LAMI_NUMBER, NULL},
	/* Far below the probability that the change is due to chance: the cut was chosen for it. */
	{"p", "Rank test at the chosen cut", RUT_LAMI_NUMBER, NULL},
};
static const struct rut_lami_class change_class =
	RUT_LAMI_CLASS("changes", "Changes of level", columns);

static void on_sample(struct rut_sampler *s, const struct rut_sample *x)
{
	struct changes *c = (struct changes *)s;
	struct rut_run *run = s->base.run;
	const char *by = run->conf->by;

	rut_an_tracks_sample(&c->tracks, &run->engine->state, x, by && !strcmp(by, "cgroup"));
	if (c->tracks.failed)
		run->engine->state.failed = true;
}

static int init(struct rut_instance *inst)
{
	struct changes *c = (struct changes *)inst;

	c->base.fn = on_sample;
	c->tracks.begin_ns = inst->begin_ns;
	return rut_an_sampler_init(&c->base);
}

/* ---- The search ---- */

static double mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

/* The mean as it is shown: durations are logarithms of nanoseconds. */
static double level(enum rut_measure m, const double *v, size_t n)
{
	return m == RUT_MEASURE_DURATION ? exp2(mean(v, n)) / 1e3 : mean(v, n);
}

static void keep(struct list *l, struct found f)
{
	double low = f.before < f.after ? f.before : f.after;
	double high = f.before < f.after ? f.after : f.before;

	if (high < low * least_ratio || high <= 0)
		return;
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct found *grown = realloc(l->items, cap * sizeof(*grown));

		if (!grown) {
			l->failed = true;
			return;
		}
		l->items = grown;
		l->cap = cap;
	}
	l->items[l->n++] = f;
}

static void search(struct list *l, const struct rut_tracks *tracks, struct rut_track *track,
		   enum rut_measure m, unsigned int shift)
{
	double v[RUT_BINS];
	size_t at[RUT_BINS], cuts[MOST_CHANGES + 1];
	size_t n = rut_an_track_values(tracks, track, m, shift, v, at), n_cuts, from = 0;

	if (n < FEWEST_BINS)
		return;
	n_cuts = rut_an_change_points(v, n, cuts, MOST_CHANGES);
	for (size_t i = 0; i < n_cuts; i++) {
		size_t cut = cuts[i], end = i + 1 < n_cuts ? cuts[i + 1] : n;

		keep(l, (struct found){.track = track,
				       .measure = m,
				       .bin = at[cut],
				       .before = level(m, v + from, cut - from),
				       .after = level(m, v + cut, end - cut),
				       .p = rut_an_rank_test(v + from, cut - from, v + cut,
							     end - cut, NULL)});
		from = cut;
	}
}

static uint64_t values_of(const struct rut_track *t)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->bins.n; i++)
		n += t->bins.bins[i].n;
	return n;
}

static void search_all(struct list *l, struct changes *c, unsigned int shift)
{
	for (size_t i = 0; i < c->tracks.list.n; i++) {
		struct rut_track *t = c->tracks.list.items[i];

		if (values_of(t) < FEWEST_VALUES)
			continue;
		for (int m = 0; m < RUT_MEASURES; m++)
			if (rut_an_track_has(t->kind, (enum rut_measure)m))
				search(l, &c->tracks, t, (enum rut_measure)m, shift);
	}
}

/* ---- Groups ---- */

static int by_bin(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->bin < y->bin ? -1 : x->bin > y->bin;
}

static int by_evidence(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->p < y->p || x->p > y->p)
		return x->p < y->p ? -1 : 1;
	if (x->track->kind != y->track->kind)
		return (int)x->track->kind - (int)y->track->kind;
	return x->bin < y->bin ? -1 : x->bin > y->bin;
}

static void add_name(struct rut_result *t, const char *s)
{
	if (s)
		rut_an_result_text(t, RUT_LAMI_STRING, s);
	else
		rut_an_result_empty(t);
}

static void add_row(struct rut_result *t, const struct found *f, int64_t ts_ns)
{
	rut_an_result_int(t, RUT_LAMI_TIMESTAMP, ts_ns);
	rut_an_result_text(t, RUT_LAMI_STRING, rut_an_track_kind_name(f->track->kind));
	add_name(t, f->track->who);
	add_name(t, f->track->what);
	rut_an_result_text(t, RUT_LAMI_STRING, rut_an_measure_name(f->track->kind, f->measure));
	rut_an_result_float(t, RUT_LAMI_NUMBER, f->before);
	rut_an_result_float(t, RUT_LAMI_NUMBER, f->after);
	rut_an_result_float(t, RUT_LAMI_NUMBER, f->p);
}

/* What changes within a few bins of the first is one group: its time is that of the best evidence.
 */
static void add_groups(struct rut_result *t, struct changes *c, struct list *l, unsigned int shift)
{
	int64_t limit = c->base.base.run->conf->limit;
	size_t near = 1 + RUT_BINS / 64;

	if (l->n)
		qsort(l->items, l->n, sizeof(*l->items), by_bin);
	for (size_t i = 0, end; i < l->n; i = end) {
		int64_t ts_ns;

		for (end = i + 1; end < l->n && l->items[end].bin <= l->items[i].bin + near; end++)
			;
		qsort(l->items + i, end - i, sizeof(*l->items), by_evidence);
		ts_ns = c->tracks.begin_ns + (int64_t)(l->items[i].bin << shift);
		for (size_t k = i; k < end && (limit <= 0 || k < i + (size_t)limit); k++)
			add_row(t, &l->items[k], ts_ns);
	}
}

/* ---- Report ---- */

static void print_change(char *out, size_t size, double before, double after)
{
	if (before <= 0)
		snprintf(out, size, "new");
	else if (after <= 0)
		snprintf(out, size, "gone");
	else
		snprintf(out, size, "x %.3g", after / before);
}

static void print_table(const struct rut_result *t, struct rut_buf *out, bool gmt)
{
	static const char line[] = "  {:<16} {:<20} {:<18} {:<14} {:>12} {:>12} {:>9}\n";
	int64_t last = INT64_MIN;
	char time[64], before[32], after[32], change[32];

	if (!rut_result_rows(t))
		rut_buf_puts(out, "\nNo change of level.\n");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *c = rut_result_row(t, i);

		if (c[0].i != last) {
			rut_an_fmt_time(time, sizeof(time), c[0].i, true, gmt);
			rut_buf_printf(out, "\n%s\n", time);
			rut_an_fmt_line(out, line, "Quantity", "Process or device", "Detail",
					"Measure", "Before", "After", "Change");
		}
		last = c[0].i;
		snprintf(before, sizeof(before), "%.4g", rut_an_cell_value(&c[5]));
		snprintf(after, sizeof(after), "%.4g", rut_an_cell_value(&c[6]));
		print_change(change, sizeof(change), rut_an_cell_value(&c[5]),
			     rut_an_cell_value(&c[6]));
		rut_an_fmt_line(out, line, c[1].str, c[2].str ? c[2].str : "-",
				c[3].str ? c[3].str : "-", c[4].str, before, after, change);
	}
}

static void print(const struct rut_result *t, struct rut_buf *out)
{
	print_table(t, out, false);
}

static void print_gmt(const struct rut_result *t, struct rut_buf *out)
{
	print_table(t, out, true);
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct changes *c = (struct changes *)inst;
	struct rut_result *t = rut_an_result_new(&change_class, inst->begin_ns, end_ns, NULL);
	struct rut_run *run = inst->run;
	struct list l = {0};
	unsigned int shift;

	rut_an_sampler_finish(&c->base, end_ns);
	c->tracks.end_ns = end_ns;
	shift = rut_an_tracks_shift(&c->tracks, PARTS);
	search_all(&l, c, shift);
	if (l.failed || c->tracks.failed)
		run->engine->state.failed = true;
	if (t)
		add_groups(t, c, &l, shift);
	if (!run->conf->mi) {
		rut_an_run_print_range(run, inst->begin_ns, end_ns);
		rut_buf_printf(&run->out, "Resolution: %.3f ms\n",
			       (double)((int64_t)1 << shift) / 1e6);
	}
	rut_an_run_take(run, t, run->conf->gmt ? print_gmt : print);
	free(l.items);
}

static void fini(struct rut_instance *inst)
{
	struct changes *c = (struct changes *)inst;

	rut_an_sampler_fini(&c->base);
	rut_an_tracks_fini(&c->tracks);
}

static const char *const tags[] = {"linux-kernel", "rutile", "changes", NULL};
static const struct rut_lami_class *const classes[] = {&change_class, NULL};

const struct rut_analysis rut_analysis_changes = {
	.info = {"Changes", "When latencies, rates, errors or memory jumped, and what with them",
		 tags, classes},
	.needs = rut_an_sampler_needs,
	.instance_size = sizeof(struct changes),
	.hooks = rut_an_sampler_hooks,
	.asks_files = rut_an_asks_no_files,
	.init = init,
	.report = report,
	.fini = fini,
};
