/* SPDX-License-Identifier: MIT */
/* Types of the kernel. */
#ifndef RUT_SCRIPT_BTF_H
#define RUT_SCRIPT_BTF_H

#include <stdbool.h>
#include <stdint.h>

struct rut_btf;
struct rut_script_program;
struct rut_type;

void rut_btf_close(struct rut_btf *b);
/* Where a field is in a structure, not in unnamed ones within; -1: there is none. */
int64_t rut_kernel_offset(struct rut_script_program *p, const char *type, const char *field);

/* The number of an enumerator; false: there is none. */
bool rut_kernel_enumerator(struct rut_script_program *p, const char *name, int64_t *ret);

/* The arguments of a raw tracepoint as a structure of 8 bytes each; NULL: not in the BTF. */
const struct rut_type *rut_kernel_rawtp_args(struct rut_script_program *p, const char *event);

/* Functions of the kernel with names that match a shell pattern: fn() != 0 ends, and is returned.
 */
int rut_kernel_functions(struct rut_script_program *p, const char *pattern,
			 int (*fn)(const char *name, uint32_t id, void *arg), void *arg);
/* The function of that name; 0: there is none. */
uint32_t rut_kernel_function(struct rut_script_program *p, const char *name);
/* Its arguments as a structure of 8 bytes each. */
const struct rut_type *rut_kernel_function_args(struct rut_script_program *p, uint32_t id);
/* What it returns; NULL: nothing, or what does not fit into 8 bytes. */
const struct rut_type *rut_kernel_function_result(struct rut_script_program *p, uint32_t id);

#endif
