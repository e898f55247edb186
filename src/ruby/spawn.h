/* SPDX-License-Identifier: MIT */
/* The command that the tracer has started. */
#ifndef RUT_RUBY_SPAWN_H
#define RUT_RUBY_SPAWN_H

#include "ruby/internal.h"

/* Frees the tracer, and removes the agent's file unless the command may still need it. */
void rut_spawn_fini(struct rut_tracer *t);

#endif
