/* SPDX-License-Identifier: GPL-2.0 */
/* The table of stacks that are recognised as a whole (bpf/known.h). */
#ifndef RUT_BPF_KNOWN_BPF_H
#define RUT_BPF_KNOWN_BPF_H

#include "bpf/known.h"
#include "bpf/ring.bpf.h"
#include "bpf/stack.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_known);
} known_stacks SEC(".maps");

/* A key has two slots: a thread that waits in one of two ways keeps both stacks. */
static __always_inline __u32 known_slot(__u64 key, __u32 way)
{
	return ((__u32)(key >> 8) ^ way) & conf.known_mask;
}

static __always_inline __u64 known_add(__u64 sum, __u64 at, __u64 word)
{
	return rut_stack_hash_step(sum, word ^ at << 48);
}

/* The sum with all that an entry says beside its words. */
static __always_inline __u64 known_end(const struct rut_known *k, __u64 sum, __u64 bp)
{
	sum = rut_stack_hash_step(sum, k->count | (__u64)k->span << 32);
	sum = rut_stack_hash_step(sum, k->upper | (__u64)k->uses_bp << 32);
	return k->uses_bp ? rut_stack_hash_step(sum, bp) : sum;
}

/* Is the stack in the table? Then it is in use. */
static __always_inline bool known_touch(__u64 id)
{
	__u32 set = (__u32)(id >> 32) & conf.stack_mask;
	struct rut_stack_set *s = bpf_map_lookup_elem(&stacks, &set);

	return s && rut_stack_touch(s, id, bpf_ktime_get_ns());
}

/* The number of the entry's stack, if its words have this sum now. */
static __always_inline __u64 known_id(const struct rut_known *k, __u64 sum)
{
	__u64 id = *(const volatile __u64 *)&k->id;

	if (k->sum != sum || k->check != rut_stack_hash_step(sum, id) || !known_touch(id))
		return RUT_STACK_NONE;
	return id;
}

static __always_inline void known_keep(struct rut_known *k, __u64 key, __u64 sum, __u64 id,
				       __u32 slot)
{
	k->key = key;
	k->sum = sum;
	k->id = id;
	k->check = rut_stack_hash_step(sum, id);
	bpf_map_update_elem(&known_stacks, &slot, k, BPF_ANY);
}

#endif
