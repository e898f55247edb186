/* SPDX-License-Identifier: MIT */
/*
 * Injection: making a live process load a shared object, without ever putting it at risk.
 *
 * The rule that shapes everything: the tracer may be killed between any two instructions, and the
 * target must go on as if nothing had happened. So the tracer never borrows the target for a series
 * of remote calls. It prepares everything in memory that the target does not use (a function of
 * libc that nobody calls), and then changes the registers of one stopped thread once. From there
 * the stub (stub.c) runs by itself: it makes a memfd, waits a bounded time for the tracer to fill
 * it, calls dlopen on it, restores all registers and goes back, also redoing the system call that
 * was interrupted. When the tracer dies, the kernel detaches it and the stub still goes back.
 *
 *	tracer				thread of the target
 *	seize the leader (a lock)	runs
 *	write the stub			runs
 *	interrupt a thread		stops
 *	safe place? else try another	-
 *	parameters, registers, go	stub: memfd_create, says its number below its red zone
 *	open it by /proc, write image	stub: waits (50 ms at most)
 *	-				stub: dlopen, says so in the memfd, restores vectors
 *	stop it, give it back its	(or: the stub restores the registers by itself)
 *	registers, and libc its bytes	-
 *	end of the thread: detached	runs
 *
 * When the thread was in code, the stub also goes back by itself. When it was in a system call, the
 * stub parks for a moment and the tracer puts the registers back as they were at the interruption,
 * so that it is the kernel that restarts the call or returns EINTR: it alone can do that without
 * losing a signal that arrives between the decision and the call. A stub whose tracer is dead does
 * the same by itself, as well as a program can.
 *
 * All of it happens on a thread of its own, because only the thread that attached may use ptrace,
 * and because the end of that thread detaches from running threads without stopping them.
 *
 * Only one tracer can be attached to a thread, so holding the leader keeps other injections out. A
 * stub that was left behind by a tracer that was killed is recognised by its magic number; it is
 * overwritten only after every thread was seen outside of it.
 */
#include "ruby/inject.h"

#include <cpuid.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "ruby/place.h"
#include "ruby/seccomp.h"
#include "ruby/stub.h"
#include "ruby/target.h"

#define MS		  1000000ull
#define FIND_LIMIT_NS	  (3000 * MS)  /* to find a thread in a safe place */
#define STOP_LIMIT_NS	  (20 * MS)    /* for a thread to stop when asked */
#define FEED_LIMIT_NS	  (1000 * MS)  /* for the stub's first word */
#define LOAD_LIMIT_NS	  (10000 * MS) /* for dlopen */
#define LEAVE_LIMIT_NS	  (200 * MS)
#define WAIT_ROUNDS	  600 /* of about 80 us in the stub */
#define LINGER_ROUNDS	  100
#define STUB_MAX_BYTES	  3072
#define PAGE_BYTES	  4096ull
#define XSAVE_AREA_OFFSET 512

struct tracee {
	pid_t tid;
	bool stopped; /* in a stop that we asked for */
	bool gone;
	bool group_stopped;
};

struct inject {
	pid_t pid;
	const void *image;
	size_t image_bytes;
	struct rut_err *err;
	struct rut_inject_report report;
	int result;

	struct rut_target target;
	struct rut_target_symbol dlopen_fn, dlerror_fn, errno_fn;
	bool dlopen_is_internal; /* __libc_dlopen_mode */
	uint64_t cave;		 /* address of the stub in the target */
	bool cave_dirty;	 /* another stub was left there */
	unsigned char original[STUB_MAX_BYTES];
	unsigned char code[STUB_MAX_BYTES];
	size_t code_bytes;
	struct rut_stub_params *params; /* within code */

	struct tracee *tracees; /* owned */
	size_t tracee_count;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void nap_us(unsigned int us)
{
	struct timespec ts = {0, us * 1000};

	nanosleep(&ts, NULL);
}

/* Waits a little, busily at first: most things here take some microseconds. */
static void relax(uint64_t since_ns)
{
	if (now_ns() - since_ns > 200000)
		nap_us(50);
}

static int gone_error(struct inject *in)
{
	return rut_err_set(in->err, ESRCH, "process %d has ended meanwhile", in->pid);
}

/* --- finding functions and a place for the stub ------------------------------------------- */

static int find_functions(struct inject *in)
{
	const struct rut_mapping *libc, *m;
	struct rut_target *t = &in->target;

	switch (rut_target_libc(t, &libc)) {
	case RUT_LIBC_MUSL:
		return rut_err_set(
			in->err, ENOTSUP,
			"process %d uses the C library musl: only glibc can be traced by "
			"injection",
			in->pid);
	case RUT_LIBC_NONE:
		return rut_err_set(
			in->err, ENOTSUP,
			"process %d is linked statically: there is no dlopen to load the "
			"agent with",
			in->pid);
	case RUT_LIBC_GLIBC:
		break;
	}
	if (rut_target_find_symbol(t, libc, "__errno_location", &in->errno_fn) < 0)
		return rut_err_set(in->err, ENOEXEC,
				   "cannot read the symbols of '%s' in process %d", libc->path,
				   in->pid);
	if (rut_target_find_symbol(t, libc, "dlopen", &in->dlopen_fn) == 0) {
		rut_target_find_symbol(t, libc, "dlerror", &in->dlerror_fn);
		return 0;
	}
	for (m = NULL; (m = rut_target_next_module(t, m));)
		if (!strncmp(rut_mapping_basename(m), "libdl", 5) &&
		    rut_target_find_symbol(t, m, "dlopen", &in->dlopen_fn) == 0) {
			rut_target_find_symbol(t, m, "dlerror", &in->dlerror_fn);
			return 0;
		}
	if (rut_target_find_symbol(t, libc, "__libc_dlopen_mode", &in->dlopen_fn) == 0) {
		in->dlopen_is_internal = true;
		return 0;
	}
	return rut_err_set(in->err, ENOTSUP, "the C library of process %d has no dlopen", in->pid);
}

static bool fits(const struct inject *in, uint64_t addr, uint64_t bytes)
{
	const struct rut_mapping *m = rut_target_mapping_at(&in->target, addr);

	return m && m->exec && bytes >= in->code_bytes + 16 &&
	       ((addr + 15) & ~15ull) + in->code_bytes <= m->end;
}

/*
 * Functions of glibc that nothing calls: the first serves glibc's own test suite only, the others
 * are interfaces of the last century. All are larger than the stub.
 */
static int find_cave(struct inject *in)
{
	static const char *const names[] = {
		"__libc_ifunc_impl_list", "rcmd_af", "wordexp", "argp_parse", "getdate_r",
		"clnt_broadcast"};
	struct rut_stub_params left;
	struct rut_target_symbol sym;
	const struct rut_mapping *libc;
	size_t params_at = (size_t)(rut_stub_params_at - __start_rut_stub);

	rut_target_libc(&in->target, &libc);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !in->cave; i++)
		if (rut_target_find_symbol(&in->target, libc, names[i], &sym) == 0 &&
		    fits(in, sym.addr, sym.size))
			in->cave = (sym.addr + 15) & ~15ull;
	if (!in->cave)
		return rut_err_set(in->err, ENOTSUP,
				   "no room for the stub in the C library of process %d", in->pid);
	if (rut_target_read(&in->target, in->cave, in->original, in->code_bytes) < 0)
		return gone_error(in);
	memcpy(&left, in->original + params_at, sizeof(left));
	in->cave_dirty = left.magic == RUT_STUB_MAGIC;
	return 0;
}

#if defined(__x86_64__)
/* What the kernel lets programs save, and its size. */
static void set_vector_params(struct rut_stub_params *p)
{
	unsigned int a, b, c, d, lo, hi;

	p->xsave_bytes = PAGE_BYTES;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
	    !__get_cpuid_count(0xd, 0, &a, &b, &c, &d))
		return;
	__asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	p->xsave_mask = (uint64_t)hi << 32 | lo;
	p->xsave_bytes = (b + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}
#endif

static void prepare_code(struct inject *in)
{
	struct rut_stub_params *p;

	in->code_bytes = (size_t)(__stop_rut_stub - __start_rut_stub);
	memcpy(in->code, __start_rut_stub, in->code_bytes);
	p = (struct rut_stub_params *)(in->code + (rut_stub_params_at - __start_rut_stub));
	in->params = p;
	p->magic = RUT_STUB_MAGIC;
	set_vector_params(p);
	p->region_offset = (in->image_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	p->region_bytes = RUT_STUB_STATUS_BYTES + p->xsave_bytes + RUT_STUB_STACK_BYTES;
	p->wait_rounds = WAIT_ROUNDS;
	p->linger_rounds = LINGER_ROUNDS;
	snprintf(p->name, sizeof(p->name), "rutile-agent");
}

static void set_function_params(struct inject *in)
{
	struct rut_stub_params *p = in->params;

	p->dlopen_fn = in->dlopen_fn.addr;
	p->dlerror_fn = in->dlerror_fn.addr;
	p->errno_fn = in->errno_fn.addr;
	/* RTLD_NOW; __RTLD_DLOPEN for the internal function */
	p->dlopen_mode = 2u | (in->dlopen_is_internal ? 0x80000000u : 0);
}

/* --- ptrace -------------------------------------------------------------------------------- */

static struct tracee *find_tracee(struct inject *in, pid_t tid)
{
	for (size_t i = 0; i < in->tracee_count; i++)
		if (in->tracees[i].tid == tid)
			return &in->tracees[i];
	return NULL;
}

/* Attaches without stopping. Returns 0 or -errno. */
static int seize(struct inject *in, pid_t tid)
{
	struct tracee *more;

	if (find_tracee(in, tid))
		return 0;
	more = reallocarray(in->tracees, in->tracee_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	in->tracees = more;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return -errno;
	in->tracees[in->tracee_count++] = (struct tracee){.tid = tid};
	return 0;
}

static void cont(struct tracee *tr, int sig)
{
	tr->stopped = false;
	ptrace(PTRACE_CONT, tr->tid, NULL, (void *)(long)sig);
}

/*
 * Takes one event of a thread: signals are passed on, a stop of the whole process stays as it is,
 * a stop that we asked for is noted. Returns whether there was an event.
 */
static bool take_event(struct tracee *tr)
{
	int status, sig;
	pid_t r = waitpid(tr->tid, &status, __WALL | __WNOTHREAD | WNOHANG);

	if (r < 0 && errno == ECHILD)
		tr->gone = true;
	if (r <= 0)
		return false;
	if (!WIFSTOPPED(status)) {
		tr->gone = true;
		return true;
	}
	sig = WSTOPSIG(status);
	if (status >> 16 == 0) {
		cont(tr, sig);
	} else if (status >> 16 == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		tr->group_stopped = true;
		ptrace(PTRACE_LISTEN, tr->tid, NULL, NULL);
	} else {
		tr->group_stopped = false;
		tr->stopped = true;
	}
	return true;
}

/* Events of the threads that are only held, so that their signals arrive. */
static void serve_others(struct inject *in, const struct tracee *not_this)
{
	for (size_t i = 0; i < in->tracee_count; i++) {
		struct tracee *tr = &in->tracees[i];

		if (tr == not_this || tr->gone)
			continue;
		while (take_event(tr))
			;
		if (tr->stopped)
			cont(tr, 0);
	}
}

/* Stops a thread. Returns 0, -ESRCH, -EBUSY (stopped by a signal) or -EAGAIN (does not come). */
static int stop(struct inject *in, struct tracee *tr)
{
	uint64_t since = now_ns();

	if (ptrace(PTRACE_INTERRUPT, tr->tid, NULL, NULL) < 0)
		return -ESRCH;
	in->report.stops++;
	while (!tr->stopped) {
		if (take_event(tr))
			continue;
		if (tr->gone)
			return -ESRCH;
		if (tr->group_stopped)
			return -EBUSY;
		if (now_ns() - since > STOP_LIMIT_NS)
			return -EAGAIN;
		serve_others(in, tr);
		relax(since);
	}
	return 0;
}

/* Lets a thread go that was stopped for a look, as if it had not been. */
static void let_go(struct inject *in, struct tracee *tr, struct user_regs_struct *regs)
{
	struct rut_proc_status s;

	/* With a signal due, EINTR is right. */
	if (rut_proc_status_read(&s, in->pid, tr->tid) == 0 && !(s.sig_pending & ~s.sig_blocked) &&
	    rut_place_undo_eintr(regs))
		ptrace(PTRACE_SETREGS, tr->tid, NULL, regs);
	cont(tr, 0);
}

/* --- the stub at work ---------------------------------------------------------------------- */

struct run {
	struct tracee *tracee;
	struct user_regs_struct regs; /* when it was interrupted */
	uint64_t sp;		      /* of these */
	uint64_t stop_ns;	      /* when */
	uint64_t cookie;
	struct rut_stub_status *status; /* mapped; NULL before */
};

static bool read_slot(struct inject *in, const struct run *run, struct rut_stub_slot *ret)
{
	return rut_target_read(&in->target, run->sp - RUT_STUB_SLOT_BELOW_SP, ret, sizeof(*ret)) ==
		       0 &&
	       ret->cookie == run->cookie;
}

/* Waits for the stub's first word: the number of its memfd. */
static int wait_for_memfd(struct inject *in, const struct run *run, int *ret_fd)
{
	uint64_t since = now_ns();
	struct rut_stub_slot slot;

	while (!read_slot(in, run, &slot)) {
		serve_others(in, NULL);
		if (run->tracee->gone)
			return gone_error(in);
		if (now_ns() - since > FEED_LIMIT_NS)
			return rut_err_set(in->err, ETIMEDOUT,
					   "process %d did not run within a second", in->pid);
		relax(since);
	}
	if (slot.fd == -EPERM || slot.fd == -EACCES || slot.fd == -ENOSYS)
		return rut_err_set(in->err, EPERM,
				   "process %d may not call memfd_create (%s): a seccomp filter "
				   "forbids it; preload the agent instead (see rutile(1))",
				   in->pid, strerror((int)-slot.fd));
	if (slot.fd == -EMFILE)
		return rut_err_set(in->err, EMFILE,
				   "process %d has no free file descriptor: raise its limit "
				   "(prlimit --nofile)",
				   in->pid);
	if (slot.fd < 0)
		return rut_err_errno(in->err, (int)-slot.fd, "memfd_create failed in process %d",
				     in->pid);
	*ret_fd = (int)slot.fd;
	return 0;
}

static int write_all(int fd, const void *data, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pwrite(fd, (const char *)data + at, len - at, (off_t)at);

		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	return 0;
}

/* Fills the memfd and says that it is complete. */
static int feed(struct inject *in, struct run *run)
{
	const struct rut_stub_params *p = in->params;
	char path[80];
	_cleanup_close_ int fd = -1;
	int number = -1, r = wait_for_memfd(in, run, &number);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", in->pid, run->tracee->tid, number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return rut_err_errno(in->err, errno, "cannot open '%s'", path);
	if (ftruncate(fd, (off_t)(p->region_offset + p->region_bytes)) < 0)
		return rut_err_errno(in->err, errno, "cannot size the memfd of process %d",
				     in->pid);
	r = write_all(fd, in->image, in->image_bytes);
	if (r < 0)
		return rut_err_errno(in->err, -r, "cannot fill the memfd of process %d", in->pid);
	run->status = mmap(NULL, RUT_STUB_STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   (off_t)p->region_offset);
	if (run->status == MAP_FAILED) {
		run->status = NULL;
		return rut_err_errno(in->err, errno, "cannot map the memfd");
	}
	__atomic_store_n(&run->status->ready, run->cookie, __ATOMIC_RELEASE);
	return 0;
}

static int wait_for_load(struct inject *in, const struct run *run)
{
	uint64_t since = now_ns();
	struct rut_stub_slot slot;

	while (__atomic_load_n(&run->status->done, __ATOMIC_ACQUIRE) != run->cookie) {
		serve_others(in, NULL);
		if (run->tracee->gone)
			return gone_error(in);
		if (read_slot(in, run, &slot) && slot.error == -ETIMEDOUT)
			return -EAGAIN;
		if (read_slot(in, run, &slot) && slot.error)
			return rut_err_errno(in->err, (int)-slot.error,
					     "process %d cannot map the agent", in->pid);
		if (now_ns() - since > LOAD_LIMIT_NS)
			return rut_err_set(
				in->err, ETIMEDOUT,
				"process %d has not finished loading the agent after %llu "
				"s; it is left to itself",
				in->pid, LOAD_LIMIT_NS / (1000 * MS));
		relax(since);
	}
	if (!run->status->handle)
		return rut_err_set(in->err, ELIBACC, "process %d cannot load the agent: %.300s",
				   in->pid, run->status->error);
	return 0;
}

static bool in_cave(const struct inject *in, uint64_t pc)
{
	return pc >= in->cave && pc < in->cave + in->code_bytes;
}

static void restore_cave(struct inject *in)
{
	if (!in->cave_dirty)
		rut_target_write(&in->target, in->cave, in->original, in->code_bytes);
}

static bool is_parked(struct inject *in, const struct run *run)
{
	struct rut_stub_slot slot;

	return read_slot(in, run, &slot) && slot.parked == run->cookie;
}

/*
 * The thread has stopped where the stub waits at its end: it gets the registers that it had when it
 * was interrupted, and the kernel decides about the system call as if nothing had been. The mask
 * first: should the tracer die in between, the stub goes on by itself.
 */
static bool take_back(struct inject *in, const struct run *run)
{
	struct user_regs_struct regs = run->regs;
	uint64_t mask = in->params->sigmask;

	rut_place_mark_interrupted(&regs);
	return ptrace(PTRACE_SETSIGMASK, run->tracee->tid, sizeof(mask), &mask) == 0 &&
	       ptrace(PTRACE_SETREGS, run->tracee->tid, NULL, &regs) == 0;
}

/* Waits until the thread has left the stub, and puts libc's bytes back. */
static void finish(struct inject *in, const struct run *run)
{
	struct user_regs_struct regs;
	struct tracee *tr = run->tracee;
	uint64_t since = now_ns();

	while (!tr->gone && now_ns() - since < LEAVE_LIMIT_NS) {
		serve_others(in, tr);
		if (stop(in, tr) < 0 || ptrace(PTRACE_GETREGS, tr->tid, NULL, &regs) < 0)
			continue;
		if (!in_cave(in, rut_regs_pc(&regs))) {
			restore_cave(in);
			let_go(in, tr, &regs);
			return;
		}
		if (is_parked(in, run) && take_back(in, run)) {
			restore_cave(in);
			cont(tr, 0);
			return;
		}
		cont(tr, 0);
		relax(since);
	}
}

/* The point of no return: the thread starts the stub. Returns 0 or -errno when it did not. */
static int launch(struct inject *in, struct run *run, struct user_regs_struct *regs,
		  const struct rut_place *place)
{
	struct rut_stub_params *p = in->params;
	uint64_t all = ~0ull;

	p->resume_pc = place->resume_pc;
	p->restart_pc = place->restart_pc;
	p->restart_nr = place->restart_nr;
	p->restart = place->restart;
	p->cookie = run->cookie;
	if (ptrace(PTRACE_GETSIGMASK, run->tracee->tid, sizeof(p->sigmask), &p->sigmask) < 0)
		return -errno;
	if (rut_target_write(&in->target, in->cave, in->code, in->code_bytes) < 0)
		return -EIO;
	rut_regs_jump(regs, in->cave + (uint64_t)(rut_stub_entry - __start_rut_stub));
	if (ptrace(PTRACE_SETREGS, run->tracee->tid, NULL, regs) < 0)
		return -errno;
	/* Signals that arrive from here on have their effect when the stub is done. */
	ptrace(PTRACE_SETSIGMASK, run->tracee->tid, sizeof(all), &all);
	cont(run->tracee, 0);
	return 0;
}

/* The stopped thread loads the object. -EAGAIN: too busy a machine, try again. */
static int run_stub(struct inject *in, struct run *run, struct user_regs_struct *regs,
		    const struct rut_place *place)
{
	int r;

	if (getrandom(&run->cookie, sizeof(run->cookie), 0) != sizeof(run->cookie))
		return rut_err_set(in->err, EIO, "no random numbers");
	r = launch(in, run, regs, place);
	if (r < 0) {
		let_go(in, run->tracee, regs);
		return r == -ESRCH ? gone_error(in)
				   : rut_err_errno(in->err, -r, "cannot write into process %d",
						   in->pid);
	}
	r = feed(in, run);
	if (r == 0)
		r = wait_for_load(in, run);
	if (r != -ETIMEDOUT)
		finish(in, run);
	if (r == 0)
		in->report.pause_ns = now_ns() - run->stop_ns;
	if (run->status)
		munmap(run->status, RUT_STUB_STATUS_BYTES);
	in->report.tid = run->tracee->tid;
	in->report.place = place->what;
	return r;
}

/* --- choosing a thread --------------------------------------------------------------------- */

/* The stub's part of the thread's own stack must be there. */
static bool stack_has_room(const struct inject *in, uint64_t sp)
{
	uint64_t word;

	return rut_target_read(&in->target, sp - RUT_STUB_STACK_NEEDED, &word, sizeof(word)) == 0;
}

/* The process may have called exec since it was looked at: its libc is elsewhere then. */
static bool cave_is_as_seen(const struct inject *in)
{
	unsigned char now[STUB_MAX_BYTES];

	return rut_target_read(&in->target, in->cave, now, in->code_bytes) == 0 &&
	       (in->cave_dirty || !memcmp(now, in->original, in->code_bytes));
}

struct candidate {
	pid_t tid;
	enum rut_place_rank rank;
};

/* -EAGAIN: not this thread, not now. */
static int try_thread(struct inject *in, const struct candidate *c)
{
	pid_t tid = c->tid;
	struct rut_sleep sleep = {0};
	struct user_regs_struct regs;
	struct run run = {0};
	struct rut_place place;
	int r = seize(in, tid);

	if (r < 0)
		return -EAGAIN;
	run.tracee = find_tracee(in, tid);
	if (c->rank == RUT_PLACE_FRAGILE)
		rut_place_read_sleep(in->pid, tid, &sleep);
	r = stop(in, run.tracee);
	if (r == -EBUSY)
		return rut_err_set(in->err, EBUSY,
				   "process %d is stopped: continue it first (kill -CONT %d)",
				   in->pid, in->pid);
	if (r < 0)
		return -EAGAIN;
	run.stop_ns = now_ns();
	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
		return -EAGAIN;
	rut_place_shorten_wait(in->pid, tid, &regs, &sleep);
	run.regs = regs;
	run.sp = rut_regs_sp(&regs);
	if (!rut_place_is_safe(&in->target, &regs, &place) || !stack_has_room(in, run.sp) ||
	    !cave_is_as_seen(in)) {
		let_go(in, run.tracee, &regs);
		return -EAGAIN;
	}
	r = rut_seccomp_check(in->pid, tid, in->err);
	if (r < 0) {
		let_go(in, run.tracee, &regs);
		return r;
	}
	return run_stub(in, &run, &regs, &place);
}

static int list_threads(struct inject *in, struct candidate **ret, size_t *ret_count)
{
	char path[64];
	struct dirent *e;
	struct candidate *list = NULL, *more;
	size_t n = 0;
	uint64_t pc;
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
		list[n].tid = atoi(e->d_name);
		list[n].rank = rut_place_rank(in->pid, list[n].tid, &pc);
		n++;
	}
	closedir(dir);
	*ret = list;
	*ret_count = n;
	return n ? 0 : -ESRCH;
}

/* With some patience something better turns up: even a wait with a time limit ends. */
static enum rut_place_rank worst_rank(unsigned int round, uint64_t deadline_ns)
{
	if (round < 20)
		return RUT_PLACE_RUNNING;
	return now_ns() + FIND_LIMIT_NS / 2 < deadline_ns ? RUT_PLACE_FRAGILE : RUT_PLACE_TIMED;
}

/*
 * A call with a time limit that has just woken is on its way out, by itself: disturbed now, it
 * would return EINTR and begin anew.
 */
static bool was_timed(const struct candidate *list, size_t count, pid_t tid)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].tid == tid)
			return list[i].rank == RUT_PLACE_TIMED;
	return false;
}

/* Tries the threads, the least disturbing ones first, until one will do. */
static int try_threads(struct inject *in, uint64_t deadline_ns)
{
	_cleanup_free_ struct candidate *before = NULL;
	size_t before_count = 0;

	for (unsigned int round = 0; now_ns() < deadline_ns; round++) {
		struct candidate *list = NULL;
		size_t count = 0;
		int r = list_threads(in, &list, &count);
		/* Calls that return EINTR are left in peace while there is hope for better. */
		enum rut_place_rank worst = worst_rank(round, deadline_ns);

		if (r < 0)
			return gone_error(in);
		r = -EAGAIN;
		for (int rank = RUT_PLACE_BLOCKED; rank <= (int)worst; rank++)
			for (size_t i = 0; i < count && r == -EAGAIN; i++)
				if ((int)list[i].rank == rank &&
				    (rank != RUT_PLACE_RUNNING ||
				     !was_timed(before, before_count, list[i].tid)))
					r = try_thread(in, &list[i]);
		free(before);
		before = list;
		before_count = count;
		if (r != -EAGAIN)
			return r;
		serve_others(in, NULL);
		if (in->tracees[0].gone)
			return gone_error(in);
		nap_us(100 + (round % 7) * 150);
	}
	return rut_err_set(
		in->err, EAGAIN,
		"no thread of process %d came to a place where it is safe to load the agent "
		"within %llu s: try again",
		in->pid, FIND_LIMIT_NS / (1000 * MS));
}

/* Whether no thread is in the stub that a killed tracer left behind. */
static bool leftover_is_idle(struct inject *in)
{
	struct candidate *list = NULL;
	size_t count = 0;
	bool idle = list_threads(in, &list, &count) == 0;

	for (size_t i = 0; idle && i < count; i++) {
		struct user_regs_struct regs;
		struct tracee *tr;
		uint64_t pc;

		if (rut_place_rank(in->pid, list[i].tid, &pc) != RUT_PLACE_RUNNING && pc) {
			/* Blocked: in the stub's own calls, or in dlopen on the stub's stack. */
			idle = !in_cave(in, pc);
			continue;
		}
		if (seize(in, list[i].tid) < 0)
			continue;
		tr = find_tracee(in, list[i].tid);
		if (stop(in, tr) < 0)
			continue;
		if (ptrace(PTRACE_GETREGS, tr->tid, NULL, &regs) == 0)
			idle = !in_cave(in, rut_regs_pc(&regs));
		let_go(in, tr, &regs);
	}
	free(list);
	/* The stub's stack is a shared mapping of its memfd. */
	if (idle && rut_target_read_maps(&in->target, in->pid) == 0)
		for (size_t i = 0; i < in->target.map_count; i++)
			idle &= !(in->target.maps[i].shared && in->target.maps[i].write &&
				  !strcmp(in->target.maps[i].path, "/memfd:rutile-agent"));
	return idle;
}

/* The leader is the lock between tracers: another injection is over in a moment. */
static int seize_leader(struct inject *in, uint64_t deadline_ns)
{
	struct rut_proc_status s, tracer = {.name = "?"};
	unsigned int refused = 0;

	for (;;) {
		int r = seize(in, in->pid);

		if (r == 0)
			return 0;
		if (r == -ESRCH || rut_proc_status_read(&s, in->pid, 0) < 0)
			return gone_error(in);
		if (!s.tracer && ++refused > 10)
			return rut_target_explain_eperm(in->pid, in->err);
		if (s.tracer && rut_proc_status_read(&tracer, s.tracer, 0) == 0 &&
		    (strcmp(tracer.name, RUT_INJECT_THREAD_NAME) != 0 || now_ns() > deadline_ns))
			break;
		nap_us(200);
	}
	return rut_err_set(
		in->err, EALREADY,
		"process %d is already traced by process %d (%s): only one debugger can be "
		"attached at a time",
		in->pid, s.tracer, tracer.name);
}

static int inject_attached(struct inject *in)
{
	uint64_t deadline_ns = now_ns() + FIND_LIMIT_NS;
	int r = seize_leader(in, deadline_ns);

	if (r < 0)
		return r;
	/* Under the lock: what another tracer wrote before is seen. */
	r = find_cave(in);
	if (r < 0)
		return r;
	while (in->cave_dirty && !leftover_is_idle(in)) {
		serve_others(in, NULL);
		if (now_ns() > deadline_ns)
			return rut_err_set(
				in->err, EBUSY,
				"process %d is still loading an agent for a tracer that was "
				"killed",
				in->pid);
		nap_us(1000);
	}
	return try_threads(in, deadline_ns);
}

static void *inject_thread(void *arg)
{
	struct inject *in = arg;

	pthread_setname_np(pthread_self(), RUT_INJECT_THREAD_NAME);
	/* The target waits for us: on a busy machine this is most of its pause. May be refused. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), -20);
	in->result = inject_attached(in);
	return NULL; /* the kernel detaches now, stopping nobody */
}

static bool is_elf64(const void *image, size_t bytes)
{
	const unsigned char *id = image;

	return bytes > sizeof(Elf64_Ehdr) && !memcmp(id, ELFMAG, SELFMAG) &&
	       id[EI_CLASS] == ELFCLASS64;
}

int rut_inject_reported(pid_t pid, const void *image, size_t image_bytes,
			struct rut_inject_report *ret_report, struct rut_err *err)
{
	struct inject in = {.pid = pid,
			    .image = image,
			    .image_bytes = image_bytes,
			    .err = err,
			    .target = RUT_TARGET_INIT};
	uint64_t since = now_ns();
	sigset_t all, old;
	pthread_t thread;
	int r;

	if (!is_elf64(image, image_bytes))
		return rut_err_set(err, EINVAL, "the agent is not a 64-bit ELF file");
	prepare_code(&in);
	r = rut_target_check(&in.target, pid, err);
	if (r == 0)
		r = find_functions(&in);
	if (r == 0) {
		set_function_params(&in);
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		r = -pthread_create(&thread, NULL, inject_thread, &in);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (r < 0)
			rut_err_errno(err, -r, "cannot start a thread");
	}
	if (r == 0) {
		pthread_join(thread, NULL);
		r = in.result;
	}
	rut_target_fini(&in.target);
	free(in.tracees);
	in.report.total_ns = now_ns() - since;
	if (ret_report)
		*ret_report = in.report;
	return r;
}

int rut_inject(pid_t pid, const void *image, size_t image_bytes, struct rut_err *err)
{
	return rut_inject_reported(pid, image, image_bytes, NULL, err);
}
