/* SPDX-License-Identifier: MIT */
/* Calls that are still running: see running.c. */
#ifndef RUT_RUBY_RUNNING_H
#define RUT_RUBY_RUNNING_H

#include "ruby/internal.h"

/* Copies the first `count` rows, as if the calls that run ended now. */
void rut_running_add(struct rut_tracee *t, struct rut_agent_row *rows, uint32_t count);

#endif
