/* SPDX-License-Identifier: MIT */
/*
 * Packets of a stream that are in memory until a collector has stored them. Positions are those
 * that the packets would have in a file, so that a sender treats both alike.
 *
 * One thread appends and cuts, another one finds and releases. The functions take no lock: the
 * caller holds one for each of them. A packet that was found may be read without the lock until it
 * is released.
 */
#ifndef RUT_STREAM_HELD_H
#define RUT_STREAM_HELD_H

#include <stddef.h>
#include <sys/types.h>

struct rut_held_block;

struct rut_held {
	struct rut_held_block *first, *last; /* owned */
	off_t end;			     /* behind the last packet */
};

/* Blocks that were released, for the next packets: memory that is new costs more than the copy. */
struct rut_held_pool {
	struct rut_held_block *blocks; /* owned */
	size_t bytes;
};

/*
 * A block for a packet of `len` bytes, to be filled without the lock and then appended. Returns
 * NULL when there is no memory.
 */
struct rut_held_block *rut_held_new(struct rut_held_pool *pool, size_t len);
unsigned char *rut_held_data(struct rut_held_block *b);
void rut_held_append(struct rut_held *h, struct rut_held_block *b);

/* The packet at the position, and what is behind it of its bytes; NULL: there is none. */
const unsigned char *rut_held_find(const struct rut_held *h, off_t at, size_t *ret_len);

/* Frees the packets that end at `upto` or before. */
void rut_held_release(struct rut_held *h, struct rut_held_pool *pool, off_t upto);

/* Takes back the packets from `from` on, none of which was found yet. */
void rut_held_cut(struct rut_held *h, struct rut_held_pool *pool, off_t from);

void rut_held_pool_free(struct rut_held_pool *pool);

#endif
