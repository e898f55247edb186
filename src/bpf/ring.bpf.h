/* SPDX-License-Identifier: MIT */
/*
 * The producer of the ring in the kernel: ring/write.h's steps in a form that the verifier can
 * follow. Per CPU one control page (element of `ctls`) and `count` sub-buffers (elements of
 * `ring`); both maps are mapped by user space.
 */
#ifndef RUT_BPF_RING_BPF_H
#define RUT_BPF_RING_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/events.h"
#include "ring/ring.h"

#define RUT_RESERVE_TRIES 8

const volatile struct rut_bpf_conf conf = {
	.mask = 4095,
	.shift = 12,
	.count_mask = 1,
};

/* Sizes are set before loading; user space maps both. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, RUT_RING_CTL_SIZE);
} ctls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 4096);
} ring SEC(".maps");

/* A reservation: what rut_commit() needs. */
struct rut_slot {
	struct rut_ring_ctl *ctl;
	__u64 pos;
};

/*
 * Stores into packed structs go through these: clang would split them into bytes, because eBPF
 * promises no unaligned access; every machine that we run on has it.
 */
#define RUT_PUT(p, type, field, value)                                                             \
	(*(__typeof__(((type *)0)->field) *)((unsigned char *)(p) +                                \
					     __builtin_offsetof(type, field)) = (value))
#define PUT(sym, field, value) RUT_PUT(p, struct rut_ev_##sym, field, value)
#define FIELD(sym, field)      ((void *)(p + __builtin_offsetof(struct rut_ev_##sym, field)))

#define rut_likely(x)	__builtin_expect(!!(x), 1)
#define rut_unlikely(x) __builtin_expect(!!(x), 0)

static __always_inline __u64 rut_index(__u64 pos)
{
	return (pos >> conf.shift) & conf.count_mask;
}

static __always_inline void rut_add_commit(struct rut_ring_ctl *ctl, __u64 pos, __u64 bytes)
{
	/* The second mask is for the verifier: conf is any number to the compiler. */
	__sync_fetch_and_add(&ctl->commit[rut_index(pos) & (RUT_RING_MAX_SUBBUFS - 1)], bytes);
}

static __always_inline struct rut_packet *rut_packet_at(__u32 cpu, __u64 pos)
{
	__u32 key = cpu * (conf.count_mask + 1) + (__u32)rut_index(pos);

	return bpf_map_lookup_elem(&ring, &key);
}

#define PUT_PACKET(field, value) RUT_PUT(p, struct rut_packet, field, value)

/* The rare path: leave the sub-buffer of `old`, enter the next. 0: full, 1: lost a race, 2: done.
 */
static __noinline int rut_enter(__u32 cpu, __u64 old, __u64 now, __u64 size)
{
	__u64 off = old & conf.mask, start = (old + conf.mask) & ~conf.mask;
	struct rut_ring_ctl *ctl = bpf_map_lookup_elem(&ctls, &cpu);
	struct rut_packet *p;
	__u64 lap;

	if (!ctl)
		return 0;
	lap = start >> conf.shift;
	if (!conf.overwrite &&
	    start - *(volatile __u64 *)&ctl->consumed >= (__u64)(conf.count_mask + 1) << conf.shift)
		return 0;
	lap = (lap & ~(__u64)conf.count_mask) / (conf.count_mask + 1);
	if (*(volatile __u64 *)&ctl->commit[rut_index(start) & (RUT_RING_MAX_SUBBUFS - 1)] !=
	    lap << conf.shift)
		return 0;
	if (__sync_val_compare_and_swap(&ctl->pos, old, start + sizeof(*p) + size) != old)
		return 1;
	if (off) {
		p = rut_packet_at(cpu, old);
		if (!p)
			return 0;
		PUT_PACKET(timestamp_end, now);
		PUT_PACKET(content_size, off * 8);
		PUT_PACKET(events_discarded, *(volatile __u64 *)&ctl->lost);
		rut_add_commit(ctl, old, conf.mask + 1 - off);
	}
	p = rut_packet_at(cpu, start);
	if (!p)
		return 0;
	ctl->opened_ns = now;
	PUT_PACKET(magic, RUT_CTF_PACKET_MAGIC);
	*(__u64 *)((unsigned char *)p + 4) = ((const volatile __u64 *)conf.uuid)[0];
	*(__u64 *)((unsigned char *)p + 12) = ((const volatile __u64 *)conf.uuid)[1];
	PUT_PACKET(stream_id, 0);
	PUT_PACKET(stream_instance_id, cpu);
	PUT_PACKET(timestamp_begin, now);
	PUT_PACKET(packet_size, (conf.mask + 1) * 8);
	PUT_PACKET(packet_seq_num, start >> conf.shift);
	PUT_PACKET(cpu_id, cpu);
	PUT_PACKET(pid, 0);
	rut_add_commit(ctl, start, sizeof(*p));
	return 2;
}

/*
 * Room for a record of `size` bytes, or NULL: lost, and counted. `max` is a bound of `size` that
 * the verifier knows; so much may be touched. The record's header word is stored here.
 */
static __always_inline unsigned char *rut_reserve(struct rut_slot *slot, __u64 id, __u64 size,
						  __u64 max)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct rut_ring_ctl *ctl = bpf_map_lookup_elem(&ctls, &cpu);
	const __u64 mask = conf.mask, limit = mask - max;
	__u64 old, now, off;
	unsigned char *p;

	if (!ctl)
		return NULL;
	for (int i = 0; i < RUT_RESERVE_TRIES; i++) {
		int done;

		old = *(volatile __u64 *)&ctl->pos;
		now = bpf_ktime_get_ns();
		off = old & mask;
		/* The verifier must see this very register bounded. */
		asm volatile("" : "+r"(off));
		if (rut_likely(off && off <= limit && now - ctl->opened_ns < RUT_PACKET_MAX_NS)) {
			if (__sync_val_compare_and_swap(&ctl->pos, old, old + size) != old)
				continue;
			goto reserved;
		}
		done = rut_enter(cpu, old, now, size);
		if (!done)
			break;
		if (done == 1)
			continue;
		old = ((old + mask) & ~mask) + sizeof(struct rut_packet);
		off = sizeof(struct rut_packet);
		goto reserved;
	}
	__sync_fetch_and_add(&ctl->lost, 1);
	return NULL;

reserved:
	p = (unsigned char *)rut_packet_at(cpu, old);
	if (!p)
		return NULL;
	p += off;
	slot->ctl = ctl;
	slot->pos = old;
	ctl->last_ns = now;
	*(__u64 *)p = RUT_RECORD_HEADER(id, now);
	return p;
}

static __always_inline void rut_commit(const struct rut_slot *slot, __u64 size)
{
	rut_add_commit(slot->ctl, slot->pos, size);
}

#endif
