/* SPDX-License-Identifier: MIT */
/* Finds the processes of which stacks need to know something before their first event. */
#ifndef RUT_SESSION_PROCESSES_H
#define RUT_SESSION_PROCESSES_H

struct rut_recorder;

/* Reads what is not known yet of all processes that are recorded: Ruby's interpreters, and the code
 * that is mapped. Nothing is read where no stacks are recorded. Where the tables have no room yet
 * it waits half a second for it; with r->drains rut_unwind_step() reads the processes again
 * instead. */
void rut_processes_scan(struct rut_recorder *r);

#endif
