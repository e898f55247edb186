/* SPDX-License-Identifier: MIT */
/*
 * The producer of a ring in user space: the same steps as src/bpf/ring.bpf.h takes in the kernel.
 *
 *	void *p = rut_ring_reserve(&ring, size, rut_ring_clock, &ns, &pos);
 *	if (p) { *(uint64_t *)p = RUT_RECORD_HEADER(id, ns); ...; rut_ring_commit(&ring, pos, size);
 *}
 *
 * Safe from any number of threads and from signal handlers; never blocks, allocates or fails but
 * by counting a loss. Inline, because the agent that uses it depends on libc alone.
 */
#ifndef RUT_RING_WRITE_H
#define RUT_RING_WRITE_H

#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "ring/ring.h"

/* A mapped ring: borrowed pointers, constants copied out of the control page. */
struct rut_ring {
	struct rut_ring_ctl *ctl;
	unsigned char *data; /* subbuf_count << shift bytes */
	uint64_t subbuf_size;
	uint32_t shift;
	uint32_t count;
	uint32_t mode;
};

static inline uint64_t rut_ring_clock(void)
{
	return rut_now_ns();
}

static inline unsigned char *rut_ring_subbuf(const struct rut_ring *r, uint64_t pos)
{
	return r->data + (((pos >> r->shift) & (r->count - 1)) << r->shift);
}

static inline __u64 *rut_ring_commit_of(const struct rut_ring *r, uint64_t pos)
{
	return &r->ctl->commit[(pos >> r->shift) & (r->count - 1)];
}

/* What the sub-buffer's `commit` had when the lap of `pos` began. */
static inline uint64_t rut_ring_base(const struct rut_ring *r, uint64_t pos)
{
	return (pos >> r->shift) / r->count << r->shift;
}

/* Bytes that are no record: a header, the unused rest. */
static inline void rut_ring_commit_bytes(const struct rut_ring *r, uint64_t pos, uint64_t bytes)
{
	__atomic_fetch_add(rut_ring_commit_of(r, pos), bytes, __ATOMIC_RELEASE);
}

/* One record. */
static inline void rut_ring_commit(const struct rut_ring *r, uint64_t pos, uint64_t bytes)
{
	__atomic_fetch_add(rut_ring_commit_of(r, pos), bytes + RUT_RING_RECORD, __ATOMIC_RELEASE);
}

/*
 * May the sub-buffer that starts at `start` be entered? *ret_records: those of the lap before,
 * which the producer that enters it takes out of `commit`.
 */
static inline int rut_ring_can_enter(const struct rut_ring *r, uint64_t start,
				     uint64_t *ret_records)
{
	uint64_t commit = __atomic_load_n(rut_ring_commit_of(r, start), __ATOMIC_ACQUIRE);

	*ret_records = RUT_RING_RECORDS(commit, rut_ring_base(r, start));

	if (r->mode == RUT_RING_DISCARD &&
	    start - __atomic_load_n(&r->ctl->consumed, __ATOMIC_ACQUIRE) >= (uint64_t)r->count
										    << r->shift)
		return 0;
	/* A producer that was interrupted one lap ago has not stored its record yet. */
	return !RUT_RING_BYTES(commit, rut_ring_base(r, start));
}

/* The producer that moved `pos` out of the sub-buffer of `old` finishes its packet and commits the
 * rest. */
static inline void rut_ring_close(const struct rut_ring *r, uint64_t old, uint64_t now)
{
	struct rut_packet *p = (struct rut_packet *)rut_ring_subbuf(r, old);
	uint64_t off = old & (r->subbuf_size - 1);

	p->timestamp_end = now;
	p->content_size = off * 8;
	p->events_discarded = __atomic_load_n(&r->ctl->lost, __ATOMIC_RELAXED);
	rut_ring_commit_bytes(r, old, r->subbuf_size - off);
}

/*
 * Writes the header of the packet that starts at `start`; its bytes are committed with it. What
 * rut_ring_close() writes is left alone: an interrupting producer may have closed it already.
 */
static inline void rut_ring_open(const struct rut_ring *r, uint64_t start, uint64_t now,
				 uint64_t records)
{
	struct rut_packet *p = (struct rut_packet *)rut_ring_subbuf(r, start);
	struct rut_ring_ctl *c = r->ctl;

	__atomic_fetch_add(&c->events, records, __ATOMIC_RELAXED);
	__atomic_fetch_sub(rut_ring_commit_of(r, start), records << RUT_RING_RECORD_SHIFT,
			   __ATOMIC_RELAXED);
	__atomic_store_n(&c->opened_ns, now, __ATOMIC_RELAXED);
	p->magic = RUT_CTF_PACKET_MAGIC;
	memcpy(p->uuid, c->uuid, sizeof(p->uuid));
	p->stream_id = c->stream_id;
	p->stream_instance_id = c->pid ? c->pid : c->cpu_id;
	p->timestamp_begin = now;
	p->packet_size = r->subbuf_size * 8;
	p->packet_seq_num = start >> r->shift;
	p->cpu_id = c->cpu_id;
	p->pid = c->pid;
	rut_ring_commit_bytes(r, start, sizeof(*p));
}

/*
 * Room for a record of `size` bytes (header word included), or NULL: lost, and counted. `clock`
 * returns CLOCK_MONOTONIC in nanoseconds (or a clock that agrees with it); the time to be written
 * into the header comes back in ret_ns, the position for rut_ring_commit() in ret_pos.
 */
static inline void *rut_ring_reserve(const struct rut_ring *r, uint32_t size,
				     uint64_t (*clock)(void), uint64_t *ret_ns, uint64_t *ret_pos)
{
	struct rut_ring_ctl *c = r->ctl;
	uint64_t mask = r->subbuf_size - 1;

	if (size > r->subbuf_size - sizeof(struct rut_packet) - 1)
		goto lost;
	for (int tries = 0; tries < 64; tries++) {
		__u64 old = __atomic_load_n(&c->pos, __ATOMIC_ACQUIRE);
		uint64_t now = clock();
		uint64_t off = old & mask, at = old, next, records = 0;

		int enter =
			off == 0 || off + size > mask ||
			now - __atomic_load_n(&c->opened_ns, __ATOMIC_RELAXED) >= RUT_PACKET_MAX_NS;
		if (enter) {
			uint64_t start = (old + mask) & ~mask;

			if (!rut_ring_can_enter(r, start, &records)) {
				/* It may be another one that entered it. */
				if (__atomic_load_n(&c->pos, __ATOMIC_ACQUIRE) != old)
					continue;
				goto lost;
			}
			at = start + sizeof(struct rut_packet);
		}
		next = at + size;
		if (!__atomic_compare_exchange_n(&c->pos, &old, next, 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		if (enter) {
			if (off)
				rut_ring_close(r, old, now);
			rut_ring_open(r, at - sizeof(struct rut_packet), now, records);
		}
		*ret_ns = now;
		*ret_pos = at;
		return rut_ring_subbuf(r, at) + (at & mask);
	}
lost:
	__atomic_fetch_add(&c->lost, 1, __ATOMIC_RELAXED);
	return NULL;
}

#endif
