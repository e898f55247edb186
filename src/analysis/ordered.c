/* SPDX-License-Identifier: MIT */
#include "analysis/ordered.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

void *rut_ordered_add(struct rut_ordered *o, uint64_t key, size_t size)
{
	void *item = rut_map_get(&o->map, key);

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
	if (!item || rut_map_put(&o->map, key, item)) {
		free(item);
		return NULL;
	}
	o->items[o->n++] = item;
	return item;
}

void rut_ordered_fini(struct rut_ordered *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->items[i]);
	free(o->items);
	rut_map_fini(&o->map);
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

int rut_sort_stable(void **items, size_t n, int (*compare)(const void *a, const void *b))
{
	_cleanup_free_ void **tmp = malloc((n + 1) * sizeof(*tmp));

	if (!tmp)
		return -ENOMEM;
	merge_sort(items, tmp, n, compare);
	return 0;
}

void **rut_ordered_sorted(const struct rut_ordered *o, int (*compare)(const void *a, const void *b))
{
	void **list = malloc((o->n + 1) * sizeof(*list));

	if (!list)
		return NULL;
	if (o->n)
		memcpy(list, o->items, o->n * sizeof(*list));
	if (rut_sort_stable(list, o->n, compare)) {
		free(list);
		return NULL;
	}
	return list;
}
