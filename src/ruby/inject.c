/* SPDX-License-Identifier: MIT */
/*
 * Injection: making a live process load a shared object, without ever putting it at risk.
 *
 * The rule that shapes everything: the tracer may be killed between any two instructions, and the
 * target must go on as if nothing had happened. So the tracer never borrows the target for a series
 * of remote calls. It prepares everything in memory that the target does not use (a function of
 * libc that is unused), and then changes the registers of one stopped thread once. From there
 * the stub (stub.c) runs by itself: it makes a memfd, waits a bounded time for the tracer to fill
 * it, calls dlopen on it, restores all registers and returns, also redoing the system call that
 * was interrupted. When the tracer dies, the kernel detaches it and the stub still returns.
 *
 *	tracer				thread of the target
 *	seize the leader (a lock)	runs
 *	interrupt a thread		stops
 *	safe place? else try another	-
 *	write the stub, registers, go	stub: memfd_create, says its number below its red zone
 *	open it by /proc, write image	stub: waits (50 ms at most)
 *	-				stub: dlopen, says so in the memfd, restores vectors
 *	stop it, give it back its	(or: the stub restores the registers by itself)
 *	registers, and libc its bytes	-
 *	end of the thread: detached	runs
 *
 * At its end the stub parks for a moment, and the tracer puts mask and registers back as they were
 * at the interruption, so that it is the kernel that restarts the call or returns EINTR: it alone
 * can do that without losing a signal that arrives between the decision and the call, and no
 *handler runs while the stub is below it on the stack. A stub whose tracer is dead goes back by
 *itself, as well as a program can.
 *
 * All of it happens on a thread of its own, because only the thread that attached may use ptrace,
 * and because the end of that thread detaches from running threads without stopping them.
 *
 * Only one tracer can be attached to a thread, so holding the leader keeps other injections out. A
 * stub that was left behind by a tracer that was killed is recognised by its magic number; it is
 * overwritten only after every thread was seen outside of it.
 */
#include "ruby/inject.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "ruby/inject_internal.h"
#include "ruby/seccomp.h"

#define FIND_LIMIT_NS  (3000 * RUT_INJECT_MS) /* to find a thread in a safe place */
#define TIMED_GRACE_NS (100 * RUT_INJECT_MS)

/* The stub's part of the thread's own stack must be there. */
static bool stack_has_room(const struct rut_inject *in, uint64_t sp)
{
	uint64_t word;

	return rut_target_read(&in->target, sp - RUT_STUB_STACK_NEEDED, &word, sizeof(word)) == 0;
}

/* The process may have called exec since it was inspected: its libc is elsewhere then. */
static bool cave_is_as_seen(const struct rut_inject *in)
{
	unsigned char now[RUT_STUB_MAX_BYTES];

	return rut_target_read(&in->target, in->cave, now, in->code_bytes) == 0 &&
	       (in->cave_dirty || !memcmp(now, in->original, in->code_bytes));
}

struct candidate {
	pid_t tid;
	enum rut_place_rank rank;
	uint64_t timed_until_ns; /* see was_timed() */
};

/* With `one_will_do` it ends at the first that is blocked: there may be thousands. */
static int list_threads(struct rut_inject *in, bool one_will_do, struct candidate **ret,
			size_t *ret_count)
{
	char path[64];
	struct dirent *e;
	struct candidate *list = NULL, *more;
	size_t n = 0;
	uint64_t pc, sp;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", in->pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		more = reallocarray(list, n + 1, sizeof(*list));
		if (!more)
			break;
		list = more;
		list[n] = (struct candidate){.tid = atoi(e->d_name)};
		list[n].rank = rut_place_rank(in->pid, list[n].tid, &pc, &sp);
		if (list[n++].rank == RUT_PLACE_BLOCKED && one_will_do)
			break;
	}
	closedir(dir);
	*ret = list;
	*ret_count = n;
	return n ? 0 : -ESRCH;
}

static bool is_in_loader(struct rut_inject *in, uint64_t pc)
{
	const struct rut_mapping *m = rut_target_mapping_at(&in->target, pc);

	return !m || !strncmp(rut_mapping_basename(m), "ld", 2);
}

/*
 * The loader's own word is that it is at work. In the child of a fork that came in the middle of a
 * dlopen it stays so: then every thread is blocked somewhere else.
 */
static bool nobody_loads(struct rut_inject *in, pid_t tid, const struct user_regs_struct *regs)
{
	struct candidate *list = NULL;
	size_t count = 0;
	bool nobody;

	if (rut_inject_loader_is_idle(in))
		return true;
	nobody =
		!is_in_loader(in, rut_regs_pc(regs)) && list_threads(in, false, &list, &count) == 0;
	for (size_t i = 0; nobody && i < count; i++) {
		uint64_t pc, sp;
		enum rut_place_rank rank;

		if (list[i].tid == tid)
			continue;
		rank = rut_place_rank(in->pid, list[i].tid, &pc, &sp);
		nobody = rank != RUT_PLACE_RUNNING && rank != RUT_PLACE_UNFIT &&
			 !is_in_loader(in, pc);
	}
	free(list);
	return nobody;
}

/* -EAGAIN: not this thread, not now. */
static int try_thread(struct rut_inject *in, const struct candidate *c)
{
	pid_t tid = c->tid;
	struct rut_sleep sleep = {0};
	struct rut_sched sched;
	struct user_regs_struct regs;
	struct rut_inject_run run = {0};
	struct rut_inject_place place;
	int r = rut_inject_seize(in, tid);

	if (r < 0)
		return -EAGAIN;
	run.tracee = rut_inject_find_tracee(in, tid);
	if (c->rank == RUT_PLACE_FRAGILE && !rut_place_read_wait(in->pid, tid, &sleep))
		return -EAGAIN;
	r = rut_inject_stop(in, run.tracee);
	if (r == -EBUSY)
		return rut_err_set(in->err, EBUSY,
				   "process %d is stopped: continue it first (kill -CONT %d)",
				   in->pid, in->pid);
	if (r < 0)
		return -EAGAIN;
	run.stop_ns = rut_now_ns();
	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
		return -EAGAIN;
	if (rut_sched_read(in->pid, tid, &sched))
		rut_place_shorten_wait(&regs, rut_sleep_until(&sleep, run.stop_ns, sched.switches));
	run.regs = regs;
	run.sp = rut_regs_sp(&regs);
	if (!rut_place_is_safe(&in->target, &regs, &place) || !stack_has_room(in, run.sp) ||
	    !nobody_loads(in, tid, &regs) || !cave_is_as_seen(in)) {
		rut_inject_let_go(in, run.tracee, &regs);
		return -EAGAIN;
	}
	r = rut_seccomp_check(in->pid, tid, in->err);
	if (r < 0) {
		rut_inject_let_go(in, run.tracee, &regs);
		return r;
	}
	return rut_inject_run_stub(in, &run, &regs, &place);
}

/* The process has called exec since it was inspected, or is just doing so. */
static bool is_replaced(const struct rut_inject *in)
{
	uint64_t word;

	return in->target.map_count && in->target.mem_fd >= 0 &&
	       rut_target_read(&in->target, in->target.maps[0].start, &word, sizeof(word)) < 0;
}

/* With some patience something better turns up: even a wait with a time limit ends. */
static enum rut_place_rank worst_rank(unsigned int round, uint64_t deadline_ns)
{
	if (round < 20)
		return RUT_PLACE_RUNNING;
	return rut_now_ns() + FIND_LIMIT_NS / 2 < deadline_ns ? RUT_PLACE_FRAGILE : RUT_PLACE_TIMED;
}

/*
 * A call with a time limit that has just woken is on its way out, by itself: disturbed now, it
 * would return EINTR and restart. So a thread that was seen in one is left alone for a while
 * when it seems to run.
 */
static void remember_timed(struct candidate *list, size_t count, const struct candidate *before,
			   size_t before_count)
{
	uint64_t now = rut_now_ns();

	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < before_count; k++)
			if (before[k].tid == list[i].tid)
				list[i].timed_until_ns = before[k].timed_until_ns;
		if (list[i].rank == RUT_PLACE_TIMED)
			list[i].timed_until_ns = now + TIMED_GRACE_NS;
	}
}

static bool was_timed(const struct candidate *c)
{
	return c->rank == RUT_PLACE_RUNNING && rut_now_ns() < c->timed_until_ns;
}

/* Tries the threads, the least disturbing ones first, until one will do. */
static int try_threads(struct rut_inject *in, uint64_t deadline_ns)
{
	_cleanup_free_ struct candidate *before = NULL;
	size_t before_count = 0;

	for (unsigned int round = 0; rut_now_ns() < deadline_ns; round++) {
		struct candidate *list = NULL;
		size_t count = 0;
		int r = list_threads(in, round == 0, &list, &count);
		/* Calls that return EINTR are left in peace while there is hope for better. */
		enum rut_place_rank worst = worst_rank(round, deadline_ns);

		if (r < 0)
			return rut_inject_gone(in);
		remember_timed(list, count, before, before_count);
		r = -EAGAIN;
		for (int rank = RUT_PLACE_BLOCKED; rank <= (int)worst; rank++)
			for (size_t i = 0; i < count && r == -EAGAIN; i++)
				if ((int)list[i].rank == rank && !was_timed(&list[i]))
					r = try_thread(in, &list[i]);
		free(before);
		before = list;
		before_count = count;
		if (r != -EAGAIN)
			return r;
		rut_inject_serve(in, NULL);
		if (in->tracees[0].gone || is_replaced(in))
			return rut_inject_gone(in);
		rut_inject_nap_us(100 + (round % 7) * 150);
	}
	return rut_err_set(
		in->err, EAGAIN,
		"no thread of process %d came to a place where it is safe to load the agent "
		"within %llu s: try again",
		in->pid, FIND_LIMIT_NS / (1000 * RUT_INJECT_MS));
}

/* Whether no thread is in the stub that a killed tracer left behind. */
static bool leftover_is_idle(struct rut_inject *in, bool patient)
{
	struct candidate *list = NULL;
	size_t count = 0;
	bool idle = list_threads(in, false, &list, &count) == 0;

	for (size_t i = 0; idle && i < count; i++) {
		struct user_regs_struct regs;
		struct rut_inject_thread *tr;
		uint64_t pc, sp;
		int r;

		if (rut_place_rank(in->pid, list[i].tid, &pc, &sp) != RUT_PLACE_RUNNING && pc) {
			/* Blocked: in the stub's own calls, or in dlopen on the stub's stack. */
			idle = !rut_inject_in_stub(in, pc, sp);
			continue;
		}
		/* One that cannot be inspected may be anywhere; one that has ended is in no place.
		 */
		r = rut_inject_seize(in, list[i].tid);
		tr = rut_inject_find_tracee(in, list[i].tid);
		if (r == 0)
			r = rut_inject_stop(in, tr);
		if (r < 0) {
			idle = r == -ESRCH;
			continue;
		}
		if (ptrace(PTRACE_GETREGS, tr->tid, NULL, &regs) == 0)
			idle = !rut_inject_in_stub(in, rut_regs_pc(&regs), rut_regs_sp(&regs));
		rut_inject_let_go(in, tr, &regs);
	}
	free(list);
	/*
	 * The stub's stack is a shared mapping of its memfd. A child that was forked when that had
	 * just been made keeps it: so it does not count for long when no thread is there.
	 */
	if (idle && patient && rut_target_read_maps(&in->target, in->pid) == 0)
		for (size_t i = 0; i < in->target.map_count; i++)
			idle &= !(in->target.maps[i].shared && in->target.maps[i].write &&
				  !strcmp(in->target.maps[i].path, "/memfd:rutile-agent"));
	return idle;
}

/* The leader is the lock between tracers: another injection is over in a moment. */
static int seize_leader(struct rut_inject *in, uint64_t deadline_ns)
{
	struct rut_proc_status s, tracer = {.name = "?"};
	unsigned int refused = 0;

	for (;;) {
		int r = rut_inject_seize(in, in->pid);

		if (r == 0)
			return 0;
		if (r == -ESRCH || rut_proc_status_settled(&s, &tracer, in->pid) < 0)
			return rut_inject_gone(in);
		if (!s.tracer && ++refused > 10)
			return rut_target_explain_eperm(in->pid, in->err);
		if (s.tracer && (strcmp(tracer.name, RUT_INJECT_THREAD_NAME) != 0 ||
				 rut_now_ns() > deadline_ns))
			break;
		rut_inject_nap_us(200);
	}
	return rut_err_set(
		in->err, EALREADY,
		"process %d is already traced by process %d (%s): only one debugger can be "
		"attached at a time",
		in->pid, s.tracer, tracer.name);
}

static int inject_attached(struct rut_inject *in)
{
	uint64_t deadline_ns = rut_now_ns() + FIND_LIMIT_NS;
	int r = seize_leader(in, deadline_ns);

	if (r < 0)
		return r;
	/* Under the lock: what another tracer wrote before is seen. */
	r = rut_inject_find_cave(in);
	if (r < 0)
		return r;
	while (in->cave_dirty &&
	       !leftover_is_idle(in, rut_now_ns() + FIND_LIMIT_NS / 2 < deadline_ns)) {
		rut_inject_serve(in, NULL);
		if (rut_now_ns() > deadline_ns)
			return rut_err_set(
				in->err, EBUSY,
				"process %d is still loading an agent for a tracer that was "
				"killed",
				in->pid);
		rut_inject_nap_us(1000);
	}
	/* Another tracer, in another container say, may have been here first. */
	if (in->is_loaded && in->is_loaded(in->pid))
		return 0;
	return try_threads(in, deadline_ns);
}

static void *inject_thread(void *arg)
{
	struct rut_inject *in = arg;

	pthread_setname_np(pthread_self(), RUT_INJECT_THREAD_NAME);
	/* The target waits for us: on a busy machine this is most of its pause. May be refused. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), -20);
	prctl(PR_SET_TIMERSLACK, 1);
	in->result = inject_attached(in);
	rut_inject_settle(in);
	return NULL; /* the kernel detaches now, stopping no thread */
}

static bool is_elf64(const void *image, size_t bytes)
{
	const unsigned char *id = image;

	return bytes > sizeof(Elf64_Ehdr) && !memcmp(id, ELFMAG, SELFMAG) &&
	       id[EI_CLASS] == ELFCLASS64;
}

static int attempt(struct rut_inject *in)
{
	sigset_t all, stops, old;
	pthread_t thread;
	int r = rut_target_check(&in->target, in->pid, in->err);

	if (r == 0)
		r = rut_inject_find_functions(in);
	if (r < 0)
		return r;
	rut_inject_set_functions(in);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, NULL, inject_thread, in);
	/* Ctrl+Z now would stop us while a thread of the target is stopped, and so that one as
	 * well. */
	stops = old;
	sigaddset(&stops, SIGTSTP);
	sigaddset(&stops, SIGTTIN);
	sigaddset(&stops, SIGTTOU);
	pthread_sigmask(SIG_SETMASK, &stops, NULL);
	if (r == 0)
		pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r ? rut_err_errno(in->err, r, "cannot start a thread") : in->result;
}

static int inject(pid_t pid, const void *image, size_t image_bytes, bool (*is_loaded)(pid_t pid),
		  struct rut_inject_report *ret_report, struct rut_err *err)
{
	uint64_t since = rut_now_ns();
	int r;

	if (!is_elf64(image, image_bytes))
		return rut_err_set(err, EINVAL, "the agent is not a 64-bit ELF file");
	for (int i = 0;; i++) {
		bool again;
		struct rut_inject in = {.pid = pid,
					.image = image,
					.image_bytes = image_bytes,
					.is_loaded = is_loaded,
					.err = err,
					.target = RUT_TARGET_INIT};

		rut_inject_prepare(&in);
		r = attempt(&in);
		again = r < 0 && i < 50 && is_replaced(&in);
		rut_target_fini(&in.target);
		free(in.tracees);
		in.report.total_ns = rut_now_ns() - since;
		if (ret_report)
			*ret_report = in.report;
		if (!again)
			return r;
		rut_inject_nap_us(2000);
	}
}

int rut_inject_reported(pid_t pid, const void *image, size_t image_bytes,
			struct rut_inject_report *ret_report, struct rut_err *err)
{
	return inject(pid, image, image_bytes, NULL, ret_report, err);
}

int rut_inject(pid_t pid, const void *image, size_t image_bytes, bool (*is_loaded)(pid_t pid),
	       struct rut_err *err)
{
	return inject(pid, image, image_bytes, is_loaded, NULL, err);
}
