/* SPDX-License-Identifier: MIT */
/*
 * The objects of a Ruby heap and their references, as the agent reports them (agent/abi.h, struct
 * rut_agent_graph), in as little memory as possible: a reference is four bytes.
 *
 * That needs numbers for objects before they are known. Such a number is the place of an address:
 * the number of its part of 16 KiB of heap, in the order in which they were seen, and its offset in
 * there. When all objects are known the references become indexes of objects; those to something
 * else (made or freed in the meantime) are dropped. Needs no process.
 */
#ifndef RUT_RUBY_GRAPH_H
#define RUT_RUBY_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUT_GRAPH_NONE UINT32_MAX

struct rut_graph_part; /* 16 KiB of heap */

struct rut_graph_label {
	uint32_t object, label;
};

struct rut_graph_root {
	uint32_t object;
	uint32_t kind; /* as reported: the offset of a string of the process's table */
};

struct rut_heap_graph {
	/* By object, in the order of their records; first[count] is the end of the last. Owned. */
	uint32_t *places, *rows, *first;
	uint64_t *bytes;
	uint8_t *kinds; /* RUT_GRAPH_IMEMO and which; 0: no internal object */
	size_t count, cap;
	uint32_t *refs; /* owned; places until rut_graph_resolve(), then objects */
	size_t ref_count, ref_cap;
	struct rut_graph_label *labels; /* owned; in the order of objects */
	size_t label_count, label_cap;
	struct rut_graph_root *roots; /* owned; likewise, each once when resolved */
	size_t root_count, root_cap;
	struct rut_graph_part *parts; /* owned */
	size_t part_count, part_cap;
	uint32_t *part_index; /* owned; open addressing, number + 1 */
	size_t part_mask;
	uint32_t part_last; /* found last */
	uint64_t head[3];   /* of a record that is not complete */
	unsigned head_words, head_size;
};

void rut_graph_fini(struct rut_heap_graph *g);
/* The next words of the ring, which may end anywhere. 0, -ENOMEM, -E2BIG or -EBADMSG. */
int rut_graph_add(struct rut_heap_graph *g, const uint64_t *words, size_t count);
/* After the last word, once. 0 or -ENOMEM. */
int rut_graph_resolve(struct rut_heap_graph *g);
uint64_t rut_graph_address(const struct rut_heap_graph *g, uint32_t object);
/* The row of its own name of an object that is a class, plus 1; 0: it is none. */
uint32_t rut_graph_label(const struct rut_heap_graph *g, uint32_t object);
/* RUT_GRAPH_NONE: it is no root. */
uint32_t rut_graph_root_kind(const struct rut_heap_graph *g, uint32_t object);
bool rut_graph_refers(const struct rut_heap_graph *g, uint32_t from, uint32_t to);

#endif
