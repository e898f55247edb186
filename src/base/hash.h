/* SPDX-License-Identifier: MIT */
/*
 * Hash tables: open addressing with linear probing, a power of two of slots, at most 3/4 full.
 *
 * One table maps 64-bit keys to pointers (files by number), an index does so for small keys
 * (threads by tid); the other table interns byte strings: the same bytes always give the same small
 * id, and the bytes stay where they are until the table is freed.
 */
#ifndef RUT_BASE_HASH_H
#define RUT_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A 64-bit finaliser (splitmix64): every input bit changes every output bit. */
static inline uint64_t rut_hash_u64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Not for untrusted keys in unbounded numbers: it is not keyed. */
uint64_t rut_hash_bytes(const void *data, size_t len);

struct rut_map_slot {
	uint64_t key;
	void *value; /* NULL: free */
};

/* uint64 -> pointer; NULL values cannot be stored. A zeroed struct is an empty map. */
struct rut_map {
	struct rut_map_slot *slots; /* owned */
	size_t mask;
	size_t count;
};

void rut_map_fini(struct rut_map *m);
void *rut_map_get(const struct rut_map *m, uint64_t key);
/* Replaces what was there. Returns 0 or -ENOMEM. */
int rut_map_put(struct rut_map *m, uint64_t key, void *value);
/* Returns what was there, or NULL. */
void *rut_map_remove(struct rut_map *m, uint64_t key);

/* Walks the map in no order; the map must not change meanwhile. */
#define rut_map_each(m, slot)                                                                      \
	for (struct rut_map_slot *slot = (m)->slots; slot && slot <= (m)->slots + (m)->mask;       \
	     slot++)                                                                               \
		if (slot->value)

/*
 * uint64 -> pointer for keys that are mostly small and close together, as thread IDs are: those
 * below RUT_INDEX_KEYS stand in pages of a table, others in a map. A zeroed struct is empty.
 */
struct rut_index {
	void ***pages; /* owned, as are the pages; NULL: none */
	struct rut_map others;
};

#define RUT_INDEX_PAGE 4096u
#define RUT_INDEX_KEYS (RUT_INDEX_PAGE * 1025u) /* PID_MAX_LIMIT of Linux is 4096 * 1024 */

void rut_index_fini(struct rut_index *x);
/* Replaces what was there; NULL: nothing is there any more. Returns 0 or -ENOMEM. */
int rut_index_put(struct rut_index *x, uint64_t key, void *value);

static inline void *rut_index_get(const struct rut_index *x, uint64_t key)
{
	void **page;

	if (__builtin_expect(key >= RUT_INDEX_KEYS, 0))
		return rut_map_get(&x->others, key);
	page = x->pages ? x->pages[key / RUT_INDEX_PAGE] : NULL;
	return page ? page[key % RUT_INDEX_PAGE] : NULL;
}

struct rut_str {
	const char *data; /* NUL-terminated; owned by the table */
	uint32_t len;
	uint32_t hash;
};

/* Byte strings -> ids 0, 1, 2 ... in order of first sight. A zeroed struct is an empty table. */
struct rut_strtab {
	struct rut_str *strs; /* owned; by id */
	uint32_t *slots;      /* owned; id + 1, 0: free */
	size_t mask;
	size_t count, cap;
};

void rut_strtab_fini(struct rut_strtab *t);
/* The id (>= 0) of these bytes, copying them at first sight, or -ENOMEM. */
int64_t rut_strtab_intern(struct rut_strtab *t, const char *data, size_t len);
/* The id, or -1 when these bytes were never interned. */
int64_t rut_strtab_find(const struct rut_strtab *t, const char *data, size_t len);

#endif
