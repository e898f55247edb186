/* SPDX-License-Identifier: MIT */
/*
 * Where live objects were made: for each slot of the heap the row of the line and class, and the
 * count of collections at that moment.
 *
 * The note of a slot is simply overwritten by the next object that is made there, so that nothing
 * has to be done when objects are freed: every allocation is seen. It takes eight bytes for 32
 * bytes of heap, up to 64 MiB; what is made beyond that is not noted. A compaction moves objects
 * without an event, and other ractors make objects that the agent does not see: both void all
 * notes.
 */
#ifndef RUT_AGENT_ORIGIN_H
#define RUT_AGENT_ORIGIN_H

#include "core.h"

struct rut_origin {
	uint32_t row; /* its number + 1; 0: not known */
	uint32_t gcs; /* when it was made */
};

/* Notes from now on. With the GVL. */
void rut_agent_origins_begin(struct rut_session *s);
void rut_agent_origins_fini(struct rut_session *s);
/*
 * Forgets all when objects have moved, and notes no more when there are ractors. Unless it is to be
 * exact, a compaction may be noticed only when the next collection has begun. With the GVL.
 */
void rut_agent_origins_sync(struct rut_session *s, bool exact);
/* That of the live object; { 0 } when it is not known. After an exact sync. */
struct rut_origin rut_agent_origin_of(const struct rut_session *s, VALUE obj);

/* Collections begun so far. */
static inline size_t rut_gcs(void)
{
	size_t gcs = *rut_agent_hot.gcs;

	return gcs == SIZE_MAX ? rb.rb_gc_count() : gcs;
}

#endif
