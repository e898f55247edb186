/* SPDX-License-Identifier: MIT */
/* The rows of processes that have ended. */
#ifndef RUT_RUBY_GONE_H
#define RUT_RUBY_GONE_H

#include "ruby/internal.h"

/* Keeps the rows of a process. Returns whether it worked out: else its tables are to be kept. */
bool rut_gone_keep(struct rut_tracer *t, struct rut_tracee *p);
/* Frees the buckets of rows that are kept. */
void rut_gone_forget(struct rut_gone *g);
void rut_gone_fini(struct rut_gone *g);

#endif
