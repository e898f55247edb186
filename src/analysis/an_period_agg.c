/* SPDX-License-Identifier: MIT */
/*
 * Periods within periods: how many of each kind each parent had, and how much of it they took; for
 * all, and apart for each group of captured values.
 */
#include "analysis/an_period.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Series ---- */

void rut_an_series_add(struct rut_series *s, double v)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 16;
		void *grown = realloc(s->v, cap * sizeof(*s->v));

		if (!grown)
			return;
		s->v = grown;
		s->cap = cap;
	}
	if (!s->n || v < s->min)
		s->min = v;
	if (!s->n || v > s->max)
		s->max = v;
	s->total += v;
	s->v[s->n++] = v;
}

void rut_an_series_fini(struct rut_series *s)
{
	free(s->v);
	*s = (struct rut_series){0};
}

double rut_an_series_stdev(const struct rut_series *s)
{
	return rut_an_stdev_floats(s->v, s->n);
}

/* ---- Parents ---- */

bool rut_an_period_below(const struct rut_period_def *def, const struct rut_period_def *parent)
{
	for (def = def->parent; def; def = def->parent)
		if (def == parent)
			return true;
	return false;
}

struct rut_pstats *rut_an_pset_get(struct rut_pset *s, const struct rut_period_def *def,
				   size_t n_defs)
{
	struct rut_pstats *p;
	void *list;

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i]->def == def)
			return s->list[i];
	list = realloc(s->list, (s->n + 1) * sizeof(*s->list));
	if (!list)
		return NULL;
	s->list = list;
	p = calloc(1, sizeof(*p));
	if (p)
		p->children = calloc(n_defs, sizeof(*p->children));
	if (!p || !p->children) {
		free(p);
		return NULL;
	}
	p->def = def;
	s->list[s->n++] = p;
	return p;
}

void rut_an_pset_fini(struct rut_pset *s, size_t n_defs)
{
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < n_defs; k++) {
			rut_an_series_fini(&s->list[i]->children[k].duration);
			rut_an_series_fini(&s->list[i]->children[k].count);
			rut_an_series_fini(&s->list[i]->children[k].percent);
		}
		free(s->list[i]->children);
		free(s->list[i]);
	}
	free(s->list);
	*s = (struct rut_pset){0};
}

void rut_an_pstats_finish(struct rut_pstats *s, int64_t duration_ns, size_t child, size_t count,
			  double total)
{
	struct rut_pchild *c = &s->children[child];

	rut_an_series_add(&c->count, (double)count);
	rut_an_series_add(&c->duration, total);
	rut_an_series_add(&c->percent, duration_ns ? total / (double)duration_ns * 100 : 0);
}

/* ---- Groups ---- */

/* A captured value and its name, "period.capture". */
struct tag {
	const char *period, *capture;
	const struct rut_expr_val *val;
};

/* A list of tags; several lists are what a period, with its children, belongs to. */
struct taglist {
	struct tag *tags; /* owned */
	size_t n;
};

struct taglists {
	struct taglist *lists; /* owned */
	size_t n;
};

static void free_lists(struct taglists *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->lists[i].tags);
	free(l->lists);
	*l = (struct taglists){0};
}

static bool same_tags(const struct taglist *a, const struct taglist *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct rut_expr_val *x = a->tags[i].val, *y = b->tags[i].val;

		if (a->tags[i].period != b->tags[i].period ||
		    a->tags[i].capture != b->tags[i].capture || x->type != y->type)
			return false;
		if (x->type == RUT_EXPR_STR ? x->len != y->len || memcmp(x->s, y->s, x->len) != 0
					    : x->type != RUT_EXPR_NONE && x->u != y->u)
			return false;
	}
	return true;
}

/* Appends a + b + c as one list. */
static void add_list(struct taglists *l, const struct taglist *a, const struct taglist *b,
		     const struct taglist *c, bool unique)
{
	size_t n = a->n + b->n + c->n;
	struct taglist joined = {malloc((n + 1) * sizeof(struct tag)), n};
	void *lists;

	if (!joined.tags)
		return;
	if (a->n)
		memcpy(joined.tags, a->tags, a->n * sizeof(*a->tags));
	if (b->n)
		memcpy(joined.tags + a->n, b->tags, b->n * sizeof(*b->tags));
	if (c->n)
		memcpy(joined.tags + a->n + b->n, c->tags, c->n * sizeof(*c->tags));
	for (size_t i = 0; unique && i < l->n; i++) {
		if (same_tags(&l->lists[i], &joined)) {
			free(joined.tags);
			return;
		}
	}
	lists = realloc(l->lists, (l->n + 1) * sizeof(*l->lists));
	if (!lists) {
		free(joined.tags);
		return;
	}
	l->lists = lists;
	l->lists[l->n++] = joined;
}

/* Is "PERIOD.CAPTURE" in --group-by? */
static bool grouped(const struct rut_conf *c, const char *period, const char *capture)
{
	const struct rut_commas *by = &rut_an_period_own(c)->group_by;
	size_t len = strlen(period);

	for (size_t i = 0; i < by->n; i++)
		if (!strncmp(by->words[i], period, len) && by->words[i][len] == '.' &&
		    !strcmp(by->words[i] + len + 1, capture))
			return true;
	return false;
}

static int by_tag_name(const void *a, const void *b)
{
	const struct tag *x = a, *y = b;
	char nx[256], ny[256];

	snprintf(nx, sizeof(nx), "%s.%s", x->period, x->capture);
	snprintf(ny, sizeof(ny), "%s.%s", y->period, y->capture);
	return strcmp(nx, ny);
}

static void add_tags(const struct rut_conf *c, const char *period, const struct rut_captures *caps,
		     const struct rut_expr_val *v, struct taglist *l)
{
	size_t from = l->n;

	for (size_t i = 0; i < caps->n; i++)
		if (grouped(c, period, caps->list[i].name))
			l->tags[l->n++] = (struct tag){period, caps->list[i].name, &v[i]};
	if (l->n > from)
		qsort(l->tags + from, l->n - from, sizeof(*l->tags), by_tag_name);
}

/* What this period itself captured of what --group-by names. */
static struct taglist own_tags(const struct rut_conf *c, const struct rut_pev *e)
{
	size_t n = e->def->begin_captures.n + e->def->end_captures.n;
	struct taglist l = {calloc(n + 1, sizeof(struct tag)), 0};
	const char *name = rut_pev_name(e);

	if (!l.tags || !rut_an_period_own(c)->group_by.n)
		return l;
	add_tags(c, name, &e->def->begin_captures, e->captures, &l);
	add_tags(c, name, &e->def->end_captures, e->captures + e->def->begin_captures.n, &l);
	return l;
}

/* "a.x = 1, b.y = 2", by name. */
static void group_key(const struct taglist *l, struct rut_buf *out)
{
	struct tag sorted[64];
	size_t n = l->n < 64 ? l->n : 64;

	memcpy(sorted, l->tags, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_tag_name);
	for (size_t i = 0; i < n; i++) {
		rut_buf_printf(out, "%s%s.%s = ", i ? ", " : "", sorted[i].period,
			       sorted[i].capture);
		rut_an_capture_str(sorted[i].val, out);
	}
}

static struct rut_pgroup *get_group(struct rut_pgroups *g, const char *key, size_t n_defs)
{
	struct rut_pgroup *group;
	void *list;

	for (size_t i = 0; i < g->n; i++)
		if (!strcmp(g->list[i]->key, key))
			return g->list[i];
	list = realloc(g->list, (g->n + 1) * sizeof(*g->list));
	if (!list)
		return NULL;
	g->list = list;
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	g->list[g->n++] = group;
	group->key = strdup(key);
	group->own = calloc(n_defs, sizeof(*group->own));
	group->order = calloc(n_defs, sizeof(*group->order));
	return group->key && group->own && group->order ? group : NULL;
}

/* What a group knows of one period that is not over: its children so far. */
struct active {
	struct active *parent; /* NULL: none that was not there already */
	struct {
		size_t count;
		double total;
	} children[];
};

static struct active *get_active(struct rut_pgroup *g, struct rut_pev *e, size_t n_defs)
{
	struct active *a = rut_map_get(&g->active, (uint64_t)(uintptr_t)e), *parent = NULL;

	if (a)
		return a;
	if (e->parent && !rut_map_get(&g->active, (uint64_t)(uintptr_t)e->parent))
		parent = get_active(g, e->parent, n_defs);
	a = calloc(1, sizeof(*a) + n_defs * sizeof(a->children[0]));
	if (!a || rut_map_put(&g->active, (uint64_t)(uintptr_t)e, a)) {
		free(a);
		return NULL;
	}
	a->parent = parent;
	return a;
}

static void count_in_group(struct rut_run *run, struct rut_pev *e, const char *key)
{
	struct rut_pdata *d = run->priv;
	size_t n_defs = run->conf->periods->n;
	struct rut_pgroup *g = get_group(&d->groups, key, n_defs);
	struct rut_pstats *s = g ? rut_an_pset_get(&g->parents, e->def, n_defs) : NULL;
	struct active *a;

	if (!s) {
		d->failed = true;
		return;
	}
	if (!g->own[e->def->index].n)
		g->order[g->n_order++] = e->def->index;
	rut_an_series_add(&g->own[e->def->index], (double)rut_pev_duration(e));
	for (struct rut_pev *p = e->parent; p; p = p->parent) {
		a = get_active(g, p, n_defs);
		rut_an_pset_get(&g->parents, p->def, n_defs);
		for (; a; a = a->parent) {
			a->children[e->def->index].count++;
			a->children[e->def->index].total += (double)rut_pev_duration(e);
		}
	}
	a = rut_map_get(&g->active, (uint64_t)(uintptr_t)e);
	if (!a)
		return;
	for (size_t i = 0; i < n_defs; i++)
		if (a->children[i].count)
			rut_an_pstats_finish(s, rut_pev_duration(e), i, a->children[i].count,
					     a->children[i].total);
	s->periods++;
}

/* How many different periods --group-by names: a group needs a value of each. */
static size_t grouped_periods(const struct rut_conf *c)
{
	const struct rut_commas *by = &rut_an_period_own(c)->group_by;
	size_t n = 0;

	for (size_t i = 0; i < by->n; i++) {
		size_t len = strcspn(by->words[i], "."), k = 0;

		while (k < i && (strcspn(by->words[k], ".") != len ||
				 strncmp(by->words[k], by->words[i], len) != 0))
			k++;
		n += k == i;
	}
	return n;
}

static void count_groups(struct rut_run *run, struct rut_pev *e, const struct taglists *all,
			 const struct taglist *ancestors)
{
	static const struct taglist none;
	struct taglists full = {0};
	size_t least = grouped_periods(run->conf);

	for (size_t i = 0; i < all->n; i++)
		add_list(&full, &all->lists[i], ancestors, &none, true);
	for (size_t i = 0; i < full.n; i++) {
		struct rut_buf key = RUT_BUF_INIT;

		if (full.lists[i].n >= least && full.lists[i].n) {
			group_key(&full.lists[i], &key);
			count_in_group(run, e, key.data ? key.data : "");
		}
		rut_buf_fini(&key);
	}
	free_lists(&full);
}

/* ---- The walk over the tree ---- */

struct sums {
	size_t count;
	double total;
};

/*
 * Parents before children in the list of the hierarchy; children are counted before their parents.
 * `below` receives what is below this period and is added to the parent's.
 */
static void walk(struct rut_run *run, struct rut_pev *e, const struct taglist *ancestors,
		 struct taglists *ret_tags, struct sums *parent_sums)
{
	static const struct taglist none;
	struct rut_pdata *d = run->priv;
	size_t n_defs = run->conf->periods->n;
	struct sums *below = calloc(n_defs, sizeof(*below));
	struct rut_pstats *s = rut_an_pset_get(&d->parents, e->def, n_defs);
	struct taglist own = own_tags(run->conf, e);
	struct taglists joined = {0}, mine = {0};

	if (!below || !s || !own.tags) {
		d->failed = true;
		free(below);
		free(own.tags);
		return;
	}
	d->hierarchy[d->n_hierarchy++] = e;
	add_list(&joined, ancestors, &own, &none, false);
	for (size_t i = 0; i < e->n_children; i++) {
		struct rut_pev *child = e->children[i];
		struct taglists theirs = {0};

		if (!rut_an_period_passes(run->conf, (double)rut_pev_duration(child)))
			continue;
		rut_an_pset_get(&d->parents, child->def, n_defs);
		below[child->def->index].count++;
		below[child->def->index].total += (double)rut_pev_duration(child);
		walk(run, child, joined.n ? &joined.lists[0] : &none, &theirs, below);
		for (size_t k = 0; k < theirs.n; k++)
			add_list(&mine, &own, &theirs.lists[k], &none, false);
		free_lists(&theirs);
	}
	if (!mine.n)
		add_list(&mine, &own, &none, &none, false);
	if (rut_an_period_own(run->conf)->group_by.n)
		count_groups(run, e, &mine, ancestors);
	/* Looked up again: the set may have grown. */
	for (size_t i = 0; i < n_defs; i++) {
		if (below[i].count)
			rut_an_pstats_finish(s, rut_pev_duration(e), i, below[i].count,
					     below[i].total);
		if (parent_sums) {
			parent_sums[i].count += below[i].count;
			parent_sums[i].total += below[i].total;
		}
	}
	s->periods++;
	*ret_tags = mine;
	free_lists(&joined);
	free(own.tags);
	free(below);
}

void rut_an_period_aggregate(struct rut_run *run)
{
	static const struct taglist none;
	const struct rut_conf *c = run->conf;
	struct rut_pdata *d = run->priv;

	d->hierarchy = malloc((d->n + 1) * sizeof(*d->hierarchy));
	if (!d->hierarchy) {
		d->failed = true;
		return;
	}
	if (!rut_an_period_own(c)->by_hierarchy && !c->stats && !c->freq)
		return;
	for (size_t i = 0; i < d->n; i++) {
		struct taglists tags = {0};

		if (d->list[i]->parent ||
		    !rut_an_period_passes(c, (double)rut_pev_duration(d->list[i])))
			continue;
		walk(run, d->list[i], &none, &tags, NULL);
		free_lists(&tags);
	}
}
