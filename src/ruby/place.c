/* SPDX-License-Identifier: MIT */
/*
 * Safe places, without unwinding any stack.
 *
 * Blocked in a system call: malloc, the loader, fork and pthread_create make few kinds of calls,
 * and none of those in the table below. So a thread that was blocked in one of these holds none of
 * their locks, whatever functions are below it on the stack. Two depend on their arguments:
 * futex (condition variables wait in another way than mutexes do) and read (the loader has its own
 * copy of it).
 *
 * Running: the text of Ruby, of its extensions and of compiled Ruby code is never called by malloc
 * or the loader; the text of libc, the loader, malloc replacements and the unwinder is not safe.
 * The one way from malloc into Ruby's text is a signal handler: a thread with a signal frame on its
 * stack is left alone until a better moment.
 */
#include "ruby/place.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* From the kernel's include/linux/errno.h: a tracer sees them. */
#define K_ERESTARTSYS		512
#define K_ERESTARTNOINTR	513
#define K_ERESTARTNOHAND	514
#define K_ERESTART_RESTARTBLOCK 516

#define SCAN_BYTES	  (16 * 1024)
#define LOADER_SCAN_WORDS 64
#define EPOLL_TIMEOUT	  3 /* which argument */

enum call_kind {
	CALL_PLAIN,   /* the kernel restarts it */
	CALL_SOCKET,  /* likewise, unless the socket has a time limit: EINTR then */
	CALL_FRAGILE, /* returns EINTR when its sleep is disturbed */
	CALL_REDONE,  /* likewise, and is no place: only done again when a stop has disturbed it */
};

struct call {
	int nr;
	enum call_kind kind;
};

static const struct call calls[] = {
	{SYS_read, CALL_SOCKET},
	{SYS_readv, CALL_SOCKET},
	{SYS_write, CALL_SOCKET},
	{SYS_writev, CALL_SOCKET},
#ifdef SYS_poll
	{SYS_poll, CALL_PLAIN},
#endif
	{SYS_ppoll, CALL_PLAIN},
#ifdef SYS_select
	{SYS_select, CALL_PLAIN},
#endif
	{SYS_pselect6, CALL_PLAIN},
	{SYS_futex, CALL_PLAIN},
	{SYS_nanosleep, CALL_PLAIN},
	{SYS_clock_nanosleep, CALL_PLAIN},
#ifdef SYS_pause
	{SYS_pause, CALL_PLAIN},
#endif
	{SYS_rt_sigsuspend, CALL_PLAIN},
	{SYS_restart_syscall, CALL_PLAIN},
	{SYS_wait4, CALL_PLAIN},
	{SYS_waitid, CALL_PLAIN},
	{SYS_flock, CALL_PLAIN},
#ifdef SYS_accept
	{SYS_accept, CALL_SOCKET},
#endif
	{SYS_accept4, CALL_SOCKET},
	{SYS_recvfrom, CALL_SOCKET},
	{SYS_recvmsg, CALL_SOCKET},
	{SYS_sendto, CALL_SOCKET},
	{SYS_sendmsg, CALL_SOCKET},
	{SYS_connect, CALL_SOCKET},
#ifdef SYS_epoll_wait
	{SYS_epoll_wait, CALL_FRAGILE},
#endif
	{SYS_epoll_pwait, CALL_FRAGILE},
	{SYS_epoll_pwait2, CALL_FRAGILE},
	{SYS_rt_sigtimedwait, CALL_FRAGILE},
	{SYS_io_getevents, CALL_FRAGILE},
	{SYS_recvmmsg, CALL_FRAGILE},
	{SYS_semop, CALL_REDONE},
	{SYS_semtimedop, CALL_REDONE},
	{SYS_io_uring_enter, CALL_REDONE},
};

static const struct call *find_call(int64_t nr)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

/*
 * Condition variables wait with FUTEX_WAIT_BITSET, or with FUTEX_WAIT for the value 0 (glibc before
 * 2.32). Mutexes and the internal locks of libc wait with FUTEX_WAIT for another value.
 */
static bool futex_is_harmless(uint64_t op, uint64_t value)
{
	int cmd = (int)op & FUTEX_CMD_MASK;

	return cmd == FUTEX_WAIT_BITSET || (cmd == FUTEX_WAIT && (uint32_t)value == 0);
}

#if defined(__x86_64__)
/* mov $SYS_rt_sigreturn, %rax; syscall: what a signal handler returns to */
static const unsigned char sigreturn_code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
#define SYSCALL_INSN_BYTES 2
#define USER_CS		   0x33

/*
 * What the kernel puts on the stack for a handler (struct rt_sigframe of arch/x86), up to what is
 * of use here.
 */
struct signal_frame {
	uint64_t return_to, flags, link, stack[3], general[16], pc, eflags;
	uint16_t cs, segments[3];
	uint64_t error[3], fault_address, vector_state;
};

static bool is_signal_frame(const struct signal_frame *f, uint64_t at)
{
	uint64_t vectors = f->vector_state;

	return !f->link && f->cs == USER_CS &&
	       (!vectors || (vectors > at && vectors - at < SCAN_BYTES));
}
#define NR_RESTART SYS_restart_syscall

uint64_t rut_regs_pc(const struct user_regs_struct *regs)
{
	return regs->rip;
}

uint64_t rut_regs_sp(const struct user_regs_struct *regs)
{
	return regs->rsp;
}

void rut_regs_jump(struct user_regs_struct *regs, uint64_t pc)
{
	regs->rip = pc;
	regs->orig_rax = (unsigned long long)-1;
}

static int64_t regs_call_nr(const struct user_regs_struct *regs)
{
	return (int64_t)regs->orig_rax;
}

static int64_t regs_call_result(const struct user_regs_struct *regs)
{
	return (int64_t)regs->rax;
}

static bool regs_futex_is_harmless(const struct user_regs_struct *regs)
{
	return futex_is_harmless(regs->rsi, regs->rdx);
}

/* The time limit of epoll_wait is its fourth argument, in milliseconds. */
static void regs_shorten_epoll(struct user_regs_struct *regs, uint64_t slept_ms)
{
	int timeout_ms = (int)regs->r10;

	if (timeout_ms > 0)
		regs->r10 = slept_ms < (uint64_t)timeout_ms ? (uint64_t)timeout_ms - slept_ms : 0;
}

static void regs_set_result(struct user_regs_struct *regs, int64_t result)
{
	regs->rax = (unsigned long long)result;
}

static void regs_redo_call(struct user_regs_struct *regs)
{
	regs->rax = regs->orig_rax;
	regs->orig_rax = (unsigned long long)-1;
	regs->rip -= SYSCALL_INSN_BYTES;
}
#else
#error "rutile's injection knows x86-64 only"
#endif

static bool is_epoll(int64_t nr)
{
#ifdef SYS_epoll_wait
	if (nr == SYS_epoll_wait)
		return true;
#endif
	return nr == SYS_epoll_pwait;
}

/* Whether descriptor `fd` of the process is a socket with SO_RCVTIMEO or SO_SNDTIMEO. */
static bool socket_is_timed(pid_t pid, int fd)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	_cleanup_close_ int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	struct timeval in = {0}, out = {0};
	socklen_t len = sizeof(in);

	if (copy < 0)
		return false;
	if (getsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &in, &len) < 0)
		return false; /* no socket */
	getsockopt(copy, SOL_SOCKET, SO_SNDTIMEO, &out, &len);
	return in.tv_sec || in.tv_usec || out.tv_sec || out.tv_usec;
}

struct blocked_call {
	int64_t nr;
	uint64_t args[6], sp, pc;
};

/* False: it runs. */
static bool read_blocked(pid_t pid, pid_t tid, struct blocked_call *ret)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	uint64_t *a = ret->args;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	return rut_buf_read_file(&text, path, 4096) >= 0 && text.data &&
	       sscanf(text.data,
		      "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		      " %" SCNx64 " %" SCNx64 " %" SCNx64,
		      &ret->nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &ret->sp, &ret->pc) == 9;
}

static enum rut_place_rank rank_of(pid_t pid, const struct blocked_call *blocked)
{
	const struct call *call = find_call(blocked->nr);
	const uint64_t *a = blocked->args;

	if (!call || (blocked->nr == SYS_futex && !futex_is_harmless(a[1], a[2])))
		return RUT_PLACE_UNFIT;
	switch (call->kind) {
	case CALL_PLAIN:
		return RUT_PLACE_BLOCKED;
	case CALL_SOCKET:
		return socket_is_timed(pid, (int)a[0]) ? RUT_PLACE_TIMED : RUT_PLACE_BLOCKED;
	case CALL_FRAGILE:
		/* The limit of epoll_pwait2 is memory of the process. */
		return is_epoll(blocked->nr) ||
				       (blocked->nr == SYS_epoll_pwait2 && !a[EPOLL_TIMEOUT])
			       ? RUT_PLACE_FRAGILE
			       : RUT_PLACE_TIMED;
	case CALL_REDONE:
	default:
		return RUT_PLACE_UNFIT;
	}
}

enum rut_place_rank rut_place_rank(pid_t pid, pid_t tid, uint64_t *ret_pc, uint64_t *ret_sp)
{
	struct blocked_call blocked = {0};

	*ret_pc = 0;
	*ret_sp = 0;
	if (!read_blocked(pid, tid, &blocked))
		return RUT_PLACE_RUNNING;
	*ret_pc = blocked.pc;
	*ret_sp = blocked.sp;
	return rank_of(pid, &blocked);
}

bool rut_place_read_wait(pid_t pid, pid_t tid, struct rut_sleep *ret)
{
	struct blocked_call call = {0};
	int timeout_ms;

	*ret = (struct rut_sleep){0};
	if (!read_blocked(pid, tid, &call) || !is_epoll(call.nr))
		return true;
	timeout_ms = (int)call.args[EPOLL_TIMEOUT];
	if (timeout_ms > 0)
		rut_sleep_read(pid, tid, (uint64_t)timeout_ms * 1000000, ret);
	return !rut_sleep_ends_soon(ret);
}

void rut_place_shorten_wait(struct user_regs_struct *regs, uint64_t slept_ns)
{
	if (is_epoll(regs_call_nr(regs)) && regs_call_result(regs) == -EINTR)
		regs_shorten_epoll(regs, slept_ns / 1000000);
}

static bool name_begins(const char *name, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (!strncmp(name, *prefixes, strlen(*prefixes)))
			return true;
	return false;
}

static bool is_loader(const struct rut_mapping *m)
{
	static const char *const loaders[] = {"ld-linux", "ld-2.", "ld.so", NULL};

	return name_begins(rut_mapping_basename(m), loaders);
}

static bool is_libc(const struct rut_mapping *m)
{
	static const char *const libcs[] = {"libc.so", "libc-2.", "libpthread", "libdl", NULL};

	return name_begins(rut_mapping_basename(m), libcs);
}

/* Whether word `i` of the stack is where a signal handler will return to. */
static bool is_below_handler(const struct rut_target *t, const uint64_t *words, uint64_t i,
			     uint64_t sp)
{
	struct signal_frame frame;
	unsigned char code[sizeof(sigreturn_code)];
	uint64_t at = sp + i * 8;

	/*
	 * The address alone may be an old one, in a hole of a frame that is there for good. Of a
	 * handler that still runs, the whole frame is there.
	 */
	return rut_target_read(t, words[i], code, sizeof(code)) == 0 &&
	       !memcmp(code, sigreturn_code, sizeof(code)) &&
	       rut_target_read(t, at, &frame, sizeof(frame)) == 0 && is_signal_frame(&frame, at);
}

/* Whether a handler, or the loader in the middle of a relocation, is on the stack. */
static bool in_foreign_hands(const struct rut_target *t, uint64_t sp)
{
	const struct rut_mapping *stack = rut_target_mapping_at(t, sp);
	uint64_t *words, count;
	bool found = false;

	if (!stack)
		return true;
	sp = (sp + 7) & ~7ull;
	count = (stack->end - sp < SCAN_BYTES ? stack->end - sp : SCAN_BYTES) / 8;
	words = malloc(count * 8 + 8);
	if (!words || rut_target_read(t, sp, words, count * 8) < 0) {
		free(words);
		return true;
	}
	for (uint64_t i = 0; i < count && !found; i++) {
		const struct rut_mapping *m = rut_target_mapping_at(t, words[i]);

		if (!m || !m->exec)
			continue;
		/* A resolver of the loader's; old ones pass soon. */
		found = (i < LOADER_SCAN_WORDS && is_loader(m)) ||
			(is_libc(m) && is_below_handler(t, words, i, sp));
	}
	free(words);
	return found;
}

static bool code_is_safe(struct rut_target *t, const struct user_regs_struct *regs)
{
	static const char *const unsafe[] = {
		"libgcc_s",  "libjemalloc",	"libtcmalloc",	      "libmimalloc", "libasan",
		"libunwind", "librutile_agent", "memfd:rutile-agent", NULL};
	uint64_t pc = rut_regs_pc(regs);
	const struct rut_mapping *m = rut_target_mapping_at(t, pc), *module;
	struct rut_target_symbol sym;

	if (!m && rut_target_read_maps(t, t->pid) == 0)
		m = rut_target_mapping_at(t, pc);
	if (!m || !m->exec)
		return false;
	if (m->inode) {
		module = rut_target_module_of(t, m);
		if (!module || is_libc(m) || is_loader(m) ||
		    name_begins(rut_mapping_basename(m), unsafe) ||
		    rut_target_find_symbol(t, module, "malloc", &sym) == 0)
			return false;
	} else if (m->path[0] == '[' && strncmp(m->path, "[anon", 5) != 0) {
		return false; /* [vdso] and its like */
	}
	return !in_foreign_hands(t, rut_regs_sp(regs));
}

/* What the kernel would do about the interrupted call when no handler runs. */
static bool call_is_safe(struct rut_target *t, const struct user_regs_struct *regs,
			 struct rut_inject_place *p)
{
	int64_t nr = regs_call_nr(regs), result = -regs_call_result(regs);
	const struct call *call = find_call(nr);
	const struct rut_mapping *m;

	if (!call || call->kind == CALL_REDONE ||
	    (nr == SYS_futex && !regs_futex_is_harmless(regs)))
		return false;
	m = rut_target_mapping_at(t, rut_regs_pc(regs));
	if (!m || is_loader(m))
		return false;
	p->restart_pc = rut_regs_pc(regs) - SYSCALL_INSN_BYTES;
	p->restart_nr = (uint64_t)nr;
	switch (result) {
	case K_ERESTARTNOINTR:
		p->restart = RUT_STUB_RESTART_ALWAYS;
		return true;
	case K_ERESTARTSYS:
		p->restart = RUT_STUB_RESTART_SYS;
		return true;
	case K_ERESTARTNOHAND:
		p->restart = RUT_STUB_RESTART_NOHAND;
		return true;
	case K_ERESTART_RESTARTBLOCK:
		p->restart = RUT_STUB_RESTART_NOHAND;
		p->restart_nr = NR_RESTART;
		return true;
	case EINTR:
		if (nr == NR_RESTART)
			return true; /* a handler did run before */
		/* The disturbance itself: sockets with a timeout return it too. */
		p->restart = RUT_STUB_RESTART_NOHAND;
		return true;
	default:
		/* It had just come back. Only those that malloc and the loader never make. */
		p->restart = RUT_STUB_NO_CALL;
		return nr != SYS_read && nr != SYS_readv && nr != SYS_futex && nr != SYS_write &&
		       nr != SYS_writev;
	}
}

bool rut_place_is_safe(struct rut_target *t, const struct user_regs_struct *regs,
		       struct rut_inject_place *ret)
{
	*ret = (struct rut_inject_place){.restart = RUT_STUB_NO_CALL,
					 .resume_pc = rut_regs_pc(regs)};
	if (regs_call_nr(regs) >= 0) {
		ret->what = "system call";
		return call_is_safe(t, regs, ret);
	}
	ret->what = "code";
	return code_is_safe(t, regs);
}

bool rut_place_undo_eintr(struct user_regs_struct *regs)
{
	if (regs_call_nr(regs) < 0 || regs_call_result(regs) != -EINTR ||
	    regs_call_nr(regs) == NR_RESTART || !find_call(regs_call_nr(regs)))
		return false;
	regs_redo_call(regs);
	return true;
}

void rut_place_mark_interrupted(struct user_regs_struct *regs)
{
	if (regs_call_nr(regs) >= 0 && regs_call_nr(regs) != NR_RESTART &&
	    regs_call_result(regs) == -EINTR)
		regs_set_result(regs, -K_ERESTARTNOHAND);
}
