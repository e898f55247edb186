/* SPDX-License-Identifier: MIT */
/* The arguments of USDT probes: text in the note -> how an eBPF program finds the value. */
#ifndef RUT_PROBE_ARG_H
#define RUT_PROBE_ARG_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"

struct rut_err;

/*
 * Parses "8@%rdi -4@-20(%rbp) 1@$5 8@(%rax,%rbx,4) 4@sym(%rip)...": at most RUT_PROBE_ARGS. Returns
 * the number of arguments, -EINVAL (with the form that is not understood) or -E2BIG.
 */
int rut_arg_parse(const char *text, struct rut_probe_arg *ret, struct rut_err *err);

/*
 * The same where symbols can be looked up ("-4@counter+8(%rip)", "8@$table"): `resolve` gives the
 * distance from the probe's instruction to a symbol of the file, or returns -errno: then the value
 * is not known, as without a symbol table.
 */
typedef int (*rut_arg_resolve_fn)(const char *symbol, size_t len, int64_t *ret_distance, void *arg);
int rut_arg_parse_at(const char *text, struct rut_probe_arg *ret, rut_arg_resolve_fn resolve,
		     void *arg, struct rut_err *err);

/* The i-th argument of a function call, or (i < 0) its result. 0 or -EINVAL beyond the registers.
 */
int rut_arg_of_call(int i, struct rut_probe_arg *ret);

#endif
