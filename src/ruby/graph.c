/* SPDX-License-Identifier: MIT */
#include "ruby/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/abi.h"
#include "base/hash.h"

#define PART_BITS   14 /* the smallest page of a Ruby heap */
#define PART_SLOTS  (1u << (PART_BITS - 3))
#define PART_WORDS  (PART_SLOTS / 64)
#define PARTS_MAX   (1u << 21) /* 32 GiB of heap */
#define OBJECTS_MAX (UINT32_MAX - 2)

#define IMEMO_CONSTCACHE 13u /* since 3.1 */

struct rut_graph_part {
	uint64_t address;
	uint64_t objects[PART_WORDS]; /* a bit for each place where one begins */
	uint32_t before;	      /* objects in earlier parts */
};

void rut_graph_fini(struct rut_heap_graph *g)
{
	free(g->places);
	free(g->rows);
	free(g->first);
	free(g->bytes);
	free(g->kinds);
	free(g->refs);
	free(g->labels);
	free(g->roots);
	free(g->parts);
	free(g->part_index);
	*g = (struct rut_heap_graph){0};
}

static bool grow(void *array, size_t cap, size_t each)
{
	void **at = array, *more = reallocarray(*at, cap, each);

	if (!more)
		return false;
	*at = more;
	return true;
}

/* ---- parts of the heap ---- */

static uint32_t *part_slot(const struct rut_heap_graph *g, uint32_t *index, size_t mask,
			   uint64_t address)
{
	size_t i = rut_hash_u64(address) & mask;

	while (index[i] && g->parts[index[i] - 1].address != address)
		i = (i + 1) & mask;
	return &index[i];
}

static int grow_parts(struct rut_heap_graph *g)
{
	size_t cap = g->part_cap ? g->part_cap * 2 : 512, mask = cap * 2 - 1;
	uint32_t *index;

	if (!grow(&g->parts, cap, sizeof(*g->parts)))
		return -ENOMEM;
	g->part_cap = cap;
	index = calloc(mask + 1, sizeof(*index));
	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < g->part_count; i++)
		*part_slot(g, index, mask, g->parts[i].address) = (uint32_t)i + 1;
	free(g->part_index);
	g->part_index = index;
	g->part_mask = mask;
	return 0;
}

/* The place of an address. 0, -ENOMEM or -E2BIG. */
static int place_of(struct rut_heap_graph *g, uint64_t address, uint32_t *ret)
{
	uint64_t part = address >> PART_BITS << PART_BITS;
	uint32_t *slot, offset = (uint32_t)(address - part) >> 3;
	int rc;

	if (g->part_last < g->part_count && g->parts[g->part_last].address == part) {
		*ret = g->part_last << (PART_BITS - 3) | offset;
		return 0;
	}
	if (g->part_count == g->part_cap && (rc = grow_parts(g)))
		return rc;
	slot = part_slot(g, g->part_index, g->part_mask, part);
	if (!*slot) {
		if (g->part_count == PARTS_MAX)
			return -E2BIG;
		g->parts[g->part_count] = (struct rut_graph_part){.address = part};
		*slot = (uint32_t)++g->part_count;
	}
	g->part_last = *slot - 1;
	*ret = g->part_last << (PART_BITS - 3) | offset;
	return 0;
}

static uint64_t *bits_of(const struct rut_heap_graph *g, uint32_t place)
{
	return &g->parts[place >> (PART_BITS - 3)].objects[place % PART_SLOTS / 64];
}

/* ---- records ---- */

static int reserve_object(struct rut_heap_graph *g)
{
	size_t cap = g->cap ? g->cap * 2 : 65536;

	if (g->count + 1 < g->cap)
		return 0;
	if (cap > OBJECTS_MAX)
		return -E2BIG;
	if (!grow(&g->places, cap, sizeof(*g->places)) || !grow(&g->rows, cap, sizeof(*g->rows)) ||
	    !grow(&g->first, cap, sizeof(*g->first)) || !grow(&g->bytes, cap, sizeof(*g->bytes)) ||
	    !grow(&g->kinds, cap, sizeof(*g->kinds)))
		return -ENOMEM;
	g->cap = cap;
	return 0;
}

static int add_label(struct rut_heap_graph *g, uint32_t object, uint32_t label)
{
	if (g->label_count == g->label_cap) {
		size_t cap = g->label_cap ? g->label_cap * 2 : 1024;

		if (!grow(&g->labels, cap, sizeof(*g->labels)))
			return -ENOMEM;
		g->label_cap = cap;
	}
	g->labels[g->label_count++] = (struct rut_graph_label){object, label};
	return 0;
}

static int add_object(struct rut_heap_graph *g, const uint64_t *head)
{
	uint32_t place, label = (uint32_t)(head[1] >> 32), object = (uint32_t)g->count;
	int rc = reserve_object(g);

	if (!rc)
		rc = place_of(g, head[0] & ~7ull, &place);
	if (rc)
		return rc;
	/* Read twice, which the agent does not: the first record counts, and both's references. */
	if (*bits_of(g, place) & 1ull << place % 64)
		return 0;
	*bits_of(g, place) |= 1ull << place % 64;
	g->places[object] = place;
	g->rows[object] = (uint32_t)head[1];
	g->bytes[object] = head[2] & ((1ull << RUT_GRAPH_BYTES_BITS) - 1);
	g->kinds[object] = (uint8_t)(head[2] >> RUT_GRAPH_BYTES_BITS);
	g->first[object] = (uint32_t)g->ref_count;
	g->count++;
	return label ? add_label(g, object, label) : 0;
}

static int add_ref(struct rut_heap_graph *g, uint64_t address)
{
	if (!g->count)
		return -EBADMSG;
	/* Code keeps the constants that it has used, until they are changed: that holds nothing. */
	if (g->kinds[g->count - 1] == (RUT_GRAPH_IMEMO | IMEMO_CONSTCACHE))
		return 0;
	if (g->ref_count == g->ref_cap) {
		size_t cap = g->ref_cap ? g->ref_cap * 2 : 262144;

		if (cap > UINT32_MAX)
			return -E2BIG;
		if (!grow(&g->refs, cap, sizeof(*g->refs)))
			return -ENOMEM;
		g->ref_cap = cap;
	}
	return place_of(g, address, &g->refs[g->ref_count++]);
}

static int add_root(struct rut_heap_graph *g, const uint64_t *head)
{
	struct rut_graph_root *r;

	if (g->root_count == g->root_cap) {
		size_t cap = g->root_cap ? g->root_cap * 2 : 1024;

		if (!grow(&g->roots, cap, sizeof(*g->roots)))
			return -ENOMEM;
		g->root_cap = cap;
	}
	r = &g->roots[g->root_count++];
	r->kind = (uint32_t)head[1];
	return place_of(g, head[0] & ~7ull, &r->object);
}

static int add_word(struct rut_heap_graph *g, uint64_t word)
{
	if (g->head_words) {
		g->head[g->head_words++] = word;
		if (g->head_words < g->head_size)
			return 0;
		g->head_words = 0;
		return g->head_size == 3 ? add_object(g, g->head) : add_root(g, g->head);
	}
	switch (word & RUT_GRAPH_KIND) {
	case RUT_GRAPH_TO:
		return add_ref(g, word);
	case RUT_GRAPH_OBJECT:
	case RUT_GRAPH_ROOT:
		g->head_size = (word & RUT_GRAPH_KIND) == RUT_GRAPH_OBJECT ? 3 : 2;
		g->head[g->head_words++] = word;
		return 0;
	case RUT_GRAPH_RESET:
		rut_graph_fini(g);
		return 0;
	default:
		return -EBADMSG;
	}
}

int rut_graph_add(struct rut_heap_graph *g, const uint64_t *words, size_t count)
{
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++)
		rc = add_word(g, __atomic_load_n(&words[i], __ATOMIC_RELAXED));
	return rc;
}

/* ---- places become objects ---- */

static uint32_t rank_of(const struct rut_heap_graph *g, uint32_t place)
{
	const struct rut_graph_part *part = &g->parts[place >> (PART_BITS - 3)];
	uint32_t slot = place % PART_SLOTS, rank = part->before;

	for (uint32_t i = 0; i < slot / 64; i++)
		rank += (uint32_t)__builtin_popcountll(part->objects[i]);
	return rank +
	       (uint32_t)__builtin_popcountll(part->objects[slot / 64] & ((1ull << slot % 64) - 1));
}

static uint32_t object_of(const struct rut_heap_graph *g, const uint32_t *by_rank, uint32_t place)
{
	return *bits_of(g, place) & 1ull << place % 64 ? by_rank[rank_of(g, place)]
						       : RUT_GRAPH_NONE;
}

static void resolve_refs(struct rut_heap_graph *g, const uint32_t *by_rank)
{
	size_t to = 0;

	for (size_t i = 0; i < g->count; i++) {
		size_t from = g->first[i];

		g->first[i] = (uint32_t)to;
		for (; from < g->first[i + 1]; from++) {
			uint32_t object = object_of(g, by_rank, g->refs[from]);

			if (object != RUT_GRAPH_NONE)
				g->refs[to++] = object;
		}
	}
	g->first[g->count] = (uint32_t)to;
	g->ref_count = to;
}

static int compare_roots(const void *x, const void *y)
{
	const struct rut_graph_root *a = x, *b = y;

	return (a->object > b->object) - (a->object < b->object);
}

static void resolve_roots(struct rut_heap_graph *g, const uint32_t *by_rank)
{
	size_t n = 0;

	for (size_t i = 0; i < g->root_count; i++) {
		g->roots[n] = g->roots[i];
		g->roots[n].object = object_of(g, by_rank, g->roots[i].object);
		n += g->roots[n].object != RUT_GRAPH_NONE;
	}
	g->root_count = n;
	if (n)
		qsort(g->roots, n, sizeof(*g->roots), compare_roots);
	for (size_t i = n = 0; i < g->root_count; i++)
		if (!i || g->roots[i].object != g->roots[n - 1].object)
			g->roots[n++] = g->roots[i];
	g->root_count = n;
}

int rut_graph_resolve(struct rut_heap_graph *g)
{
	uint32_t *by_rank = malloc((g->count + 1) * sizeof(*by_rank)), before = 0;
	int rc = by_rank ? reserve_object(g) : -ENOMEM;

	if (rc) {
		free(by_rank);
		return rc;
	}
	for (size_t i = 0; i < g->part_count; i++) {
		g->parts[i].before = before;
		for (size_t k = 0; k < PART_WORDS; k++)
			before += (uint32_t)__builtin_popcountll(g->parts[i].objects[k]);
	}
	for (uint32_t i = 0; i < g->count; i++)
		by_rank[rank_of(g, g->places[i])] = i;
	g->first[g->count] = (uint32_t)g->ref_count;
	resolve_refs(g, by_rank);
	resolve_roots(g, by_rank);
	free(by_rank);
	return 0;
}

/* ---- questions ---- */

uint64_t rut_graph_address(const struct rut_heap_graph *g, uint32_t object)
{
	uint32_t place = g->places[object];

	return g->parts[place >> (PART_BITS - 3)].address + place % PART_SLOTS * 8ull;
}

uint32_t rut_graph_label(const struct rut_heap_graph *g, uint32_t object)
{
	size_t low = 0, high = g->label_count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (g->labels[mid].object < object)
			low = mid + 1;
		else
			high = mid;
	}
	return low < g->label_count && g->labels[low].object == object ? g->labels[low].label : 0;
}

uint32_t rut_graph_root_kind(const struct rut_heap_graph *g, uint32_t object)
{
	struct rut_graph_root key = {.object = object};
	const struct rut_graph_root *r =
		g->root_count ? bsearch(&key, g->roots, g->root_count, sizeof(key), compare_roots)
			      : NULL;

	return r ? r->kind : RUT_GRAPH_NONE;
}

bool rut_graph_refers(const struct rut_heap_graph *g, uint32_t from, uint32_t to)
{
	for (uint32_t i = g->first[from]; i < g->first[from + 1]; i++)
		if (g->refs[i] == to)
			return true;
	return false;
}
