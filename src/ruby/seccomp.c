/* SPDX-License-Identifier: MIT */
#include "ruby/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "ruby/target.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* glibc has it since 2.38; its header and the kernel's do not go together. */
#define GET_FILTER ((enum __ptrace_request)0x420c)

static uint32_t alu(uint16_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b ? a / b : 0;
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	default:
		return -a; /* BPF_NEG */
	}
}

static bool jump(uint16_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default:
		return a & b; /* BPF_JSET */
	}
}

uint32_t rut_seccomp_run(const struct sock_filter *prog, size_t count,
			 const struct seccomp_data *data)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = {0};

	/* Jumps go forward only: the program ends. */
	for (size_t pc = 0; pc < count; pc++) {
		const struct sock_filter *f = &prog[pc];
		uint32_t k = f->k, operand = BPF_SRC(f->code) == BPF_X ? x : k;

		switch (BPF_CLASS(f->code)) {
		case BPF_LD:
		case BPF_LDX: {
			uint32_t value = k;

			if (BPF_MODE(f->code) == BPF_ABS && k <= sizeof(*data) - 4)
				memcpy(&value, (const char *)data + k, 4);
			else if (BPF_MODE(f->code) == BPF_MEM && k < BPF_MEMWORDS)
				value = mem[k];
			else if (BPF_MODE(f->code) == BPF_LEN)
				value = sizeof(*data);
			else if (BPF_MODE(f->code) != BPF_IMM)
				return SECCOMP_RET_KILL_PROCESS;
			*(BPF_CLASS(f->code) == BPF_LD ? &a : &x) = value;
			break;
		}
		case BPF_ST:
		case BPF_STX:
			if (k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			mem[k] = BPF_CLASS(f->code) == BPF_ST ? a : x;
			break;
		case BPF_ALU:
			a = alu(BPF_OP(f->code), a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA)
				pc += k;
			else
				pc += jump(BPF_OP(f->code), a, operand) ? f->jt : f->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(f->code) == BPF_A ? a : k;
		default: /* BPF_MISC */
			*(BPF_MISCOP(f->code) == BPF_TAX ? &x : &a) =
				BPF_MISCOP(f->code) == BPF_TAX ? a : x;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static bool is_deadly(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_ERRNO:
		return false;
	default:
		return true;
	}
}

/* Those of the stub, of dlopen, and of the agent. */
static const struct {
	int nr;
	const char *name;
} needed[] = {
	{SYS_memfd_create, "memfd_create"},
	{SYS_rt_sigprocmask, "rt_sigprocmask"},
	{SYS_rt_sigpending, "rt_sigpending"},
	{SYS_rt_sigaction, "rt_sigaction"},
	{SYS_clock_gettime, "clock_gettime"},
	{SYS_pread64, "pread64"},
	{SYS_ppoll, "ppoll"},
	{SYS_mmap, "mmap"},
	{SYS_munmap, "munmap"},
	{SYS_madvise, "madvise"},
	{SYS_mprotect, "mprotect"},
	{SYS_close, "close"},
	{SYS_openat, "openat"},
	{SYS_read, "read"},
	{SYS_newfstatat, "newfstatat"},
	{SYS_clone, "clone"},
	{SYS_fstat, "fstat"},
	{SYS_ftruncate, "ftruncate"},
	{SYS_fcntl, "fcntl"},
	{SYS_futex, "futex"},
	{SYS_prctl, "prctl"},
	{SYS_prlimit64, "prlimit64"},
	{SYS_clock_nanosleep, "clock_nanosleep"},
	{SYS_tgkill, "tgkill"},
	{SYS_getpid, "getpid"},
	{SYS_gettid, "gettid"},
	{SYS_mremap, "mremap"},
};

static unsigned int filter_count(const char *status_path)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	unsigned int n = 0;
	const char *p;

	if (rut_buf_read_file(&text, status_path, 1 << 16) < 0 || !text.data)
		return 0;
	p = strstr(text.data, "Seccomp_filters:");
	return p && sscanf(p, "Seccomp_filters: %u", &n) == 1 ? n : 0;
}

/* The kernel shows filters to CAP_SYS_ADMIN only. In one container both have the same. */
static int check_unseen(pid_t pid, struct rut_err *err)
{
	char path[64];
	unsigned int mine = filter_count("/proc/self/status");

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (mine && mine == filter_count(path))
		return 0;
	return rut_err_set(
		err, EPERM,
		"process %d has a seccomp filter that only root may read, and that might "
		"kill it for loading the agent: run rutile as root, or preload the agent "
		"(see rutile(1))",
		pid);
}

int rut_seccomp_check(pid_t pid, pid_t tid, struct rut_err *err)
{
	struct rut_proc_status s;

	if (rut_proc_status_read(&s, pid, tid) < 0 || s.seccomp <= 0)
		return 0;
	if (s.seccomp == SECCOMP_MODE_STRICT)
		return rut_err_set(err, EPERM, "process %d runs in seccomp's strict mode", pid);
	for (unsigned long i = 0;; i++) {
		_cleanup_free_ struct sock_filter *prog = NULL;
		long count = ptrace(GET_FILTER, tid, (void *)i, NULL);

		if (count < 0 && errno == ENOENT)
			return 0;
		if (count <= 0)
			return check_unseen(pid, err);
		prog = calloc((size_t)count, sizeof(*prog));
		if (!prog || ptrace(GET_FILTER, tid, (void *)i, prog) != count)
			return check_unseen(pid, err);
		for (size_t k = 0; k < sizeof(needed) / sizeof(*needed); k++) {
			struct seccomp_data data = {.nr = needed[k].nr, .arch = ARCH};

			if (is_deadly(rut_seccomp_run(prog, (size_t)count, &data)))
				return rut_err_set(err, EPERM,
						   "process %d would be killed for calling %s: a "
						   "seccomp filter forbids it; preload the agent "
						   "instead (see rutile(1))",
						   pid, needed[k].name);
		}
	}
}
