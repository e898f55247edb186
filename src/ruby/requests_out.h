/* SPDX-License-Identifier: MIT */
/* Requests as they happen: see requests.c. */
#ifndef RUT_RUBY_REQUESTS_OUT_H
#define RUT_RUBY_REQUESTS_OUT_H

#include "ruby/internal.h"

/* Reports what is in the rings. */
void rut_requests_round(struct rut_tracer *t);
/* The process has ended: reports what its ring still has, and that. Nothing, without a caller. */
void rut_requests_last(struct rut_tracer *t, struct rut_tracee *p);

#endif
