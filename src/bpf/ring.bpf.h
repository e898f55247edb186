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

#include "bpf/copy.bpf.h"
#include "bpf/events.h"
#include "ring/ring.h"

#define RUT_RESERVE_TRIES 8

const volatile struct rut_bpf_conf conf = {
	.mask = 4095,
	.shift = 12,
	.count_mask = 1,
	.str_max = RUT_STR_DEFAULT,
	.tail_max = RUT_TAIL_DEFAULT,
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
	__u64 id;   /* filtered programs only */
	__u32 turn; /* with RUT_TURNS only */
};

/* How many of one program may be under way on one CPU: it can be preempted. */
#ifndef RUT_TURNS
#define RUT_TURNS 1
#endif

#define RUT_STR_LIMIT  RUT_STR_MAX
#define RUT_TAIL_LIMIT RUT_TAIL_MAX

static __always_inline __u32 rut_str_max(void)
{
	return conf.str_max < RUT_STR_LIMIT ? conf.str_max : RUT_STR_LIMIT;
}

static __always_inline __u32 rut_tail_max(void)
{
	return conf.tail_max < RUT_TAIL_LIMIT ? conf.tail_max : RUT_TAIL_LIMIT;
}

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

/* Always 0, which the verifier cannot know: an element of a map. */
static volatile __u32 nothing;

/*
 * The same number, of which the verifier knows nothing any more: paths that differ by it alone are
 * one path from here on.
 */
static __always_inline __u32 rut_forget(__u32 number)
{
	return number + nothing;
}

static __always_inline __u64 rut_index(__u64 pos)
{
	return (pos >> conf.shift) & conf.count_mask;
}

/* The second mask is for the verifier: conf is any number to the compiler. */
#define RUT_COMMIT_OF(ctl, pos) (&(ctl)->commit[rut_index(pos) & (RUT_RING_MAX_SUBBUFS - 1)])

static __always_inline void rut_add_commit(struct rut_ring_ctl *ctl, __u64 pos, __u64 bytes)
{
	__sync_fetch_and_add(RUT_COMMIT_OF(ctl, pos), bytes);
}

static __always_inline struct rut_packet *rut_packet_at(__u32 cpu, __u64 pos)
{
	__u32 key = cpu * (conf.count_mask + 1) + (__u32)rut_index(pos);

	return bpf_map_lookup_elem(&ring, &key);
}

#define PUT_PACKET(field, value) RUT_PUT(p, struct rut_packet, field, value)

/*
 * The rare path: leave the sub-buffer of `old`, enter the next. 0: full, 1: lost a race, 2: done,
 * 3: frozen.
 * Not static: the verifier then walks through it once a program, not at every try of every call.
 */
__noinline int rut_enter(__u32 cpu, __u64 old, __u64 now, __u64 size)
{
	__u64 off = old & conf.mask, start = (old + conf.mask) & ~conf.mask;
	struct rut_ring_ctl *ctl = bpf_map_lookup_elem(&ctls, &cpu);
	struct rut_packet *p;
	__u64 base, records;

	if (!ctl)
		return 0;
	/* Whoever froze it made the open packet look old, so that every record comes here. */
	if (*(volatile __u64 *)&ctl->frozen)
		return 3;
	if (!conf.overwrite &&
	    start - *(volatile __u64 *)&ctl->consumed >= (__u64)(conf.count_mask + 1) << conf.shift)
		return 0;
	base = ((start >> conf.shift) & ~(__u64)conf.count_mask) / (conf.count_mask + 1);
	base <<= conf.shift;
	records = *(volatile __u64 *)RUT_COMMIT_OF(ctl, start);
	/* Full; or another one has entered it since. */
	if (RUT_RING_BYTES(records, base))
		return *(volatile __u64 *)&ctl->pos != old;
	records = RUT_RING_RECORDS(records, base);
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
	/* Those of the lap before. */
	if (records) {
		__sync_fetch_and_add(&ctl->events, records);
		rut_add_commit(ctl, start, -(records << RUT_RING_RECORD_SHIFT));
	}
	/* A freeze that this one did not see yet. */
	*(volatile __u64 *)&ctl->opened_ns = now;
	__sync_fetch_and_add(&ctl->events, 0);
	if (*(volatile __u64 *)&ctl->frozen)
		*(volatile __u64 *)&ctl->opened_ns = RUT_RING_FROZEN_NS;
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
static __always_inline unsigned char *rut_ring_reserve(struct rut_slot *slot, __u64 id, __u64 size,
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
		if (done == 3)
			return NULL;
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

static __always_inline void rut_lose(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct rut_ring_ctl *ctl = bpf_map_lookup_elem(&ctls, &cpu);

	if (ctl)
		__sync_fetch_and_add(&ctl->lost, 1);
}

static __always_inline void rut_ring_commit(const struct rut_slot *slot, __u64 size)
{
	rut_add_commit(slot->ctl, slot->pos, size + RUT_RING_RECORD);
}

#include "bpf/budget.bpf.h"

#ifndef RUT_FILTERED
static __always_inline unsigned char *rut_reserve(struct rut_slot *slot, __u64 id, __u64 size,
						  __u64 max)
{
	if (!rut_affordable(id))
		return NULL;
	return rut_ring_reserve(slot, id, size, max);
}

static __always_inline void rut_commit(const struct rut_slot *slot, __u64 size)
{
	rut_ring_commit(slot, size);
}
#else
/*
 * With a filter on fields a record is first stored beside the ring, and copied into it
 * when the filter lets it pass. Programs can nest in each other, but not in themselves: each has a
 * place of its own; or has the turn that it took (scratch.bpf.h).
 */
#define RUT_PENDING_MAX (RUT_TAIL_LIMIT + 8 + RUT_CTX_BYTES_MAX)

struct rut_pending {
	__u8 record[RUT_PENDING_MAX + 256];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUT_TURNS > 1 ? RUT_TURNS : RUT_EV_COUNT);
	__type(key, __u32);
	__type(value, struct rut_pending);
} pending SEC(".maps");

/*
 * By event id: what the filter says of that class of events (session/filter.h). An object of an
 * event added by name has that class only, at 0.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RUT_ID_DYNAMIC);
	__type(key, __u32);
	__type(value, __u32);
} classes SEC(".maps");

/* User space writes the compiled filter over these instructions, before it loads the object. */
static __noinline int rut_filter(const unsigned char *record, __u32 class)
{
	int result;

	asm volatile("%0 = 1\n.rept 4000\ngoto +0\n.endr"
		     : "=r"(result)
		     : "r"(record), "r"(class)
		     : "memory");
	return result;
}

static __always_inline __u32 rut_pending_key(__u64 id, __u32 turn)
{
	if (RUT_TURNS > 1)
		return turn;
	if (id < RUT_EV_COUNT)
		return (__u32)id;
	return id < RUT_ID_SYSCALL_EXIT ? RUT_EV_SYSCALL_UNKNOWN : RUT_EV_SYSCALL_EXIT_UNKNOWN;
}

static __always_inline unsigned char *rut_reserve(struct rut_slot *slot, __u64 id, __u64 size,
						  __u64 max)
{
	__u32 key = rut_pending_key(id, slot->turn);
	struct rut_pending *p = bpf_map_lookup_elem(&pending, &key);

	if (!rut_affordable(id))
		return NULL;
	slot->id = id;
	return p ? p->record : NULL;
}

static __noinline int rut_pass(__u64 id, __u64 size, __u32 turn)
{
	__u32 key = rut_pending_key(id, turn), class_key = id < RUT_ID_DYNAMIC ? (__u32)id : 0,
	      *class;
	struct rut_pending *from = bpf_map_lookup_elem(&pending, &key);
	const __u32 max = (rut_tail_max() + 8 + RUT_CTX_BYTES_MAX + 63) & ~63u;
	struct rut_slot slot;
	unsigned char *to;
	__u32 len;

	class = bpf_map_lookup_elem(&classes, &class_key);
	if (!from || !class || !*class || size < 8 || size > max)
		return 0;
	if (*class > 1 && !rut_filter(from->record, *class))
		return 0;
	to = rut_ring_reserve(&slot, id, size, max + 16);
	if (!to)
		return 0;
	/* The first word, with the time, is stored already. */
	len = (__u32)size - 8;
	rut_copy(to + 8, from->record + 8, rut_forget(len), rut_forget(len), max);
	rut_ring_commit(&slot, size);
	return 0;
}

static __always_inline void rut_commit(const struct rut_slot *slot, __u64 size)
{
	rut_pass(slot->id, size, RUT_TURNS > 1 ? slot->turn : 0);
}
#endif

#endif
