/* SPDX-License-Identifier: MIT */
/*
 * The usual event without Ruby's preparations.
 *
 * Ruby runs hooks in rb_exec_event_hooks(): it saves the state of the thread, sets a place to which
 * an exception jumps, counts the threads that run the list, and cleans up after that. That costs
 * more than what a hook of ours does, which for the usual call is to increment a number (hot.h). So
 * the slot through which Ruby calls that function gets ours. When the list has one hook for the
 * event, that is ours, and the call is usual, nothing that Ruby prepares for can happen. Everything
 * else, detected before anything is changed, is passed to Ruby's function.
 *
 * The slot has our function only while a session counts calls or takes their time.
 */
#ifndef RUT_AGENT_SHORTCUT_H
#define RUT_AGENT_SHORTCUT_H

#include "core.h"

/* This session has hooks. With the GVL. */
void rut_agent_shortcut_begin(struct rut_session *s);
/* They are removed, but for those that run. With the GVL. */
void rut_agent_shortcut_end(struct rut_session *s);

#endif
