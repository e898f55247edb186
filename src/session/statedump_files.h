/* SPDX-License-Identifier: MIT */
/* The mode (f_mode) of each open file of the machine, read from the kernel at once. */
#ifndef RUT_SESSION_STATEDUMP_FILES_H
#define RUT_SESSION_STATEDUMP_FILES_H

#include <stdint.h>
#include <sys/types.h>

struct rut_open_files;

/*
 * All open files now, or NULL: no privilege, a kernel without iterators (before Linux 5.8) or
 * without BTF, a PID namespace of our own, no memory. The caller owns it. From one thread of the
 * process only.
 */
struct rut_open_files *rut_open_files_new(void);

/* The mode of a descriptor, or 0: it was not open, or `files` is NULL. */
uint32_t rut_open_files_mode(const struct rut_open_files *files, pid_t pid, uint32_t fd);

/* NULL is nothing to free. */
void rut_open_files_free(struct rut_open_files *files);

#endif
