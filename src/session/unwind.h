/* SPDX-License-Identifier: MIT */
/*
 * Gives the programs the tables by which they walk native stacks (bpf/unwind.h): the rows of each
 * file once, and where each process has mapped it. Children that are forked have it from their
 * parents, in the programs. What a process maps later is noticed, where the session has a process
 * to take the notice.
 */
#ifndef RUT_SESSION_UNWIND_H
#define RUT_SESSION_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"

struct rut_recorder;
struct rut_unwinds;

/* Does this session record native stacks, on a kernel whose programs can walk them? */
bool rut_unwind_wanted(const struct rut_recorder *r);

/* Reads what all recorded processes have mapped that are not known yet. */
void rut_unwind_scan(struct rut_recorder *r);

/* Reads a process that is going to be recorded. */
void rut_unwind_add(struct rut_recorder *r, int32_t pid);

/* Where the interpreter of a process is has become known. */
void rut_unwind_found_ruby(struct rut_recorder *r, int32_t pid);

/* A process has mapped code: it is read again, in a moment. */
void rut_unwind_mapped(struct rut_recorder *r, int32_t pid);
void rut_unwind_step(struct rut_recorder *r);

void rut_unwind_free(struct rut_unwinds *u);

#endif
