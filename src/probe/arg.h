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

/*
 * The i-th argument of a function call at its entry, or (i < 0) its result: integers and pointers.
 * 0, or -EINVAL beyond those that can be had.
 */
int rut_arg_of_call(int i, struct rut_probe_arg *ret);

enum rut_arg_type {
	RUT_TYPE_NONE, /* not said */
	RUT_TYPE_U8,
	RUT_TYPE_U16,
	RUT_TYPE_U32,
	RUT_TYPE_U64,
	RUT_TYPE_S8,
	RUT_TYPE_S16,
	RUT_TYPE_S32,
	RUT_TYPE_S64,
	RUT_TYPE_X8,
	RUT_TYPE_X16,
	RUT_TYPE_X32,
	RUT_TYPE_X64,
	RUT_TYPE_F32,
	RUT_TYPE_F64,
	RUT_TYPE_STR, /* the address of a string */
};

/* What a user writes of an argument: NAME[=OPERAND][:TYPE]. */
struct rut_arg_spec {
	char name[48];
	char operand[64]; /* as in the note of a static probe; "": the next argument of the call */
	enum rut_arg_type type;
};

/*
 * Parses "fd:s32,path:str,len=@8(%rdi):u16)", up to the parenthesis or the end; NULL is empty.
 * `ret` has room for RUT_PROBE_ARGS. Returns how many, or -errno.
 */
int rut_arg_specs_parse(const char *text, struct rut_arg_spec *ret, struct rut_err *err);

/* Where the argument of a function is: `i` counts from 0, below it is the result. 0 or -errno. */
int rut_arg_of_spec(const struct rut_arg_spec *s, int i, struct rut_probe_arg *ret,
		    struct rut_err *err);

/* Reads it as this type; RUT_TYPE_NONE: as it is. */
void rut_arg_set_type(struct rut_probe_arg *a, enum rut_arg_type type);

unsigned rut_arg_type_bytes(enum rut_arg_type type);

#endif
