/* SPDX-License-Identifier: MIT */
/*
 * What would be freed with an object, or with all objects of a group: from a graph of references
 * (graph.h) to the biggest holders. Needs no process.
 */
#ifndef RUT_RUBY_RETAINED_H
#define RUT_RUBY_RETAINED_H

#include "ruby/dominators.h"
#include "ruby/graph.h"

struct rut_retained {
	struct rut_dominators d;
	uint64_t *bytes;	      /* owned; by number: what is freed with it, itself included */
	uint32_t *objects;	      /* owned; likewise */
	uint32_t *child, *sibling;    /* owned; by number: of the tree of dominators; 0: none */
	uint64_t total_bytes;	      /* of what is reachable from the roots */
	uint64_t other_bytes, others; /* of what is not: garbage, or changed while it was read */
};

/* One that holds much. */
struct rut_holder {
	uint32_t object,
		parent; /* the closest holder in the list, its index; RUT_GRAPH_NONE: none */
	uint32_t depth;
	uint32_t chain; /* so many objects of one row, each holding the next, are in this entry */
	uint64_t bytes, objects;
};

struct rut_holder_group {
	uint32_t group;
	uint64_t bytes, objects; /* that would be freed with all of the group */
	uint64_t count, own;	 /* objects of the group that are reachable; their bytes */
};

#define RUT_HOLDER_GROUPS 64u
#define RUT_HOLDERS_MAX	  10000

/* 0 or -ENOMEM; fini in either case. The graph is resolved. */
int rut_retained_init(struct rut_retained *r, const struct rut_heap_graph *g);
void rut_retained_fini(struct rut_retained *r);

/*
 * The biggest, each behind what holds it. A chain of objects of one row, in which each holds nearly
 * all that the one before it holds, is one entry: a linked list has millions. At most
 * RUT_HOLDERS_MAX. *ret is the caller's
 * to free. 0 or -ENOMEM.
 */
int rut_retained_holders(const struct rut_retained *r, const struct rut_heap_graph *g, size_t limit,
			 struct rut_holder **ret, size_t *ret_count);

/*
 * Object i belongs to group groups[row of i], of `count`. The groups with which most would be
 * freed, at most RUT_HOLDER_GROUPS of them, exactly: what groups share is freed with none of them
 * alone. They are chosen by what their objects hold one by one. 0 or -ENOMEM.
 */
int rut_retained_groups(const struct rut_retained *r, const struct rut_heap_graph *g,
			const uint32_t *groups, uint32_t count, size_t limit,
			struct rut_holder_group **ret, size_t *ret_count);

#endif
