/* SPDX-License-Identifier: MIT */
/*
 * The state model: which thread or interrupt woke which thread, and why.
 *
 * Only a thread in its own context wakes another. What is woken in the context of an interrupt was
 * waiting for a timer, a packet or a request to a disk, and the thread that happened to be
 * interrupted has nothing to do with it. Interrupt context is known from the events that enter and
 * leave it. Where a trace lacks these (the timer interrupt of x86 has no irq_handler_entry), it is
 * known from what was interrupted: an idle CPU and a thread in user code wake no thread, and a
 * sleep for a time is ended by a timer or by a signal.
 */
#include "analysis/state_priv.h"

#include <errno.h>
#include <string.h>

/* Softirqs, of linux/interrupt.h. */
enum {
	SOFTIRQ_TIMER = 1,
	SOFTIRQ_NET_TX = 2,
	SOFTIRQ_NET_RX = 3,
	SOFTIRQ_BLOCK = 4,
	SOFTIRQ_IRQ_POLL = 5,
	SOFTIRQ_HRTIMER = 8,
};

static const struct {
	const char *name;
	uint8_t kind;
} calls[] = {
	{"nanosleep", RUT_WAIT_TIME},
	{"clock_nanosleep", RUT_WAIT_TIME},
	{"poll", RUT_WAIT_POLL},
	{"ppoll", RUT_WAIT_POLL},
	{"select", RUT_WAIT_POLL},
	{"pselect6", RUT_WAIT_POLL},
	{"epoll_wait", RUT_WAIT_POLL},
	{"epoll_pwait", RUT_WAIT_POLL},
	{"epoll_pwait2", RUT_WAIT_POLL},
	{"futex", RUT_WAIT_FUTEX},
	{"futex_wait", RUT_WAIT_FUTEX},
	{"wait4", RUT_WAIT_CHILD},
	{"waitid", RUT_WAIT_CHILD},
	{"kill", RUT_WAIT_SIGNALS},
	{"tkill", RUT_WAIT_SIGNALS},
	{"tgkill", RUT_WAIT_SIGNALS},
	{"rt_sigqueueinfo", RUT_WAIT_SIGNALS},
	{"rt_tgsigqueueinfo", RUT_WAIT_SIGNALS},
	{"pidfd_send_signal", RUT_WAIT_SIGNALS},
	{"exit", RUT_WAIT_SIGNALS},
	{"exit_group", RUT_WAIT_SIGNALS},
};

uint8_t rut_an_state_wait_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].kind;
	return RUT_WAIT_ANY;
}

/* ---- Contexts ---- */

void rut_an_state_context_enter(struct rut_cpu *cpu, enum rut_context_kind kind, int64_t nr,
				const char *name)
{
	if (!cpu->n_levels) {
		cpu->disk_done = cpu->packet_in = false;
		cpu->packet_iface = NULL;
	}
	if (cpu->n_levels < RUT_CONTEXT_LEVELS)
		cpu->levels[cpu->n_levels++] =
			(struct rut_context_level){(uint8_t)kind, (int32_t)nr, name};
}

/* Ends the innermost level of that kind, and what is inside of it. */
void rut_an_state_context_leave(struct rut_cpu *cpu, enum rut_context_kind kind)
{
	for (uint8_t i = cpu->n_levels; i-- > 0;) {
		if (cpu->levels[i].kind == kind) {
			cpu->n_levels = i;
			return;
		}
	}
}

static void timer_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	rut_an_state_context_enter(rut_an_state_get_cpu(st, st->cpu), RUT_CONTEXT_TIMER, 0, NULL);
}

static void timer_exit(struct rut_state *st, const struct rut_ctf_event *ev,
		       const struct rut_state_class *c)
{
	rut_an_state_context_leave(rut_an_state_get_cpu(st, st->cpu), RUT_CONTEXT_TIMER);
}

static void ipi_entry(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	rut_an_state_context_enter(rut_an_state_get_cpu(st, st->cpu), RUT_CONTEXT_IPI, 0, NULL);
}

static void ipi_exit(struct rut_state *st, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c)
{
	rut_an_state_context_leave(rut_an_state_get_cpu(st, st->cpu), RUT_CONTEXT_IPI);
}

/* ---- Causes ---- */

/* The file or peer of the call that the thread is in; NULL: it has none. */
static const char *object_of(struct rut_state *st, struct rut_thread *t, enum rut_fd_type *ret_type)
{
	const struct rut_fd *f;

	*ret_type = RUT_FD_UNKNOWN;
	if (!t->syscall || !t->rq.has_fd || t->rq.op == RUT_IO_NONE)
		return NULL;
	f = rut_an_state_fd(rut_an_state_leader(st, t), t->rq.fd);
	if (!f)
		return NULL;
	*ret_type = f->type;
	return f->filename;
}

static bool sleeps_for_a_time(const struct rut_thread *t)
{
	return t->syscall && t->syscall->wait == RUT_WAIT_TIME;
}

/* Is what runs on this CPU in a context of its own, in which it can wake others? */
static bool can_wake(const struct rut_state *st, const struct rut_cpu *cpu)
{
	const struct rut_thread *t = cpu->current;

	if (!t)
		return false;
	/* In a system call, about to end, or one of which that is not known: kernel threads. */
	return !st->has_calls || t->syscall || t->exiting || !t->calls_seen;
}

static void caused_by_disk(struct rut_state *st, const struct rut_cpu *cpu, struct rut_wake *w)
{
	const struct rut_disk *d = rut_map_get(&st->disks, (uint64_t)cpu->done_dev + 1);

	w->kind = RUT_WAKE_DISK;
	w->what = d ? d->name : NULL;
	w->ahead = cpu->done_ahead;
	w->tid = cpu->done_ahead ? cpu->done_ahead_tid : 0;
}

bool rut_an_state_sends(const char *call)
{
	static const char *const senders[] = {"write",	  "writev",   "sendto",	    "sendmsg",
					      "sendmmsg", "connect",  "close",	    "shutdown",
					      "splice",	  "sendfile", "sendfile64", "exit_group"};

	for (size_t i = 0; i < sizeof(senders) / sizeof(*senders); i++)
		if (!strcmp(call, senders[i]))
			return true;
	return false;
}

/* Interfaces between processes of this machine: loopback, and those of containers. */
static bool is_local(const char *iface)
{
	static const char *const prefixes[] = {"veth", "docker", "br", "cni", "lxc"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(iface, prefixes[i], strlen(prefixes[i])))
			return true;
	return !strcmp(iface, "lo");
}

/* On these interfaces the packet comes in while its sender's call still runs. */
static bool sends_to_itself(const struct rut_cpu *cpu)
{
	const struct rut_thread *t = cpu->current;

	if (!t || !t->syscall ||
	    (t->rq.op != RUT_IO_WRITE && !rut_an_state_sends(t->syscall->name)))
		return false;
	return !cpu->packet_iface || is_local(cpu->packet_iface);
}

static void caused_by_packet(struct rut_state *st, const struct rut_cpu *cpu, struct rut_thread *t,
			     struct rut_wake *w)
{
	enum rut_fd_type type;

	w->kind = RUT_WAKE_NET;
	w->what = object_of(st, t, &type);
	if (!w->what)
		w->what = cpu->packet_iface;
	if (sends_to_itself(cpu))
		w->tid = cpu->current->tid;
}

/* Names of interrupts that keyboards, mice and serial lines have. */
static bool is_users(const char *name)
{
	static const char *const names[] = {"i8042", "ttyS", "uhid", "xhci_hcd", "serial"};

	for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Nothing says which interrupt it was: what the thread waited for is the next best. */
static void caused_by_wait(struct rut_state *st, struct rut_thread *t, struct rut_wake *w,
			   const char *interrupt)
{
	enum rut_fd_type type;
	const char *object = object_of(st, t, &type);

	w->what = object ? object : interrupt;
	if (sleeps_for_a_time(t)) {
		w->kind = RUT_WAKE_TIMER;
		w->what = t->syscall->name;
	} else if (type == RUT_FD_NET || type == RUT_FD_MAYBE_NET) {
		w->kind = RUT_WAKE_NET;
	} else if (type == RUT_FD_DISK) {
		w->kind = RUT_WAKE_DISK;
	} else if (is_users(interrupt)) {
		w->kind = RUT_WAKE_USER;
	} else {
		w->kind = interrupt ? RUT_WAKE_IRQ : RUT_WAKE_UNKNOWN;
	}
}

static void caused_in_context(struct rut_state *st, const struct rut_cpu *cpu, struct rut_thread *t,
			      struct rut_wake *w)
{
	const struct rut_context_level *l = &cpu->levels[cpu->n_levels - 1];
	bool soft = l->kind == RUT_CONTEXT_SOFTIRQ;

	if (l->kind == RUT_CONTEXT_TIMER || sleeps_for_a_time(t) ||
	    (soft && (l->nr == SOFTIRQ_TIMER || l->nr == SOFTIRQ_HRTIMER))) {
		w->kind = RUT_WAKE_TIMER;
		w->what = t->syscall ? t->syscall->name : NULL;
	} else if (cpu->disk_done) {
		caused_by_disk(st, cpu, w);
	} else if (cpu->packet_in ||
		   (soft && (l->nr == SOFTIRQ_NET_RX || l->nr == SOFTIRQ_NET_TX))) {
		caused_by_packet(st, cpu, t, w);
	} else if (soft && (l->nr == SOFTIRQ_BLOCK || l->nr == SOFTIRQ_IRQ_POLL)) {
		w->kind = RUT_WAKE_DISK;
	} else if (l->kind == RUT_CONTEXT_IPI) {
		w->kind = RUT_WAKE_IPI;
	} else {
		caused_by_wait(st, t, w, l->name ? l->name : soft ? "softirq" : "interrupt");
	}
}

void rut_an_state_wake(struct rut_state *st, struct rut_thread *t, int64_t ts_ns)
{
	const struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	struct rut_hook_wakeup h = {ts_ns, st->cpu, t};
	struct rut_wake *w = &t->wake;

	*w = (struct rut_wake){.ns = ts_ns};
	if (!st->hooks[RUT_HOOK_WAKEUP].n)
		return;
	if (cpu->n_levels)
		caused_in_context(st, cpu, t, w);
	else if (can_wake(st, cpu) &&
		 (!sleeps_for_a_time(t) ||
		  (cpu->current->syscall && cpu->current->syscall->wait == RUT_WAIT_SIGNALS)))
		*w = (struct rut_wake){ts_ns, RUT_WAKE_THREAD, cpu->current->tid, NULL, 0};
	else
		caused_by_wait(st, t, w, NULL);
	rut_state_notify(st, RUT_HOOK_WAKEUP, &h);
}

bool rut_an_state_timed_out(const struct rut_syscall_info *info, int64_t ret)
{
	switch (info->wait) {
	case RUT_WAIT_TIME:
	case RUT_WAIT_POLL:
		return ret == 0;
	case RUT_WAIT_FUTEX:
		return ret == -ETIMEDOUT;
	default:
		return false;
	}
}

#define WAKE RUT_HOOK_BIT(RUT_HOOK_WAKEUP)

#define CONTEXT(name, what)                                                                        \
	{name "_entry", what##_entry, {NULL}, WAKE},                                               \
	{                                                                                          \
		name "_exit", what##_exit, {NULL}, WAKE                                            \
	}
#define X86_CONTEXT(name, what) CONTEXT(name, what), CONTEXT("x86_irq_vectors_" name, what)

const struct rut_state_def rut_an_state_wake_defs[] = {
	CONTEXT("hrtimer_expire", timer),  CONTEXT("timer_hrtimer_expire", timer),
	CONTEXT("timer_expire", timer),	   CONTEXT("timer_timer_expire", timer),
	X86_CONTEXT("local_timer", timer), X86_CONTEXT("reschedule", ipi),
	X86_CONTEXT("call_function", ipi), X86_CONTEXT("call_function_single", ipi),
	X86_CONTEXT("irq_work", ipi),	   CONTEXT("ipi", ipi),
	{NULL, NULL, {NULL}, 0},
};
