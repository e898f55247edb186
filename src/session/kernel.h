/* SPDX-License-Identifier: MIT */
/* What the running kernel offers. */
#ifndef RUT_SESSION_KERNEL_H
#define RUT_SESSION_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "bpf/events.h"

struct rut_err;

/* Collects the names of the tracepoints that the kernel's BTF knows. 0 or -errno; -ENOENT: it has
 * no BTF. */
int rut_kernel_tracepoints(struct rut_strtab *ret, struct rut_err *err);

/* The address of a variable or function of the kernel; 0 when there is none, or we may not know. */
uint64_t rut_kernel_symbol(const char *name);

/*
 * The end of the memory that struct pages describe, as physical address; 0: not known, because
 * /proc/iomem cannot be read or hides addresses.
 */
uint64_t rut_kernel_memory_end(void);

/* Offset of thread.fsbase in the kernel's task_struct; 0: unknown. */
uint32_t rut_kernel_fsbase(void);

/*
 * The distance from a CPU's run queue to its count of preemption, two variables of each CPU; 0:
 * unknown, because the kernel has no run queue that a task leads to.
 */
int64_t rut_kernel_preempt_at(void);

/*
 * How programs may read kernel memory that has no type: by a cast where the kernel has it, else by
 * bpf_probe_read_kernel() where it is allowed, else not at all.
 */
enum rut_read_kernel rut_kernel_read_means(void);

/* Can programs call bpf_probe_read_kernel()? Lockdown 'confidentiality' forbids it. */
bool rut_kernel_has_read_helper(void);

/* Is the kernel locked down so that programs may not read its memory? */
bool rut_kernel_is_confidential(void);

/* Has this process the capabilities for eBPF programs? */
bool rut_kernel_has_privilege(void);

/* After EPERM of bpf(2): says in *err what this process lacks. Returns -EPERM. */
int rut_kernel_no_privilege(struct rut_err *err);

#endif
