/* SPDX-License-Identifier: MIT */
/*
 * Dominators of a graph, by Lengauer and Tarjan's algorithm in its simple form, O(m log n): an
 * object dominates those that cannot be reached from the roots but through it, which is what would
 * be freed with it. Nothing here recurses: a linked list may have millions of elements.
 *
 * Reachable nodes are numbered from 1 in the order of a depth-first search; number 0 is a node
 * before all roots. A dominator has a smaller number than what it dominates.
 */
#ifndef RUT_RUBY_DOMINATORS_H
#define RUT_RUBY_DOMINATORS_H

#include <stddef.h>
#include <stdint.h>

struct rut_dominators {
	uint32_t count;	  /* of reachable nodes */
	uint32_t *node;	  /* owned; by number, from 1 */
	uint32_t *number; /* owned; by node; 0: not reachable */
	uint32_t *idom;	  /* owned; by number: that of the closest dominator */
};

/*
 * Node i refers to refs[first[i]] to refs[first[i + 1] - 1]. Takes 48 bytes a node and 4 a
 * reference, of which 12 a node stay. 0 or -ENOMEM; fini in either case.
 */
int rut_dominators_find(struct rut_dominators *d, uint32_t nodes, const uint32_t *first,
			const uint32_t *refs, const uint32_t *roots, size_t root_count);
void rut_dominators_fini(struct rut_dominators *d);

#endif
