/* SPDX-License-Identifier: MIT */
#include "ruby/retained.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rut_retained_fini(struct rut_retained *r)
{
	rut_dominators_fini(&r->d);
	free(r->bytes);
	free(r->objects);
	free(r->child);
	free(r->sibling);
	*r = (struct rut_retained){0};
}

static int find_dominators(struct rut_retained *r, const struct rut_heap_graph *g)
{
	uint32_t *roots = malloc((g->root_count + 1) * sizeof(*roots));
	int rc;

	if (!roots)
		return -ENOMEM;
	for (size_t i = 0; i < g->root_count; i++)
		roots[i] = g->roots[i].object;
	rc = rut_dominators_find(&r->d, (uint32_t)g->count, g->first, g->refs, roots,
				 g->root_count);
	free(roots);
	return rc;
}

int rut_retained_init(struct rut_retained *r, const struct rut_heap_graph *g)
{
	size_t n;
	int rc;

	*r = (struct rut_retained){0};
	rc = find_dominators(r, g);
	if (rc)
		return rc;
	n = r->d.count + 1ul;
	r->bytes = calloc(n, sizeof(*r->bytes));
	r->objects = calloc(n, sizeof(*r->objects));
	r->child = calloc(n, sizeof(*r->child));
	r->sibling = calloc(n, sizeof(*r->sibling));
	if (!r->bytes || !r->objects || !r->child || !r->sibling)
		return -ENOMEM;
	/* A dominator has a smaller number than what it dominates. */
	for (uint32_t v = r->d.count; v; v--) {
		uint32_t up = r->d.idom[v];

		r->bytes[v] += g->bytes[r->d.node[v]];
		r->objects[v]++;
		r->bytes[up] += r->bytes[v];
		r->objects[up] += r->objects[v];
		r->sibling[v] = r->child[up];
		r->child[up] = v;
	}
	r->total_bytes = r->bytes[0];
	for (size_t i = 0; i < g->count; i++)
		if (!r->d.number[i]) {
			r->others++;
			r->other_bytes += g->bytes[i];
		}
	return 0;
}

/* ---- the biggest ---- */

/* A heap of entries that wait for their turn, the biggest on top. */
struct waiting {
	const struct rut_retained *r;
	struct wait {
		uint32_t number, parent, depth;
	} * items; /* owned */
	size_t count, cap;
};

static bool is_bigger(const struct waiting *w, size_t a, size_t b)
{
	uint32_t x = w->items[a].number, y = w->items[b].number;

	if (w->r->bytes[x] != w->r->bytes[y])
		return w->r->bytes[x] > w->r->bytes[y];
	return x < y;
}

static void swap(struct waiting *w, size_t a, size_t b)
{
	struct wait was = w->items[a];

	w->items[a] = w->items[b];
	w->items[b] = was;
}

static int push(struct waiting *w, uint32_t number, uint32_t parent, uint32_t depth)
{
	size_t i = w->count;

	if (w->count == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 1024;
		struct wait *more = reallocarray(w->items, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		w->items = more;
		w->cap = cap;
	}
	w->items[w->count++] = (struct wait){number, parent, depth};
	for (; i && is_bigger(w, i, (i - 1) / 2); i = (i - 1) / 2)
		swap(w, i, (i - 1) / 2);
	return 0;
}

static struct wait pop(struct waiting *w)
{
	struct wait top = w->items[0];
	size_t i = 0;

	w->items[0] = w->items[--w->count];
	for (;;) {
		size_t best = i, left = 2 * i + 1;

		if (left < w->count && is_bigger(w, left, best))
			best = left;
		if (left + 1 < w->count && is_bigger(w, left + 1, best))
			best = left + 1;
		if (best == i)
			return top;
		swap(w, i, best);
		i = best;
	}
}

static int push_children(struct waiting *w, uint32_t of, uint32_t but, uint32_t parent,
			 uint32_t depth, uint64_t least)
{
	int rc = 0;

	for (uint32_t v = w->r->child[of]; v && !rc; v = w->r->sibling[v])
		if (v != but && w->r->bytes[v] >= least)
			rc = push(w, v, parent, depth);
	return rc;
}

/* The child that continues a chain: of the same row, with 90 % of what its holder has. Or 0. */
static uint32_t next_in_chain(const struct rut_retained *r, const struct rut_heap_graph *g,
			      uint32_t v)
{
	for (uint32_t c = r->child[v]; c; c = r->sibling[c])
		if (g->rows[r->d.node[c]] == g->rows[r->d.node[v]] &&
		    !rut_graph_label(g, r->d.node[c]) && !rut_graph_label(g, r->d.node[v]) &&
		    !g->kinds[r->d.node[v]] && r->bytes[c] / 9 >= (r->bytes[v] - r->bytes[c]))
			return c;
	return 0;
}

/*
 * Parents before children, and brothers by size: as a tree is read. In the list an entry stands
 * behind its parent. `links` has room for 2 * count + 2 numbers: the first child and the next
 * brother of each, plus 1; entry `count` stands for all that have no parent.
 */
static void print_order(struct rut_holder *to, struct rut_holder *from, size_t count,
			uint32_t *links)
{
	uint32_t *child = links, *brother = links + count + 1, n = 0;

	memset(links, 0, (2 * count + 2) * sizeof(*links));
	for (size_t i = count; i-- > 0;) {
		size_t up = from[i].parent == RUT_GRAPH_NONE ? count : from[i].parent;

		brother[i] = child[up];
		child[up] = (uint32_t)i + 1;
	}
	for (uint32_t i = child[count]; i;) {
		struct rut_holder *h = &from[i - 1];
		uint32_t up = h->parent;

		to[n] = *h;
		if (up != RUT_GRAPH_NONE)
			to[n].parent = from[up].object; /* the parent's place in `to`, see below */
		h->object = n++;			/* not needed any more: its own place */
		if (child[i - 1]) {
			i = child[i - 1];
			continue;
		}
		while (!brother[i - 1] && from[i - 1].parent != RUT_GRAPH_NONE)
			i = from[i - 1].parent + 1;
		i = brother[i - 1];
	}
}

int rut_retained_holders(const struct rut_retained *r, const struct rut_heap_graph *g, size_t limit,
			 struct rut_holder **ret, size_t *ret_count)
{
	uint64_t least = r->total_bytes / 10000;
	size_t n = 0, most = limit < RUT_HOLDERS_MAX ? limit : RUT_HOLDERS_MAX;
	struct waiting w = {.r = r};
	struct rut_holder *list = calloc(most + 1, sizeof(*list)),
			  *tree = calloc(most + 1, sizeof(*tree));
	uint32_t *links = calloc(most + 1, 2 * sizeof(*links));
	int rc =
		list && tree && links ? push_children(&w, 0, 0, RUT_GRAPH_NONE, 0, least) : -ENOMEM;

	while (!rc && w.count && n < most) {
		struct wait top = pop(&w);
		struct rut_holder *h = &list[n++];
		uint32_t v = top.number, next;

		*h = (struct rut_holder){
			.object = r->d.node[v],
			.parent = top.parent,
			.depth = top.depth,
			.chain = 1,
			.bytes = r->bytes[v],
			.objects = r->objects[v],
		};
		for (; !rc && (next = next_in_chain(r, g, v)); v = next) {
			rc = push_children(&w, v, next, (uint32_t)(n - 1), top.depth + 1, least);
			h->chain++;
		}
		if (!rc)
			rc = push_children(&w, v, 0, (uint32_t)(n - 1), top.depth + 1, least);
	}
	if (!rc)
		print_order(tree, list, n, links);
	free(w.items);
	free(list);
	free(links);
	if (rc) {
		free(tree);
		return rc;
	}
	*ret = tree;
	*ret_count = n;
	return 0;
}

/* ---- groups ---- */

/*
 * The sum of what the outermost objects of each group hold, into `held`: at least that is freed
 * with the group. `inside` counts the objects of each group on the way down to where the walk is.
 */
static void sum_held(const struct rut_retained *r, const uint32_t *group_of, uint64_t *held,
		     uint32_t *inside)
{
	uint32_t v = r->child[0];

	while (v) {
		uint32_t group = group_of[v];

		if (!inside[group]++)
			held[group] += r->bytes[v];
		if (r->child[v]) {
			v = r->child[v];
			continue;
		}
		inside[group]--;
		while (v && !r->sibling[v]) {
			v = r->d.idom[v];
			if (v)
				inside[group_of[v]]--;
		}
		v = r->sibling[v];
	}
}

/*
 * Which objects are reached without which groups: a bit for each of up to 64 groups, by number. A
 * bit spreads along references but not into its own group, until nothing changes.
 */
struct spread {
	const struct rut_retained *r;
	const struct rut_heap_graph *g;
	const uint8_t *bit; /* by number: of the group; 64: of none of them */
	uint64_t *reached;  /* by number */
	uint32_t *queue;    /* a ring of as many as there are numbers */
	uint8_t *queued;
	size_t head, tail;
};

static void reach(struct spread *s, uint32_t v, uint64_t bits)
{
	if (s->bit[v] < 64)
		bits &= ~(1ull << s->bit[v]);
	if (!(bits & ~s->reached[v]))
		return;
	s->reached[v] |= bits;
	if (s->queued[v])
		return;
	s->queued[v] = 1;
	s->queue[s->tail++ % (s->r->d.count + 1ul)] = v;
}

static void spread(struct spread *s)
{
	const struct rut_dominators *d = &s->r->d;

	for (size_t i = 0; i < s->g->root_count; i++)
		reach(s, d->number[s->g->roots[i].object], ~0ull);
	while (s->head < s->tail) {
		uint32_t v = s->queue[s->head++ % (d->count + 1ul)], node = d->node[v];

		s->queued[v] = 0;
		for (uint32_t i = s->g->first[node]; i < s->g->first[node + 1]; i++)
			reach(s, d->number[s->g->refs[i]], s->reached[v]);
	}
}

static int compare_bytes(const void *x, const void *y)
{
	const struct rut_holder_group *a = x, *b = y;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->group > b->group) - (a->group < b->group);
}

struct groups {
	uint32_t *of;	  /* by number */
	uint8_t *bit;	  /* by number */
	uint64_t *held;	  /* by group */
	uint32_t *inside; /* by group */
	struct rut_holder_group *list;
	size_t count;
};

/* The 64 that hold most. */
static void choose(struct groups *gs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		gs->list[i] = (struct rut_holder_group){.group = i, .bytes = gs->held[i]};
	if (count)
		qsort(gs->list, count, sizeof(*gs->list), compare_bytes);
	gs->count = count < RUT_HOLDER_GROUPS ? count : RUT_HOLDER_GROUPS;
	while (gs->count && !gs->list[gs->count - 1].bytes)
		gs->count--;
}

static int measure(const struct rut_retained *r, const struct rut_heap_graph *g, struct groups *gs,
		   uint32_t count)
{
	struct spread s = {.r = r, .g = g, .bit = gs->bit};
	size_t n = r->d.count + 1ul;
	int rc = 0;

	/* From here on `inside` is the bit of each group. */
	memset(gs->inside, 0xff, count * sizeof(*gs->inside));
	for (uint32_t i = 0; i < gs->count; i++) {
		gs->inside[gs->list[i].group] = i;
		gs->list[i].bytes = 0;
	}
	for (uint32_t v = 1; v < n; v++)
		gs->bit[v] = gs->inside[gs->of[v]] < 64 ? (uint8_t)gs->inside[gs->of[v]] : 64;
	s.reached = calloc(n, sizeof(*s.reached));
	s.queue = calloc(n, sizeof(*s.queue));
	s.queued = calloc(n, 1);
	if (s.reached && s.queue && s.queued)
		spread(&s);
	else
		rc = -ENOMEM;
	for (uint32_t v = 1; v < n && !rc; v++) {
		uint64_t freed = ~s.reached[v];

		if (gs->bit[v] < 64) {
			gs->list[gs->bit[v]].count++;
			gs->list[gs->bit[v]].own += g->bytes[r->d.node[v]];
		}
		if (gs->count < 64)
			freed &= (1ull << gs->count) - 1;
		for (; freed; freed &= freed - 1) {
			struct rut_holder_group *to = &gs->list[__builtin_ctzll(freed)];

			to->bytes += g->bytes[r->d.node[v]];
			to->objects++;
		}
	}
	free(s.reached);
	free(s.queue);
	free(s.queued);
	return rc;
}

int rut_retained_groups(const struct rut_retained *r, const struct rut_heap_graph *g,
			const uint32_t *groups, uint32_t count, size_t limit,
			struct rut_holder_group **ret, size_t *ret_count)
{
	size_t n = r->d.count + 1ul;
	struct groups gs = {
		.of = calloc(n, sizeof(*gs.of)),
		.bit = calloc(n, 1),
		.held = calloc(count + 1ul, sizeof(*gs.held)),
		.inside = calloc(count + 1ul, sizeof(*gs.inside)),
		.list = calloc(count + 1ul, sizeof(*gs.list)),
	};
	int rc = -ENOMEM;

	if (gs.of && gs.bit && gs.held && gs.inside && gs.list) {
		for (uint32_t v = 1; v < n; v++)
			gs.of[v] = groups[g->rows[r->d.node[v]]];
		sum_held(r, gs.of, gs.held, gs.inside);
		choose(&gs, count);
		rc = measure(r, g, &gs, count);
	}
	free(gs.of);
	free(gs.bit);
	free(gs.held);
	free(gs.inside);
	if (rc) {
		free(gs.list);
		return rc;
	}
	if (gs.count)
		qsort(gs.list, gs.count, sizeof(*gs.list), compare_bytes);
	*ret = gs.list;
	*ret_count = limit && gs.count > limit ? limit : gs.count;
	return 0;
}
