/* SPDX-License-Identifier: MIT */
/* Puts stacks into the table (bpf/stack.h says how it works) and gives them their numbers. */
#ifndef RUT_BPF_STACK_BPF_H
#define RUT_BPF_STACK_BPF_H

#include "bpf/copy.bpf.h"
#include "bpf/ring.bpf.h"
#include "bpf/stack.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_stack_set);
} stacks SEC(".maps");

/* Where a stack is taken apart. Programs nest, so each takes a place that is free. */
#define RUT_STACK_NESTED 4

struct rut_stack_walk {
	__u64 address[RUT_STACK_DEPTH + 1 + 8]; /* the rest lets the verifier add offsets */
	__u32 taken, _pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUT_STACK_NESTED);
	__type(key, __u32);
	__type(value, struct rut_stack_walk);
} stack_walks SEC(".maps");

static __always_inline struct rut_ctl_user *rut_ctl_user(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct rut_ring_ctl *ctl = bpf_map_lookup_elem(&ctls, &cpu);

	return ctl ? RUT_CTL_USER(ctl) : NULL;
}

/* Is it there? Then it is in use. */
static __always_inline bool rut_stack_touch(struct rut_stack_set *s, __u64 id, __u64 now)
{
	for (__u32 i = 0; i < RUT_STACK_WAYS; i++) {
		if (*(const volatile __u64 *)&s->id[i] != id)
			continue;
		/* Not at every use: all CPUs use the same few. */
		if (now - s->used_ns[i] > RUT_STACK_TOUCH_NS)
			s->used_ns[i] = now;
		return true;
	}
	return false;
}

/* The place that was used longest ago. No jumps: the verifier would walk through each outcome. */
static __always_inline __u32 rut_stack_oldest(const struct rut_stack_set *s)
{
	__s64 least = ~0ull >> 1;

	for (__u32 i = 0; i < RUT_STACK_WAYS; i++) {
		__s64 less = (__s64)((s->used_ns[i] << 4) | i) - least, mask = less >> 63;

		asm volatile("" : "+r"(mask));
		least += less & mask;
	}
	return (__u32)least & (RUT_STACK_WAYS - 1);
}

static __always_inline void rut_stack_store(const struct rut_stack_walk *w, __u64 id, __u32 count)
{
	__u32 set = (__u32)(id >> 32) & conf.stack_mask, way;
	struct rut_stack_set *s = bpf_map_lookup_elem(&stacks, &set);
	struct rut_ctl_user *u = rut_ctl_user();
	__u64 now = bpf_ktime_get_ns(), old;

	if (!s || !u || rut_stack_touch(s, id, now))
		return;
	way = rut_stack_oldest(s);
	old = *(volatile __u64 *)&s->id[way];
	if (old == RUT_STACK_LOST ||
	    __sync_val_compare_and_swap(&s->id[way], old, RUT_STACK_LOST) != old) {
		__sync_fetch_and_add(&u->stacks_lost, 1);
		return;
	}
	if (old && s->written[way] != old && !conf.overwrite && s->used_ns[way] >= u->stacks_since)
		__sync_fetch_and_add(&u->stacks_lost, 1);
	s->used_ns[way] = now;
	s->count[way] = count;
	rut_copy((unsigned char *)s->address[way], (const unsigned char *)w->address, count * 8,
		 count * 8, sizeof(s->address[0]));
	__sync_fetch_and_add(&u->stacks_new, 1);
	__sync_lock_test_and_set(&s->id[way], id);
}

/*
 * The number of a stack that was taken apart in a place of stack_walks. Not static: the verifier
 * then walks through it once a program, not at every place that asks for a stack.
 */
__noinline __u64 rut_stack_number(__u32 place, __u64 bytes)
{
	__u64 hash = *(const volatile __u64 *)conf.uuid;
	struct rut_stack_walk *w = bpf_map_lookup_elem(&stack_walks, &place);
	__u32 count = (__u32)(bytes / 8), i;

	if (!w || !count || count > RUT_STACK_DEPTH)
		return RUT_STACK_NONE;
	for (i = 0; i < RUT_STACK_DEPTH; i++) {
		if (i >= count)
			break;
		hash = rut_stack_hash_step(hash, w->address[i]);
	}
	hash = rut_stack_hash_end(hash);
	rut_stack_store(w, hash, count);
	return hash;
}

/*
 * The number of the stack of what runs now, of at most `max` bytes; with BPF_F_USER_STACK that of
 * user space.
 */
static __always_inline __u64 rut_stack_id_max(void *ctx, __u64 flags, __u32 max)
{
	struct rut_ctl_user *u;

	for (__u32 i = 0; i < RUT_STACK_NESTED; i++) {
		__u32 key = i;
		struct rut_stack_walk *w = bpf_map_lookup_elem(&stack_walks, &key);
		__u64 id = RUT_STACK_NONE;
		long bytes;

		if (!w || __sync_val_compare_and_swap(&w->taken, 0, 1))
			continue;
		bytes = bpf_get_stack(ctx, w->address, max, flags);
		if (bytes > 0)
			id = rut_stack_number(i, (__u64)bytes);
		__sync_val_compare_and_swap(&w->taken, 1, 0);
		return id;
	}
	u = rut_ctl_user();
	if (u)
		__sync_fetch_and_add(&u->stacks_lost, 1);
	return RUT_STACK_LOST;
}

static __always_inline __u64 rut_stack_id(void *ctx, __u64 flags)
{
	return rut_stack_id_max(ctx, flags, RUT_STACK_DEPTH * 8);
}

#endif
