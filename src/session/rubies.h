/* SPDX-License-Identifier: MIT */
/*
 * Passes the addresses that a Ruby stack needs to the programs, for each Ruby process (bpf/ruby.h).
 * Children that are forked have it from their parents, in the programs. A process that starts later
 * is found by the notice that it maps a libruby, where the session has a process to take it.
 */
#ifndef RUT_SESSION_RUBIES_H
#define RUT_SESSION_RUBIES_H

#include <stdbool.h>

#include "session/recorder.h"

/* Does this session record Ruby stacks? */
bool rut_rubies_wanted(const struct rut_recorder *r);

/* Inspects a process that is not known yet. */
void rut_rubies_add(struct rut_recorder *r, int32_t pid);

/* A process has mapped this file for execution: is it Ruby's? */
void rut_rubies_mapped(struct rut_recorder *r, int32_t pid, const char *path);

/* Inspects those again that had no complete VM. */
void rut_rubies_step(struct rut_recorder *r);
/* When the next step has something to do; UINT64_MAX: nothing is known yet. */
uint64_t rut_rubies_due_ns(const struct rut_recorder *r);

void rut_rubies_free(struct rut_rubies *rubies);

#endif
