/* SPDX-License-Identifier: MIT */
/*
 * Walking Ruby's heap in slices.
 *
 * There is no other way to find code, tracepoints or fibers than to visit every object, and a
 * heap of ten million objects takes a tenth of a second to read. So the pages are listed, some at a
 * time, then read, some at a time, and the program runs in between. What makes that safe:
 *
 * - The list of pages is valid as long as the GC has not run: neither its count nor its state has
 *   changed. Then it is rebuilt, without the pages that were read: what was found in them is kept
 *   alive by the list of what was found, and what is made meanwhile announces itself.
 * - While the GC sweeps, a page may have objects that are dead and refer to freed ones. Where Ruby
 *   cannot distinguish them from new ones the page is read when the GC has run; after some time of
 *   waiting the GC is made to finish, which takes longer than a slice.
 * - After a compaction the walk is restarted.
 *
 * With the GVL. Nothing here allocates from Ruby between the check of the GC and the end of a
 * slice.
 */
#ifndef RUT_AGENT_HEAP_H
#define RUT_AGENT_HEAP_H

#include "list.h"
#include "rb.h"

/* Is this object to be found? By what is in it and in its data; nothing else may be followed. */
typedef bool (*rut_walk_fn)(VALUE v, void *data);

struct rut_walk {
	VALUE found; /* Array of Arrays, hidden; registered with the GC; 0: no walk */
	VALUE chunk; /* the last one of these */
	long in_chunk;
	struct rut_list pages; /* start, end, stride of those to read */
	size_t next;	       /* ... from here on */
	size_t passed;	       /* pages that Ruby has named for the list */
	bool listed;
	VALUE *read; /* owned; pages that were read; open addressing */
	uint32_t read_mask, read_count;
	size_t gcs, compactions;
	VALUE state;
	bool by_page;	     /* a step reads one page, once they are listed */
	bool unsure;	     /* some pages wait for the GC */
	uint64_t waiting_ns; /* since then */
};

enum rut_walk_state {
	RUT_WALK_DONE,
	RUT_WALK_MORE,
	RUT_WALK_MOVED, /* compaction: end it, and restart */
};

/* May raise when memory is short; so may rut_agent_walk_step(). */
void rut_agent_walk_begin(struct rut_walk *w);
/* UINT64_MAX: all at once. */
enum rut_walk_state rut_agent_walk_step(struct rut_walk *w, rut_walk_fn wants, void *data,
					uint64_t deadline_ns);

/* Called with each live object, once, and the size of its slot. Must not allocate from Ruby. */
typedef void (*rut_walk_each_fn)(VALUE v, size_t slot_bytes, void *data);

/*
 * A walk that keeps nothing alive: objects are reported as they are read. What is made or freed
 * meanwhile may be missing or too much; no object is reported twice.
 */
void rut_agent_walk_begin_each(struct rut_walk *w);
enum rut_walk_state rut_agent_walk_step_each(struct rut_walk *w, rut_walk_each_fn each, void *data,
					     uint64_t deadline_ns);

/* How often Ruby has compacted its heap: then objects have moved. */
size_t rut_agent_compactions(void);
bool rut_agent_walk_moved(const struct rut_walk *w);
/* What was found, from position *pos on, which moves behind it; 0: no more. */
VALUE rut_agent_walk_next(const struct rut_walk *w, long *pos);
/* What was found at this position, before it moved. */
VALUE rut_agent_walk_get(const struct rut_walk *w, long pos);
void rut_agent_walk_end(struct rut_walk *w);

#endif
