/* SPDX-License-Identifier: MIT */
/* The arguments of USDT probes: text in the note -> how an eBPF program finds the value. */
#ifndef RUT_PROBE_ARG_H
#define RUT_PROBE_ARG_H

#include <stddef.h>

#include "bpf/probe.h"

struct rut_err;

/*
 * Parses "8@%rdi -4@-20(%rbp) 1@$5 8@(%rax,%rbx,4) 4@sym(%rip)...": at most RUT_PROBE_ARGS. Returns
 * the number of arguments, -EINVAL (with the form that is not understood) or -E2BIG.
 */
int rut_arg_parse(const char *text, struct rut_probe_arg *ret, struct rut_err *err);

/* The i-th argument of a function call, or (i < 0) its result. 0 or -EINVAL beyond the registers.
 */
int rut_arg_of_call(int i, struct rut_probe_arg *ret);

#endif
