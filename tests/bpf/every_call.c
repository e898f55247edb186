// SPDX-License-Identifier: MIT
/*
 * Makes the system call of every number from -1 to 1,024, and of some that no table can have, as a
 * 64-bit and as a 32-bit call: each once, in a process of its own whose first call it is, with
 * arguments that nothing can be done with. Prints "BITS NUMBER PID HOW" for each, where HOW is
 * "returned", "exited" or "killed".
 */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RETURNED 42

/* In line, and nothing on the stack: the call may be vfork. */
static inline __attribute__((always_inline)) void call64(long nr)
{
	register long r10 asm("r10") = -1, r8 asm("r8") = -1, r9 asm("r9") = -1;

	asm volatile("syscall"
		     : "+a"(nr), "+r"(r10), "+r"(r8), "+r"(r9)
		     : "D"(-1L), "S"(-1L), "d"(-1L)
		     : "rcx", "r11", "memory");
}

static inline __attribute__((always_inline)) void call32(long nr)
{
	asm volatile("int $0x80"
		     : "+a"(nr)
		     : "b"(-1L), "c"(-1L), "d"(-1L), "S"(-1L), "D"(-1L)
		     : "r8", "r9", "r10", "r11", "memory");
}

static inline __attribute__((always_inline)) void leave(void)
{
	asm volatile("syscall" : : "a"(SYS_exit_group), "D"(RETURNED) : "rcx", "r11", "memory");
}

/* Without the library, which makes calls of its own in the child. */
static pid_t start(int bits, long nr)
{
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (pid)
		return pid;
	if (bits == 64)
		call64(nr);
	else
		call32(nr);
	leave();
	return 0;
}

/* It waits in its call: not one that has had no CPU yet. */
static bool sleeps(pid_t pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d %*s %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

static void run(int bits, long nr)
{
	const struct timespec limit = {.tv_nsec = 200000000};
	pid_t pid = start(bits, nr), got;
	sigset_t set;
	int status;

	if (pid < 0)
		exit(1);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	/* A signal may be left of the call before: what counts is the child's end. */
	while (!(got = waitpid(pid, &status, WNOHANG)) &&
	       (sigtimedwait(&set, NULL, &limit) > 0 || !sleeps(pid)))
		;
	if (!got && (kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid))
		exit(1);
	printf("%d %ld %d %s\n", bits, nr, pid,
	       !WIFEXITED(status)		 ? "killed"
	       : WEXITSTATUS(status) == RETURNED ? "returned"
						 : "exited");
}

int main(void)
{
	const struct rlimit none = {0};
	const long more[] = {INT_MIN, INT_MAX, 0x40000000, 0x40000001, 65536};
	sigset_t set;

	/* Nothing that these calls could do may be allowed to them. */
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 1;
	setrlimit(RLIMIT_CORE, &none);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int bits = 64; bits >= 32; bits -= 32) {
		for (long nr = -1; nr <= 1024; nr++)
			run(bits, nr);
		for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
			run(bits, more[i]);
	}
	return 0;
}
