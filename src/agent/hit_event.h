/* SPDX-License-Identifier: MIT */
/*
 * Probes of scripts that are hit by other events than calls: exceptions, allocations, garbage
 * collection, the GVL, requests and their layers. Each sets the hooks that the probes of its
 * session need, and no others.
 */
#ifndef RUT_AGENT_HIT_EVENT_H
#define RUT_AGENT_HIT_EVENT_H

#include "core.h"

/* With the GVL; may raise. Returns why that cannot be, or NULL. */
const char *rut_agent_hit_events_hook(struct rut_session *s);

#endif
