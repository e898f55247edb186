/* SPDX-License-Identifier: MIT */
/* What a seccomp filter of the target would do to the system calls of the injection. */
#ifndef RUT_RUBY_SECCOMP_H
#define RUT_RUBY_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;

/*
 * Runs a filter (classic BPF, as the kernel keeps it) on one system call. Returns the filter's
 * result (SECCOMP_RET_*), or SECCOMP_RET_KILL_PROCESS when the program is not understood.
 */
uint32_t rut_seccomp_run(const struct sock_filter *prog, size_t count,
			 const struct seccomp_data *data);

/*
 * Whether thread `tid`, attached and stopped, survives the system calls that it will be made to
 * do. A filter that refuses one with an error is no danger; one that kills is. Returns 0, or
 * -EPERM with the reason.
 */
int rut_seccomp_check(pid_t pid, pid_t tid, struct rut_err *err);

#endif
