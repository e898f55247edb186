/* SPDX-License-Identifier: MIT */
/*
 * What is mapped where in the memory of the processes: without it the addresses of user stacks mean
 * nothing once a process has exited, or on another machine. Written as rutile_mapping events: from
 * /proc for what exists, and from the kernel's own notices for what is mapped while a process of
 * ours is there to take them. Sessions without stacks have no cost of it.
 */
#ifndef RUT_SESSION_MAPPINGS_H
#define RUT_SESSION_MAPPINGS_H

#include <stdbool.h>

#include "session/recorder.h"
#include "session/statedump.h"

/* Does this session record user stacks now? */
bool rut_mappings_wanted(const struct rut_recorder *r);

/* Writes what every recorded process has mapped for execution now. */
void rut_mappings_dump(struct rut_statedump *s, const struct rut_recorder *r);

/* The kernel's notices, one ring a CPU. */
struct rut_mappings;

/* Begins to collect them in *m, if that is NULL; it stays so where the kernel does not allow it. */
void rut_mappings_follow(struct rut_mappings **m, const struct rut_recorder *r);
void rut_mappings_free(struct rut_mappings *m);

/* Writes what has come since the last call. */
void rut_mappings_step(struct rut_mappings *m, struct rut_statedump *s, struct rut_recorder *r);

/*
 * Sleeps for so long, or until a process maps code: its stacks are whole only once its tables are
 * read, and a program that starts maps all of its libraries within milliseconds.
 */
void rut_mappings_wait(struct rut_mappings *m, int ms);

#endif
