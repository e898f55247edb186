/* SPDX-License-Identifier: MIT */
/* The instructions of compiled scripts that were read from a file. */
#ifndef RUT_SCRIPT_PORTABLE_INSNS_H
#define RUT_SCRIPT_PORTABLE_INSNS_H

#include <stdbool.h>

struct rut_script_prog;
struct rut_script_program;

/*
 * Only what the compiler can make: it calls helpers of its own choice, no functions of the kernel
 * or of Ruby's stacks, and what it loads maps and functions by is replaced when it is loaded, so
 * that no number of the file is taken for a descriptor of this process.
 */
bool rut_portable_insns_are_sane(const struct rut_script_prog *prog);

/* Does it do what the compiler requires --unsafe for: run commands, act on processes, the kernel?
 */
bool rut_portable_is_unsafe(const struct rut_script_program *p);

#endif
