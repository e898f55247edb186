/* SPDX-License-Identifier: MIT */
/* The state model: scheduling, the life of processes, memory. */
#include "analysis/state_priv.h"

#include <string.h>

#include "base/cleanup.h"

static void set_prio(struct rut_state *st, int64_t ts_ns, int cpu, struct rut_thread *t,
		     int64_t prio)
{
	struct rut_hook_thread h = {ts_ns, cpu, t};

	t->has_prio = true;
	t->prio = (int32_t)prio;
	rut_state_notify(st, RUT_HOOK_PRIO, &h);
}

static inline void check_prio(struct rut_state *st, int64_t ts_ns, int cpu, struct rut_thread *t,
			      int64_t prio)
{
	if (t->tid && (!t->has_prio || t->prio != prio))
		set_prio(st, ts_ns, cpu, t, prio);
}

enum {
	SW_PREV_COMM,
	SW_PREV_TID,
	SW_PREV_PRIO,
	SW_NEXT_COMM,
	SW_NEXT_TID,
	SW_NEXT_PRIO,
	SW_PREV_STATE
};

/* EXIT_DEAD, EXIT_ZOMBIE, and TASK_DEAD of older kernels: the thread never runs again. */
#define STATE_ENDED (16 | 32 | 64)

/* Analyses that read priorities say so by listening to their changes. */
static bool needs_prio(const struct rut_state *st)
{
	return st->listens & RUT_HOOK_BIT(RUT_HOOK_PRIO);
}

static void notify_switch(struct rut_state *st, struct rut_hook_switch *h, int64_t prev_state)
{
	const struct rut_thread *next = h->next;

	h->prev_comm = h->prev->comm;
	/* A preempted thread has a bit above all states (TASK_REPORT_MAX). */
	h->prev_state = prev_state & 0xff ? prev_state : 0;
	h->next_comm = next->comm;
	h->waker = next->last_waker ? rut_an_state_thread(st, next->last_waker) : NULL;
	h->wakeup_ns = next->last_wakeup_ns;
	rut_state_notify(st, RUT_HOOK_SWITCH, h);
}

static void sched_switch(struct rut_state *st, const struct rut_ctf_event *ev,
			 const struct rut_state_class *c)
{
	struct rut_hook_switch h = {.ts_ns = ev->ts_ns, .cpu = st->cpu};
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, h.cpu);
	struct rut_thread *current = cpu->current, *prev, *next;
	int64_t prev_state = rut_ctf_long(ev, &c->f[SW_PREV_STATE]);

	h.prev_tid = rut_ctf_i32(ev, &c->f[SW_PREV_TID]);
	h.next_tid = rut_ctf_i32(ev, &c->f[SW_NEXT_TID]);
	/* Usually what runs there as far as is known. */
	prev = current && current->tid == h.prev_tid ? current
						     : rut_an_state_thread_new(st, h.prev_tid);
	next = rut_an_state_thread_new(st, h.next_tid);
	h.prev = prev;
	h.next = next;
	h.gap_tid = !cpu->switched ? -1 : current ? current->tid : 0;
	if (h.gap_tid == h.prev_tid)
		h.gap_tid = -1;
	cpu->switched = true;
	if (current)
		current->running--;
	cpu->current = h.next_tid ? next : NULL;
	cpu->n_levels = 0; /* no interrupt lasts longer than what it has interrupted */
	if (h.next_tid)
		next->running++;
	/* It may have renamed itself while it ran: prctl(PR_SET_NAME), or an exec. */
	rut_an_state_rename(st, prev, rut_an_state_name(st, ev, &c->f[SW_PREV_COMM]));
	rut_an_state_rename(st, next, rut_an_state_name(st, ev, &c->f[SW_NEXT_COMM]));
	if (needs_prio(st)) {
		check_prio(st, h.ts_ns, h.cpu, prev, rut_ctf_i32(ev, &c->f[SW_PREV_PRIO]));
		check_prio(st, h.ts_ns, h.cpu, next, rut_ctf_i32(ev, &c->f[SW_NEXT_PRIO]));
	}
	if (st->listens & RUT_STATE_RUBY)
		rut_an_state_ruby_switch(st, h.ts_ns, h.prev_tid, h.next_tid);
	if (st->hooks[RUT_HOOK_SWITCH].n)
		notify_switch(st, &h, prev_state);
	next->last_wakeup_ns = next->wake.ns = RUT_NO_TIME;
	next->last_waker = 0;
	if (prev != next && prev_state & STATE_ENDED)
		rut_an_state_thread_ended(st, prev);
}

enum { MIG_COMM, MIG_TID, MIG_PRIO };

static void sched_migrate(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c)
{
	int64_t tid = rut_ctf_i32(ev, &c->f[MIG_TID]);
	struct rut_hook_thread h = {ev->ts_ns, st->cpu, rut_an_state_thread_new(st, tid)};

	rut_an_state_rename(st, h.thread, rut_an_state_name(st, ev, &c->f[MIG_COMM]));
	rut_state_notify(st, RUT_HOOK_MIGRATE, &h);
	check_prio(st, ev->ts_ns, h.cpu, h.thread, rut_ctf_i64(ev, &c->f[MIG_PRIO]));
}

enum { WAKE_TID, WAKE_PRIO, WAKE_CPU };

static void sched_wakeup(struct rut_state *st, const struct rut_ctf_event *ev,
			 const struct rut_state_class *c)
{
	int64_t tid = rut_ctf_i32(ev, &c->f[WAKE_TID]);
	struct rut_thread *t;
	struct rut_cpu *cpu;

	if (rut_ctf_ref_ok(&c->f[WAKE_CPU])) /* it exists, even without other events */
		rut_an_state_get_cpu(st, (int)rut_ctf_i32(ev, &c->f[WAKE_CPU]));
	cpu = rut_an_state_get_cpu(st, st->cpu);
	t = rut_an_state_thread(st, tid);
	/* What runs already needs no waking. */
	if (t && t->running)
		return;
	if (!t)
		t = rut_an_state_thread_new(st, tid);
	if (needs_prio(st))
		check_prio(st, ev->ts_ns, st->cpu, t,
			   rut_ctf_i32(ev, &c->f[WAKE_PRIO]) - (c->old_prio ? 100 : 0));
	if (t->last_wakeup_ns != RUT_NO_TIME)
		return;
	t->last_wakeup_ns = ev->ts_ns;
	rut_an_state_wake(st, t, ev->ts_ns);
	if (cpu->current)
		t->last_waker = cpu->current->tid;
}

enum { PI_TID, PI_NEWPRIO };

static void sched_pi_setprio(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_thread_new(st, rut_ctf_i64(ev, &c->f[PI_TID]));

	check_prio(st, ev->ts_ns, st->cpu, t, rut_ctf_i64(ev, &c->f[PI_NEWPRIO]));
}

enum {
	FORK_CHILD_TID,
	FORK_CHILD_PID,
	FORK_CHILD_COMM,
	FORK_PARENT_PID,
	FORK_PARENT_COMM,
	FORK_PARENT_TID
};

/* The child gets a copy of the descriptors of its parent's group. */
static void copy_fds(struct rut_state *st, const struct rut_ctf_event *ev,
		     const struct rut_thread *from, struct rut_thread *to)
{
	size_t n;
	_cleanup_free_ struct rut_fd **list = rut_an_state_fds(from, &n);

	for (size_t i = 0; i < n; i++) {
		struct rut_fd *f = rut_an_state_add_fd(st, to, list[i]->fd);
		uint64_t seq = f->seq;

		*f = *list[i];
		f->seq = seq;
		st->origin = RUT_FD_INHERITED;
		rut_an_state_notify_fd(st, RUT_HOOK_FD_CREATE, ev, to, f->fd, ev->ts_ns);
		st->origin = RUT_FD_FOUND;
	}
}

/* The name is that of the thread that forks, of which `leader` may be another. */
static void name_parent(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c, struct rut_thread *leader)
{
	const char *name = rut_an_state_name(st, ev, &c->f[FORK_PARENT_COMM]);
	struct rut_thread *t = leader;

	if (rut_ctf_ref_ok(&c->f[FORK_PARENT_TID]))
		t = rut_an_state_thread_new(st, rut_ctf_i32(ev, &c->f[FORK_PARENT_TID]));
	rut_an_state_rename(st, t, name);
	if (t->pid < 0)
		t->pid = leader->pid;
	if (!*leader->comm)
		rut_an_state_rename(st, leader, name);
}

static void sched_process_fork(struct rut_state *st, const struct rut_ctf_event *ev,
			       const struct rut_state_class *c)
{
	/* LTTng 2.1 has no PIDs here, so that a new thread cannot be told from a new process. */
	bool has_pids = rut_ctf_ref_ok(&c->f[FORK_PARENT_PID]);
	int64_t parent_tid = rut_ctf_i32(ev, &c->f[has_pids ? FORK_PARENT_PID : FORK_PARENT_TID]);
	struct rut_thread *parent = rut_an_state_thread_new(st, parent_tid), *child;

	if (has_pids)
		parent->pid = parent_tid;
	name_parent(st, ev, c, parent);
	child = rut_an_state_thread_replace(st, rut_ctf_i32(ev, &c->f[FORK_CHILD_TID]));
	if (has_pids)
		child->pid = rut_ctf_i32(ev, &c->f[FORK_CHILD_PID]);
	rut_an_state_rename(st, child, rut_an_state_name(st, ev, &c->f[FORK_CHILD_COMM]));
	child->cgroup = parent->cgroup;
	if (!st->no_files)
		copy_fds(st, ev, rut_an_state_leader(st, parent), child);
}

static void sched_process_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			       const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_thread(st, rut_ctf_i64(ev, &c->f[0]));

	if (t)
		t->exiting = true;
}

enum { EXEC_TID, EXEC_FILENAME, EXEC_OLD_TID };

#define COMM_MAX 15

/* The kernel names a process after the file that it executes. */
static void set_exec_name(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t)
{
	size_t len;
	const char *path = rut_ctf_str(ev, &c->f[EXEC_FILENAME], &len), *name;

	len = strnlen(path, len);
	name = memrchr(path, '/', len);
	name = name ? name + 1 : path;
	len -= (size_t)(name - path);
	if (len)
		rut_an_state_set_comm(st, t, name, len > COMM_MAX ? COMM_MAX : len);
}

/*
 * A thread that is not the leader of its process takes the leader's TID, and goes on with it on its
 * CPU. All other threads of the process have ended.
 */
static void take_tid(struct rut_state *st, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c, struct rut_thread *t)
{
	int64_t old_tid = rut_ctf_i64(ev, &c->f[EXEC_OLD_TID]);
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	struct rut_thread *old = rut_an_state_thread(st, old_tid);
	struct rut_hook_switch h = {.ts_ns = ev->ts_ns,
				    .cpu = st->cpu,
				    .prev_tid = old_tid,
				    .next_tid = t->tid,
				    .gap_tid = -1,
				    .prev = old,
				    .next = t,
				    .wakeup_ns = RUT_NO_TIME};

	rut_an_state_thread_revived(st, t);
	if (!old)
		return;
	t->has_prio = old->has_prio;
	t->prio = old->prio;
	t->cgroup = old->cgroup;
	t->calls_seen = old->calls_seen;
	t->syscall = old->syscall;
	t->syscall_begin_ns = old->syscall_begin_ns;
	t->rq = old->rq;
	t->fd_op = old->fd_op;
	if (cpu->current == old) {
		old->running--;
		t->running++;
		cpu->current = t;
		notify_switch(st, &h, STATE_ENDED);
	}
	rut_an_state_thread_ended(st, old);
}

static void sched_process_exec(struct rut_state *st, const struct rut_ctf_event *ev,
			       const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_thread_new(st, rut_ctf_i64(ev, &c->f[EXEC_TID]));
	_cleanup_free_ struct rut_fd **list = NULL;
	size_t n;

	if (rut_ctf_ref_ok(&c->ctx_procname))
		rut_an_state_rename(st, t, rut_an_state_str(st, ev, &c->ctx_procname));
	else if (rut_ctf_ref_ok(&c->f[EXEC_FILENAME]))
		set_exec_name(st, ev, c, t);
	if (rut_ctf_ref_ok(&c->f[EXEC_OLD_TID]) && rut_ctf_i64(ev, &c->f[EXEC_OLD_TID]) != t->tid)
		take_tid(st, ev, c, t);
	list = rut_an_state_fds(t, &n);
	for (size_t i = 0; i < n; i++) {
		int64_t fd = list[i]->fd;

		if (!list[i]->cloexec)
			continue;
		rut_an_state_notify_fd(st, RUT_HOOK_FD_CLOSE, ev, t, fd, ev->ts_ns);
		rut_an_state_remove_fd(st, t, fd);
	}
}

static void page_alloc(struct rut_state *st, const struct rut_ctf_event *ev,
		       const struct rut_state_class *c)
{
	struct rut_hook_thread h = {ev->ts_ns, st->cpu, rut_an_state_current(st, ev, c)};

	st->pages++;
	if (h.thread)
		rut_state_notify(st, RUT_HOOK_PAGE_ALLOC, &h);
}

/* Pages allocated before the trace began are freed too: they belong to no one's balance. */
static void page_free(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	struct rut_hook_thread h = {ev->ts_ns, st->cpu, NULL};

	if (!st->pages)
		return;
	st->pages--;
	h.thread = rut_an_state_current(st, ev, c);
	if (h.thread)
		rut_state_notify(st, RUT_HOOK_PAGE_FREE, &h);
}

/* Wakeups make threads known, and what disks do is theirs. */
#define WAKEUPS                                                                                    \
	(RUT_HOOK_BIT(RUT_HOOK_SWITCH) | RUT_HOOK_BIT(RUT_HOOK_MIGRATE) |                          \
	 RUT_HOOK_BIT(RUT_HOOK_PRIO) | RUT_HOOK_BIT(RUT_HOOK_BLOCK_DONE) |                         \
	 RUT_HOOK_BIT(RUT_HOOK_WAKEUP))
#define PAGES (RUT_HOOK_BIT(RUT_HOOK_PAGE_ALLOC) | RUT_HOOK_BIT(RUT_HOOK_PAGE_FREE))

const struct rut_state_def rut_an_state_sched_defs[] = {
	{"sched_switch",
	 sched_switch,
	 {"prev_comm", "prev_tid", "prev_prio", "next_comm", "next_tid", "next_prio",
	  "prev_state"}},
	{"sched_migrate_task", sched_migrate, {"comm", "tid", "prio"}},
	{"sched_waking", sched_wakeup, {"tid", "prio", "target_cpu"}, WAKEUPS},
	{"sched_wakeup", sched_wakeup, {"tid", "prio", "target_cpu"}, WAKEUPS},
	{"sched_wakeup_new", sched_wakeup, {"tid", "prio", "target_cpu"}, WAKEUPS},
	{"sched_pi_setprio", sched_pi_setprio, {"tid", "newprio"}},
	{"sched_process_fork",
	 sched_process_fork,
	 {"child_tid", "child_pid", "child_comm", "parent_pid", "parent_comm", "parent_tid"}},
	{"sched_process_exit", sched_process_exit, {"tid"}, RUT_HOOK_BIT(RUT_HOOK_WAKEUP)},
	{"sched_process_exec", sched_process_exec, {"tid", "filename", "old_tid"}},
	{"mm_page_alloc", page_alloc, {NULL}, PAGES},
	{"kmem_mm_page_alloc", page_alloc, {NULL}, PAGES},
	{"mm_page_free", page_free, {NULL}, PAGES},
	{"kmem_mm_page_free", page_free, {NULL}, PAGES},
	{NULL, NULL, {NULL}, 0},
};
