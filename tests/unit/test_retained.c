/* SPDX-License-Identifier: MIT */
/* What objects hold: the words of the agent, dominators, groups, beside answers found by leaving
 * objects out one by one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/abi.h"
#include "ruby/graph.h"
#include "ruby/retained.h"

#define HEAP   0x7f1234560000ull
#define SLOT   40u
#define NODES  48u
#define ROWS   5u
#define NOBODY UINT32_MAX
#define LONG   1000000u

static uint64_t address(uint32_t node)
{
	return HEAP + (uint64_t)node * SLOT;
}

static void add(struct rut_heap_graph *g, uint64_t word)
{
	assert_int_equal(rut_graph_add(g, &word, 1), 0);
}

static void add_node(struct rut_heap_graph *g, uint32_t node, uint32_t row, uint64_t bytes)
{
	add(g, address(node) | RUT_GRAPH_OBJECT);
	add(g, row);
	add(g, bytes);
}

static void add_root(struct rut_heap_graph *g, uint32_t node)
{
	add(g, address(node) | RUT_GRAPH_ROOT);
	add(g, 8);
}

/* A random graph, and what it is made of. */
struct made {
	uint32_t count;
	bool refers[NODES][NODES], root[NODES];
	uint32_t row[NODES];
	uint64_t bytes[NODES];
};

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33) % n;
}

static void make(struct made *m, uint64_t *seed)
{
	uint32_t refs;

	memset(m, 0, sizeof(*m));
	m->count = 1 + random_below(seed, NODES);
	refs = random_below(seed, m->count * 3);
	for (uint32_t i = 0; i < m->count; i++) {
		m->row[i] = random_below(seed, ROWS);
		m->bytes[i] = 40 + random_below(seed, 1000);
		m->root[i] = random_below(seed, 8) == 0;
	}
	for (uint32_t i = 0; i < refs; i++)
		m->refers[random_below(seed, m->count)][random_below(seed, m->count)] = true;
}

/* In another order than the references name them, as the late ones of the agent. */
static void feed(struct rut_heap_graph *g, const struct made *m)
{
	for (uint32_t k = 0; k < m->count; k++) {
		uint32_t i = (k * 7 + 3) % m->count;

		if (m->count % 7 == 0)
			i = m->count - 1 - k;
		add_node(g, i, m->row[i], m->bytes[i]);
		for (uint32_t j = 0; j < m->count; j++)
			if (m->refers[i][j])
				add(g, address(j));
		add(g, address(NODES + 5)); /* not an object that was reported */
	}
	for (uint32_t i = 0; i < m->count; i++)
		if (m->root[i])
			add_root(g, i);
	assert_int_equal(rut_graph_resolve(g), 0);
}

/* What can be reached without this node and without those of this row. */
static void reach(const struct made *m, uint32_t without, uint32_t without_row, bool *reached)
{
	bool more = true;

	for (uint32_t i = 0; i < m->count; i++)
		reached[i] = m->root[i] && i != without && m->row[i] != without_row;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < m->count; i++)
			for (uint32_t j = 0; reached[i] && j < m->count; j++)
				if (m->refers[i][j] && !reached[j] && j != without &&
				    m->row[j] != without_row)
					reached[j] = more = true;
	}
}

/* What is lost, of what is reachable at all. */
static uint64_t lost(const struct made *m, uint32_t without, uint32_t without_row,
		     uint64_t *ret_objects)
{
	bool all[NODES], left[NODES];
	uint64_t bytes = 0;

	reach(m, NOBODY, NOBODY, all);
	reach(m, without, without_row, left);
	*ret_objects = 0;
	for (uint32_t i = 0; i < m->count; i++)
		if (all[i] && !left[i]) {
			bytes += m->bytes[i];
			++*ret_objects;
		}
	return bytes;
}

static void check_groups(const struct made *m, const struct rut_heap_graph *g,
			 const struct rut_retained *r)
{
	static const uint32_t groups[ROWS] = {0, 1, 2, 3, 4};
	struct rut_holder_group *list;
	uint64_t objects, seen = 0;
	size_t count;

	assert_int_equal(rut_retained_groups(r, g, groups, ROWS, 0, &list, &count), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(list[i].bytes, lost(m, NOBODY, list[i].group, &objects));
		assert_int_equal(list[i].objects, objects);
		seen |= 1ull << list[i].group;
		assert_true(!i || list[i].bytes <= list[i - 1].bytes);
	}
	for (uint32_t row = 0; row < ROWS; row++)
		if (!(seen >> row & 1))
			assert_int_equal(lost(m, NOBODY, row, &objects), 0);
	free(list);
}

static void check(const struct made *m)
{
	struct rut_heap_graph g = {0};
	struct rut_retained r;
	uint64_t objects;

	feed(&g, m);
	assert_int_equal(g.count, m->count);
	assert_int_equal(rut_retained_init(&r, &g), 0);
	for (uint32_t k = 0; k < g.count; k++) {
		uint32_t i = (uint32_t)((rut_graph_address(&g, k) - HEAP) / SLOT);
		uint64_t bytes = lost(m, i, NOBODY, &objects);
		uint32_t v = r.d.number[k];

		assert_true(!v == !objects); /* it is reachable itself */
		if (v) {
			assert_int_equal(r.bytes[v], bytes);
			assert_int_equal(r.objects[v], objects);
		}
		assert_int_equal(rut_graph_root_kind(&g, k), m->root[i] ? 8 : RUT_GRAPH_NONE);
	}
	check_groups(m, &g, &r);
	rut_retained_fini(&r);
	rut_graph_fini(&g);
}

static void random_graphs_are_as_by_leaving_objects_out(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct made m;

		make(&m, &seed);
		check(&m);
	}
}

/* A million elements need no stack, and are one entry. */
static void a_long_list_is_one_entry(void **state)
{
	struct rut_heap_graph g = {0};
	struct rut_retained r;
	struct rut_holder *list;
	size_t count;

	(void)state;
	add_node(&g, LONG, 1, 100);
	add(&g, address(0));
	for (uint32_t i = 0; i < LONG; i++) {
		add_node(&g, i, 0, 40);
		if (i)
			add(&g, address(i - 1)); /* it is doubly linked */
		if (i + 1 < LONG)
			add(&g, address(i + 1));
	}
	add_root(&g, LONG);
	assert_int_equal(rut_graph_resolve(&g), 0);
	assert_int_equal(rut_retained_init(&r, &g), 0);
	assert_int_equal(r.total_bytes, LONG * 40ull + 100);
	assert_int_equal(rut_retained_holders(&r, &g, 10, &list, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(list[0].bytes, r.total_bytes);
	assert_int_equal(list[1].bytes, LONG * 40ull);
	assert_int_equal(list[1].parent, 0);
	assert_int_equal(list[1].depth, 1);
	assert_true(list[1].chain > LONG - 20);
	free(list);
	rut_retained_fini(&r);
	rut_graph_fini(&g);
}

static void parents_come_before_children(void **state)
{
	struct rut_heap_graph g = {0};
	struct rut_retained r;
	struct rut_holder *list;
	size_t count;

	(void)state;
	add_node(&g, 0, 0, 1000); /* holds 1 and, with it, 2 */
	add(&g, address(1));
	add_node(&g, 1, 1, 2000);
	add(&g, address(2));
	add_node(&g, 2, 2, 3000);
	add_node(&g, 3, 3, 5000); /* alone */
	add_node(&g, 4, 4, 7000); /* garbage */
	add_root(&g, 0);
	add_root(&g, 3);
	assert_int_equal(rut_graph_resolve(&g), 0);
	assert_int_equal(rut_retained_init(&r, &g), 0);
	assert_int_equal(r.total_bytes, 11000);
	assert_int_equal(r.other_bytes, 7000);
	assert_int_equal(r.others, 1);
	assert_int_equal(rut_retained_holders(&r, &g, 3, &list, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(g.rows[list[0].object], 0);
	assert_int_equal(list[0].bytes, 6000);
	assert_int_equal(g.rows[list[1].object], 1);
	assert_int_equal(list[1].parent, 0);
	assert_int_equal(list[1].bytes, 5000);
	assert_int_equal(g.rows[list[2].object], 3);
	assert_int_equal(list[2].parent, RUT_GRAPH_NONE);
	free(list);
	rut_retained_fini(&r);
	rut_graph_fini(&g);
}

/* As deep as the list may be long, each of another row: places of parents, and no end of the stack.
 */
static void deep_trees_have_an_end(void **state)
{
	enum { DEEP = 12000 };
	struct rut_heap_graph g = {0};
	struct rut_retained r;
	struct rut_holder *list;
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < DEEP; i++) {
		add_node(&g, i, i, 100);
		if (i + 1 < DEEP)
			add(&g, address(i + 1));
	}
	add_root(&g, 0);
	assert_int_equal(rut_graph_resolve(&g), 0);
	assert_int_equal(rut_retained_init(&r, &g), 0);
	assert_int_equal(rut_retained_holders(&r, &g, SIZE_MAX, &list, &count), 0);
	assert_int_equal(count, RUT_HOLDERS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(g.rows[list[i].object], i);
		assert_int_equal(list[i].depth, i);
		assert_int_equal(list[i].parent, i ? i - 1 : RUT_GRAPH_NONE);
		assert_int_equal(list[i].bytes, (DEEP - i) * 100);
	}
	free(list);
	rut_retained_fini(&r);
	rut_graph_fini(&g);
}

/* Only the constant's class holds it, not the code that has used it. */
static void caches_of_constants_hold_nothing(void **state)
{
	struct rut_heap_graph g = {0};
	struct rut_retained r;

	(void)state;
	add_node(&g, 0, 0, 10); /* the class */
	add(&g, address(2));
	add_node(&g, 1, 1, (uint64_t)(RUT_GRAPH_IMEMO | 13u) << RUT_GRAPH_BYTES_BITS | 40);
	add(&g, address(2));
	add_node(&g, 2, 2, 500); /* its constant */
	add_root(&g, 0);
	add_root(&g, 1);
	assert_int_equal(rut_graph_resolve(&g), 0);
	assert_int_equal(rut_retained_init(&r, &g), 0);
	assert_int_equal(r.bytes[r.d.number[0]], 510);
	assert_int_equal(r.bytes[r.d.number[1]], 40);
	rut_retained_fini(&r);
	rut_graph_fini(&g);
}

static void what_objects_moved_from_is_void(void **state)
{
	struct rut_heap_graph g = {0};

	(void)state;
	add_node(&g, 0, 0, 1000);
	add(&g, address(1));
	add(&g, RUT_GRAPH_RESET);
	add_node(&g, 7, 3, 24);
	add_root(&g, 7);
	assert_int_equal(rut_graph_resolve(&g), 0);
	assert_int_equal(g.count, 1);
	assert_int_equal(rut_graph_address(&g, 0), address(7));
	rut_graph_fini(&g);
}

static void damaged_words_are_refused(void **state)
{
	static const uint64_t unknown = 7, early = HEAP;
	struct rut_heap_graph g = {0};

	(void)state;
	assert_true(rut_graph_add(&g, &unknown, 1) < 0);
	assert_true(rut_graph_add(&g, &early, 1) < 0); /* a reference of no object */
	rut_graph_fini(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_graphs_are_as_by_leaving_objects_out),
		cmocka_unit_test(a_long_list_is_one_entry),
		cmocka_unit_test(parents_come_before_children),
		cmocka_unit_test(deep_trees_have_an_end),
		cmocka_unit_test(caches_of_constants_hold_nothing),
		cmocka_unit_test(what_objects_moved_from_is_void),
		cmocka_unit_test(damaged_words_are_refused),
	};

	return cmocka_run_group_tests_name("retained", tests, NULL, NULL);
}
