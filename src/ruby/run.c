/* SPDX-License-Identifier: MIT */
/* One run of the stub: started, fed, waited for, and taken back. */
#include "ruby/inject_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

#define FEED_LIMIT_NS  (1000 * RUT_INJECT_MS)  /* for the stub's first word */
#define LOAD_LIMIT_NS  (10000 * RUT_INJECT_MS) /* for dlopen */
#define LEAVE_LIMIT_NS (1000 * RUT_INJECT_MS)  /* we may be late as well */

static bool read_slot(struct rut_inject *in, const struct rut_inject_run *run,
		      struct rut_stub_slot *ret)
{
	return rut_target_read(&in->target, run->sp - RUT_STUB_SLOT_BELOW_SP, ret, sizeof(*ret)) ==
		       0 &&
	       ret->cookie == run->cookie;
}

/* Waits for the stub's first word: the number of its memfd. */
static int wait_for_memfd(struct rut_inject *in, const struct rut_inject_run *run, int *ret_fd)
{
	uint64_t since = rut_now_ns();
	struct rut_stub_slot slot;

	while (!read_slot(in, run, &slot)) {
		rut_inject_serve(in, NULL);
		if (run->tracee->gone)
			return rut_inject_gone(in);
		/* It has not run yet, or long ago: while we were kept from it. */
		if (rut_now_ns() - since > FEED_LIMIT_NS)
			return -EAGAIN;
		rut_inject_relax(since);
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
static int feed(struct rut_inject *in, struct rut_inject_run *run)
{
	const struct rut_stub_params *p = in->params;
	_cleanup_close_ int fd = -1;
	int number = -1, r = wait_for_memfd(in, run, &number);

	if (r < 0)
		return r;
	fd = rut_target_open_memfd(in->pid, run->tracee->tid, number, p->name);
	if (fd == -ENOENT)
		return -EAGAIN; /* we come too late: it is closed, and perhaps another file there */
	if (fd < 0)
		return rut_err_errno(in->err, -fd, "cannot open the memfd of process %d", in->pid);
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

/* The loader puts the stub's path before its message: it cannot be opened from outside. */
static const char *loader_message(struct rut_stub_status *status)
{
	static const char fd[] = "/fd/", own[] = "/proc/self";
	char *text = status->error, *at;

	text[sizeof(status->error) - 1] = 0;
	if (strncmp(text, own, sizeof(own) - 1) != 0 || !(at = strstr(text, fd)))
		return text;
	at += strspn(at, "/fd0123456789");
	return strncmp(at, ": ", 2) == 0 ? at + 2 : text;
}

/* The file was there: the loader names what a process that closes all descriptors does to it. */
static bool was_closed(struct rut_stub_status *status)
{
	const char *text = loader_message(status);

	return strstr(text, strerror(EBADF)) || strstr(text, strerror(ENOENT));
}

static int wait_for_load(struct rut_inject *in, const struct rut_inject_run *run)
{
	uint64_t since = rut_now_ns();
	struct rut_stub_status *status = run->status;
	struct rut_stub_slot slot;
	bool there;

	if (!status)
		return rut_inject_gone(in);
	while (__atomic_load_n(&status->done, __ATOMIC_ACQUIRE) != run->cookie) {
		rut_inject_serve(in, NULL);
		if (run->tracee->gone)
			return rut_inject_gone(in);
		there = read_slot(in, run, &slot);
		/* It waited in vain; or it has returned, and its stack is reused.
		 */
		if ((there && slot.error == -ETIMEDOUT) ||
		    (!there && __atomic_load_n(&status->done, __ATOMIC_ACQUIRE) != run->cookie))
			return -EAGAIN;
		if (there && slot.error)
			return rut_err_errno(in->err, (int)-slot.error,
					     "process %d cannot map the agent", in->pid);
		if (rut_now_ns() - since > LOAD_LIMIT_NS)
			return rut_err_set(
				in->err, ETIMEDOUT,
				"process %d has not finished loading the agent after %llu "
				"s; it is left to itself",
				in->pid, LOAD_LIMIT_NS / (1000 * RUT_INJECT_MS));
		rut_inject_relax(since);
	}
	in->report.pause_ns = rut_now_ns() - run->stop_ns;
	if (!status->handle && was_closed(status))
		return rut_target_closed(in->pid, "file", in->err);
	if (!status->handle)
		return rut_err_set(in->err, ELIBACC, "process %d cannot load the agent: %.300s",
				   in->pid, loader_message(status));
	return 0;
}

static void restore_cave(struct rut_inject *in)
{
	if (!in->cave_dirty)
		rut_target_write(&in->target, in->cave, in->original, in->code_bytes);
}

static bool is_parked(struct rut_inject *in, const struct rut_inject_run *run)
{
	struct rut_stub_slot slot;

	return read_slot(in, run, &slot) && slot.parked == run->cookie;
}

/*
 * The thread has stopped where the stub waits at its end: it gets the registers that it had when it
 * was interrupted, and the kernel decides about the system call as if nothing had been. The mask
 * first: should the tracer die in between, the stub continues by itself.
 */
static bool take_back(struct rut_inject *in, const struct rut_inject_run *run)
{
	struct user_regs_struct regs = run->regs;
	uint64_t mask = in->params->sigmask;

	rut_place_shorten_wait(&regs, rut_now_ns() - run->stop_ns);
	rut_place_mark_interrupted(&regs);
	return ptrace(PTRACE_SETSIGMASK, run->tracee->tid, sizeof(mask), &mask) == 0 &&
	       ptrace(PTRACE_SETREGS, run->tracee->tid, NULL, &regs) == 0;
}

/*
 * Waits until the thread has left the stub, and puts libc's bytes back. Returns whether it has:
 * the place must not be used for another run before.
 */
static bool finish(struct rut_inject *in, const struct rut_inject_run *run)
{
	struct user_regs_struct regs;
	struct rut_inject_thread *tr = run->tracee;
	uint64_t since = rut_now_ns();

	while (!tr->gone && rut_now_ns() - since < LEAVE_LIMIT_NS) {
		rut_inject_serve(in, tr);
		if (rut_inject_stop(in, tr) < 0 || ptrace(PTRACE_GETREGS, tr->tid, NULL, &regs) < 0)
			continue;
		if (!rut_inject_in_stub(in, rut_regs_pc(&regs), rut_regs_sp(&regs))) {
			restore_cave(in);
			rut_inject_let_go(in, tr, &regs);
			return true;
		}
		if (is_parked(in, run) && take_back(in, run)) {
			in->report.pause_ns = rut_now_ns() - run->stop_ns;
			restore_cave(in);
			rut_inject_cont(tr, 0);
			return true;
		}
		rut_inject_cont(tr, 0);
		rut_inject_relax(since);
	}
	return tr->gone;
}

/* The point of no return: the thread starts the stub. Returns 0 or -errno when it did not. */
static int launch(struct rut_inject *in, struct rut_inject_run *run, struct user_regs_struct *regs,
		  const struct rut_inject_place *place)
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
	rut_regs_jump(regs, in->cave + rut_stub_offset(rut_stub_entry));
	if (ptrace(PTRACE_SETREGS, run->tracee->tid, NULL, regs) < 0)
		return -errno;
	/* Signals that arrive from here on have their effect when the stub is done. */
	ptrace(PTRACE_SETSIGMASK, run->tracee->tid, sizeof(all), &all);
	rut_inject_cont(run->tracee, 0);
	return 0;
}

/* The stopped thread loads the object. -EAGAIN: too busy a machine, try again. */
int rut_inject_run_stub(struct rut_inject *in, struct rut_inject_run *run,
			struct user_regs_struct *regs, const struct rut_inject_place *place)
{
	int r;

	if (getrandom(&run->cookie, sizeof(run->cookie), 0) != sizeof(run->cookie))
		return rut_err_set(in->err, EIO, "no random numbers");
	r = launch(in, run, regs, place);
	if (r < 0) {
		rut_inject_let_go(in, run->tracee, regs);
		return r == -ESRCH ? rut_inject_gone(in)
				   : rut_err_errno(in->err, -r, "cannot write into process %d",
						   in->pid);
	}
	r = feed(in, run);
	if (r == 0)
		r = wait_for_load(in, run);
	if (r != -ETIMEDOUT && !finish(in, run) && r == -EAGAIN)
		r = rut_err_set(in->err, EBUSY,
				"process %d does not get on with loading the agent: the machine is "
				"too busy; try again",
				in->pid);
	if (run->status)
		munmap(run->status, RUT_STUB_STATUS_BYTES);
	in->report.tid = run->tracee->tid;
	in->report.place = place->what;
	return r;
}
