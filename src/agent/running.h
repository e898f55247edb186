/* SPDX-License-Identifier: MIT */
/*
 * Calls that are running when tracing begins.
 *
 * Their beginning was not seen, but their frames are there: every thread and fiber of Ruby's has a
 * stack of control frames, and each frame names its code. When all hooks are set the frames with
 * code has one are put on the shadow stacks (stack.h), as if they had been called at that moment.
 * From then on nothing is special about them: their returns, exceptions, the end of their thread
 * and their callees' time are those of any other call, and no call costs more for it. They are not
 * calls of this session, though: they are counted in `count` of their row, not in `calls`.
 *
 * The layouts that this needs are learned from the thread that runs, which is known by what Ruby
 * tells a hook, and checked at each use; where they are not found, such calls count nothing.
 *
 * Threads of other ractors run meanwhile. So where there are any, each thread walks its own
 * frames, at the first hook that it comes to.
 */
#ifndef RUT_AGENT_RUNNING_H
#define RUT_AGENT_RUNNING_H

#include "rb.h"

struct rut_session;

/* The control frames of a thread, from the innermost one to `end`, each of `words` words. */
struct rut_running_frames {
	void *ec;
	const VALUE *inner, *end;
	size_t words;
};

/* False: they cannot be read. Of the main ractor. May raise. */
bool rut_agent_running_frames(VALUE thread, struct rut_running_frames *ret);

/* When all hooks are set. With the GVL. */
void rut_agent_running_seed(struct rut_session *s);

/*
 * The frames of the thread that runs, as far as they are above the address `seen`: the first time
 * that a hook of this session runs on it, when there were ractors at rut_agent_running_seed().
 */
void rut_agent_running_seed_own(struct rut_session *s, void *ec, const void *seen);

#endif
