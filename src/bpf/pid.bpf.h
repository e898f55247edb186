/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers of tasks in the PID namespaces that see them. */
#ifndef RUT_BPF_PID_BPF_H
#define RUT_BPF_PID_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/kernel.h"
#include "bpf/read.bpf.h"

#define RUT_PID_LEVELS	 32 /* the kernel's limit of nested PID namespaces */
#define RUT_PIDTYPE_TGID 1

/*
 * pid->numbers has level + 1 elements. Since Linux 6.5 the array is flexible, and can be loaded
 * from directly, but only at constant indices. Before that the kernel allows no direct load behind
 * its first element.
 */
static __always_inline const char *rut_upid_at(struct pid *pid, __u32 level)
{
	return (const char *)pid + bpf_core_field_offset(pid->numbers) +
	       (__u64)level * bpf_core_type_size(struct upid);
}

/* The number that `pid` has in the namespace of that level; 0: none. */
static __always_inline int rut_pid_nr(struct pid *pid, __u32 level)
{
	int nr = 0;

	if (!pid || level > pid->level)
		return 0;
	if (level == 0)
		return pid->numbers[0].nr;
	if (bpf_core_field_size(pid->numbers)) {
		rut_read_kernel(&nr, sizeof(nr), rut_upid_at(pid, level), false);
		return nr;
	}
#pragma unroll
	for (__u32 i = 1; i < RUT_PID_LEVELS; i++)
		if (i == level)
			return pid->numbers[i].nr;
	return 0;
}

/* The inode number of the PID namespace of that level that sees `pid`; 0: none. */
static __always_inline __u32 rut_pid_inum(struct pid *pid, __u32 level)
{
	__u32 inum = 0;

	if (!pid || level > pid->level)
		return 0;
	if (level == 0)
		return pid->numbers[0].ns->ns.inum;
	if (bpf_core_field_size(pid->numbers)) {
		struct pid_namespace *ns = NULL;

		rut_read_kernel(&ns, sizeof(ns),
				rut_upid_at(pid, level) +
					bpf_core_field_offset(pid->numbers[0].ns) -
					bpf_core_field_offset(pid->numbers[0]),
				false);
		rut_read_kernel(&inum, sizeof(inum),
				(const char *)ns + bpf_core_field_offset(ns->ns.inum), false);
		return inum;
	}
#pragma unroll
	for (__u32 i = 1; i < RUT_PID_LEVELS; i++)
		if (i == level)
			return pid->numbers[i].ns->ns.inum;
	return 0;
}

/* The number of `pid` in the namespace that `viewer` lives in; 0: none. */
static __always_inline int rut_pid_nr_seen_by(struct pid *pid, struct pid *viewer)
{
	__u32 level = viewer ? viewer->level : 0;

	if (!pid || pid->level < level)
		return 0;
	if (level == 0)
		return pid->numbers[0].nr;
	if (bpf_core_field_size(pid->numbers))
		return rut_pid_inum(pid, level) == rut_pid_inum(viewer, level)
			       ? rut_pid_nr(pid, level)
			       : 0;
#pragma unroll
	for (__u32 i = 1; i < RUT_PID_LEVELS; i++)
		if (i == level)
			return pid->numbers[i].ns->ns.inum == viewer->numbers[i].ns->ns.inum
				       ? pid->numbers[i].nr
				       : 0;
	return 0;
}

/* The level of the PID namespace that a task lives in. */
static __always_inline __u32 rut_pid_level(struct pid *pid)
{
	return pid ? pid->level : 0;
}

#endif
