/* SPDX-License-Identifier: MIT */
/*
 * Files of packets that come in any order, and more than once: each is put where it belongs.
 *
 * A file is a sequence of whole packets at each moment. What is missing between two packets is
 * covered by one packet without events; a hidden file beside it, ".NAME.gaps", lists these. Several
 * processes may write to a file: each call locks it. A call that is killed leaves nothing but an
 * empty packet, and is to be repeated.
 */
#ifndef RUT_STREAM_PLACE_H
#define RUT_STREAM_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether these bytes begin one of our packets, with this size of content and in all. */
bool rut_place_is_packet(const void *data, size_t content, size_t whole);

/*
 * Puts a packet of `whole` bytes, which was found to be one, at `offset` of the file `fd`, which is
 * `name` in the directory `dir`. Returns 0, 1 when it is there already, -EBADMSG when it overlaps
 * another one, -E2BIG when the file has too many gaps, or -errno.
 */
int rut_place_packet(int dir, const char *name, int fd, uint64_t offset,
		     const unsigned char *packet, size_t whole);

/* Is a packet of these sizes, without a gap, at `offset`? */
int rut_place_has(int dir, const char *name, int fd, uint64_t offset, size_t content, size_t whole);

/*
 * The packet of `whole` bytes at `offset` ends at `ns`, if not later. Returns 0, 1 when it does
 * already, -EAGAIN when it is not there yet, or -errno.
 */
int rut_place_end(int dir, const char *name, int fd, uint64_t offset, size_t whole, uint64_t ns);

struct rut_place_piece {
	size_t content, at, part; /* as in struct rut_nats_head */
	const void *data;	  /* one piece */
	size_t len;
};

/*
 * Notes one piece of a content in the hidden file `name` in `dir`, which is for pieces of this size
 * of a content of this size only. When that was the last one, *ret gets all of the content, for the
 * caller to free; the file is to be removed when that was used. *ret_new: the piece was not there.
 * Returns 0, or 1 with *ret, or -errno.
 */
int rut_place_piece(int dir, const char *name, const struct rut_place_piece *p, bool *ret_new,
		    unsigned char **ret);

/* Replaces a small file by a rename, and waits until it is on the disk. */
int rut_place_file(int dir, const char *name, const void *data, size_t len);

#endif
