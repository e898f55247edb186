/* SPDX-License-Identifier: MIT */
/* Rows of one process, with names and in nanoseconds. */
#ifndef RUT_RUBY_ROWS_H
#define RUT_RUBY_ROWS_H

#include "ruby/internal.h"

/* One row, also when it has not counted anything; false: there is none. */
bool rut_tracee_rows_get(struct rut_tracer *t, struct rut_tracee *p, uint32_t number,
			 struct rut_ruby_row *ret);
/* Those that have counted something; `ret_count` is the room before. */
bool rut_tracee_rows_fill(struct rut_tracer *t, struct rut_tracee *p, struct rut_ruby_row *ret,
			  uint32_t *ret_count);
/* Reads what runs, of all processes: what ends without a word has at least that. Time mode. */
void rut_tracee_rows_keep(struct rut_tracer *t);
/* Resets all counters. */
void rut_tracee_rows_reset(struct rut_tracer *t, struct rut_tracee *p);

#endif
