/* SPDX-License-Identifier: MIT */
#ifndef RUT_SCRIPT_TRACEFS_H
#define RUT_SCRIPT_TRACEFS_H

struct rut_script_program;
struct rut_type;

/* Where tracefs is mounted, or has been mounted now; NULL: nowhere, or it may not be read. */
const char *rut_script_tracefs(void);

/* A structure of the kernel by its BTF; NULL: there is none. Its fields are read when needed. */
const struct rut_type *rut_kernel_type(struct rut_script_program *p, const char *name);

#endif
