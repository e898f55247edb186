/* SPDX-License-Identifier: MIT */
/* Types of the kernel. */
#ifndef RUT_SCRIPT_BTF_H
#define RUT_SCRIPT_BTF_H

#include <stdint.h>

struct rut_btf;
struct rut_script_program;
struct rut_type;

void rut_btf_close(struct rut_btf *b);
/* Where a field is in a structure, not in unnamed ones within; -1: there is none. */
int64_t rut_kernel_offset(struct rut_script_program *p, const char *type, const char *field);

/* The arguments of a raw tracepoint as a structure of 8 bytes each; NULL: not in the BTF. */
const struct rut_type *rut_kernel_rawtp_args(struct rut_script_program *p, const char *event);

#endif
