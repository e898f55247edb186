/* SPDX-License-Identifier: MIT */
#include "ruby/dominators.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNLINKED UINT32_MAX

/* By number, from 0 on. Names are those of the paper. */
struct work {
	struct rut_dominators *d;
	const uint32_t *first, *refs;
	uint32_t *parent, *semi, *ancestor, *label, *bucket, *next, *path;
	uint32_t *pred_first, *preds;
};

void rut_dominators_fini(struct rut_dominators *d)
{
	free(d->node);
	free(d->number);
	free(d->idom);
	*d = (struct rut_dominators){0};
}

static void work_fini(struct work *w)
{
	free(w->parent);
	free(w->semi);
	free(w->ancestor);
	free(w->label);
	free(w->bucket);
	free(w->next);
	free(w->path);
	free(w->pred_first);
	free(w->preds);
}

static uint32_t *array(size_t count)
{
	return calloc(count + 2, sizeof(uint32_t));
}

static void visit(struct work *w, uint32_t node, uint32_t parent)
{
	uint32_t number = ++w->d->count;

	w->d->number[node] = number;
	w->d->node[number] = node;
	w->parent[number] = parent;
}

/* `next` has, until the search is over, which reference of a node is followed next. */
static void search(struct work *w, uint32_t root)
{
	struct rut_dominators *d = w->d;
	uint32_t at;

	if (d->number[root])
		return;
	visit(w, root, 0);
	at = d->count;
	w->next[at] = w->first[root];
	while (at) {
		uint32_t to;

		if (w->next[at] == w->first[d->node[at] + 1]) {
			at = w->parent[at];
			continue;
		}
		to = w->refs[w->next[at]++];
		if (d->number[to])
			continue;
		visit(w, to, at);
		at = d->count;
		w->next[at] = w->first[to];
	}
}

/* Who refers to each, by number. Roots are referred to by 0, which needs no list. */
static int find_preds(struct work *w)
{
	const struct rut_dominators *d = w->d;
	size_t total = 0;

	for (uint32_t v = 1; v <= d->count; v++)
		for (uint32_t i = w->first[d->node[v]]; i < w->first[d->node[v] + 1]; i++, total++)
			w->pred_first[d->number[w->refs[i]] + 1]++;
	for (uint32_t v = 1; v <= d->count + 2; v++)
		w->pred_first[v] += w->pred_first[v - 1];
	w->preds = array(total);
	if (!w->preds)
		return -ENOMEM;
	/* Filled from the end, so that pred_first[v + 1] moves to the begin of v's. */
	for (uint32_t v = 1; v <= d->count; v++)
		for (uint32_t i = w->first[d->node[v]]; i < w->first[d->node[v] + 1]; i++)
			w->preds[--w->pred_first[d->number[w->refs[i]] + 1]] = v;
	return 0;
}

/* The node of the least semidominator on the way up; shortens the way. */
static uint32_t eval(struct work *w, uint32_t v)
{
	uint32_t depth = 0, u = v;

	if (w->ancestor[v] == UNLINKED)
		return v;
	while (w->ancestor[w->ancestor[u]] != UNLINKED) {
		w->path[depth++] = u;
		u = w->ancestor[u];
	}
	while (depth) {
		uint32_t up;

		u = w->path[--depth];
		up = w->ancestor[u];
		if (w->semi[w->label[up]] < w->semi[w->label[u]])
			w->label[u] = w->label[up];
		w->ancestor[u] = w->ancestor[up];
	}
	return w->label[v];
}

/* From the last number to the first, each is linked to its parent in the search. */
static void dominate(struct work *w, const uint8_t *is_root)
{
	struct rut_dominators *d = w->d;

	for (uint32_t v = d->count; v; v--) {
		uint32_t parent = w->parent[v], u;

		w->semi[v] = is_root[v] ? 0 : parent;
		for (uint32_t i = w->pred_first[v + 1]; !is_root[v] && i < w->pred_first[v + 2];
		     i++) {
			u = eval(w, w->preds[i]);
			if (w->preds[i] <= v ? w->preds[i] < w->semi[v] : w->semi[u] < w->semi[v])
				w->semi[v] = w->preds[i] <= v ? w->preds[i] : w->semi[u];
		}
		w->next[v] = w->bucket[w->semi[v]];
		w->bucket[w->semi[v]] = v;
		w->ancestor[v] = parent;
		for (u = parent ? w->bucket[parent] : 0; u; u = w->next[u]) {
			uint32_t best = eval(w, u);

			d->idom[u] = w->semi[best] < w->semi[u] ? best : parent;
		}
		if (parent)
			w->bucket[parent] = 0;
	}
	for (uint32_t v = 1; v <= d->count; v++)
		if (!w->semi[v])
			d->idom[v] = 0;
		else if (d->idom[v] != w->semi[v])
			d->idom[v] = d->idom[d->idom[v]];
}

int rut_dominators_find(struct rut_dominators *d, uint32_t nodes, const uint32_t *first,
			const uint32_t *refs, const uint32_t *roots, size_t root_count)
{
	struct work w = {.d = d, .first = first, .refs = refs};
	uint8_t *is_root = calloc(nodes + 2ul, 1);
	int rc = -ENOMEM;

	*d = (struct rut_dominators){
		.node = array(nodes), .number = array(nodes), .idom = array(nodes)};
	w.parent = array(nodes);
	w.next = array(nodes);
	w.pred_first = array(nodes + 1ul);
	if (is_root && d->node && d->number && d->idom && w.parent && w.next && w.pred_first) {
		for (size_t i = 0; i < root_count; i++)
			search(&w, roots[i]);
		for (size_t i = 0; i < root_count; i++)
			is_root[d->number[roots[i]]] = 1;
		rc = find_preds(&w);
	}
	if (!rc) {
		w.semi = array(d->count);
		w.ancestor = array(d->count);
		w.label = array(d->count);
		w.bucket = array(d->count);
		w.path = array(d->count);
		rc = w.semi && w.ancestor && w.label && w.bucket && w.path ? 0 : -ENOMEM;
	}
	if (!rc) {
		for (uint32_t v = 0; v <= d->count; v++) {
			w.label[v] = v;
			w.ancestor[v] = UNLINKED;
		}
		dominate(&w, is_root);
	}
	free(is_root);
	work_fini(&w);
	return rc;
}
