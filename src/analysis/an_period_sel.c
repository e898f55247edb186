/* SPDX-License-Identifier: MIT */
/* periodlog --select --aggregate-by: a line for each parent and kind of selected child. */
#include "analysis/an_period.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fmt.h"

static const struct rut_lami_column columns[] = {
	{"parent_name", "Parent period name", RUT_LAMI_STRING, NULL},
	{"parent_begin_ts", "Parent begin timestamp", RUT_LAMI_TIMESTAMP, NULL},
	{"parent_end_ts", "Parent end timestamp", RUT_LAMI_TIMESTAMP, NULL},
	{"child_name", "Child period name", RUT_LAMI_STRING, NULL},
	{"count", "Period count", RUT_LAMI_NUMBER, "occurences"},
	{"min_duration", "Minimum duration", RUT_LAMI_DURATION, NULL},
	{"avg_duration", "Average duration", RUT_LAMI_DURATION, NULL},
	{"max_duration", "Maximum duration", RUT_LAMI_DURATION, NULL},
	{"stdev_duration", "Period duration standard deviation", RUT_LAMI_DURATION, NULL},
	{"runtime", "Total runtime", RUT_LAMI_DURATION, NULL},
	{"parent_captures", "Parent captures", RUT_LAMI_STRING, NULL},
};

const struct rut_lami_class rut_an_period_aggregated_class =
	RUT_LAMI_CLASS("aggregated_stats", "Aggregated log", columns);

/* Selected periods below one direct child of a parent, with what that child's tree captured. */
struct item {
	const struct rut_pev *parent, *event;
	size_t group; /* of --group-by */
};

struct items {
	struct item *list; /* owned */
	size_t n, cap;
	struct rut_strtab keys;
};

static void add_item(struct items *s, const struct item *i)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		void *list = realloc(s->list, cap * sizeof(*s->list));

		if (!list)
			return;
		s->list = list;
		s->cap = cap;
	}
	s->list[s->n++] = *i;
}

/* "period.capture" and its value as one string each, sorted into the group's key. */
struct tags {
	char *text[64]; /* owned */
	char *name[64]; /* owned */
	size_t n;
};

static bool grouped(const struct rut_conf *c, const char *name)
{
	const struct rut_commas *by = &rut_an_period_own(c)->group_by;

	for (size_t i = 0; i < by->n; i++)
		if (!strcmp(by->words[i], name))
			return true;
	return false;
}

static void add_tags(const struct rut_conf *c, const struct rut_pev *e,
		     const struct rut_captures *caps, const struct rut_expr_val *v, struct tags *t)
{
	for (size_t i = 0; i < caps->n && t->n < 64; i++) {
		struct rut_buf name = RUT_BUF_INIT, text = RUT_BUF_INIT;

		rut_buf_printf(&name, "%s.%s", rut_pev_name(e), caps->list[i].name);
		if (name.data && grouped(c, name.data)) {
			rut_buf_printf(&text, "%s = ", name.data);
			rut_an_capture_str(&v[i], &text);
			t->name[t->n] = rut_buf_take(&name);
			t->text[t->n++] = rut_buf_take(&text);
		}
		rut_buf_fini(&name);
		rut_buf_fini(&text);
	}
}

static void add_event_tags(const struct rut_conf *c, const struct rut_pev *e, struct tags *t)
{
	add_tags(c, e, &e->def->begin_captures, e->captures, t);
	add_tags(c, e, &e->def->end_captures, e->captures + e->def->begin_captures.n, t);
}

static void walk(const struct rut_conf *c, const struct rut_pev *parent, const struct rut_pev *e,
		 struct items *items, struct tags *tags)
{
	struct item item = {parent, e, 0};

	if (rut_an_period_selects(c, rut_pev_name(e)))
		add_item(items, &item);
	add_event_tags(c, e, tags);
	for (size_t i = 0; i < e->n_children; i++)
		walk(c, parent, e->children[i], items, tags);
}

static size_t intern_key(struct items *s, struct tags *t)
{
	struct rut_buf b = RUT_BUF_INIT;
	int64_t id;

	for (size_t i = 1; i < t->n; i++) {
		for (size_t k = i; k && strcmp(t->name[k], t->name[k - 1]) < 0; k--) {
			char *name = t->name[k], *text = t->text[k];

			t->name[k] = t->name[k - 1];
			t->text[k] = t->text[k - 1];
			t->name[k - 1] = name;
			t->text[k - 1] = text;
		}
	}
	rut_buf_puts(&b, "");
	for (size_t i = 0; i < t->n; i++) {
		rut_buf_printf(&b, "%s%s", i ? ", " : "", t->text[i]);
		free(t->text[i]);
		free(t->name[i]);
	}
	t->n = 0;
	id = rut_strtab_intern(&s->keys, b.data ? b.data : "", b.len);
	rut_buf_fini(&b);
	return id < 0 ? 0 : (size_t)id;
}

static void collect(struct rut_run *run, struct items *items)
{
	const struct rut_pdata *d = run->priv;
	const struct rut_conf *c = run->conf;
	const char *by = rut_an_period_own(c)->aggregate_by;

	for (size_t i = 0; i < d->n; i++) {
		const struct rut_pev *e = d->list[i];

		if (!by || strcmp(rut_pev_name(e), by) != 0 ||
		    !rut_an_period_passes(c, (double)rut_pev_duration(e)))
			continue;
		for (size_t k = 0; k < e->n_children; k++) {
			size_t from = items->n, key;
			struct tags tags = {.n = 0};

			if (!rut_an_period_passes(c, (double)rut_pev_duration(e->children[k])))
				continue;
			add_event_tags(c, e, &tags);
			walk(c, e, e->children[k], items, &tags);
			key = intern_key(items, &tags);
			for (size_t j = from; j < items->n; j++)
				items->list[j].group = key;
		}
	}
}

static void add_captures(struct rut_result *t, const struct rut_pev *e)
{
	const struct rut_captures *sets[] = {&e->def->begin_captures, &e->def->end_captures};
	struct rut_buf b = RUT_BUF_INIT;
	size_t at = 0;

	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < sets[s]->n; i++, at++) {
			rut_buf_printf(&b, "%s%s.%s = ", at ? ", " : "", rut_pev_name(e),
				       sets[s]->list[i].name);
			rut_an_capture_str(&e->captures[at], &b);
		}
	}
	rut_an_result_text(t, RUT_LAMI_STRING, at ? b.data : "None");
	rut_buf_fini(&b);
}

static void add_row(struct rut_run *run, struct rut_result *t, const struct items *items,
		    size_t from, size_t group)
{
	const struct item *first = &items->list[from];
	struct rut_stat s;

	(void)rut_an_stat_init(&s, 0);
	for (size_t i = from; i < items->n && items->list[i].parent == first->parent; i++) {
		const struct item *it = &items->list[i];

		if (it->group == group && it->event->def == first->event->def &&
		    rut_an_period_passes(run->conf, (double)rut_pev_duration(it->event)))
			rut_stat_add(&s, rut_pev_duration(it->event));
	}
	rut_an_result_text(t, RUT_LAMI_STRING, rut_pev_name(first->parent));
	rut_an_result_int(t, RUT_LAMI_TIMESTAMP, first->parent->begin_ns);
	rut_an_result_int(t, RUT_LAMI_TIMESTAMP, first->parent->end_ns);
	rut_an_result_text(t, RUT_LAMI_STRING, first->event->def->path);
	rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)s.count);
	rut_an_result_int(t, RUT_LAMI_DURATION, s.min);
	rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(&s));
	rut_an_result_int(t, RUT_LAMI_DURATION, s.max);
	if (s.count < 2)
		rut_an_result_unknown(t);
	else
		rut_an_result_float(t, RUT_LAMI_DURATION, rut_an_stat_stdev(&s));
	rut_an_result_int(t, RUT_LAMI_DURATION, s.sum);
	add_captures(t, first->parent);
}

/* Is this the first of its kind for its parent in this group? */
static bool is_first(const struct items *items, size_t at)
{
	const struct item *it = &items->list[at];

	for (size_t i = at; i-- > 0 && items->list[i].parent == it->parent;)
		if (items->list[i].group == it->group &&
		    items->list[i].event->def == it->event->def)
			return false;
	return true;
}

static void print_table(const struct rut_result *t, const struct rut_conf *c, struct rut_buf *out)
{
	char begin[64], end[64], us[40], child[128], count[24], cells[5][40];

	rut_buf_printf(out, "\n%s\n%s\n", t->cls->title, t->subtitle);
	rut_an_fmt_line(out, "{:<35} Parent {:<32} | {:<35} | {:<25} Durations (us) {:<22} |\n", "",
			"", "", "", "");
	rut_an_fmt_line(out,
			"{:<20} {:<19} {:>18} {:<15} {:<24} {:>12} | {:>10} {:>12} {:>12} {:>13} "
			"{:>12} | {:>12}\n",
			"Begin", "End", "Duration (us)", "Name", "| Child name", "Count", "Min",
			"Avg", "Max", "Stdev", "Runtime", "Parent captures");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_time(begin, sizeof(begin), row[1].i, c->multi_day, c->gmt);
		rut_an_fmt_time(end, sizeof(end), row[2].i, c->multi_day, c->gmt);
		rut_an_fmt_us(us, sizeof(us), (double)(row[2].i - row[1].i));
		snprintf(child, sizeof(child), "| %s", row[3].str);
		snprintf(count, sizeof(count), "%lld", (long long)row[4].i);
		for (int k = 0; k < 5; k++) {
			if (row[5 + k].type == RUT_LAMI_UNKNOWN)
				strcpy(cells[k], "?");
			else
				rut_an_fmt_us(cells[k], sizeof(cells[k]),
					      rut_an_cell_value(&row[5 + k]));
		}
		rut_an_fmt_line(
			out,
			"[{:<18}, {:<18}] {:>18} {:<15} {:<24} {:>12} | {:>10} {:>12} {:>12} "
			"{:>12} {:>13} | {:>12}\n",
			begin, end, us, row[0].str, child, count, cells[0], cells[1], cells[2],
			cells[3], cells[4], row[10].str);
	}
}

void rut_an_period_report_aggregated(struct rut_run *run, int64_t first_ns, int64_t last_ns)
{
	const struct rut_conf *c = run->conf;
	const struct rut_period_own *o = rut_an_period_own(c);
	struct items items = {0};
	struct rut_buf subtitle = RUT_BUF_INIT;
	size_t groups;

	/* Text only: lttng-analyses makes no JSON of it, and Trace Compass knows no such table. */
	if (c->mi)
		return;
	collect(run, &items);
	groups = o->group_by.n ? items.keys.count : 1;
	for (size_t g = 0; g < groups; g++) {
		struct rut_result *t;

		rut_buf_clear(&subtitle);
		rut_buf_puts(&subtitle, "Aggregation of (");
		for (size_t i = 0; i < o->select.n; i++)
			rut_buf_printf(&subtitle, "%s%s", i ? ", " : "", o->select.words[i]);
		rut_buf_printf(&subtitle, ") by %s", o->aggregate_by ? o->aggregate_by : "None");
		if (o->group_by.n)
			rut_buf_printf(&subtitle, ", group: %s", items.keys.strs[g].data);
		t = rut_an_result_new(&rut_an_period_aggregated_class, first_ns, last_ns,
				      subtitle.data);
		for (size_t i = 0; t && i < items.n; i++) {
			if (o->group_by.n && items.list[i].group != g)
				continue;
			if (!o->group_by.n)
				items.list[i].group = 0;
			if (is_first(&items, i))
				add_row(run, t, &items, i, items.list[i].group);
		}
		if (t)
			print_table(t, c, &run->out);
		rut_an_result_free(t);
	}
	rut_buf_fini(&subtitle);
	rut_strtab_fini(&items.keys);
	free(items.list);
}
