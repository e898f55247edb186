/* SPDX-License-Identifier: MIT */
#include "analysis/ordered.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static int put(struct rut_ordered *o, uint64_t key, void *item)
{
	return o->by_tid ? rut_index_put(&o->index, key, item) : rut_map_put(&o->map, key, item);
}

void *rut_an_ordered_add(struct rut_ordered *o, uint64_t key, size_t size)
{
	void *item = rut_ordered_get(o, key);

	if (item)
		return item;
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 16;
		void *items = realloc(o->items, cap * sizeof(*o->items));

		if (!items)
			return NULL;
		o->items = items;
		o->cap = cap;
	}
	item = calloc(1, size);
	if (!item || put(o, key, item)) {
		free(item);
		return NULL;
	}
	o->items[o->n++] = item;
	return item;
}

static int by_rank(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x > y ? -1 : x < y;
}

/* The rank of the last that is kept in this list; 0: all are. */
static int last_rank(const struct rut_ordered *o, const struct rut_prune *p, int which,
		     uint64_t *ret)
{
	_cleanup_free_ uint64_t *ranks = malloc((o->n + 1) * sizeof(*ranks));
	size_t n = 0;

	if (!ranks)
		return -ENOMEM;
	for (size_t i = 0; i < o->n; i++)
		if (p->ended(p->arg, o->items[i]))
			ranks[n++] = p->rank(o->items[i], which);
	qsort(ranks, n, sizeof(*ranks), by_rank);
	*ret = p->limit && n > p->limit ? ranks[p->limit - 1] : 0;
	return 0;
}

static bool is_kept(const struct rut_prune *p, const uint64_t *last, const void *item)
{
	bool keep = !p->ended(p->arg, item);

	/* Of equals the first is listed first: all of them stay. */
	for (int k = 0; k < p->lists; k++)
		keep = keep || p->rank(item, k) >= last[k];
	return keep;
}

int rut_an_ordered_prune(struct rut_ordered *o, const struct rut_prune *p)
{
	uint64_t last[RUT_PRUNE_LISTS] = {0};
	struct rut_map map = {0};
	size_t kept = 0;
	int r = 0;

	for (int k = 0; k < p->lists && !r; k++)
		r = last_rank(o, p, k, &last[k]);
	for (size_t i = 0; i < o->n && !r; i++)
		if (is_kept(p, last, o->items[i]))
			r = rut_map_put(&map, p->key(o->items[i]), o->items[i]);
	if (r) {
		rut_map_fini(&map);
		return r;
	}
	for (size_t i = 0; i < o->n; i++) {
		void *item = o->items[i];

		if (rut_map_get(&map, p->key(item)) == item) {
			o->items[kept++] = item;
			continue;
		}
		if (o->by_tid)
			(void)rut_index_put(&o->index, p->key(item), NULL); /* cannot fail */
		if (p->drop)
			p->drop(p->arg, item);
		free(item);
	}
	o->n = kept;
	if (!o->by_tid) {
		rut_map_fini(&o->map);
		o->map = map;
		return 0;
	}
	rut_map_fini(&map);
	return 0;
}

void rut_an_ordered_fini(struct rut_ordered *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->items[i]);
	free(o->items);
	rut_map_fini(&o->map);
	rut_index_fini(&o->index);
	*o = (struct rut_ordered){0};
}

/* Merge sort: qsort() is not stable, and equal rows must keep their order. */
static void merge_sort(void **items, void **tmp, size_t n,
		       int (*compare)(const void *a, const void *b))
{
	size_t half = n / 2, i = 0, k = half, at = 0;

	if (n < 2)
		return;
	merge_sort(items, tmp, half, compare);
	merge_sort(items + half, tmp, n - half, compare);
	while (i < half && k < n)
		tmp[at++] = compare(items[k], items[i]) < 0 ? items[k++] : items[i++];
	while (i < half)
		tmp[at++] = items[i++];
	while (k < n)
		tmp[at++] = items[k++];
	memcpy(items, tmp, n * sizeof(*items));
}

int rut_an_sort_stable(void **items, size_t n, int (*compare)(const void *a, const void *b))
{
	_cleanup_free_ void **tmp = malloc((n + 1) * sizeof(*tmp));

	if (!tmp)
		return -ENOMEM;
	merge_sort(items, tmp, n, compare);
	return 0;
}

void **rut_an_ordered_sorted(const struct rut_ordered *o,
			     int (*compare)(const void *a, const void *b))
{
	void **list = malloc((o->n + 1) * sizeof(*list));

	if (!list)
		return NULL;
	if (o->n)
		memcpy(list, o->items, o->n * sizeof(*list));
	if (rut_an_sort_stable(list, o->n, compare)) {
		free(list);
		return NULL;
	}
	return list;
}
