/* SPDX-License-Identifier: MIT */
/*
 * Appending packets to a file so that it is a sequence of whole packets at every instant, whenever
 * the writer is killed: see session/writer.c for the five steps. Each returns 0 or -errno; what was
 * written then is behind `end`, for the caller to cut off.
 */
#ifndef RUT_RING_APPEND_H
#define RUT_RING_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring/ring.h"

/* All of it, by as many calls as that takes. */
int rut_packet_write(int fd, const void *data, size_t len, off_t at);

/* Makes it the header of a page without events. */
void rut_packet_make_empty(struct rut_packet *head);

/* Appends N packets without events, a page each, with the header `head` and increasing numbers. */
int rut_packet_append_empty(int fd, struct rut_packet head, size_t pages, off_t end);

/* The first page of a packet, with the header `head`, at once. */
int rut_packet_write_first(int fd, const struct rut_packet *head, const unsigned char *packet,
			   off_t end);

/* The packet of `len` bytes, a multiple of 4096, with `head` as its header. */
int rut_packet_append(int fd, const struct rut_packet *head, const unsigned char *packet,
		      size_t len, off_t end);

/*
 * The last bytes of a packet, behind its content, where a sender may have to drop it: how many
 * records it has, or had.
 */
struct rut_packet_foot {
	__u64 magic;
	__u64 records;
};

#define RUT_PACKET_COUNTED 0x544e554f43545552ull /* "RUTCOUNT" in memory */
#define RUT_PACKET_DROPPED 0x53504f5244545552ull /* it stands for packets that were dropped */

/* Adds the number of records to the packet at `end`, which grows by a page if it has no room. */
int rut_packet_add_count(int fd, struct rut_packet *head, uint64_t records, off_t end);

/* Does the packet at `at` end like that? */
bool rut_packet_read_foot(int fd, const struct rut_packet *head, off_t at, uint64_t magic,
			  uint64_t *ret_records);

/* Does it stand for packets that were dropped, with so many records? */
bool rut_packet_is_filler(int fd, const struct rut_packet *head, off_t at, uint64_t *ret_records);

#endif
