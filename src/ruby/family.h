/* SPDX-License-Identifier: MIT */
/* Processes that count into one file: see family.c. */
#ifndef RUT_RUBY_FAMILY_H
#define RUT_RUBY_FAMILY_H

#include "ruby/internal.h"

/*
 * Maps the tables of a process with one of our sessions. Returns 0 or -errno. *ret_seen: what was
 * known of it by its slot only, without a process; to be removed.
 */
int rut_family_join(struct rut_tracer *t, struct rut_tracee *p, struct rut_tracee **ret_seen,
		    struct rut_err *err);
void rut_family_leave(struct rut_tracee *p);
/* Maps the table of slot `member`. Returns 0 or -errno. */
int rut_family_map(struct rut_tracee *p, struct rut_family *f, uint32_t member);
/* Where that is in the file. */
size_t rut_family_table_offset(const struct rut_family *f, uint32_t member);
/* The PID namespace of a process, as /proc names it; "": it is not known. */
void rut_family_pid_ns(pid_t pid, char *ret, size_t cap);
void rut_family_free_all(struct rut_tracer *t);

#endif
