/* SPDX-License-Identifier: MIT */
/*
 * ptrace, as much of it as the injection needs: threads are seized, which does not stop them, and
 * one at a time is interrupted. Signals that arrive meanwhile are passed on, stops of the whole
 * process are left as they are.
 */
#include "ruby/inject_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/proc.h"

#define STOP_LIMIT_NS	(20 * RUT_INJECT_MS)   /* for a thread to stop when asked */
#define SETTLE_LIMIT_NS (1000 * RUT_INJECT_MS) /* for those that came late */

void rut_inject_nap_us(unsigned int us)
{
	struct timespec ts = {0, us * 1000};

	nanosleep(&ts, NULL);
}

/* Waits a little, busily at first: most things here take some microseconds. */
void rut_inject_relax(uint64_t since_ns)
{
	if (rut_now_ns() - since_ns > 200000)
		rut_inject_nap_us(50);
}

int rut_inject_gone(struct rut_inject *in)
{
	return rut_err_set(in->err, ESRCH, "process %d has ended meanwhile", in->pid);
}

struct rut_inject_thread *rut_inject_find_tracee(struct rut_inject *in, pid_t tid)
{
	for (size_t i = 0; i < in->tracee_count; i++)
		if (in->tracees[i].tid == tid)
			return &in->tracees[i];
	return NULL;
}

/* Attaches without stopping. Returns 0 or -errno. */
int rut_inject_seize(struct rut_inject *in, pid_t tid)
{
	struct rut_inject_thread *more;

	if (rut_inject_find_tracee(in, tid))
		return 0;
	more = reallocarray(in->tracees, in->tracee_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	in->tracees = more;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return -errno;
	in->tracees[in->tracee_count++] = (struct rut_inject_thread){.tid = tid};
	return 0;
}

void rut_inject_cont(struct rut_inject_thread *tr, int sig)
{
	tr->stopped = false;
	ptrace(PTRACE_CONT, tr->tid, NULL, (void *)(long)sig);
}

/* The first thread of a process that this one has started. */
static bool is_own_child(pid_t tid)
{
	return syscall(SYS_tgkill, tid, tid, 0) == 0 && rut_proc_parent(tid) == getpid();
}

/*
 * Takes one event of a thread: signals are passed on, a stop of the whole process stays as it is,
 * a stop that we asked for is noted. Returns whether there was an event. A stop is inspected but
 * not reaped, which would take the signal out of the thread: killed before it could pass that on,
 * the tracer would have swallowed it.
 */
static bool take_event(struct rut_inject_thread *tr)
{
	const int what = WEXITED | WSTOPPED | WNOHANG | __WALL | __WNOTHREAD;
	siginfo_t info = {0};
	int sig, event;

	if (tr->stopped || tr->gone)
		return false;
	if (waitid(P_PID, (id_t)tr->tid, &info, what | WNOWAIT) < 0) {
		tr->gone = tr->gone || errno == ECHILD;
		return false;
	}
	if (!info.si_pid)
		return false;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
		/* The end of a command of ours is for the one that started it. */
		if (!is_own_child(tr->tid))
			waitid(P_PID, (id_t)tr->tid, &info, what);
		tr->gone = true;
		return true;
	}
	sig = info.si_status & 0x7f;
	event = info.si_status >> 8;
	if (event == 0) {
		rut_inject_cont(tr, sig);
	} else if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		tr->group_stopped = true;
		ptrace(PTRACE_LISTEN, tr->tid, NULL, NULL);
	} else {
		tr->group_stopped = false;
		tr->asked = false;
		tr->stopped = true;
	}
	return true;
}

/* It was asked to stop, and came too late for that: it may have been in a call that it must redo.
 */
static void release(struct rut_inject *in, struct rut_inject_thread *tr)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tr->tid, NULL, &regs) == 0)
		rut_inject_let_go(in, tr, &regs);
	else
		rut_inject_cont(tr, 0);
}

/* Events of the threads that are only held, so that their signals arrive. */
void rut_inject_serve(struct rut_inject *in, const struct rut_inject_thread *not_this)
{
	for (size_t i = 0; i < in->tracee_count; i++) {
		struct rut_inject_thread *tr = &in->tracees[i];

		if (tr == not_this || tr->gone)
			continue;
		while (take_event(tr))
			;
		if (tr->stopped)
			release(in, tr);
	}
}

void rut_inject_settle(struct rut_inject *in)
{
	uint64_t since = rut_now_ns();
	bool waits = true;

	while (waits && rut_now_ns() - since < SETTLE_LIMIT_NS) {
		rut_inject_serve(in, NULL);
		waits = false;
		for (size_t i = 0; i < in->tracee_count; i++)
			waits |= in->tracees[i].asked && !in->tracees[i].gone &&
				 !in->tracees[i].group_stopped;
		if (waits)
			rut_inject_relax(since);
	}
}

/* Stops a thread. Returns 0, -ESRCH, -EBUSY (stopped by a signal) or -EAGAIN (does not come). */
int rut_inject_stop(struct rut_inject *in, struct rut_inject_thread *tr)
{
	uint64_t since = rut_now_ns();

	if (ptrace(PTRACE_INTERRUPT, tr->tid, NULL, NULL) < 0)
		return -ESRCH;
	tr->asked = true;
	in->report.stops++;
	while (!tr->stopped) {
		if (take_event(tr))
			continue;
		if (tr->gone)
			return -ESRCH;
		if (tr->group_stopped)
			return -EBUSY;
		if (rut_now_ns() - since > STOP_LIMIT_NS)
			return -EAGAIN;
		rut_inject_serve(in, tr);
		rut_inject_relax(since);
	}
	return 0;
}

/* Releases a thread that was stopped for inspection, as if it had not been. */
void rut_inject_let_go(struct rut_inject *in, struct rut_inject_thread *tr,
		       struct user_regs_struct *regs)
{
	struct rut_proc_status s;

	/* With a signal due, EINTR is right. */
	if (rut_proc_status_read(&s, in->pid, tr->tid) == 0 && !(s.sig_pending & ~s.sig_blocked) &&
	    rut_place_undo_eintr(regs))
		ptrace(PTRACE_SETREGS, tr->tid, NULL, regs);
	rut_inject_cont(tr, 0);
}
