/* SPDX-License-Identifier: MIT */
/* The action `stacks`: what the threads of a process do when a trigger fires. */
#ifndef RUT_CLI_TRIGGER_STACKS_H
#define RUT_CLI_TRIGGER_STACKS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* The process that a cause names: "pid":N, or pid=N; 0: none. */
pid_t rut_cli_trigger_pid(const char *cause);

/*
 * Writes `dir`/threads: each thread's name, state, system call and place in the kernel, from /proc;
 * what this user may not read is left out. Returns 0, -ESRCH, or -errno.
 */
int rut_cli_trigger_threads(const char *dir, pid_t pid, struct rut_err *err);

#endif
