/* SPDX-License-Identifier: GPL-2.0 */
/* The scheduler's events. */
#ifndef RUT_BPF_EV_SCHED_BPF_H
#define RUT_BPF_EV_SCHED_BPF_H

#include "bpf/pid.bpf.h"
#include "bpf/record.bpf.h"

/* Bits of a task's state; the same since Linux 4.14, but for those that came later. */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_REPORT	     0x7f /* what the kernel reports of it, and of exit_state */
#define TASK_REPORT_IDLE     0x80
#define TASK_REPORT_MAX	     0x100 /* preempted */
#define TASK_IDLE	     0x402
#define TASK_RTLOCK_WAIT     0x1000
#define TASK_FROZEN	     0x8000

/* task->__state was task->state before 5.14. */
struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

static __always_inline long task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___old *)task)->state;
}

struct task_struct___cpu {
	unsigned int cpu;
} __attribute__((preserve_access_index));

struct thread_info___x {
	__u32 cpu;
} __attribute__((preserve_access_index));

struct task_struct___ti {
	struct thread_info___x thread_info;
} __attribute__((preserve_access_index));

static __always_inline int task_cpu(struct task_struct *task)
{
	struct task_struct___cpu *old = (void *)task;
	struct task_struct___ti *ti = (void *)task;

	/* In 5.16 the CPU's number moved from the task into its thread_info. */
	if (bpf_core_field_exists(old->cpu))
		return (int)old->cpu;
	return (int)ti->thread_info.cpu;
}

static __always_inline int do_switch(void *ctx, struct task_struct *prev, struct task_struct *next,
				     long state)
{
	if (conf.filters & ~RUT_FILTER_FOLLOW && !rut_allowed() && !rut_task_allowed(next) &&
	    !rut_task_awaited(prev) && !rut_task_awaited(next))
		return 0;
	RUT_BEGIN_LEAN(SCHED_SWITCH, conf.lean_stacks && conf.filters && !rut_current_allowed());
	rut_copy_comm(FIELD(SCHED_SWITCH, prev_comm), prev);
	PUT(SCHED_SWITCH, prev_tid, prev->pid);
	PUT(SCHED_SWITCH, prev_prio, prev->prio - 100);
	PUT(SCHED_SWITCH, prev_state, state);
	rut_copy_comm(FIELD(SCHED_SWITCH, next_comm), next);
	PUT(SCHED_SWITCH, next_tid, next->pid);
	PUT(SCHED_SWITCH, next_prio, next->prio - 100);
	RUT_END();
}

/* prev_state as the kernel's own record has it: one bit of those reported, the highest. */
static __always_inline long reported_state(bool preempt, __u32 state, __u32 exit_state)
{
	__u32 bits = (state | exit_state) & TASK_REPORT;

	if (preempt)
		return TASK_REPORT_MAX;
	if ((state & TASK_IDLE) == TASK_IDLE)
		bits = TASK_REPORT_IDLE;
	if (state & (TASK_RTLOCK_WAIT | TASK_FROZEN))
		bits = TASK_UNINTERRUPTIBLE;
	bits |= bits >> 1;
	bits |= bits >> 2;
	bits |= bits >> 4;
	return bits - (bits >> 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	/* Since 5.18 the state is an argument: the task may have been woken since it was read. */
	__u32 state = RUT_SINCE(5, 18) ? (__u32)ctx[3] : (__u32)task_state(prev);

	return do_switch(ctx, prev, next, reported_state(preempt, state, prev->exit_state));
}

#define WAKEUP(tp, sym)                                                                            \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct task_struct *task)                                                 \
	{                                                                                          \
		if (!rut_allowed_task(task))                                                       \
			return 0;                                                                  \
		RUT_BEGIN_LEAN(sym, conf.lean_stacks);                                             \
		rut_copy_comm(FIELD(sym, comm), task);                                             \
		PUT(sym, tid, task->pid);                                                          \
		PUT(sym, prio, task->prio - 100);                                                  \
		PUT(sym, target_cpu, task_cpu(task));                                              \
		RUT_END();                                                                         \
	}

WAKEUP(sched_waking, SCHED_WAKING)
WAKEUP(sched_wakeup, SCHED_WAKEUP)
WAKEUP(sched_wakeup_new, SCHED_WAKEUP_NEW)

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int dest)
{
	if (!rut_allowed_task(task))
		return 0;
	RUT_BEGIN(SCHED_MIGRATE);
	rut_copy_comm(FIELD(SCHED_MIGRATE, comm), task);
	PUT(SCHED_MIGRATE, tid, task->pid);
	PUT(SCHED_MIGRATE, prio, task->prio - 100);
	PUT(SCHED_MIGRATE, orig_cpu, task_cpu(task));
	PUT(SCHED_MIGRATE, dest_cpu, dest);
	RUT_END();
}

static __always_inline __u32 pid_ns_inum(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;

	return rut_pid_inum(pid, rut_pid_level(pid));
}

/* The child's number in each namespace that sees it, from the first one on. */
static __always_inline void put_vtids(unsigned char *to, struct pid *pid, __u32 levels)
{
	if (bpf_core_field_size(pid->numbers)) {
		for (__u32 i = 0; i < RUT_PID_LEVELS && i < levels; i++)
			((__s32 *)to)[i] = rut_pid_nr(pid, i);
		return;
	}
#pragma unroll
	for (__u32 i = 0; i < RUT_PID_LEVELS; i++)
		if (i < levels)
			((__s32 *)to)[i] = pid->numbers[i].nr;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct pid *pid = child->thread_pid;
	__u32 levels = pid ? pid->level + 1 : 0;

	if (levels > RUT_PID_LEVELS)
		levels = RUT_PID_LEVELS;
	if (conf.filters & RUT_FILTER_FOLLOW && parent->tgid != child->tgid) {
		__u32 tgid = parent->tgid, yes = RUT_TRACED_YES, *state;

		state = bpf_map_lookup_elem(&traced, &tgid);
		tgid = child->tgid;
		if (state && *state == RUT_TRACED_YES)
			bpf_map_update_elem(&traced, &tgid, &yes, BPF_ANY);
	}
	if (conf.contexts & RUT_CTX_RSTACK && parent->tgid != child->tgid)
		rut_ruby_forked(parent->tgid, child->tgid);
	if (conf.unwind_mask && parent->tgid != child->tgid)
		rut_unwind_forked(parent->tgid, child->tgid);
	if (conf.no_fork || !rut_allowed_task(child))
		return 0;
	RUT_BEGIN_TAIL(SCHED_FORK, 4 * levels, 4 * RUT_PID_LEVELS);
	rut_copy_comm(FIELD(SCHED_FORK, parent_comm), parent);
	PUT(SCHED_FORK, parent_tid, parent->pid);
	PUT(SCHED_FORK, parent_pid, parent->tgid);
	PUT(SCHED_FORK, parent_ns_inum, pid_ns_inum(parent));
	rut_copy_comm(FIELD(SCHED_FORK, child_comm), child);
	PUT(SCHED_FORK, child_tid, child->pid);
	PUT(SCHED_FORK, child_pid, child->tgid);
	PUT(SCHED_FORK, child_ns_inum, pid_ns_inum(child));
	PUT(SCHED_FORK, vtids_length, levels);
	put_vtids(p + sizeof(struct rut_ev_SCHED_FORK), pid, levels);
	RUT_END();
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	if (!rut_allowed_task(task))
		return 0;
	RUT_BEGIN(SCHED_EXIT);
	rut_copy_comm(FIELD(SCHED_EXIT, comm), task);
	PUT(SCHED_EXIT, tid, task->pid);
	PUT(SCHED_EXIT, prio, task->prio - 100);
	/* An argument since 6.16; before, the count of live threads says the same. */
	PUT(SCHED_EXIT, group_dead,
	    RUT_SINCE(6, 16) ? (__u8)(ctx[1] & 1) : task->signal->live.counter == 0);
	RUT_END();
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *task)
{
	bool allowed = !conf.no_free && rut_allowed_task(task);

	if (conf.contexts & RUT_CTX_RSTACK && task->pid == task->tgid) {
		__u32 tgid = task->tgid;

		bpf_map_delete_elem(&rubies, &tgid);
	}
	if (conf.unwind_mask && task->pid == task->tgid)
		rut_unwind_forget(task->tgid);
	/* The PID may be reused, and the map is sized for live processes. */
	if (conf.filters & RUT_FILTER_FOLLOW && task->pid == task->tgid) {
		__u32 tgid = task->tgid, yes = 1;

		if (!bpf_map_delete_elem(&traced, &tgid) && conf.keep_gone)
			bpf_map_update_elem(&gone, &tgid, &yes, BPF_ANY);
	}
	if (!allowed)
		return 0;
	RUT_BEGIN(SCHED_FREE);
	rut_copy_comm(FIELD(SCHED_FREE, comm), task);
	PUT(SCHED_FREE, tid, task->pid);
	PUT(SCHED_FREE, prio, task->prio - 100);
	RUT_END();
}

struct rut_path {
	char text[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rut_path);
} path SEC(".maps");

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	__u32 zero = 0;
	struct rut_path *name = bpf_map_lookup_elem(&path, &zero);
	long len;

	/* Another program's memory. */
	if (conf.contexts & RUT_CTX_RSTACK) {
		__u32 tgid = task->tgid;

		bpf_map_delete_elem(&rubies, &tgid);
	}
	if (conf.unwind_mask)
		rut_unwind_forget(task->tgid);
	if (conf.no_exec || !name || !rut_allowed())
		return 0;
	/*
	 * The kernel's own copy is behind a plain pointer, which lockdown can forbid to read. The
	 * same text is on the stack of the new program (AT_EXECFN), which has not run yet.
	 */
	len = bpf_probe_read_user_str(name->text, sizeof(name->text), (const void *)bprm->exec);
	if (len <= 0 || len > (long)sizeof(name->text)) {
		name->text[0] = 0;
		len = 1;
	}
	RUT_BEGIN_TAIL(SCHED_EXEC, len, 256);
	PUT(SCHED_EXEC, tid, task->pid);
	PUT(SCHED_EXEC, old_tid, old_pid);
	p += sizeof(struct rut_ev_SCHED_EXEC);
	rut_copy(p, (unsigned char *)name->text, (__u32)len, (__u32)len, sizeof(name->text));
	RUT_END();
}

SEC("tp_btf/sched_pi_setprio")
int BPF_PROG(sched_pi_setprio, struct task_struct *task, struct task_struct *donor)
{
	int prio = task->prio;

	if (!rut_allowed_task(task))
		return 0;
	RUT_BEGIN(SCHED_SETPRIO);
	rut_copy_comm(FIELD(SCHED_SETPRIO, comm), task);
	PUT(SCHED_SETPRIO, tid, task->pid);
	PUT(SCHED_SETPRIO, oldprio, prio - 100);
	PUT(SCHED_SETPRIO, newprio, (donor ? donor->prio : prio) - 100);
	RUT_END();
}

#endif
