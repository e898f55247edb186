/* SPDX-License-Identifier: MIT */
/* New children and processes that have ended: see births.c. */
#ifndef RUT_RUBY_BIRTHS_H
#define RUT_RUBY_BIRTHS_H

#include "ruby/internal.h"

/* Adopts new children and reaps exited ones; may free tracees. */
void rut_births_look(struct rut_tracer *t);
/* Were children forked since the last call? */
bool rut_births_grow(struct rut_tracer *t);

#endif
