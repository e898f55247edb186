/* SPDX-License-Identifier: MIT */
/* no_memfd [kill [NUMBER]]: forbids itself memfd_create, or another system call, by seccomp (EPERM,
 * or death), says "ready", sleeps. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 argc > 2 ? (unsigned)atoi(argv[2]) : SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K,
			 argc > 1 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {4, filter};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return 2;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
