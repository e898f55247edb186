/* SPDX-License-Identifier: MIT */
/*
 * The consumer of a ring: finished packets in order (discard mode), or a copy of what is there
 * (overwrite mode). It never parses records.
 */
#ifndef RUT_RING_READ_H
#define RUT_RING_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/write.h"

struct rut_err;

/* Fills a control page and *ret; `data` is subbuf_count << shift zeroed bytes. Returns 0 or
 * -EINVAL. */
int rut_ring_init(struct rut_ring *ret, struct rut_ring_ctl *ctl, void *data,
		  enum rut_ring_mode mode, uint32_t shift, uint32_t count);

/*
 * Opens a ring that another program made, of `size` bytes of data: nothing in the control page is
 * trusted. Returns 0, -EPROTO when it is no ring, -EINVAL when its figures make no sense.
 */
int rut_ring_open_ctl(struct rut_ring *ret, struct rut_ring_ctl *ctl, void *data, uint64_t size,
		      struct rut_err *err);

/*
 * Closes the packet that is being written, if it has a record, so that consumers can take it. Safe
 * while producers run. Returns true when a packet was closed.
 */
bool rut_ring_flush(const struct rut_ring *r);

/*
 * The next finished packet at or after consumer position *pos, or NULL. With a result, *pos is its
 * position; the caller adds subbuf_size to go on, and calls rut_ring_release() in discard mode.
 */
const unsigned char *rut_ring_next(const struct rut_ring *r, uint64_t *pos);

/* The consumer is done with everything before `pos`. */
static inline void rut_ring_release(const struct rut_ring *r, uint64_t pos)
{
	__atomic_store_n(&r->ctl->consumed, pos, __ATOMIC_RELEASE);
}

/* Records in the finished packet at `pos`; those stored so far when it is being written. */
uint64_t rut_ring_packet_records(const struct rut_ring *r, uint64_t pos);

/* Records ever stored; while producers run, about now. */
uint64_t rut_ring_records(const struct rut_ring *r);

/* The oldest position that can still hold a packet. */
uint64_t rut_ring_oldest(const struct rut_ring *r);

/*
 * Copies the finished packet at `pos` into `to` (subbuf_size bytes). Returns 0, -EAGAIN when it is
 * not finished, -ESTALE when the producer has reused it meanwhile.
 */
int rut_ring_copy(const struct rut_ring *r, uint64_t pos, void *to);

/*
 * For a reader that only watches: copies the records that came since *pos, of one sub-buffer, into
 * `to` as a packet of their own, also while the sub-buffer is being written, and moves *pos behind
 * them. `to` has subbuf_size bytes. Returns the packet's bytes; 0: none came (or *pos moved to the
 * next sub-buffer: call again while it moves); -EAGAIN: a producer is between two steps; -ESTALE:
 * what was there has been overwritten, *pos is the oldest that is there.
 *
 * The packet's numbers and end are the caller's to set: timestamp_end, packet_seq_num and
 * events_discarded have no meaning yet.
 */
int rut_ring_tail(const struct rut_ring *r, uint64_t *pos, struct rut_packet *to);

/*
 * Out of a memory dump: makes `p`, a copy of the sub-buffer that had number `index`, readable,
 * nothing of which is trusted. A finished packet is so already; the one that was being written gets
 * its end, if every record in it was complete. False: it is none. Its timestamp_end is about right
 * in a ring of the kernel; else the caller, who knows the records, may know it better.
 */
bool rut_ring_salvage(const struct rut_ring_ctl *c, uint32_t shift, uint32_t count,
		      const uint8_t uuid[16], uint64_t index, struct rut_packet *p);

#endif
