/* SPDX-License-Identifier: MIT */
/* What a system call waits for when it blocks: by its name, descriptors and other arguments. */
#ifndef RUT_ANALYSIS_WHERE_CALL_H
#define RUT_ANALYSIS_WHERE_CALL_H

#include "analysis/where.h"

struct rut_hook_syscall;

/* Sets t->call_place, t->call_what and t->timed. */
void rut_where_call_entry(struct rut_where *w, struct rut_where_thread *t,
			  const struct rut_hook_syscall *h);
/* Learns the descriptors that the call has made. */
void rut_where_call_exit(struct rut_where *w, struct rut_where_thread *t,
			 const struct rut_hook_syscall *h);

#endif
