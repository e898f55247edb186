/* SPDX-License-Identifier: GPL-2.0 */
/* Records with variable parts: put together in a buffer first, because reserving wants their size.
 */
#ifndef RUT_BPF_SCRATCH_BPF_H
#define RUT_BPF_SCRATCH_BPF_H

#include "bpf/copy.bpf.h"
#include "bpf/record.bpf.h"

#define RUT_AT_MASK    16383
#define RUT_TAIL_SPARE 256 /* left by strings for what comes behind them */

struct rut_scratch {
	/* RUT_TAIL_LIMIT are used; the rest lets the verifier add offsets. */
	__u8 record[RUT_AT_MASK + RUT_STR_LIMIT + 129];
	__u8 address[512];
	__u32 unread;  /* bit i: string i could not be read */
	__u64 args[8]; /* a system call's, the last two unused: a place for any three bits */
	__u32 taken, turn;
#if RUT_TURNS > 1
	__u64 regs[32]; /* a probe's registers, in the order of struct pt_regs */
#endif
};

/*
 * Where records with variable parts are put together. A program never nests in itself; but one on
 * a uprobe may be preempted, and the next thread of its CPU come to the same probe: there
 * (RUT_TURNS) each takes a slot that is free. All probes of a session share these slots.
 */
#if RUT_TURNS > 1
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUT_TURNS);
	__type(key, __u32);
	__type(value, struct rut_scratch);
} probe_scratch SEC(".maps");

_Static_assert(sizeof(struct rut_scratch) == RUT_PROBE_SCRATCH_BYTES, "the session makes the map");

/* NULL: all are taken; the event is lost, and counted. */
static __always_inline struct rut_scratch *take_scratch(void)
{
	for (__u32 i = 0; i < RUT_TURNS; i++) {
		__u32 key = i;
		struct rut_scratch *s = bpf_map_lookup_elem(&probe_scratch, &key);

		if (s && !__sync_val_compare_and_swap(&s->taken, 0, 1)) {
			s->turn = i;
			return s;
		}
	}
	rut_lose();
	return NULL;
}

static __always_inline void give_scratch(struct rut_scratch *s)
{
	__sync_val_compare_and_swap(&s->taken, 1, 0);
}
#else
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_scratch);
} scratch SEC(".maps");
#endif

#define RUT_MARK_CUT   0x2e2e2eu	     /* "..." */
#define RUT_MARK_FAULT 0x003e746c7561663cull /* "<fault>" */

/*
 * Appends a string of the process. One that is longer than the limit ends in dots; one whose memory
 * cannot be read now is <fault>, and *ret_unread true: it may be an address that is none, or a page
 * that is not resident.
 */
static __always_inline __u32 add_string_of(struct rut_scratch *s, __u32 at, __u64 address,
					   const bool kernel, bool *ret_unread)
{
	__u32 limit = rut_str_max(), room;
	unsigned char *to;
	long len;

	at &= RUT_AT_MASK;
	to = s->record + at;
	room = at + RUT_TAIL_SPARE < rut_tail_max() ? rut_tail_max() - RUT_TAIL_SPARE - at : 0;
	if (limit > room)
		limit = room;
	if (limit < RUT_STR_MIN) {
		*(__u32 *)to = RUT_MARK_CUT;
		return at + 4;
	}
	/* One byte more distinguishes a string that fits from one that does not. */
	if (kernel)
		len = bpf_probe_read_kernel_str(to, limit + 1, (void *)address);
	else
		len = bpf_probe_read_user_str(to, limit + 1, (void *)address);
	if (len <= 0 || len > RUT_STR_LIMIT + 1) {
		*ret_unread = address != 0;
		if (!address) {
			to[0] = 0;
			return at + 1;
		}
		*(__u64 *)to = RUT_MARK_FAULT;
		return at + 8;
	}
	if (len > limit) {
		len = limit;
		if (len >= 4 && len <= RUT_STR_LIMIT)
			*(__u32 *)(to + len - 4) = RUT_MARK_CUT;
	}
	return at + (__u32)len;
}

static __always_inline __u32 add_string(struct rut_scratch *s, __u32 at, __u64 address,
					bool *ret_unread)
{
	return add_string_of(s, at, address, false, ret_unread);
}

/* Moves what was put together into the ring. */
static __always_inline int store_scratch(void *ctx, struct rut_scratch *s, __u64 id, __u32 len)
{
	const __u64 fixed = 8 + conf.context_size;
	struct rut_slot slot;
	unsigned char *p;

	if (len > rut_tail_max())
		len = rut_tail_max();
	if (RUT_TURNS > 1)
		slot.turn = s->turn;
	p = rut_reserve(&slot, id, fixed + len, fixed + rut_tail_max() + 8);
	if (!p)
		return 0;
	p = rut_store_contexts(ctx, p);
	rut_copy(p, s->record, rut_forget(len), rut_forget(len), rut_tail_max());
	rut_commit(&slot, fixed + len);
	return 0;
}

#endif
