/* SPDX-License-Identifier: MIT */
/*
 * References between live objects, for a tracer that computes what holds the memory (abi.h, struct
 * rut_agent_graph). A census reports each object here; its record and what it refers to, as Ruby's
 * own garbage collector would find it, go into a ring that the tracer empties. Nothing is kept for
 * each object in this process.
 *
 * What bounds a slice: arrays and hashes with many elements are written a part at a time, read from
 * their own memory between two slices, and an object that does not fit into the ring waits until
 * the tracer has made room. Such objects are kept alive until they are written, all others are not.
 */
#ifndef RUT_AGENT_GRAPH_H
#define RUT_AGENT_GRAPH_H

#include "core.h"

/* Says in the table where the ring is. */
void rut_agent_graph_describe(struct rut_session *s);
/* False: this Ruby does not say what its roots are. May raise when memory is short. */
bool rut_agent_graph_begin(struct rut_session *s);
void rut_agent_graph_end(struct rut_session *s);
/* Is there room for another page of objects? Writes what had to wait. With the GVL. */
bool rut_agent_graph_ready(struct rut_session *s, uint64_t deadline_ns);
/* A live object that is counted in `row`. Does not allocate from Ruby. */
void rut_agent_graph_add(struct rut_session *s, VALUE v, const struct rut_agent_row *row,
			 uint64_t bytes);
/* After the last object: what had to wait, then the roots. False: there is more to write. */
bool rut_agent_graph_finish(struct rut_session *s, uint64_t deadline_ns);

/* Whether the tracer wants names of references. Any thread. */
bool rut_agent_graph_names_due(const struct rut_session *s);
/* True while more is left. With the GVL. May raise when memory is short. */
bool rut_agent_graph_name(struct rut_session *s, uint64_t deadline_ns);

static inline bool rut_graph_wanted(const struct rut_session *s)
{
	return s->mode == RUT_AGENT_HEAP && s->flags & RUT_AGENT_GRAPH;
}

#endif
