/* SPDX-License-Identifier: MIT */
#include "ring/read.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

/* A record's time is taken before it is known to be the last: an interrupt may have come between.
 */
#define LAST_SLACK_NS 10000000ull

int rut_ring_init(struct rut_ring *ret, struct rut_ring_ctl *ctl, void *data,
		  enum rut_ring_mode mode, uint32_t shift, uint32_t count)
{
	if (shift < 12 || shift > 26 || count < 2 || count > RUT_RING_MAX_SUBBUFS ||
	    (count & (count - 1)))
		return -EINVAL;
	ctl->version = RUT_RING_VERSION;
	ctl->mode = mode;
	ctl->subbuf_shift = shift;
	ctl->subbuf_count = count;
	__atomic_store_n(&ctl->magic, RUT_RING_MAGIC, __ATOMIC_RELEASE);
	*ret = (struct rut_ring){
		.ctl = ctl,
		.data = data,
		.subbuf_size = 1ull << shift,
		.shift = shift,
		.count = count,
		.mode = mode,
	};
	return 0;
}

int rut_ring_open_ctl(struct rut_ring *ret, struct rut_ring_ctl *ctl, void *data, uint64_t size,
		      struct rut_err *err)
{
	/* The owner may be hostile: read each figure once, then check it. */
	uint32_t shift = __atomic_load_n(&ctl->subbuf_shift, __ATOMIC_RELAXED);
	uint32_t count = __atomic_load_n(&ctl->subbuf_count, __ATOMIC_RELAXED);
	uint32_t mode = __atomic_load_n(&ctl->mode, __ATOMIC_RELAXED);

	if (__atomic_load_n(&ctl->magic, __ATOMIC_ACQUIRE) != RUT_RING_MAGIC)
		return rut_err_set(err, EPROTO, "not a ring of rutile");
	if (ctl->version != RUT_RING_VERSION)
		return rut_err_set(err, EPROTO, "ring has version %u, this rutile reads version %d",
				   ctl->version, RUT_RING_VERSION);
	if (shift < 12 || shift > 26 || count < 2 || count > RUT_RING_MAX_SUBBUFS ||
	    (count & (count - 1)) || mode > RUT_RING_OVERWRITE || (uint64_t)count << shift > size)
		return rut_err_set(err, EINVAL, "ring is damaged: %u sub-buffers of 2^%u bytes",
				   count, shift);
	*ret = (struct rut_ring){
		.ctl = ctl,
		.data = data,
		.subbuf_size = 1ull << shift,
		.shift = shift,
		.count = count,
		.mode = mode,
	};
	return 0;
}

bool rut_ring_flush(const struct rut_ring *r)
{
	uint64_t mask = r->subbuf_size - 1;

	for (;;) {
		__u64 old = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE);
		uint64_t now = rut_ring_clock();

		if (!(old & mask))
			return false;
		if (!__atomic_compare_exchange_n(&r->ctl->pos, &old, (old + mask) & ~mask, 0,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		rut_ring_close(r, old, now);
		return true;
	}
}

static bool finished(const struct rut_ring *r, uint64_t pos)
{
	uint64_t commit = __atomic_load_n(rut_ring_commit_of(r, pos), __ATOMIC_ACQUIRE);
	uint64_t bytes = RUT_RING_BYTES(commit, rut_ring_base(r, pos));

	/* Less than nothing: a lap behind. More than all: entered again. */
	return bytes >= r->subbuf_size && bytes < RUT_RING_RECORD / 2;
}

uint64_t rut_ring_packet_records(const struct rut_ring *r, uint64_t pos)
{
	uint64_t commit = __atomic_load_n(rut_ring_commit_of(r, pos), __ATOMIC_RELAXED);
	uint64_t bytes = RUT_RING_BYTES(commit, rut_ring_base(r, pos));

	return bytes <= r->subbuf_size ? RUT_RING_RECORDS(commit, rut_ring_base(r, pos)) : 0;
}

uint64_t rut_ring_records(const struct rut_ring *r)
{
	uint64_t sum = __atomic_load_n(&r->ctl->events, __ATOMIC_RELAXED);
	uint64_t end = __atomic_load_n(&r->ctl->pos, __ATOMIC_RELAXED);

	for (uint64_t pos = rut_ring_oldest(r); pos < end; pos += r->subbuf_size)
		sum += rut_ring_packet_records(r, pos);
	return sum;
}

uint64_t rut_ring_oldest(const struct rut_ring *r)
{
	uint64_t pos = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE);
	uint64_t entered = (pos + r->subbuf_size - 1) >> r->shift;

	return entered <= r->count ? 0 : (entered - r->count) << r->shift;
}

const unsigned char *rut_ring_next(const struct rut_ring *r, uint64_t *pos)
{
	uint64_t end = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE) & ~(r->subbuf_size - 1);

	if (*pos >= end || !finished(r, *pos))
		return NULL;
	return rut_ring_subbuf(r, *pos);
}

int rut_ring_copy(const struct rut_ring *r, uint64_t pos, void *to)
{
	uint64_t end = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE) & ~(r->subbuf_size - 1);

	if (pos >= end)
		return -EAGAIN;
	if (pos < rut_ring_oldest(r))
		return -ESTALE;
	if (!finished(r, pos))
		return -EAGAIN;
	memcpy(to, rut_ring_subbuf(r, pos), r->subbuf_size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return pos < rut_ring_oldest(r) ? -ESTALE : 0;
}

/* Where the records of this sub-buffer end now, or 0: one of them is not complete. */
static uint64_t tail_end(const struct rut_ring *r, uint64_t base)
{
	uint64_t end = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE), content;
	uint64_t commit = __atomic_load_n(rut_ring_commit_of(r, base), __ATOMIC_ACQUIRE);

	if (end - base >= r->subbuf_size) {
		content = ((const struct rut_packet *)rut_ring_subbuf(r, base))->content_size / 8;
		return finished(r, base) && content <= r->subbuf_size ? content : 0;
	}
	return RUT_RING_BYTES(commit, rut_ring_base(r, base)) == end - base ? end - base : 0;
}

int rut_ring_tail(const struct rut_ring *r, uint64_t *pos, struct rut_packet *to)
{
	const uint64_t mask = r->subbuf_size - 1, base = *pos & ~mask;
	const unsigned char *from = rut_ring_subbuf(r, base);
	uint64_t start = *pos & mask, end, header, bytes;
	bool closed;

	if (*pos >= __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE))
		return 0;
	if (base < rut_ring_oldest(r))
		goto stale;
	/* Asked before: what ends a sub-buffer that was entered already is final. */
	closed = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE) - base >= r->subbuf_size;
	end = tail_end(r, base);
	if (!end)
		return -EAGAIN;
	if (start < sizeof(*to))
		start = sizeof(*to);
	bytes = sizeof(*to);
	if (end > start) {
		memcpy(to, from, sizeof(*to));
		memcpy(to + 1, from + start, end - start);
		bytes += end - start;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (base < rut_ring_oldest(r))
		goto stale;
	*pos = closed ? base + r->subbuf_size : base + end;
	if (end <= start)
		return 0;
	memcpy(&header, to + 1, sizeof(header));
	to->timestamp_begin += ((header >> 16) - to->timestamp_begin) & ((1ull << 48) - 1);
	to->content_size = to->packet_size = bytes * 8;
	return (int)bytes;
stale:
	*pos = rut_ring_oldest(r);
	return -ESTALE;
}

bool rut_ring_salvage(const struct rut_ring_ctl *c, uint32_t shift, uint32_t count,
		      const uint8_t uuid[16], uint64_t index, struct rut_packet *p)
{
	uint64_t size = 1ull << shift, base = index / count << shift;
	uint64_t bytes = RUT_RING_BYTES(c->commit[index & (count - 1)], base);

	if (p->magic != RUT_CTF_PACKET_MAGIC || p->packet_seq_num != index ||
	    memcmp(p->uuid, uuid, sizeof(p->uuid)) != 0)
		return false;
	/* The consumer cuts what it has written: on disk it is not. */
	p->packet_size = size * 8;
	if (bytes == size)
		return p->content_size >= sizeof(*p) * 8 && p->content_size <= p->packet_size;
	if (index != c->pos >> shift || bytes != (c->pos & (size - 1)))
		return false;
	p->content_size = bytes * 8;
	p->timestamp_end = c->last_ns ? c->last_ns + LAST_SLACK_NS : p->timestamp_begin;
	p->events_discarded = c->lost;
	return true;
}
