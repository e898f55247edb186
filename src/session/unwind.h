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

/* Reads what a process that is not known yet has mapped. 0 or -errno; -EAGAIN: it is worth another
 * try in RUT_UNWIND_GRACE_NS. */
int rut_unwind_add(struct rut_recorder *r, int32_t pid);

/* The same, if the session records this process. */
int rut_unwind_find(struct rut_recorder *r, int32_t pid);

/* Where the interpreter of a process is has become known. */
void rut_unwind_found_ruby(struct rut_recorder *r, int32_t pid);

/* A process has mapped code, of a file or made at run time: it is read again, in a moment. */
void rut_unwind_mapped(struct rut_recorder *r, int32_t pid, bool is_file);
/* ... and which one is not known: all are read again, at most once a second and in steps. */
void rut_unwind_lost(struct rut_recorder *r);
void rut_unwind_step(struct rut_recorder *r);
/* When the next step has something to read; UINT64_MAX: nothing is known yet. */
uint64_t rut_unwind_due_ns(const struct rut_recorder *r);

void rut_unwind_free(struct rut_unwinds *u);

#endif
