/* SPDX-License-Identifier: MIT */
/* What the parts of the injection share: inject.c (the essay is there), attach.c, cave.c, run.c. */
#ifndef RUT_RUBY_INJECT_INTERNAL_H
#define RUT_RUBY_INJECT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "ruby/inject.h"
#include "ruby/place.h"
#include "ruby/stub.h"
#include "ruby/target.h"

struct rut_err;

#define RUT_INJECT_MS	   1000000ull
#define RUT_STUB_MAX_BYTES 3072
#define RUT_INJECT_PAGE	   4096ull

struct rut_inject_thread {
	pid_t tid;
	bool asked;   /* to stop, and has not yet */
	bool stopped; /* in a stop that we asked for */
	bool gone;
	bool group_stopped;
};

struct rut_inject {
	pid_t pid;
	const void *image;
	size_t image_bytes;
	struct rut_err *err;
	bool (*is_loaded)(pid_t pid); /* or NULL */
	struct rut_inject_report report;
	int result;

	struct rut_target target;
	struct rut_target_symbol dlopen_fn, dlerror_fn, errno_fn;
	struct rut_target_symbol r_debug; /* addr 0: not found */
	bool dlopen_is_internal;	  /* __libc_dlopen_mode */
	uint64_t cave;			  /* address of the stub in the target */
	bool cave_dirty;		  /* another stub was left there */
	unsigned char original[RUT_STUB_MAX_BYTES];
	unsigned char code[RUT_STUB_MAX_BYTES] __attribute__((aligned(16)));
	size_t code_bytes;
	struct rut_stub_params *params; /* within code */

	struct rut_inject_thread *tracees; /* owned */
	size_t tracee_count;
};

struct rut_inject_run {
	struct rut_inject_thread *tracee;
	struct user_regs_struct regs; /* when it was interrupted */
	uint64_t sp;		      /* of these */
	uint64_t stop_ns;	      /* when */
	uint64_t cookie;
	struct rut_stub_status *status; /* mapped; NULL before */
};

void rut_inject_nap_us(unsigned int us);
/* Waits a little, busily at first: most things here take some microseconds. */
void rut_inject_relax(uint64_t since_ns);

/* "has ended meanwhile"; returns -ESRCH. */
int rut_inject_gone(struct rut_inject *in);

/* --- attach.c: ptrace --- */

struct rut_inject_thread *rut_inject_find_tracee(struct rut_inject *in, pid_t tid);
/* Attaches without stopping. Returns 0 or -errno. */
int rut_inject_seize(struct rut_inject *in, pid_t tid);
void rut_inject_cont(struct rut_inject_thread *tr, int sig);
/* Takes the events of threads that are only held, so that their signals arrive. */
void rut_inject_serve(struct rut_inject *in, const struct rut_inject_thread *not_this);
/* Before the end of ptrace: threads that were asked to stop, and came late, go on undisturbed. */
void rut_inject_settle(struct rut_inject *in);
/* Stops a thread. Returns 0, -ESRCH, -EBUSY (stopped by a signal) or -EAGAIN (does not come). */
int rut_inject_stop(struct rut_inject *in, struct rut_inject_thread *tr);
/* Releases a thread that was stopped for inspection, as if it had not been. */
void rut_inject_let_go(struct rut_inject *in, struct rut_inject_thread *tr,
		       struct user_regs_struct *regs);

/* --- cave.c: functions of the target, and the place for the stub --- */

void rut_inject_prepare(struct rut_inject *in);
/* Finds dlopen and its companions. Returns 0 or -errno with the reason. */
int rut_inject_find_functions(struct rut_inject *in);
/* Whether the loader has started the program and is not adding or removing objects now. */
bool rut_inject_loader_is_idle(const struct rut_inject *in);
void rut_inject_set_functions(struct rut_inject *in);
int rut_inject_find_cave(struct rut_inject *in);
bool rut_inject_in_cave(const struct rut_inject *in, uint64_t pc);
/*
 * Whether a thread, stopped or blocked, is in the stub or will come back to it: from dlopen, or
 * from a signal handler that runs on top of it. May be wrong in being careful.
 */
bool rut_inject_in_stub(struct rut_inject *in, uint64_t pc, uint64_t sp);

/* --- run.c: the stub at work --- */

/* The stopped thread loads the object. -EAGAIN: too busy a machine, try again. */
int rut_inject_run_stub(struct rut_inject *in, struct rut_inject_run *run,
			struct user_regs_struct *regs, const struct rut_inject_place *place);

#endif
