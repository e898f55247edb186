/* SPDX-License-Identifier: MIT */
#include "ctf/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rut_arena_block {
	struct rut_arena_block *next;
	size_t size, used;
	_Alignas(16) char data[];
};

enum { BLOCK_SIZE = 64 << 10 };

void rut_arena_init(struct rut_arena *a, size_t max_bytes)
{
	*a = (struct rut_arena){.max_bytes = max_bytes};
}

void rut_arena_fini(struct rut_arena *a)
{
	while (a->blocks) {
		struct rut_arena_block *b = a->blocks;

		a->blocks = b->next;
		free(b);
	}
	a->used_bytes = 0;
}

void *rut_arena_alloc(struct rut_arena *a, size_t size)
{
	struct rut_arena_block *b = a->blocks;
	void *p;

	if (size > a->max_bytes)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	if (!b || b->size - b->used < size) {
		size_t want = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;

		if (a->used_bytes + want > a->max_bytes)
			return NULL;
		b = malloc(sizeof(*b) + want);
		if (!b)
			return NULL;
		b->size = want;
		b->used = 0;
		b->next = a->blocks;
		a->blocks = b;
		a->used_bytes += want;
	}
	p = b->data + b->used;
	b->used += size;
	return memset(p, 0, size);
}

char *rut_arena_strndup(struct rut_arena *a, const char *s, size_t len)
{
	char *p = rut_arena_alloc(a, len + 1);

	if (p)
		memcpy(p, s, len);
	return p;
}

void *rut_arena_grow(struct rut_arena *a, void *array, size_t n, size_t elem_size)
{
	void *p;

	if (n && (n & (n - 1)))
		return array;
	p = rut_arena_alloc(a, (n ? 2 * n : 1) * elem_size);
	if (p && n)
		memcpy(p, array, n * elem_size);
	return p;
}
