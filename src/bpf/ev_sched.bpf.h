/* SPDX-License-Identifier: GPL-2.0 */
/* The scheduler's events. */
#ifndef RUT_BPF_EV_SCHED_BPF_H
#define RUT_BPF_EV_SCHED_BPF_H

#include "bpf/record.bpf.h"

#define TASK_REPORT_MAX 0x100

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
	RUT_BEGIN(SCHED_SWITCH);
	rut_copy_comm(FIELD(SCHED_SWITCH, prev_comm), prev);
	PUT(SCHED_SWITCH, prev_tid, prev->pid);
	PUT(SCHED_SWITCH, prev_prio, prev->prio - 100);
	PUT(SCHED_SWITCH, prev_state, state);
	rut_copy_comm(FIELD(SCHED_SWITCH, next_comm), next);
	PUT(SCHED_SWITCH, next_tid, next->pid);
	PUT(SCHED_SWITCH, next_prio, next->prio - 100);
	RUT_END();
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	/* Preempted: still runnable, as the kernel's own format says (TASK_REPORT_MAX). */
	long state = preempt ? TASK_REPORT_MAX : task_state(prev) & (TASK_REPORT_MAX - 1);

	return do_switch(ctx, prev, next, preempt ? 0 : state);
}

#define WAKEUP(tp, sym)                                                                            \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct task_struct *task)                                                 \
	{                                                                                          \
		if (!rut_allowed_task(task))                                                       \
			return 0;                                                                  \
		RUT_BEGIN(sym);                                                                    \
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
	__u32 level = pid ? pid->level : 0;

	/* The constant indices keep it a direct load. */
	if (!pid)
		return 0;
	if (level == 0)
		return pid->numbers[0].ns->ns.inum;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct pid *pid = child->thread_pid;
	__u32 levels = pid ? pid->level + 1 : 0;

	if (conf.filters & RUT_FILTER_FOLLOW && parent->tgid != child->tgid) {
		__u32 tgid = parent->tgid, yes = RUT_TRACED_YES, *state;

		state = bpf_map_lookup_elem(&traced, &tgid);
		tgid = child->tgid;
		if (state && *state == RUT_TRACED_YES)
			bpf_map_update_elem(&traced, &tgid, &yes, BPF_ANY);
	}
	if (conf.no_fork || !rut_allowed_task(child))
		return 0;
	levels = levels ? 1 : 0;
	RUT_BEGIN_TAIL(SCHED_FORK, 4 * levels, 4);
	rut_copy_comm(FIELD(SCHED_FORK, parent_comm), parent);
	PUT(SCHED_FORK, parent_tid, parent->pid);
	PUT(SCHED_FORK, parent_pid, parent->tgid);
	PUT(SCHED_FORK, parent_ns_inum, pid_ns_inum(parent));
	rut_copy_comm(FIELD(SCHED_FORK, child_comm), child);
	PUT(SCHED_FORK, child_tid, child->pid);
	PUT(SCHED_FORK, child_pid, child->tgid);
	PUT(SCHED_FORK, child_ns_inum, pid_ns_inum(child));
	PUT(SCHED_FORK, vtids_length, levels);
	if (levels)
		*(__s32 *)(p + sizeof(struct rut_ev_SCHED_FORK)) = child->pid;
	RUT_END();
}

#define TASK(tp, sym)                                                                              \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct task_struct *task)                                                 \
	{                                                                                          \
		if (!rut_allowed_task(task))                                                       \
			return 0;                                                                  \
		RUT_BEGIN(sym);                                                                    \
		rut_copy_comm(FIELD(sym, comm), task);                                             \
		PUT(sym, tid, task->pid);                                                          \
		PUT(sym, prio, task->prio - 100);                                                  \
		RUT_END();                                                                         \
	}

TASK(sched_process_exit, SCHED_EXIT)

SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *task)
{
	bool allowed = !conf.no_free && rut_allowed_task(task);

	/* Its number will be another's, and the map has room for the living. */
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

	if (!name || !rut_allowed())
		return 0;
	/* A string behind a plain pointer has no BTF bounds: this helper is the only way. */
	len = bpf_probe_read_kernel_str(name->text, sizeof(name->text), bprm->filename);
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
	int prio = task->prio, other;

	if (!rut_allowed_task(task))
		return 0;
	other = donor ? donor->prio : prio;
	RUT_BEGIN(SCHED_SETPRIO);
	rut_copy_comm(FIELD(SCHED_SETPRIO, comm), task);
	PUT(SCHED_SETPRIO, tid, task->pid);
	PUT(SCHED_SETPRIO, oldprio, prio - 100);
	PUT(SCHED_SETPRIO, newprio, (other < prio ? other : prio) - 100);
	RUT_END();
}

#endif
