// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's events: one program a tracepoint, of the tracepoint's name; user space loads those
 * that a session wants.
 *
 * Only direct loads through BTF pointers, no bpf_probe_read_kernel() where it can be avoided: what
 * loads so loads under any lockdown. Each program takes the same steps: filter, reserve, store,
 * commit.
 */
#include "bpf/ev_block.bpf.h"
#include "bpf/ev_irq.bpf.h"
#include "bpf/ev_net.bpf.h"
#include "bpf/ev_sched.bpf.h"
#include "bpf/ev_syscall.bpf.h"

char LICENSE[] SEC("license") = "GPL";
