/* SPDX-License-Identifier: MIT */
/* The files of record mode: see record.c. */
#ifndef RUT_RUBY_RECORD_OUT_H
#define RUT_RUBY_RECORD_OUT_H

#include "ruby/internal.h"

/* Moves finished packets into the trace. Returns 0 or -errno. */
int rut_record_round(struct rut_tracer *t, struct rut_err *err);
/* Ends the files of a process; what is in its ring was moved before. */
void rut_record_close(struct rut_tracee *p);

#endif
