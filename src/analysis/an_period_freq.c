/* SPDX-License-Identifier: MIT */
/* periodfreq: distributions of durations, counts and shares. */
#include "analysis/an_period.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rut_lami_column duration_columns[] = {
	{"lower", "Duration (lower bound)", RUT_LAMI_DURATION, NULL},
	{"upper", "Duration (upper bound)", RUT_LAMI_DURATION, NULL},
	{"count", "Period duration", RUT_LAMI_NUMBER, "us"},
};
static const struct rut_lami_column count_columns[] = {
	{"lower", "Count (lower bound)", RUT_LAMI_NUMBER, NULL},
	{"upper", "Count (upper bound)", RUT_LAMI_NUMBER, NULL},
	{"count", "Period count", RUT_LAMI_NUMBER, "count"},
};
static const struct rut_lami_column percent_columns[] = {
	{"lower", "Ratio (lower bound)", RUT_LAMI_NUMBER, NULL},
	{"upper", "Ratio (upper bound)", RUT_LAMI_NUMBER, NULL},
	{"count", "Period usage ratio", RUT_LAMI_NUMBER, "%"},
};

const struct rut_lami_class rut_an_period_freq_class =
	RUT_LAMI_CLASS("freq_duration", "Period duration frequency distribution", duration_columns);
const struct rut_lami_class rut_an_period_freq_count_class =
	RUT_LAMI_CLASS("freq_count", "Period count frequency distribution", count_columns);
const struct rut_lami_class rut_an_period_freq_percent_class =
	RUT_LAMI_CLASS("freq_ratio", "Period usage ratio frequency distribution", percent_columns);

/* Which bounds are shared with --freq-uniform. */
enum {
	CAT_PERIOD,
	CAT_DURATION,
	CAT_COUNT,
	CAT_PERCENT,
	CAT_ALL_DURATION,
	CAT_ALL_COUNT,
	CAT_ALL_PERCENT
};

struct tables {
	struct rut_result **list; /* owned */
	size_t n, cap;
};

static void add_table(struct tables *t, struct rut_result *r)
{
	if (!r)
		return;
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 16;
		void *list = realloc(t->list, cap * sizeof(*t->list));

		if (!list) {
			rut_an_result_free(r);
			return;
		}
		t->list = list;
		t->cap = cap;
	}
	t->list[t->n++] = r;
}

static void finish_tables(struct rut_run *run, struct tables *t, const char *unit)
{
	char title[700];

	for (size_t i = 0; i < t->n; i++) {
		if (run->conf->mi) {
			rut_an_results_take(&run->results, t->list[i]);
			continue;
		}
		snprintf(title, sizeof(title), "%s - %s", t->list[i]->cls->title,
			 t->list[i]->subtitle);
		rut_an_freq_print(t->list[i], &run->out, title, unit);
		rut_an_result_free(t->list[i]);
	}
	free(t->list);
	*t = (struct tables){0};
}

/* The values that --min-duration and --max-duration leave. */
static struct rut_series passing(const struct rut_conf *c, const struct rut_series *s)
{
	struct rut_series r = {0};

	for (size_t i = 0; i < s->n; i++)
		if (rut_an_period_passes(c, s->v[i]))
			rut_an_series_add(&r, s->v[i]);
	return r;
}

static struct rut_result *freq_table(struct rut_run *run, const struct rut_lami_class *cls,
				     const struct rut_series *s, const struct rut_freq *uniform,
				     double ratio, const char *subtitle, int64_t first_ns,
				     int64_t last_ns)
{
	struct rut_result *t = rut_an_result_new(cls, first_ns, last_ns, subtitle);
	struct rut_series passed = passing(run->conf, s);
	struct rut_freq f;

	f = uniform ? *uniform : rut_an_freq_bounds(run->conf, s->min, s->max, ratio);
	f.ratio = ratio;
	if (t && s->n)
		rut_an_freq_fill_floats(&f, passed.v, passed.n, t);
	rut_an_series_fini(&passed);
	return t;
}

static int by_name(const void *a, const void *b)
{
	const struct rut_period_def *x = *(struct rut_period_def *const *)a;
	const struct rut_period_def *y = *(struct rut_period_def *const *)b;

	return strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

static struct rut_period_def **sorted_defs(const struct rut_period_set *set)
{
	struct rut_period_def **list = malloc((set->n + 1) * sizeof(*list));

	if (list) {
		memcpy(list, set->defs, set->n * sizeof(*list));
		qsort(list, set->n, sizeof(*list), by_name);
	}
	return list;
}

/* ---- Periods ---- */

static void report_periods(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_conf *c = run->conf;
	const struct rut_pdata *d = run->priv;
	struct rut_period_def **defs = sorted_defs(c->periods);
	struct rut_series all = {0};
	struct tables t = {0};
	struct rut_freq uniform;
	char subtitle[256];

	for (size_t i = 0; i < d->n; i++)
		if (rut_an_period_passes(c, (double)rut_pev_duration(d->list[i])))
			rut_an_series_add(&all, (double)rut_pev_duration(d->list[i]));
	if (c->uniform)
		uniform = rut_an_freq_uniform(run, CAT_PERIOD, all.n, all.min, all.max, 1000);
	for (size_t i = 0; defs && i < c->periods->n; i++) {
		struct rut_series s = {0};

		if (!rut_an_period_selects(c, defs[i]->name ? defs[i]->name : ""))
			continue;
		for (size_t k = 0; k < d->n; k++)
			if (d->list[k]->def == defs[i])
				rut_an_series_add(&s, (double)rut_pev_duration(d->list[k]));
		if (s.n) {
			struct rut_series passed = passing(c, &s);

			snprintf(subtitle, sizeof(subtitle), "Duration of period: %s",
				 defs[i]->name ? defs[i]->name : "");
			add_table(&t, freq_table(run, &rut_an_period_freq_class, &passed,
						 c->uniform ? &uniform : NULL, 1000, subtitle,
						 first_ns, last_ns));
			rut_an_series_fini(&passed);
		}
		rut_an_series_fini(&s);
	}
	finish_tables(run, &t, "us");
	rut_an_series_fini(&all);
	free(defs);
}

/* ---- Periods within their parents ---- */

/* As many zeros as there are parents without such a child. */
static struct rut_series with_zeros(const struct rut_series *s, size_t parents)
{
	struct rut_series r = {0};

	for (size_t i = 0; i < s->n; i++)
		rut_an_series_add(&r, s->v[i]);
	for (size_t i = s->n; i < parents; i++)
		rut_an_series_add(&r, 0);
	return r;
}

static const struct rut_series *series_of(const struct rut_pchild *c, int kind)
{
	return kind == 0 ? &c->duration : kind == 1 ? &c->count : &c->percent;
}

struct parents {
	struct rut_run *run;
	const struct rut_pset *set;
	const char *prefix;
	int64_t first_ns, last_ns;
};

static size_t count_parents(const struct parents *p, const struct rut_period_def *def)
{
	const struct rut_pdata *d = p->run->priv;

	for (size_t i = 0; i < d->parents.n; i++)
		if (d->parents.list[i]->def == def)
			return d->parents.list[i]->periods;
	return 0;
}

static bool wanted(const struct parents *p, const struct rut_pstats *s, size_t child)
{
	const struct rut_conf *c = p->run->conf;
	const struct rut_period_def *def = c->periods->defs[child];
	const char *by = rut_an_period_own(c)->aggregate_by;

	if (by && (!s->def->name || strcmp(by, s->def->name) != 0))
		return false;
	return s->children[child].count.n && rut_an_period_below(def, s->def) &&
	       rut_an_period_selects(c, def->name ? def->name : "");
}

/* The bounds over all children of all parents. */
static struct rut_freq uniform_bounds(const struct parents *p, int kind, bool all)
{
	struct rut_freq f = {0};

	for (size_t i = 0; i < p->set->n; i++) {
		const struct rut_pstats *s = p->set->list[i];

		for (size_t k = 0; k < p->run->conf->periods->n; k++) {
			struct rut_series v;

			if (!wanted(p, s, k))
				continue;
			v = with_zeros(series_of(&s->children[k], kind),
				       all ? count_parents(p, s->def) : 0);
			f = rut_an_freq_uniform(p->run,
						(all ? CAT_ALL_DURATION : CAT_DURATION) + kind, v.n,
						v.min, v.max, kind ? 1 : 1000);
			rut_an_series_fini(&v);
		}
	}
	return f;
}

static void report_kind(const struct parents *p, int kind, bool all)
{
	static const struct rut_lami_class *const classes[] = {&rut_an_period_freq_class,
							       &rut_an_period_freq_count_class,
							       &rut_an_period_freq_percent_class};
	static const char *const names[2][3] = {
		{"Duration", "Number", "Usage ratio"},
		{"Global duration", "Global number", "Global usage ratio"}};
	static const char *const units[] = {"us", "instances", "%"};
	const struct rut_conf *c = p->run->conf;
	struct rut_period_def **defs = sorted_defs(c->periods);
	struct rut_freq uniform = {0};
	struct tables t = {0};
	char subtitle[1024];

	if (c->uniform)
		uniform = uniform_bounds(p, kind, all);
	for (size_t d = 0; defs && d < c->periods->n; d++) {
		const struct rut_pstats *s = NULL;

		for (size_t i = 0; i < p->set->n && !s; i++)
			if (p->set->list[i]->def == defs[d])
				s = p->set->list[i];
		for (size_t k = 0; s && k < c->periods->n; k++) {
			struct rut_series v;

			if (!wanted(p, s, k))
				continue;
			snprintf(subtitle, sizeof(subtitle), "%s%s of %s per %s", p->prefix,
				 names[all][kind], c->periods->defs[k]->path, s->def->path);
			v = with_zeros(series_of(&s->children[k], kind),
				       all ? count_parents(p, s->def) : 0);
			add_table(&t, freq_table(p->run, classes[kind], &v,
						 c->uniform ? &uniform : NULL, kind ? 1 : 1000,
						 subtitle, p->first_ns, p->last_ns));
			rut_an_series_fini(&v);
		}
	}
	finish_tables(p->run, &t, units[kind]);
	free(defs);
}

static void report_parents(const struct parents *p)
{
	/* Text has the shares before the counts. */
	static const int orders[2][3] = {{0, 2, 1}, {0, 1, 2}};
	const int *order = orders[p->run->conf->mi];

	for (int all = 0; all < 2; all++)
		for (int i = 0; i < 3; i++)
			report_kind(p, order[i], all);
}

/* ---- Groups ---- */

static void group_tables(struct rut_run *run, const struct rut_pgroup *g,
			 const struct rut_freq *uniform, int64_t first_ns, int64_t last_ns,
			 struct tables *t)
{
	const struct rut_conf *c = run->conf;
	char subtitle[700];

	for (size_t i = 0; i < g->n_order; i++) {
		const struct rut_period_def *def = c->periods->defs[g->order[i]];

		if (!rut_an_period_selects(c, def->name ? def->name : ""))
			continue;
		snprintf(subtitle, sizeof(subtitle), "'%s' - Duration of period: %s", g->key,
			 def->name ? def->name : "");
		add_table(t, freq_table(run, &rut_an_period_freq_class, &g->own[def->index],
					uniform, 1000, subtitle, first_ns, last_ns));
	}
}

/* --freq-series: for each period one table with a column for each group. */
static void report_series(struct rut_run *run, const struct rut_freq *uniform, int64_t first_ns,
			  int64_t last_ns)
{
	const struct rut_pdata *d = run->priv;
	const struct rut_conf *c = run->conf;

	for (size_t k = 0; k < c->periods->n; k++) {
		const struct rut_period_def *def = c->periods->defs[k];
		struct tables t = {0};
		struct rut_result *series;
		char title[300];

		for (size_t i = 0; i < d->groups.n; i++) {
			const struct rut_pgroup *g = d->groups.list[i];

			if (g->own[k].n && rut_an_period_selects(c, def->name ? def->name : ""))
				add_table(&t, freq_table(run, &rut_an_period_freq_class, &g->own[k],
							 uniform, 1000, g->key, first_ns, last_ns));
		}
		snprintf(title, sizeof(title),
			 "Period '%s' duration frequency distribution per group",
			 def->name ? def->name : "");
		series = rut_an_freq_series(t.list, t.n, "", "count");
		if (series)
			series->owned_cls->title = rut_an_result_str(series, title);
		rut_an_results_take(&run->results, series);
		for (size_t i = 0; i < t.n; i++)
			rut_an_result_free(t.list[i]);
		free(t.list);
	}
}

/* The bounds of all groups. */
static struct rut_freq group_bounds(struct rut_run *run)
{
	const struct rut_pdata *d = run->priv;
	const struct rut_conf *c = run->conf;
	struct rut_freq uniform = {0};

	for (size_t i = 0; c->uniform && i < d->groups.n; i++) {
		const struct rut_pgroup *g = d->groups.list[i];

		for (size_t k = 0; k < g->n_order; k++) {
			struct rut_series s = passing(c, &g->own[g->order[k]]);

			uniform = rut_an_freq_uniform(run, CAT_DURATION, s.n, s.min, s.max, 1000);
			rut_an_series_fini(&s);
		}
	}
	return uniform;
}

static void report_groups(struct rut_run *run, const struct rut_freq *uniform, int64_t first_ns,
			  int64_t last_ns)
{
	const struct rut_pdata *d = run->priv;
	const struct rut_conf *c = run->conf;
	char prefix[600];

	for (size_t i = 0; i < d->groups.n; i++) {
		const struct rut_pgroup *g = d->groups.list[i];
		struct parents p = {run, &g->parents, prefix, first_ns, last_ns};
		struct tables t = {0};

		snprintf(prefix, sizeof(prefix), "'%s' -- ", g->key);
		if (!c->mi)
			rut_buf_printf(&run->out, "\n\n### Group: %s ###\n", g->key);
		group_tables(run, g, c->uniform ? uniform : NULL, first_ns, last_ns, &t);
		finish_tables(run, &t, "us");
		report_parents(&p);
	}
	if (c->mi && c->series && d->groups.n)
		report_series(run, uniform, first_ns, last_ns);
}

void rut_an_period_report_freq(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_pdata *d = run->priv;
	struct parents all = {run, &d->parents, "", first_ns, last_ns};
	/* First: the parents' bounds include those of the groups. */
	struct rut_freq uniform = group_bounds(run);

	report_periods(run, first_ns, last_ns);
	report_parents(&all);
	report_groups(run, &uniform, first_ns, last_ns);
}
