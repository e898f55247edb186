/* SPDX-License-Identifier: MIT */
#include "stream/held.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE	   ((size_t)4096)
#define POOL_BYTES ((size_t)2 << 20)

struct rut_held_block {
	struct rut_held_block *next;
	off_t at;
	size_t len;  /* of the packet */
	size_t room; /* of the mapping */
	/* Owned. A mapping of its own: a packet is a number of pages, which this structure would
	 * make one more. */
	unsigned char *data;
};

static void unmap(struct rut_held_block *b)
{
	munmap(b->data, b->room);
	free(b);
}

static struct rut_held_block *map(size_t room)
{
	struct rut_held_block *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	b->room = room;
	b->data = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->data != MAP_FAILED)
		return b;
	free(b);
	return NULL;
}

/* Memory of a packet that is much smaller than its block would not be counted. */
static bool suits(const struct rut_held_block *b, size_t room)
{
	return b->room >= room && b->room / 2 <= room;
}

struct rut_held_block *rut_held_new(struct rut_held_pool *pool, size_t len)
{
	const size_t room = (len + PAGE - 1) & ~(PAGE - 1);
	struct rut_held_block **p = &pool->blocks, *b;

	while (*p && !suits(*p, room))
		p = &(*p)->next;
	b = *p;
	if (b) {
		*p = b->next;
		pool->bytes -= b->room;
	} else {
		b = map(room);
		if (!b)
			return NULL;
	}
	b->next = NULL;
	b->len = len;
	return b;
}

unsigned char *rut_held_data(struct rut_held_block *b)
{
	return b->data;
}

void rut_held_append(struct rut_held *h, struct rut_held_block *b)
{
	b->at = h->end;
	h->end += (off_t)b->len;
	if (h->last)
		h->last->next = b;
	else
		h->first = b;
	h->last = b;
}

const unsigned char *rut_held_find(const struct rut_held *h, off_t at, size_t *ret_len)
{
	for (const struct rut_held_block *b = h->first; b && b->at <= at; b = b->next) {
		const size_t in = (size_t)(at - b->at);

		if (in < b->len) {
			*ret_len = b->len - in;
			return b->data + in;
		}
	}
	return NULL;
}

static void give_back(struct rut_held_pool *pool, struct rut_held_block *b)
{
	if (pool->bytes + b->room > POOL_BYTES) {
		unmap(b);
		return;
	}
	b->next = pool->blocks;
	pool->blocks = b;
	pool->bytes += b->room;
}

void rut_held_release(struct rut_held *h, struct rut_held_pool *pool, off_t upto)
{
	while (h->first && h->first->at + (off_t)h->first->len <= upto) {
		struct rut_held_block *b = h->first;

		h->first = b->next;
		if (!h->first)
			h->last = NULL;
		give_back(pool, b);
	}
}

void rut_held_cut(struct rut_held *h, struct rut_held_pool *pool, off_t from)
{
	struct rut_held_block **p = &h->first;

	h->last = NULL;
	for (; *p && (*p)->at < from; p = &(*p)->next)
		h->last = *p;
	if (*p)
		h->end = (*p)->at;
	while (*p) {
		struct rut_held_block *b = *p;

		*p = b->next;
		give_back(pool, b);
	}
}

void rut_held_pool_free(struct rut_held_pool *pool)
{
	for (struct rut_held_block *b = pool->blocks, *next; b; b = next) {
		next = b->next;
		unmap(b);
	}
	*pool = (struct rut_held_pool){0};
}
