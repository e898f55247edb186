/* SPDX-License-Identifier: MIT */
#include "analysis/freq.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"

/* ---- Priorities ---- */

static bool count_prio(struct rut_prio_count *c, bool has_prio, int32_t prio)
{
	if (c->has_prio != has_prio || c->prio != prio)
		return false;
	c->count++;
	return true;
}

void rut_an_prios_add(struct rut_prios *p, bool has_prio, int32_t prio)
{
	struct rut_prio_count *more;

	if (!p->first.count) {
		p->first = (struct rut_prio_count){has_prio, prio, 1};
		return;
	}
	if (count_prio(&p->first, has_prio, prio))
		return;
	for (size_t i = 0; i < p->n_more; i++)
		if (count_prio(&p->more[i], has_prio, prio))
			return;
	more = realloc(p->more, (p->n_more + 1) * sizeof(*more));
	if (!more)
		return;
	p->more = more;
	more[p->n_more++] = (struct rut_prio_count){has_prio, prio, 1};
}

void rut_an_prios_fini(struct rut_prios *p)
{
	free(p->more);
	*p = (struct rut_prios){0};
}

static int by_prio(const void *a, const void *b)
{
	const struct rut_prio_count *x = a, *y = b;

	return x->prio < y->prio ? -1 : x->prio > y->prio;
}

static void add_prio(struct rut_buf *b, const struct rut_prio_count *c)
{
	if (b->len > 1)
		rut_buf_puts(b, ", ");
	if (c->has_prio)
		rut_buf_printf(b, "%d", c->prio);
	else
		rut_buf_putc(b, '?');
	if (c->count > 1)
		rut_buf_printf(b, " (%llu times)", (unsigned long long)c->count);
}

const char *rut_an_prios_str(const struct rut_prios *p, struct rut_result *t)
{
	size_t n = p->n_more + (p->first.count > 0);
	struct rut_prio_count *list = malloc((n + 1) * sizeof(*list));
	struct rut_buf b = RUT_BUF_INIT;
	const char *s;

	rut_buf_putc(&b, '[');
	if (list && n) {
		list[0] = p->first;
		if (p->n_more)
			memcpy(list + 1, p->more, p->n_more * sizeof(*list));
		qsort(list, n, sizeof(*list), by_prio);
	}
	for (size_t i = 0; list && i < n; i++)
		add_prio(&b, &list[i]);
	rut_buf_putc(&b, ']');
	free(list);
	s = rut_an_result_str(t, b.data);
	rut_buf_fini(&b);
	return s;
}

/* ---- Distributions ---- */

static void set_step(struct rut_freq *f, const struct rut_conf *c)
{
	f->resolution = c->resolution > 0 ? c->resolution : 1;
	f->step = (f->max - f->min) / (double)f->resolution;
	f->log_scale = c->log_scale;
	if (!f->log_scale || f->step <= 0)
		return;
	if (f->min <= 0)
		f->min = f->max < 1 ? f->max / 1000 : 0.001;
	f->step = log(f->max / f->min) / (double)f->resolution;
}

struct rut_freq rut_an_freq_bounds(const struct rut_conf *c, double min, double max, double ratio)
{
	struct rut_freq f = {.min = min / ratio, .max = max / ratio, .ratio = ratio};

	if (c->has_min)
		f.min = c->min_ns / 1000;
	if (c->has_max)
		f.max = c->max_ns / 1000;
	set_step(&f, c);
	return f;
}

struct rut_freq rut_an_freq_uniform(struct rut_run *run, int category, bool any, double min,
				    double max, double ratio)
{
	struct rut_uniform *u = &run->uniform[category];
	struct rut_freq f = {.ratio = ratio};

	min = any ? min / ratio : 0;
	max = any ? max / ratio : 0;
	if (run->conf->has_min)
		u->min = run->conf->min_ns / 1000;
	else if (!u->set || !any || min < u->min)
		u->min = min;
	if (run->conf->has_max)
		u->max = run->conf->max_ns / 1000;
	else if (!u->set || !any || max > u->max)
		u->max = max;
	u->set = true;
	f.min = u->min;
	f.max = u->max;
	set_step(&f, run->conf);
	return f;
}

static double bound(const struct rut_freq *f, int64_t i)
{
	if (f->log_scale)
		return f->min * exp((double)i * f->step);
	return (double)i * f->step + f->min;
}

/* The bucket of a value, -1 for none. */
static int64_t bucket(const struct rut_freq *f, double v)
{
	double at = f->log_scale ? (v <= f->min ? 0 : log(v / f->min) / f->step)
				 : (v - f->min) / f->step;
	int64_t i;

	if (!(at > -1))
		return -1;
	if (at >= (double)f->resolution)
		return f->clamp || v == f->max || f->log_scale ? f->resolution - 1 : -1;
	i = (int64_t)at;
	return i < f->resolution ? i : f->resolution - 1;
}

static void add_rows(const struct rut_freq *f, const uint64_t *counts, struct rut_result *t)
{
	for (int64_t i = 0; i < f->resolution; i++) {
		rut_an_result_float(t, RUT_LAMI_DURATION, bound(f, i) * 1000);
		rut_an_result_float(t, RUT_LAMI_DURATION, bound(f, i + 1) * 1000);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)counts[i]);
	}
}

void rut_an_freq_fill(const struct rut_freq *f, const struct rut_stat *s, struct rut_result *t)
{
	uint64_t *counts;

	if (f->step == 0 || !s->values)
		return;
	counts = calloc((size_t)f->resolution, sizeof(*counts));
	if (!counts) {
		t->failed = true;
		return;
	}
	rut_values_each(s->values, slot)
	{
		int64_t i = bucket(f, (double)slot->value / f->ratio);

		if (i >= 0)
			counts[i] += slot->count;
	}
	add_rows(f, counts, t);
	free(counts);
}

void rut_an_freq_fill_floats(const struct rut_freq *f, const double *v, size_t n,
			     struct rut_result *t)
{
	uint64_t *counts;

	if (f->step == 0)
		return;
	counts = calloc((size_t)f->resolution, sizeof(*counts));
	if (!counts) {
		t->failed = true;
		return;
	}
	for (size_t k = 0; k < n; k++) {
		int64_t i = bucket(f, v[k] / f->ratio);

		if (i >= 0)
			counts[i]++;
	}
	add_rows(f, counts, t);
	free(counts);
}

void rut_an_freq_print(const struct rut_result *t, struct rut_buf *out, const char *title,
		       const char *unit)
{
	struct rut_graph g = {0};
	char text[32];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(text, sizeof(text), "%lld", (long long)row[2].i);
		rut_an_graph_add(&g, (double)row[2].i, text, rut_an_cell_value(&row[0]) / 1000,
				 NULL);
	}
	rut_an_graph_frequencies(&g, out, title, unit);
}

static struct rut_lami_class *series_class(struct rut_result *const *tables, size_t n,
					   const char *title, const char *unit)
{
	struct rut_lami_column *columns;
	struct rut_lami_class *cls = calloc(1, sizeof(*cls) + (n + 2) * sizeof(*columns));

	if (!cls)
		return NULL;
	columns = (struct rut_lami_column *)(cls + 1);
	columns[0] = (struct rut_lami_column){"duration_lower", "Duration (lower bound)",
					      RUT_LAMI_DURATION, NULL};
	columns[1] = (struct rut_lami_column){"duration_upper", "Duration (upper bound)",
					      RUT_LAMI_DURATION, NULL};
	for (size_t i = 0; i < n; i++)
		columns[i + 2] =
			(struct rut_lami_column){"", tables[i]->subtitle, RUT_LAMI_NUMBER, unit};
	cls->title = title;
	cls->columns = columns;
	cls->n_columns = n + 2;
	return cls;
}

struct rut_result *rut_an_freq_series(struct rut_result *const *tables, size_t n, const char *title,
				      const char *unit)
{
	struct rut_lami_class *cls = n ? series_class(tables, n, title, unit) : NULL;
	struct rut_result *t;

	if (!cls)
		return NULL;
	t = rut_an_result_new(cls, tables[0]->begin_ns, tables[0]->end_ns, NULL);
	if (!t) {
		free(cls);
		return NULL;
	}
	t->owned_cls = cls;
	/* The tables go before the series does: it keeps their titles. */
	for (size_t i = 0; i < n; i++)
		((struct rut_lami_column *)cls->columns)[i + 2].title =
			rut_an_result_str(t, tables[i]->subtitle ? tables[i]->subtitle : "");
	for (size_t row = 0; row < rut_result_rows(tables[0]); row++) {
		const struct rut_cell *first = rut_result_row(tables[0], row);

		rut_an_result_add(t, first[0]);
		rut_an_result_add(t, first[1]);
		for (size_t i = 0; i < n; i++) {
			if (row < rut_result_rows(tables[i]))
				rut_an_result_add(t, rut_result_row(tables[i], row)[2]);
			else
				rut_an_result_int(t, RUT_LAMI_NUMBER, 0);
		}
	}
	return t;
}

/* ---- Statistics ---- */

void rut_an_stat_cells(struct rut_result *t, const struct rut_stat *s)
{
	rut_an_result_int(t, RUT_LAMI_DURATION, s->min);
	if (s->count)
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(s));
	else
		rut_an_result_int(t, RUT_LAMI_DURATION, 0);
	rut_an_result_int(t, RUT_LAMI_DURATION, s->max);
	if (s->count < 2)
		rut_an_result_unknown(t);
	else
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_an_stat_stdev(s));
}

/* ---- Percentiles ---- */

unsigned rut_an_stat_keep(const struct rut_conf *c)
{
	return (c->percentiles ? RUT_STAT_HIST : 0u) | (c->freq ? RUT_STAT_VALUES : 0u);
}

static const struct rut_lami_column percentile_columns[] = {
	{"what", "What", RUT_LAMI_STRING, NULL},
	{"count", "Count", RUT_LAMI_NUMBER, NULL},
	{"p50", "50th percentile", RUT_LAMI_DURATION, NULL},
	{"p90", "90th percentile", RUT_LAMI_DURATION, NULL},
	{"p99", "99th percentile", RUT_LAMI_DURATION, NULL},
	{"p999", "99.9th percentile", RUT_LAMI_DURATION, NULL},
};

const struct rut_lami_class rut_an_class_percentiles =
	RUT_LAMI_CLASS("percentiles", "Percentiles of durations", percentile_columns);

void rut_an_percentiles_add(struct rut_result *t, const char *what, const struct rut_stat *s)
{
	static const double q[] = {0.5, 0.9, 0.99, 0.999};

	if (!t || !s->hist || !s->count)
		return;
	rut_an_result_text(t, RUT_LAMI_STRING, what);
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->count);
	for (int i = 0; i < 4; i++) {
		double v = rut_an_hist_quantile(s->hist, q[i]);

		/* A bucket's middle may lie outside of what was seen. */
		v = v < (double)s->min ? (double)s->min : v > (double)s->max ? (double)s->max : v;
		rut_an_result_float(t, RUT_LAMI_DURATION, v);
	}
}

void rut_an_percentiles_print(const struct rut_result *t, struct rut_buf *out)
{
	char cells[5][32];

	if (!rut_result_rows(t))
		return;
	rut_buf_puts(out, "\nPercentiles of durations (us)\n");
	rut_an_fmt_line(out, "{:<40} {:>10} {:>12} {:>12} {:>12} {:>12}\n", "", "Count", "p50",
			"p90", "p99", "p99.9");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(cells[0], sizeof(cells[0]), "%lld", (long long)row[1].i);
		for (int k = 1; k < 5; k++)
			rut_an_fmt_us(cells[k], sizeof(cells[k]), rut_an_cell_value(&row[k + 1]));
		rut_an_fmt_line(out, "{:<40} {:>10} {:>12} {:>12} {:>12} {:>12}\n", row[0].str,
				cells[0], cells[1], cells[2], cells[3], cells[4]);
	}
}

void rut_an_percentiles_finish(struct rut_run *run, struct rut_result *t)
{
	rut_an_run_take(run, t, rut_an_percentiles_print);
}
