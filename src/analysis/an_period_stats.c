/* SPDX-License-Identifier: MIT */
/* periodstats: durations of periods, and of periods within their parents. */
#include "analysis/an_period.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"

static const struct rut_lami_column stats_columns[] = {
	{"name", "Period name", RUT_LAMI_STRING, NULL},
	{"count", "Period count", RUT_LAMI_NUMBER, "occurences"},
	{"min_duration", "Minimum duration", RUT_LAMI_DURATION, NULL},
	{"avg_duration", "Average duration", RUT_LAMI_DURATION, NULL},
	{"max_duration", "Maximum duration", RUT_LAMI_DURATION, NULL},
	{"stdev_duration", "Period duration standard deviation", RUT_LAMI_DURATION, NULL},
	{"runtime", "Total runtime", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_column parent_columns[] = {
	{"name", "Period name", RUT_LAMI_STRING, NULL},
	{"parent", "Parent", RUT_LAMI_STRING, NULL},
	{"min_duration", "Minimum duration", RUT_LAMI_DURATION, NULL},
	{"avg_duration", "Average duration", RUT_LAMI_DURATION, NULL},
	{"max_duration", "Maximum duration", RUT_LAMI_DURATION, NULL},
	{"stdev_duration", "Period duration standard deviation", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_column count_columns[] = {
	{"name", "Period name", RUT_LAMI_STRING, NULL},
	{"parent", "Parent", RUT_LAMI_STRING, NULL},
	{"min", "Minimum", RUT_LAMI_NUMBER, "occurences"},
	{"avg", "Average", RUT_LAMI_NUMBER, "occurences"},
	{"max", "Maximum", RUT_LAMI_NUMBER, "occurences"},
	{"stdev", "Standard deviation", RUT_LAMI_DURATION, NULL},
};

const struct rut_lami_class rut_an_period_stats_class =
	RUT_LAMI_CLASS("per_period_stats", "Period statistics", stats_columns);
const struct rut_lami_class rut_an_period_parent_class =
	RUT_LAMI_CLASS("per_parent_stats", "Per-parent period duration statistics", parent_columns);
const struct rut_lami_class rut_an_period_count_class =
	RUT_LAMI_CLASS("per_parent_count", "Per-parent period count statistics", count_columns);
const struct rut_lami_class rut_an_period_percent_class =
	RUT_LAMI_CLASS("per_parent_percentage", "Per-parent duration ratio", count_columns);

/* ---- By period ---- */

static void add_stdev(struct rut_result *t, enum rut_lami_type type, double v)
{
	if (isnan(v))
		rut_an_result_unknown(t);
	else
		rut_an_result_float(t, type, v);
}

static void add_stats_row(struct rut_result *t, const struct rut_period_def *def,
			  const struct rut_stat *s)
{
	rut_an_result_text(t, RUT_LAMI_STRING, def->path);
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s->count);
	rut_an_result_int(t, RUT_LAMI_DURATION, s->min);
	rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(s));
	rut_an_result_int(t, RUT_LAMI_DURATION, s->max);
	add_stdev(t, RUT_LAMI_DURATION, rut_an_stat_stdev(s));
	rut_an_result_int(t, RUT_LAMI_DURATION, s->sum);
}

static int by_name(const void *a, const void *b)
{
	const struct rut_period_def *x = a, *y = b;

	return strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

/* The definition, then those below it, children by name. */
static void add_tree(struct rut_run *run, struct rut_result *t, const struct rut_period_def *def)
{
	const struct rut_period_set *set = run->conf->periods;
	const struct rut_pdata *d = run->priv;
	struct rut_period_def **children;
	struct rut_stat s;
	size_t n = 0;

	(void)rut_an_stat_init(&s, 0);
	for (size_t i = 0; i < d->n; i++)
		if (d->list[i]->def == def &&
		    rut_an_period_passes(run->conf, (double)rut_pev_duration(d->list[i])))
			rut_stat_add(&s, rut_pev_duration(d->list[i]));
	if (s.count && rut_an_period_selects(run->conf, def->name ? def->name : ""))
		add_stats_row(t, def, &s);
	children = malloc((set->n + 1) * sizeof(*children));
	for (size_t i = 0; children && i < set->n; i++)
		if (set->defs[i]->parent == def)
			children[n++] = set->defs[i];
	if (children && n) {
		struct rut_period_def *tmp;

		for (size_t i = 1; i < n; i++)
			for (size_t k = i; k && by_name(children[k], children[k - 1]) < 0; k--) {
				tmp = children[k];
				children[k] = children[k - 1];
				children[k - 1] = tmp;
			}
		for (size_t i = 0; i < n; i++)
			add_tree(run, t, children[i]);
	}
	free(children);
}

static struct rut_result *stats_table(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_period_set *set = run->conf->periods;
	struct rut_result *t =
		rut_an_result_new(&rut_an_period_stats_class, first_ns, last_ns, NULL);

	for (size_t i = 0; t && i < set->n; i++)
		if (!set->defs[i]->parent)
			add_tree(run, t, set->defs[i]);
	return t;
}

/* ---- By parent ---- */

enum {
	ACTIVE_DURATION,
	ACTIVE_COUNT,
	ACTIVE_PERCENT,
	ALL_DURATION,
	ALL_COUNT,
	ALL_PERCENT,
	TABLES
};

static void add_names(struct rut_result *t, const struct rut_period_def *child,
		      const struct rut_period_def *parent)
{
	rut_an_result_text(t, RUT_LAMI_STRING, child->path);
	rut_an_result_text(t, RUT_LAMI_STRING, parent->path);
}

/* A number that is whole is printed so, but for percentages. */
static void add_number(struct rut_result *t, enum rut_lami_type type, double v, bool whole)
{
	if (whole)
		rut_an_result_int(t, type, (int64_t)v);
	else
		rut_an_result_float(t, type, v);
}

static void add_active(struct rut_result *t, enum rut_lami_type type, const struct rut_series *s,
		       bool whole)
{
	add_number(t, type, s->min, whole);
	rut_an_result_float(t, type, s->total / (double)s->n);
	add_number(t, type, s->max, whole);
	add_stdev(t, type, s->n > 2 ? rut_an_series_stdev(s) : NAN);
}

/* The parents without such a child count as 0. */
static void add_all(struct rut_result *t, enum rut_lami_type type, const struct rut_series *s,
		    size_t parents, bool whole)
{
	double *v = calloc(parents + s->n + 1, sizeof(*v));
	size_t n = parents > s->n ? parents : s->n;

	if (!v) {
		t->failed = true;
		return;
	}
	memcpy(v, s->v, s->n * sizeof(*v));
	add_number(t, type, s->n < parents ? 0 : s->min, whole || s->n < parents);
	rut_an_result_float(t, type, s->total / (double)parents);
	add_number(t, type, s->max, whole);
	add_stdev(t, type, parents > 2 ? rut_an_stdev_floats(v, n) : NAN);
	free(v);
}

/* Is `def` one that --aggregate-by leaves? */
static bool aggregated(const struct rut_conf *c, const struct rut_period_def *def)
{
	const char *by = rut_an_period_own(c)->aggregate_by;

	return !by || (def->name && !strcmp(by, def->name));
}

/* The number of such parents, in all groups. */
static size_t all_parents(const struct rut_pdata *d, const struct rut_period_def *def)
{
	for (size_t i = 0; i < d->parents.n; i++)
		if (d->parents.list[i]->def == def)
			return d->parents.list[i]->periods;
	return 0;
}

static void fill_child(struct rut_result **t, const struct rut_period_def *child,
		       const struct rut_period_def *parent, const struct rut_pchild *c,
		       size_t parents)
{
	for (int i = 0; i < TABLES; i++)
		add_names(t[i], child, parent);
	add_active(t[ACTIVE_DURATION], RUT_LAMI_DURATION, &c->duration, true);
	add_active(t[ACTIVE_COUNT], RUT_LAMI_NUMBER, &c->count, true);
	add_active(t[ACTIVE_PERCENT], RUT_LAMI_NUMBER, &c->percent, false);
	add_all(t[ALL_DURATION], RUT_LAMI_DURATION, &c->duration, parents, true);
	add_all(t[ALL_COUNT], RUT_LAMI_NUMBER, &c->count, parents, true);
	add_all(t[ALL_PERCENT], RUT_LAMI_NUMBER, &c->percent, parents, false);
}

static void parent_tables(struct rut_run *run, const struct rut_pset *set, const char *prefix,
			  int64_t first_ns, int64_t last_ns, struct rut_result **t)
{
	static const struct rut_lami_class *const classes[] = {&rut_an_period_parent_class,
							       &rut_an_period_count_class,
							       &rut_an_period_percent_class};
	const struct rut_conf *c = run->conf;
	char subtitle[600];
	bool ok = true;

	for (int i = 0; i < TABLES; i++) {
		snprintf(subtitle, sizeof(subtitle), "%s%s", prefix,
			 i < ALL_DURATION ? "With active children" : "Globally");
		t[i] = rut_an_result_new(classes[i % 3], first_ns, last_ns, subtitle);
		ok = ok && t[i];
	}
	for (size_t i = 0; ok && i < set->n; i++) {
		const struct rut_pstats *s = set->list[i];

		if (!aggregated(c, s->def))
			continue;
		for (size_t k = 0; k < c->periods->n; k++) {
			const struct rut_period_def *child = c->periods->defs[k];

			if (!s->children[k].count.n || !rut_an_period_below(child, s->def) ||
			    !rut_an_period_selects(c, child->name ? child->name : ""))
				continue;
			fill_child(t, child, s->def, &s->children[k],
				   all_parents(run->priv, s->def));
		}
	}
}

/* ---- Text ---- */

static void print_tree(const struct rut_period_set *set, const struct rut_period_def *parent,
		       size_t level, struct rut_buf *out)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct rut_period_def *d = set->defs[i];

		if (d->parent != parent)
			continue;
		if (level)
			rut_buf_printf(out, "%*s|-- ", (int)(level - 1) * 4, "");
		rut_buf_printf(out, "%s\n", d->name ? d->name : "None");
		print_tree(set, d, level + 1, out);
	}
}

static void us(char *out, size_t size, const struct rut_cell *c)
{
	if (c->type == RUT_LAMI_UNKNOWN)
		snprintf(out, size, "?");
	else
		rut_an_fmt_us(out, size, rut_an_cell_value(c));
}

static void print_stats(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<25} {:>8}  {:>12}  {:>12}  {:>12}  {:>12} {:>12}\n";
	char count[24], cells[5][40];

	if (!rut_result_rows(t))
		return;
	rut_buf_printf(out, "\n%s (us)\n", t->cls->title);
	rut_an_fmt_line(out, line, "Period", "Count", "Min", "Avg", "Max", "Stdev", "Runtime");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		snprintf(count, sizeof(count), "%lld", (long long)row[1].i);
		for (int k = 0; k < 5; k++)
			us(cells[k], sizeof(cells[k]), &row[2 + k]);
		rut_an_fmt_line(out, line, row[0].str, count, cells[0], cells[1], cells[2],
				cells[3], cells[4]);
	}
}

enum unit { UNIT_US, UNIT_PERCENT, UNIT_COUNT };

static void print_parents(const struct rut_result *t, enum unit unit, struct rut_buf *out)
{
	static const char *const units[] = {" (us)", " (%)", ""};
	static const char line[] = "{:<25} {:<25}  {:>12}  {:>12}  {:>12}  {:>12}\n";
	char cells[4][40];

	if (!rut_result_rows(t))
		return;
	rut_buf_printf(out, "\n%s%s\n%s\n", t->cls->title, units[unit], t->subtitle);
	rut_an_fmt_line(out, line, "Period", "Parent", "Min", "Avg", "Max", "Stdev");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		for (int k = 0; k < 4; k++) {
			const struct rut_cell *c = &row[2 + k];

			if (unit == UNIT_US)
				us(cells[k], sizeof(cells[k]), c);
			else if (c->type == RUT_LAMI_UNKNOWN)
				strcpy(cells[k], "?");
			else if (k == 0 || k == 2)
				snprintf(cells[k], sizeof(cells[k]), "%lld",
					 (long long)rut_an_cell_value(c));
			else
				snprintf(cells[k], sizeof(cells[k]), "%0.03f",
					 rut_an_cell_value(c));
		}
		rut_an_fmt_line(out, line, row[0].str, row[1].str, cells[0], cells[1], cells[2],
				cells[3]);
	}
}

/* Durations, then shares, then counts; with JSON in the order of the tables. */
static void finish_parents(struct rut_run *run, struct rut_result **t)
{
	static const struct {
		int table;
		enum unit unit;
	} order[] = {
		{ACTIVE_DURATION, UNIT_US},  {ACTIVE_PERCENT, UNIT_PERCENT},
		{ACTIVE_COUNT, UNIT_COUNT},  {ALL_DURATION, UNIT_US},
		{ALL_PERCENT, UNIT_PERCENT}, {ALL_COUNT, UNIT_COUNT},
	};

	for (int i = 0; i < TABLES; i++) {
		if (run->conf->mi) {
			rut_an_results_take(&run->results, t[i]);
			continue;
		}
		print_parents(t[order[i].table], order[i].unit, &run->out);
	}
	for (int i = 0; !run->conf->mi && i < TABLES; i++)
		rut_an_result_free(t[i]);
}

/* ---- Groups ---- */

static void series_stat(const struct rut_conf *c, const struct rut_series *s, struct rut_stat *st)
{
	(void)rut_an_stat_init(st, 0);
	for (size_t i = 0; i < s->n; i++)
		if (rut_an_period_passes(c, s->v[i]))
			rut_stat_add(st, (int64_t)s->v[i]);
}

static void report_group(struct rut_run *run, const struct rut_pgroup *g, int64_t first_ns,
			 int64_t last_ns)
{
	const struct rut_conf *c = run->conf;
	struct rut_result *own =
		rut_an_result_new(&rut_an_period_stats_class, first_ns, last_ns, NULL);
	struct rut_result *t[TABLES];
	char prefix[512];

	for (size_t i = 0; own && i < g->n_order; i++) {
		const struct rut_period_def *def = c->periods->defs[g->order[i]];
		struct rut_stat s;

		if (!rut_an_period_selects(c, def->name ? def->name : ""))
			continue;
		series_stat(c, &g->own[def->index], &s);
		add_stats_row(own, def, &s);
	}
	if (!c->mi) {
		rut_buf_printf(&run->out, "\n\n### Group: %s ###\n", g->key);
		rut_buf_puts(&run->out, "Period tree:\n");
		print_tree(c->periods, NULL, 0, &run->out);
		print_stats(own, &run->out);
	}
	rut_an_result_free(own);
	snprintf(prefix, sizeof(prefix), "'%s' - ", g->key);
	parent_tables(run, &g->parents, prefix, first_ns, last_ns, t);
	finish_parents(run, t);
}

void rut_an_period_report_stats(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_pdata *d = run->priv;
	struct rut_result *own = stats_table(run, first_ns, last_ns), *t[TABLES];

	if (run->conf->mi) {
		rut_an_results_take(&run->results, own);
	} else {
		rut_buf_puts(&run->out, "Period tree:\n");
		print_tree(run->conf->periods, NULL, 0, &run->out);
		print_stats(own, &run->out);
		rut_an_result_free(own);
	}
	parent_tables(run, &d->parents, "", first_ns, last_ns, t);
	finish_parents(run, t);
	for (size_t i = 0; i < d->groups.n; i++)
		report_group(run, d->groups.list[i], first_ns, last_ns);
}
