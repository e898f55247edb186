/* SPDX-License-Identifier: MIT */
/*
 * A map from integers to records, in order of first sight: what the reports keep per thread, file
 * or disk. Records have a fixed size, are zeroed when they are made, and never move.
 */
#ifndef RUT_ANALYSIS_ORDERED_H
#define RUT_ANALYSIS_ORDERED_H

#include <stdlib.h>

#include "base/hash.h"

struct rut_ordered {
	bool by_tid; /* set before the first record: keys are thread IDs; takes 40 KiB */
	struct rut_map map;
	struct rut_index index; /* instead of the map */
	void **items;		/* owned, as are the records */
	size_t n, cap;
};

static inline void *rut_ordered_get(const struct rut_ordered *o, uint64_t key)
{
	return o->by_tid ? rut_index_get(&o->index, key) : rut_map_get(&o->map, key);
}

/* The record, made at first sight. NULL: no memory. */
void *rut_an_ordered_add(struct rut_ordered *o, uint64_t key, size_t size);
void rut_an_ordered_fini(struct rut_ordered *o);

/*
 * For lists of the largest: forgets records that cannot be in them any more, so that memory does
 * not grow with every thread that ever lived.
 */
struct rut_prune {
	uint64_t (*key)(const void *item);
	/* By what the list number `which` is sorted, largest first. */
	uint64_t (*rank)(const void *item, int which);
	int lists;    /* at most RUT_PRUNE_LISTS */
	size_t limit; /* rows of each list */
	/* Nothing will be added to the record. */
	bool (*ended)(void *arg, const void *item);
	void (*drop)(void *arg, void *item); /* before it is freed; or NULL */
	void *arg;
};

#define RUT_PRUNE_AT	65536
#define RUT_PRUNE_LISTS 4

/* Records that have ended and are behind `limit` such in all lists go. Returns 0 or -ENOMEM. */
int rut_an_ordered_prune(struct rut_ordered *o, const struct rut_prune *p);

/* The records in another order, stably sorted: equal ones keep the order of first sight. */
void **rut_an_ordered_sorted(const struct rut_ordered *o,
			     int (*compare)(const void *a, const void *b));
/* A stable sort of pointers. `compare` < 0: a comes first. Returns 0 or -ENOMEM. */
int rut_an_sort_stable(void **items, size_t n, int (*compare)(const void *a, const void *b));

#endif
