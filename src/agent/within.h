/* SPDX-License-Identifier: MIT */
/*
 * Which methods each thread is in, for in("Order#total") of scripts (base/within.h).
 *
 * Hooks on these methods alone, and on the blocks that are written in them, keep the thread's slot
 * up to date. What they count are not calls but frames: which methods a frame is of is read from
 * the frame, as the programs of the kernel do that walk the stack, so that both give the same
 * answer. When a fiber is switched to, and the first time that a thread comes here, all of its
 * frames are read; so calls that began before the hooks were set are right, too.
 *
 * The map comes from the tracer, through a socket whose number is in the table (abi.h): a process
 * may neither make such a map nor open it.
 */
#ifndef RUT_AGENT_WITHIN_H
#define RUT_AGENT_WITHIN_H

#include "core.h"

/* Reads which methods. 0 or -ENOMEM. */
int rut_agent_within_init(struct rut_session *s);
void rut_agent_within_fini(struct rut_session *s);

/* Takes the map when the tracer has sent it. In the helper thread. */
void rut_agent_within_take(struct rut_session *s);
/* Is it there, and not in use yet? */
bool rut_agent_within_due(const struct rut_session *s);
/* All hooks are set. */
void rut_agent_within_begin(struct rut_session *s);
/* Threads can no longer be followed: stacks are read from now on, of all processes. */
void rut_agent_within_refuse(struct rut_session *s);

/* There is such a method, written in Ruby; `method` is the name of `id`. */
void rut_agent_within_found(struct rut_session *s, const char *class_name, bool singleton, ID id,
			    const char *method);

/* A hook: a call or return of a method or block. */
void rut_agent_within_event(struct rut_session *s, const struct rut_trace_arg *ta);
void rut_agent_within_on_switch(VALUE tp, void *session);
void rut_agent_within_on_thread_end(VALUE tp, void *session);

/* In the child of a fork: the thread that it has gets a slot of its own. */
void rut_agent_within_forked(struct rut_session *s);

#endif
