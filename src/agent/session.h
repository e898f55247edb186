/* SPDX-License-Identifier: MIT */
/*
 * The life of a session: its memory, its hooks, the work that is done in slices, its end. Which
 * hooks a mode needs is decided here; what they do is in the modules of the modes.
 */
#ifndef RUT_AGENT_SESSION_H
#define RUT_AGENT_SESSION_H

#include "core.h"

int rut_agent_session_init(struct rut_session *s, struct rut_agent_slot *slot);
/* Returns its memory. No hook may be left. Any thread. */
void rut_agent_session_fini(struct rut_session *s);

/* Sets the hooks that this mode needs at once. Returns NULL or why not. */
const char *rut_agent_session_hook(struct rut_session *s);

/* Does some of the remaining work; true while more is left. */
bool rut_agent_session_work(struct rut_session *s, uint64_t deadline_ns);

/* Hooks of no use wait to be taken away, and it is time for that. */
bool rut_agent_session_drops_due(const struct rut_session *s);

/* Takes hooks away; true while some are left. */
bool rut_agent_session_unhook(struct rut_session *s, uint64_t deadline_ns);

#endif
