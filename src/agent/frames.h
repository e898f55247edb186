/* SPDX-License-Identifier: MIT */
/* The control frames of an execution context, which every thread and fiber of Ruby's has. */
#ifndef RUT_AGENT_FRAMES_H
#define RUT_AGENT_FRAMES_H

#include "rb.h"

/* From the innermost one to `end`, each of `words` words. */
struct rut_frames {
	const VALUE *inner, *end;
	size_t words;
};

/*
 * Learns the size of a frame. Returns the context of the thread that runs; NULL: it is not to be
 * found, or the size is not. With the GVL. May raise.
 */
void *rut_agent_frames_learn(void);

/* False: it has none (any more), or their size is not known. */
bool rut_agent_frames_of(const void *ec, struct rut_frames *ret);

#endif
