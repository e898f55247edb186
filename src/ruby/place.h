/* SPDX-License-Identifier: MIT */
/*
 * Whether a stopped thread is in a place where it can be made to call dlopen(): it must not be
 * inside malloc, the loader or anything else with locks or incomplete work that dlopen() would hit.
 */
#ifndef RUT_RUBY_PLACE_H
#define RUT_RUBY_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "ruby/sleep.h"
#include "ruby/stub.h"
#include "ruby/target.h"

/* How suitable a thread is for interruption, best first; found without stopping it. */
enum rut_place_rank {
	RUT_PLACE_BLOCKED, /* in a call that the kernel restarts without a trace */
	RUT_PLACE_RUNNING, /* where it is must be seen */
	RUT_PLACE_FRAGILE, /* in a call that returns EINTR when disturbed: restarted by us */
	RUT_PLACE_TIMED,   /* the same, with a time limit that is then restarted */
	RUT_PLACE_UNFIT,   /* in a call that allows no conclusion about locks */
};

/* Reads /proc/PID/task/TID/syscall. `ret_pc` and `ret_sp` are 0 while it runs. */
enum rut_place_rank rut_place_rank(pid_t pid, pid_t tid, uint64_t *ret_pc, uint64_t *ret_sp);

struct rut_inject_place {
	const char *what; /* "system call" or "code" */
	enum rut_stub_restart restart;
	uint64_t resume_pc, restart_pc, restart_nr;
};

/* Whether the thread with these registers is in a safe place. */
bool rut_place_is_safe(struct rut_target *t, const struct user_regs_struct *regs,
		       struct rut_inject_place *ret);

/*
 * After a stop that made a system call return EINTR though no handler was due: puts the registers
 * so that the call is done again. Returns whether they were changed.
 */
bool rut_place_undo_eintr(struct user_regs_struct *regs);

/* For a call that returned EINTR because of the stop: lets the kernel restart it, or not. */
void rut_place_mark_interrupted(struct user_regs_struct *regs);

/*
 * How long a thread that is to be interrupted has slept in an epoll_wait with a time limit, if it
 * is in one. Returns false when that wait ends by itself in a moment: better not now.
 */
bool rut_place_read_wait(pid_t pid, pid_t tid, struct rut_sleep *ret);

/*
 * When a stop made epoll_wait return EINTR, and it is to be done again: takes the time that it has
 * lasted already, or less, off its time limit.
 */
void rut_place_shorten_wait(struct user_regs_struct *regs, uint64_t slept_ns);

uint64_t rut_regs_pc(const struct user_regs_struct *regs);
uint64_t rut_regs_sp(const struct user_regs_struct *regs);
/* Starts at `pc`, and the kernel must not restart a system call. */
void rut_regs_jump(struct user_regs_struct *regs, uint64_t pc);

#endif
