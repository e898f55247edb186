/* SPDX-License-Identifier: MIT */
/* A list of Ruby's addresses, in memory that is not malloc's. Good while no GC runs. */
#ifndef RUT_AGENT_LIST_H
#define RUT_AGENT_LIST_H

#include "rb.h"
#include "table.h"

#include <string.h>

struct rut_list {
	VALUE *items; /* owned */
	size_t count, cap;
};

static inline bool rut_list_add(struct rut_list *l, VALUE v)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 8192;
		VALUE *items = rut_agent_map(cap * sizeof(*items));

		if (!items)
			return false;
		if (l->count)
			memcpy(items, l->items, l->count * sizeof(*items));
		rut_agent_unmap(l->items, l->cap * sizeof(*items));
		l->items = items;
		l->cap = cap;
	}
	l->items[l->count++] = v;
	return true;
}

static inline void rut_list_fini(struct rut_list *l)
{
	rut_agent_unmap(l->items, l->cap * sizeof(*l->items));
}

#endif
