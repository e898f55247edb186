/* SPDX-License-Identifier: MIT */
/* What /proc says about a process. */
#ifndef RUT_BASE_PROC_H
#define RUT_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The parent's PID, from /proc/PID/stat; 0: it has exited. */
pid_t rut_proc_parent(pid_t pid);

/* The 22nd: when it was started, in ticks since the boot; 0: it has exited. Another process that
 * gets its number has another one. exec changes nothing. */
uint64_t rut_proc_start(pid_t pid);

/* Has it ended with all its threads, and waits for its parent? */
bool rut_proc_is_zombie(pid_t pid);

/* Is it stopped by a signal or a debugger, or frozen by its cgroup: does it run nothing? */
bool rut_proc_is_halted(pid_t pid);

/* The number that it has in its own PID namespace, where getpid() returns it; 0: it has exited. */
pid_t rut_proc_own_pid(pid_t pid);

/* On how many CPUs this process may run, at least 1. */
unsigned int rut_proc_cpus(void);

#endif
