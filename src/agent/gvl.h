/* SPDX-License-Identifier: MIT */
/*
 * Doing something with the GVL held, from the agent's helper thread.
 *
 * Ruby runs postponed jobs when a Ruby thread next checks its interrupts. A busy process does
 * that within a millisecond by itself. In an idle one every thread sleeps, and none checks; so,
 * in steps: the job is registered from the helper (marks the thread that ran last); then from a
 * signal handler on the main thread (marks the main thread; system calls are restarted); then
 * Ruby's own signal handler is called with a signal that no program handles, which makes Ruby wake
 * its main thread, whatever that is waiting for, and let it sleep on. But Ruby 4.0.0 does not let
 * it sleep on (its bug 21812, fixed in 4.0.1): there, sleeping threads are left alone until they
 * wake. And Ruby 3.0 crashes when a thread that is not its own registers a job (its bug 17573):
 * there the signal handler is the first step.
 */
#ifndef RUT_AGENT_GVL_H
#define RUT_AGENT_GVL_H

#include <stdint.h>

/*
 * Runs fn(arg) on a Ruby thread that holds the GVL and waits for it, at most `timeout_ms`. Returns
 * 0, or -ETIMEDOUT: then fn may still run once, later. Helper thread only.
 */
int rut_agent_gvl_run(void (*fn)(void *), void *arg, int timeout_ms);

/* On a Ruby thread with the GVL: runs what the helper waits for, if anything. */
void rut_agent_gvl_serve(void);

/* With the GVL, once: from the end of Ruby on no job is asked for any more. */
void rut_agent_gvl_watch_end(void);

/* In the child of a fork: no job is under way. */
void rut_agent_gvl_forked(void);

#endif
