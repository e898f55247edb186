/* SPDX-License-Identifier: MIT */
/* periodlog, periodtop, and what is kept of periods for periodstats and periodfreq. */
#include "analysis/an_period.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"
#include "analysis/ordered.h"

#define LOG_COLUMNS                                                                                \
	{"begin_ts", "Period begin timestamp", RUT_LAMI_TIMESTAMP, NULL},                          \
		{"end_ts", "Period end timestamp", RUT_LAMI_TIMESTAMP, NULL},                      \
		{"duration", "Period duration", RUT_LAMI_DURATION, NULL},                          \
		{"name", "Period name", RUT_LAMI_STRING, NULL},                                    \
		{"begin_captures", "Begin captures", RUT_LAMI_STRING, NULL},                       \
	{                                                                                          \
		"end_captures", "End captures", RUT_LAMI_STRING, NULL                              \
	}

static const struct rut_lami_column log_columns[] = {LOG_COLUMNS};

const struct rut_lami_class rut_an_period_log_class =
	RUT_LAMI_CLASS("log", "Period log", log_columns);
const struct rut_lami_class rut_an_period_top_class =
	RUT_LAMI_CLASS("top", "Period top", log_columns);

/* ---- Options ---- */

enum {
	OPT_MIN_DURATION = RUT_ANALYSIS_OPT,
	OPT_MAX_DURATION,
	OPT_SELECT,
	OPT_AGGREGATE_BY,
	OPT_GROUP_BY,
	OPT_ORDER_BY,
};

static const struct rut_opt options[] = {
	{"min-duration", "US", "leave out shorter periods (microseconds)", OPT_MIN_DURATION},
	{"max-duration", "US", "leave out longer ones", OPT_MAX_DURATION},
	{"select", "NAMES", "only these periods", OPT_SELECT},
	{"aggregate-by", "NAME", "one line for each of these parents", OPT_AGGREGATE_BY},
	{"group-by", "P.CAPTURE[,..]", "apart by these captured values", OPT_GROUP_BY},
	{"order-by", "ORDER", "time or hierarchy", OPT_ORDER_BY},
	{0},
};

/* Names may have their parents' before them: the last is enough. */
static const char *last_name(const char *s)
{
	const char *slash = strrchr(s, '/');

	return slash ? slash + 1 : s;
}

static int set_names(struct rut_commas *w, const char *value)
{
	int r = rut_commas_split(w, value, false);

	for (size_t i = 0; !r && i < w->n; i++)
		w->words[i] = last_name(w->words[i]);
	return r;
}

static int set_us(const char *value, bool *ret_has, double *ret)
{
	char *end;

	*ret = strtod(value, &end);
	*ret_has = true;
	return end == value || *end ? -EINVAL : 0;
}

static int option(void *own, int id, const char *value)
{
	struct rut_period_own *o = own;

	switch (id) {
	case OPT_MIN_DURATION:
		return set_us(value, &o->has_min, &o->min_us);
	case OPT_MAX_DURATION:
		return set_us(value, &o->has_max, &o->max_us);
	case OPT_SELECT:
		return set_names(&o->select, value);
	case OPT_AGGREGATE_BY:
		o->aggregate_by = last_name(value);
		return 0;
	case OPT_GROUP_BY:
		return set_names(&o->group_by, value);
	default:
		o->by_hierarchy = !strcmp(value, "hierarchy");
		return o->by_hierarchy || !strcmp(value, "time") ? 0 : -EINVAL;
	}
}

static void own_fini(void *own)
{
	struct rut_period_own *o = own;

	rut_commas_fini(&o->select);
	rut_commas_fini(&o->group_by);
}

const struct rut_period_own *rut_an_period_own(const struct rut_conf *c)
{
	static const struct rut_period_own none;

	return c->own ? c->own : &none;
}

bool rut_an_period_passes(const struct rut_conf *c, double duration_ns)
{
	const struct rut_period_own *o = rut_an_period_own(c);

	return !(o->has_min && duration_ns < o->min_us * 1000) &&
	       !(o->has_max && duration_ns > o->max_us * 1000);
}

bool rut_an_period_selects(const struct rut_conf *c, const char *name)
{
	const struct rut_commas *select = &rut_an_period_own(c)->select;

	for (size_t i = 0; i < select->n; i++)
		if (!strcmp(select->words[i], name))
			return true;
	return !select->n;
}

/* ---- Periods as they come ---- */

static struct rut_pdata *get_data(struct rut_run *run)
{
	if (!run->priv)
		run->priv = calloc(1, sizeof(struct rut_pdata));
	if (!run->priv)
		run->engine->state.failed = true;
	return run->priv;
}

static void period_begin(struct rut_run *run, struct rut_period *p)
{
	struct rut_pdata *d = get_data(run);
	struct rut_pev *e = d ? calloc(1, sizeof(*e)) : NULL;

	if (e && d->n == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 256;
		void *list = realloc(d->list, cap * sizeof(*d->list));

		if (list) {
			d->list = list;
			d->cap = cap;
		} else {
			free(e);
			e = NULL;
		}
	}
	p->user = e;
	if (!e) {
		run->engine->state.failed = true;
		return;
	}
	e->def = p->def;
	e->parent = p->parent ? p->parent->user : NULL;
	e->begin_ns = p->begin_ns;
	e->index = d->n;
	d->list[d->n++] = e;
}

static void free_event(struct rut_pev *e)
{
	if (!e)
		return;
	free(e->captures);
	free(e->children);
	free(e);
}

static int add_child(struct rut_pev *parent, struct rut_pev *child)
{
	size_t n = parent->n_children;
	void *children;

	/* A power of two is full. */
	if (!(n & (n - 1))) {
		children = realloc(parent->children, (n ? n * 2 : 1) * sizeof(*parent->children));
		if (!children)
			return -ENOMEM;
		parent->children = children;
	}
	parent->children[parent->n_children++] = child;
	return 0;
}

static void squeeze(struct rut_pdata *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++) {
		if (!d->list[i])
			continue;
		d->list[i]->index = kept;
		d->list[kept++] = d->list[i];
	}
	d->n = kept;
	d->holes = 0;
}

static void period_end(struct rut_run *run, struct rut_period *p)
{
	struct rut_pdata *d = run->priv;
	struct rut_pev *e = p->user;
	size_t n = p->def->begin_captures.n + p->def->end_captures.n;

	if (!e)
		return;
	if (!p->complete) {
		d->list[e->index] = NULL;
		d->holes++;
		free_event(e);
		if (d->holes > 1024 && d->holes > d->n / 2)
			squeeze(d);
		return;
	}
	e->complete = true;
	e->end_ns = p->end_ns;
	e->captures = malloc((n + 1) * sizeof(*e->captures));
	if (!e->captures || (e->parent && add_child(e->parent, e))) {
		run->engine->state.failed = true;
		if (!e->captures)
			return;
	}
	memcpy(e->captures, p->captures, n * sizeof(*e->captures));
}

/* ---- Captured values ---- */

/* As Python's repr(): single quotes unless the text has some and no double ones. */
static void repr(const char *s, size_t len, struct rut_buf *out)
{
	char quote = memchr(s, '\'', len) && !memchr(s, '"', len) ? '"' : '\'';

	rut_buf_putc(out, quote);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == (unsigned char)quote || c == '\\')
			rut_buf_printf(out, "\\%c", c);
		else if (c == '\n' || c == '\r' || c == '\t')
			rut_buf_printf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
		else if (c < ' ' || c == 127)
			rut_buf_printf(out, "\\x%02x", c);
		else
			rut_buf_putc(out, (char)c);
	}
	rut_buf_putc(out, quote);
}

void rut_an_capture_str(const struct rut_expr_val *v, struct rut_buf *out)
{
	switch (v->type) {
	case RUT_EXPR_INT:
		rut_buf_printf(out, "%lld", (long long)v->i);
		break;
	case RUT_EXPR_UINT:
		rut_buf_printf(out, "%llu", (unsigned long long)v->u);
		break;
	case RUT_EXPR_FLOAT:
		rut_an_json_float(out, v->f);
		break;
	case RUT_EXPR_STR:
		rut_buf_add(out, v->s, v->len);
		break;
	default:
		rut_buf_puts(out, "None");
	}
}

void rut_an_captures_dict(const struct rut_captures *c, const struct rut_expr_val *v,
			  struct rut_buf *out)
{
	rut_buf_putc(out, '{');
	for (size_t i = 0; i < c->n; i++) {
		if (i)
			rut_buf_puts(out, ", ");
		repr(c->list[i].name, strlen(c->list[i].name), out);
		rut_buf_puts(out, ": ");
		if (v[i].type == RUT_EXPR_STR)
			repr(v[i].s, v[i].len, out);
		else
			rut_an_capture_str(&v[i], out);
	}
	rut_buf_putc(out, '}');
}

/* ---- Log and top ---- */

static void add_row(struct rut_result *t, const struct rut_pev *e, const char *name)
{
	struct rut_buf b = RUT_BUF_INIT;

	rut_an_result_int(t, RUT_LAMI_TIMESTAMP, e->begin_ns);
	rut_an_result_int(t, RUT_LAMI_TIMESTAMP, e->end_ns);
	rut_an_result_int(t, RUT_LAMI_DURATION, rut_pev_duration(e));
	rut_an_result_text(t, RUT_LAMI_STRING, name);
	rut_an_captures_dict(&e->def->begin_captures, e->captures, &b);
	rut_an_result_text(t, RUT_LAMI_STRING, b.data);
	rut_buf_clear(&b);
	rut_an_captures_dict(&e->def->end_captures, e->captures + e->def->begin_captures.n, &b);
	rut_an_result_text(t, RUT_LAMI_STRING, b.data);
	rut_buf_fini(&b);
}

static const struct rut_captures *sort_list;

static int by_name_desc(const void *a, const void *b)
{
	return -strcmp(sort_list->list[*(const size_t *)a].name,
		       sort_list->list[*(const size_t *)b].name);
}

/* "x = 1", the last name first, one for each line of a row. Returns how many. */
static size_t capture_lines(const struct rut_captures *c, const struct rut_expr_val *v,
			    struct rut_buf *lines, size_t max)
{
	size_t order[64] = {0}, n = c->n < 64 ? c->n : 64;

	for (size_t i = 0; i < n; i++)
		order[i] = i;
	sort_list = c;
	qsort(order, n, sizeof(*order), by_name_desc);
	for (size_t i = 0; i < n && i < max; i++) {
		rut_buf_printf(&lines[i], "%s = ", c->list[order[i]].name);
		rut_an_capture_str(&v[order[i]], &lines[i]);
	}
	return n < max ? n : max;
}

static const char *text_of(const struct rut_buf *b)
{
	return b->data ? b->data : "";
}

static void print_row(const struct rut_pev *e, const char *name, const struct rut_conf *c,
		      struct rut_buf *out)
{
	struct rut_buf begin[64] = {{0}}, end[64] = {{0}};
	size_t nb = capture_lines(&e->def->begin_captures, e->captures, begin, 64);
	size_t ne = capture_lines(&e->def->end_captures, e->captures + e->def->begin_captures.n,
				  end, 64);
	char from[64], to[64], us[40];

	rut_an_fmt_time(from, sizeof(from), e->begin_ns, c->multi_day, c->gmt);
	rut_an_fmt_time(to, sizeof(to), e->end_ns, c->multi_day, c->gmt);
	rut_an_fmt_us(us, sizeof(us), (double)rut_pev_duration(e));
	rut_an_fmt_line(out, "[{:<18}, {:<18}] {:>15} {:<24} {:<35} {:<35}\n", from, to, us, name,
			text_of(&begin[0]), text_of(&end[0]));
	for (size_t i = 1; i < nb || i < ne; i++)
		rut_an_fmt_line(out, "{:<18} {:<18} {:>18} {:<24} {:<35} {:<35}\n", "", "", "", "",
				text_of(&begin[i]), text_of(&end[i]));
	for (size_t i = 0; i < 64; i++) {
		rut_buf_fini(&begin[i]);
		rut_buf_fini(&end[i]);
	}
}

static void report_rows(struct rut_run *run, const struct rut_lami_class *cls,
			struct rut_pev *const *list, size_t n, bool path, int64_t first_ns,
			int64_t last_ns)
{
	struct rut_result *t;

	if (run->conf->mi) {
		t = rut_an_result_new(cls, first_ns, last_ns, NULL);
		for (size_t i = 0; t && i < n; i++)
			add_row(t, list[i], path ? list[i]->def->path : rut_pev_name(list[i]));
		rut_an_results_take(&run->results, t);
		return;
	}
	rut_buf_printf(&run->out, "\n%s\n", cls->title);
	rut_an_fmt_line(&run->out, "{:<20} {:<19} {:>15} {:<24} {:<35} {:<35}\n", "Begin", "End",
			"Duration (us)", "Name", "Begin capture", "End capture");
	for (size_t i = 0; i < n; i++) {
		print_row(list[i], path ? list[i]->def->path : rut_pev_name(list[i]), run->conf,
			  &run->out);
		if (i % RUT_RUN_ROWS == RUT_RUN_ROWS - 1)
			rut_an_run_show(run);
	}
}

static void report_log(struct rut_run *run, struct rut_pev *const *list, size_t n, int64_t first_ns,
		       int64_t last_ns)
{
	struct rut_pev **passed = malloc((n + 1) * sizeof(*passed));
	size_t kept = 0;

	for (size_t i = 0; passed && i < n; i++)
		if (rut_an_period_passes(run->conf, (double)rut_pev_duration(list[i])))
			passed[kept++] = list[i];
	if (passed)
		report_rows(run, &rut_an_period_log_class, passed, kept, true, first_ns, last_ns);
	free(passed);
}

static int by_duration(const void *a, const void *b)
{
	int64_t x = rut_pev_duration(a), y = rut_pev_duration(b);

	return x > y ? -1 : x < y;
}

static void report_top(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_pdata *d = run->priv;
	struct rut_pev **list = malloc((d->n + 1) * sizeof(*list));
	size_t kept = 0;

	if (list) {
		if (d->list)
			memcpy(list, d->list, d->n * sizeof(*list));
		rut_an_sort_stable((void **)list, d->n, by_duration);
		for (size_t i = 0; i < d->n; i++) {
			if (!rut_an_period_passes(run->conf, (double)rut_pev_duration(list[i])) ||
			    !rut_an_period_selects(run->conf, rut_pev_name(list[i])))
				continue;
			list[kept++] = list[i];
			if ((int64_t)kept == run->conf->limit)
				break;
		}
		report_rows(run, &rut_an_period_top_class, list, kept, false, first_ns, last_ns);
	}
	free(list);
}

/* ---- Percentiles ---- */

static void report_percentiles(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_pdata *d = run->priv;
	struct rut_result *t =
		rut_an_result_new(&rut_an_class_percentiles, first_ns, last_ns, NULL);

	for (size_t i = 0; t && i < run->conf->periods->n; i++) {
		const struct rut_period_def *def = run->conf->periods->defs[i];
		struct rut_stat s;

		if (rut_an_stat_init(&s, RUT_STAT_HIST))
			continue;
		for (size_t k = 0; k < d->n; k++)
			if (d->list[k]->def == def &&
			    rut_an_period_passes(run->conf, (double)rut_pev_duration(d->list[k])))
				rut_stat_add(&s, rut_pev_duration(d->list[k]));
		rut_an_percentiles_add(t, def->path, &s);
		rut_an_stat_fini(&s);
	}
	rut_an_percentiles_finish(run, t);
}

/* ---- The end ---- */

static void finish(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_conf *c = run->conf;
	const struct rut_period_own *o = rut_an_period_own(c);
	struct rut_pdata *d = get_data(run);

	if (!d)
		return;
	squeeze(d);
	if (!c->mi)
		rut_an_run_print_range(run, first_ns, last_ns);
	if (o->select.n || o->by_hierarchy || c->stats || c->freq)
		rut_an_period_aggregate(run);
	/* JSON has the log first, text has it after the statistics. */
	if (c->mi && c->log && (o->by_hierarchy || !o->select.n))
		report_log(run, o->by_hierarchy ? d->hierarchy : d->list,
			   o->by_hierarchy ? d->n_hierarchy : d->n, first_ns, last_ns);
	if (c->mi && c->top)
		report_top(run, first_ns, last_ns);
	if (c->stats)
		rut_an_period_report_stats(run, first_ns, last_ns);
	if (c->freq)
		rut_an_period_report_freq(run, first_ns, last_ns);
	if (!c->mi && c->log && (o->by_hierarchy || !o->select.n))
		report_log(run, o->by_hierarchy ? d->hierarchy : d->list,
			   o->by_hierarchy ? d->n_hierarchy : d->n, first_ns, last_ns);
	if (!c->mi && c->top)
		report_top(run, first_ns, last_ns);
	if (c->log && !o->by_hierarchy && o->select.n)
		rut_an_period_report_aggregated(run, first_ns, last_ns);
	if (c->percentiles)
		report_percentiles(run, first_ns, last_ns);
	if (d->failed)
		run->engine->state.failed = true;
}

static void free_group(struct rut_pgroup *g, size_t n_defs)
{
	rut_an_pset_fini(&g->parents, n_defs);
	for (size_t i = 0; g->own && i < n_defs; i++)
		rut_an_series_fini(&g->own[i]);
	rut_map_each(&g->active, s)
		free(s->value);
	rut_map_fini(&g->active);
	free(g->own);
	free(g->order);
	free(g->key);
	free(g);
}

static void run_fini(struct rut_run *run)
{
	struct rut_pdata *d = run->priv;
	size_t n_defs = run->conf->periods ? run->conf->periods->n : 0;

	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++)
		free_event(d->list[i]);
	free(d->list);
	free(d->hierarchy);
	rut_an_pset_fini(&d->parents, n_defs);
	for (size_t i = 0; i < d->groups.n; i++)
		free_group(d->groups.list[i], n_defs);
	free(d->groups.list);
	free(d);
	run->priv = NULL;
}

static const char *const tags[] = {
	"linux-kernel", "lttng-analyses", "period", "stats", "freq", "top", "log", NULL};
static const struct rut_lami_class *const classes[] = {
	&rut_an_class_percentiles,	   &rut_an_period_log_class,
	&rut_an_period_top_class,	   &rut_an_period_stats_class,
	&rut_an_period_freq_class,	   &rut_an_period_freq_count_class,
	&rut_an_period_freq_percent_class, &rut_an_period_aggregated_class,
	&rut_an_period_parent_class,	   &rut_an_period_count_class,
	&rut_an_period_percent_class,	   NULL};

const struct rut_analysis rut_analysis_period = {
	.info = {"Periods analysis", "Periods frequency distribution, statistics, top, and log",
		 tags, classes},
	.options = options,
	.own_size = sizeof(struct rut_period_own),
	.option = option,
	.own_fini = own_fini,
	.period_begin = period_begin,
	.period_end = period_end,
	.finish = finish,
	.run_fini = run_fini,
};
