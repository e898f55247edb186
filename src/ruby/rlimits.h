/* SPDX-License-Identifier: MIT */
/* The resource limits of the command. */
#ifndef RUT_RUBY_RLIMITS_H
#define RUT_RUBY_RLIMITS_H

#include "ruby/internal.h"

/* Remembers which limits of this process are low. */
void rut_limits_read(struct rut_tracer *t, pid_t pid);

#endif
