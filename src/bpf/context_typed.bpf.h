/* SPDX-License-Identifier: GPL-2.0 */
/* Contexts that are read from the kernel's structures, by direct loads through BTF pointers. */
#ifndef RUT_BPF_CONTEXT_TYPED_BPF_H
#define RUT_BPF_CONTEXT_TYPED_BPF_H

#include "bpf/pid.bpf.h"

#define RUT_PRIO_RT_MAX 100 /* priorities below are real-time ones; LTTng counts from here */
#define RUT_NICE_0	120 /* static_prio of nice 0 */
#define RUT_OVERFLOW_ID 65534

static __always_inline struct task_struct *rut_current(void)
{
	return bpf_get_current_task_btf();
}

RUT_CONTEXT(VTID)
{
	struct pid *pid = rut_current()->thread_pid;

	return rut_pid_nr(pid, rut_pid_level(pid));
}

RUT_CONTEXT(VPID)
{
	struct task_struct *task = rut_current();

	return rut_pid_nr(task->signal->pids[RUT_PIDTYPE_TGID], rut_pid_level(task->thread_pid));
}

RUT_CONTEXT(PPID)
{
	return rut_current()->real_parent->tgid;
}

/* A parent outside of the namespace has no number there: 0. */
RUT_CONTEXT(VPPID)
{
	struct task_struct *task = rut_current();

	return rut_pid_nr_seen_by(task->real_parent->signal->pids[RUT_PIDTYPE_TGID],
				  task->thread_pid);
}

RUT_CONTEXT(PRIO)
{
	return rut_current()->prio - RUT_PRIO_RT_MAX;
}
RUT_CONTEXT(NICE)
{
	return rut_current()->static_prio - RUT_NICE_0;
}

#define RUT_COUNT_MASK 0x7fffffff /* x86: the highest bit of the count means something else */
#define RUT_COUNT_IRQ  0x00ff0000 /* in an interrupt's handler, or an NMI */

/*
 * The kernel's count of reasons not to preempt is a variable of each CPU. Its address is not to be
 * had from every kernel's symbols; another such variable can be reached from the current task, its
 * run queue, and user space knows the distance. -1: unknown.
 */
static __always_inline __s64 rut_preempt_count(void)
{
	struct rq *rq;
	__s32 count = 0;

	if (!conf.preempt_at)
		return -1;
	rq = rut_current()->se.cfs_rq->rq;
	if (rut_read_kernel(&count, sizeof(count), (const char *)rq + conf.preempt_at, false) < 0)
		return -1;
	return count & RUT_COUNT_MASK;
}

#if RUT_TURNS > 1
/* Set for probes of programs: there nothing keeps a thread from being interrupted. */
const volatile __u32 rut_in_program;
#define RUT_IN_PROGRAM rut_in_program
#else
#define RUT_IN_PROGRAM 0
#endif

/* The tracepoint itself counts one. None at all: a kernel that does not count, which is unknown. */
RUT_CONTEXT(PREEMPTIBLE)
{
	__s64 count = rut_preempt_count();

	if (RUT_IN_PROGRAM)
		return 1;
	return count <= 0 ? -1 : count == 1;
}

/*
 * A program cannot read the flag of the CPU. What is known is the context that a tracepoint is in:
 * the scheduler's and signals' are passed with interrupts off, system calls and softirqs with
 * interrupts on. The rest is unknown outside of interrupts, as LTTng has it for other probes: -1.
 */
RUT_CONTEXT(INTERRUPTIBLE)
{
	__s64 count = rut_preempt_count();

	if (RUT_IN_PROGRAM)
		return 1;
	if (count < 0)
		return -1;
	if (count & RUT_COUNT_IRQ)
		return 0;
	if (event >= RUT_ID_SYSCALL_ENTRY && event < RUT_ID_DYNAMIC)
		return 1;
	switch (event) {
	case RUT_EV_SCHED_SWITCH:
	case RUT_EV_SCHED_WAKEUP:
	case RUT_EV_SCHED_WAKEUP_NEW:
	case RUT_EV_SCHED_MIGRATE:
	case RUT_EV_SCHED_SETPRIO:
	case RUT_EV_SOFTIRQ_RAISE:
	case RUT_EV_SIGNAL_GENERATE:
	case RUT_EV_SIGNAL_DELIVER:
	case RUT_EV_HRTIMER_START:
	case RUT_EV_HRTIMER_CANCEL:
		return 0;
	case RUT_EV_SCHED_EXEC:
	case RUT_EV_SCHED_EXIT:
	case RUT_EV_SOFTIRQ_ENTRY:
	case RUT_EV_SOFTIRQ_EXIT:
	case RUT_EV_SYSCALL_STRING:
	case RUT_EV_SYSCALL_UNKNOWN:
	case RUT_EV_SYSCALL_EXIT_UNKNOWN:
	case RUT_EV_COMPAT_SYSCALL_UNKNOWN:
	case RUT_EV_COMPAT_SYSCALL_EXIT_UNKNOWN:
		return 1;
	default:
		return -1;
	}
}

RUT_CONTEXT(UID)
{
	return rut_current()->cred->uid.val;
}
RUT_CONTEXT(EUID)
{
	return rut_current()->cred->euid.val;
}
RUT_CONTEXT(SUID)
{
	return rut_current()->cred->suid.val;
}
RUT_CONTEXT(GID)
{
	return rut_current()->cred->gid.val;
}
RUT_CONTEXT(EGID)
{
	return rut_current()->cred->egid.val;
}
RUT_CONTEXT(SGID)
{
	return rut_current()->cred->sgid.val;
}

/* More than five ranges are in arrays of their own; `reverse` is sorted by lower_first. */
static __always_inline __u32 rut_map_id_long(struct uid_gid_map *map, __u32 count, __u32 id)
{
	struct rut_extent {
		__u32 first, lower_first, count;
	} e;
	const char *array = NULL;
	__u32 low = 0, high = count;

	/* In a union with the ranges, where a direct load finds no pointer. */
	rut_read_kernel(&array, sizeof(array), &map->reverse, false);
	for (__u32 i = 0; i < 10 && low < high; i++) {
		__u32 middle = (low + high) / 2;

		if (rut_read_kernel(&e, sizeof(e), array + (__u64)middle * sizeof(e), false))
			break;
		if (id < e.lower_first)
			high = middle;
		else if (id - e.lower_first >= e.count)
			low = middle + 1;
		else
			return e.first + (id - e.lower_first);
	}
	return RUT_OVERFLOW_ID;
}

/* The number that the user namespace shows for one of the kernel's. */
static __noinline __u32 rut_map_id(struct uid_gid_map *map, __u32 id)
{
	__u32 count = map->nr_extents;

	if (count > 5)
		return rut_map_id_long(map, count, id);
#pragma unroll
	for (__u32 i = 0; i < 5; i++) {
		__u32 from = map->extent[i].lower_first;

		if (i < count && id >= from && id - from < map->extent[i].count)
			return map->extent[i].first + (id - from);
	}
	return RUT_OVERFLOW_ID;
}

#define RUT_CONTEXT_MAPPED(sym, id_map, field)                                                     \
	RUT_CONTEXT(sym)                                                                           \
	{                                                                                          \
		const struct cred *cred = rut_current()->cred;                                     \
                                                                                                   \
		return rut_map_id(&cred->user_ns->id_map, cred->field.val);                        \
	}
RUT_CONTEXT_MAPPED(VUID, uid_map, uid)
RUT_CONTEXT_MAPPED(VEUID, uid_map, euid)
RUT_CONTEXT_MAPPED(VSUID, uid_map, suid)
RUT_CONTEXT_MAPPED(VGID, gid_map, gid)
RUT_CONTEXT_MAPPED(VEGID, gid_map, egid)
RUT_CONTEXT_MAPPED(VSGID, gid_map, sgid)

/* A task that exits has left its namespaces already: 0, as LTTng says. */
#define RUT_CONTEXT_NS(sym, ns_field)                                                              \
	RUT_CONTEXT(sym)                                                                           \
	{                                                                                          \
		struct nsproxy *proxy = rut_current()->nsproxy;                                    \
                                                                                                   \
		return proxy ? proxy->ns_field->ns.inum : 0;                                       \
	}
RUT_CONTEXT_NS(CGROUP_NS, cgroup_ns)
RUT_CONTEXT_NS(IPC_NS, ipc_ns)
RUT_CONTEXT_NS(MNT_NS, mnt_ns)
RUT_CONTEXT_NS(NET_NS, net_ns)
RUT_CONTEXT_NS(TIME_NS, time_ns)
RUT_CONTEXT_NS(UTS_NS, uts_ns)

RUT_CONTEXT(PID_NS)
{
	struct pid *pid = rut_current()->thread_pid;

	return rut_pid_inum(pid, rut_pid_level(pid));
}

RUT_CONTEXT(USER_NS)
{
	return rut_current()->cred->user_ns->ns.inum;
}

#endif
