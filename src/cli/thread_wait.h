/* SPDX-License-Identifier: MIT */
/* What a thread of another process waits for in the kernel at this moment, as /proc shows it. */
#ifndef RUT_CLI_THREAD_WAIT_H
#define RUT_CLI_THREAD_WAIT_H

#include <sys/types.h>

struct rut_thread_wait {
	/* "read"; NULL: it runs, or is in no system call, or /proc does not say. Static. */
	const char *call;
	/* "pipe:[4711]", "TCP 10.0.0.5:5432", "/var/lib/x": of that call; "": not known, or none */
	char object[300];
};

void rut_cli_thread_wait(pid_t pid, pid_t tid, struct rut_thread_wait *ret);

#endif
