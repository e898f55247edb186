/* SPDX-License-Identifier: MIT */
/* Programs that the kernel's verifier refuses: the line of the script, and the reason. */
#ifndef RUT_SCRIPT_REFUSAL_H
#define RUT_SCRIPT_REFUSAL_H

#include <stddef.h>

#include "script/script.h"

struct rut_err;

/* Which instruction a log is about, below `limit`; SIZE_MAX: it does not say. */
size_t rut_script_refused_insn(const char *log, size_t limit);

/*
 * Why, in the verifier's words: its last line that is neither an instruction nor a state. Written
 * to ret, of `size` bytes; empty: the log has none. Cuts the log into lines.
 */
void rut_script_refusal_reason(char *log, char *ret, size_t size);

/* Adds a message of a refusal with the error rc. -EINVAL, or another -errno with *err. */
int rut_script_refuse(struct rut_script_program *p, const struct rut_script_prog *prog, int rc,
		      char *log, struct rut_err *err);

#endif
