/* SPDX-License-Identifier: MIT */
/* The events of all processes, in every mode that has some. */
#ifndef RUT_RUBY_DRAIN_H
#define RUT_RUBY_DRAIN_H

#include "ruby/internal.h"

/* Reports them, or moves them into the trace. Returns 0 or -errno. */
int rut_drain(struct rut_tracer *t, struct rut_err *err);

#endif
