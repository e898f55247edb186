/* SPDX-License-Identifier: MIT */
/* Which processes are recorded. */
#ifndef RUT_BPF_FILTER_BPF_H
#define RUT_BPF_FILTER_BPF_H

#include "bpf/kernel.h"
#include "bpf/own.h"
#include "bpf/ring.bpf.h"

/* Process id -> enum rut_traced. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} traced SEC(".maps");

/*
 * Process ids of those that were traced and have ended: what they had mapped may not be written
 * yet. The longest ended make room for others.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} gone SEC(".maps");

struct rut_comm {
	__u64 a, b;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct rut_comm);
	__type(value, __u32);
} comms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_own);
} own SEC(".maps");

static __always_inline void rut_copy_comm(char *to, const struct task_struct *task)
{
	const __u64 *from = (const __u64 *)task->comm;

	((__u64 *)to)[0] = from[0];
	((__u64 *)to)[1] = from[1];
}

/*
 * The rare path: is it in a slot, started when that process was? Without the kernel's types the
 * time cannot be read: there a process that got the id of one of ours must have its name, too.
 */
static __noinline int rut_own_find(__u32 tgid)
{
	__u32 zero = 0;
	struct rut_own *o = bpf_map_lookup_elem(&own, &zero);
#ifndef RUT_NO_BTF
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	__u64 ticks = leader->start_boottime / RUT_OWN_TICK_NS;
#else
	char comm[16] = {0};
#endif

	for (__u32 i = 0; o && i < RUT_OWN_SLOTS; i++) {
		if (o->slots[i].tgid != tgid)
			continue;
#ifndef RUT_NO_BTF
		return o->slots[i].start_ticks == ticks;
#else
		bpf_get_current_comm(comm, sizeof(comm));
		return *(__u32 *)comm == 0x69747572 && *(__u16 *)(comm + 4) == 0x656c;
#endif
	}
	return 0;
}

/* Is the current process one of rutile's own? */
static __always_inline bool rut_is_own(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct rut_own *o;

	if (conf.include_self)
		return false;
	o = bpf_map_lookup_elem(&own, &zero);
	return o && o->bits[RUT_OWN_WORD(tgid)] & RUT_OWN_BIT(tgid) && rut_own_find(tgid);
}

static __always_inline bool rut_is_traced(__u32 tgid)
{
	__u32 *state = bpf_map_lookup_elem(&traced, &tgid);

	return state && *state == RUT_TRACED_YES;
}

static __always_inline bool rut_task_allowed(struct task_struct *task)
{
	if (conf.filters & RUT_FILTER_PID && !rut_is_traced(task->tgid))
		return false;
	if (conf.filters & RUT_FILTER_COMM) {
		struct rut_comm key;

		rut_copy_comm((char *)&key, task);
		if (!bpf_map_lookup_elem(&comms, &key))
			return false;
	}
	return true;
}

/*
 * The current task without the kernel's types, for what must also load where the kernel has none
 * (RUT_NO_BTF); by them it is quicker.
 */
static __always_inline void rut_current_comm(char *to)
{
#ifdef RUT_NO_BTF
	bpf_get_current_comm(to, 16);
#else
	rut_copy_comm(to, bpf_get_current_task_btf());
#endif
}

static __always_inline bool rut_current_allowed(void)
{
#ifdef RUT_NO_BTF
	struct rut_comm key = {0};

	if (conf.filters & RUT_FILTER_PID && !rut_is_traced(bpf_get_current_pid_tgid() >> 32))
		return false;
	if (!(conf.filters & RUT_FILTER_COMM))
		return true;
	rut_current_comm((char *)&key);
	return bpf_map_lookup_elem(&comms, &key);
#else
	return rut_task_allowed(bpf_get_current_task_btf());
#endif
}

/* A command that is to be recorded from its next execve on: when it got its CPU is of interest. */
static __always_inline bool rut_task_awaited(struct task_struct *task)
{
	__u32 tgid = task->tgid;

	return conf.filters & RUT_FILTER_PID && bpf_map_lookup_elem(&traced, &tgid);
}

static __always_inline bool rut_allowed(void)
{
	if (!(conf.filters & ~RUT_FILTER_FOLLOW))
		return true;
	if (conf.filters & RUT_FILTER_CGROUP && bpf_current_task_under_cgroup(&cgroups, 0) != 1)
		return false;
	if (conf.filters & (RUT_FILTER_PID | RUT_FILTER_COMM))
		return rut_current_allowed();
	return true;
}

/* For events about another task too: that one or the current one must be recorded. */
static __always_inline bool rut_allowed_task(struct task_struct *task)
{
	if (!(conf.filters & ~RUT_FILTER_FOLLOW))
		return true;
	if (conf.filters & (RUT_FILTER_PID | RUT_FILTER_COMM) && rut_task_allowed(task))
		return true;
	return rut_allowed();
}

#endif
