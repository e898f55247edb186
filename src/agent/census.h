/* SPDX-License-Identifier: MIT */
/*
 * What lives on the heap, by class and, for objects with a noted allocation (origin.h), by line:
 * one walk through the heap (heap.h) for each look that the tracer asks for, in slices, into the
 * rows of the table. Bytes are Ruby's own answer, as ObjectSpace.memsize_of gives it: the slot, and
 * what the object holds outside of it.
 */
#ifndef RUT_AGENT_CENSUS_H
#define RUT_AGENT_CENSUS_H

#include "core.h"

/* Whether the tracer wants a count that is not complete. Any thread. */
bool rut_agent_census_due(const struct rut_session *s);
/* Continues it; true while more is left. With the GVL. May raise when memory is short. */
bool rut_agent_census_work(struct rut_session *s, uint64_t deadline_ns);
void rut_agent_census_end(struct rut_session *s);
/* In the child of a fork: its heap was not counted, whatever the parent was doing. */
void rut_agent_census_forked(struct rut_session *s);

#endif
