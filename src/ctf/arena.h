/* SPDX-License-Identifier: MIT */
/*
 * Memory that lives as long as a trace's description: taken bit by bit, given back at once.
 *
 * There is a ceiling, because metadata can be small and describe something enormous.
 */
#ifndef RUT_CTF_ARENA_H
#define RUT_CTF_ARENA_H

#include <stddef.h>

struct rut_arena_block;

struct rut_arena {
	struct rut_arena_block *blocks; /* owned */
	size_t used_bytes;		/* of all blocks */
	size_t max_bytes;
};

void rut_arena_init(struct rut_arena *a, size_t max_bytes);
void rut_arena_fini(struct rut_arena *a);

/* Zeroed, aligned for anything. NULL when out of memory or over the ceiling. */
void *rut_arena_alloc(struct rut_arena *a, size_t size);
/* NUL-terminated copy of len bytes. */
char *rut_arena_strndup(struct rut_arena *a, const char *s, size_t len);

/*
 * Makes room for one more in an array of `n` elements that grows by doubling: returns the array,
 * moved when `n` is 0 or a power of two.
 */
void *rut_arena_grow(struct rut_arena *a, void *array, size_t n, size_t elem_size);

#endif
