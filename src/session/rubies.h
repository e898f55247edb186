/* SPDX-License-Identifier: MIT */
/*
 * Tells the programs where the Ruby processes keep what a Ruby stack needs (bpf/ruby.h). Children
 * that are forked have it from their parents, in the programs. A process that starts later is found
 * by the notice that it maps a libruby, where the session has a process to take it.
 */
#ifndef RUT_SESSION_RUBIES_H
#define RUT_SESSION_RUBIES_H

#include <stdbool.h>

#include "session/recorder.h"

/* Does this session record Ruby stacks? */
bool rut_rubies_wanted(const struct rut_recorder *r);

/* Looks at all processes that are not known yet. */
void rut_rubies_scan(struct rut_recorder *r);

/* A process has mapped this file for execution: is it Ruby's? */
void rut_rubies_mapped(struct rut_recorder *r, int32_t pid, const char *path);

/* Looks again at those whose VM was not ready. */
void rut_rubies_step(struct rut_recorder *r);

void rut_rubies_free(struct rut_rubies *rubies);

#endif
