/* SPDX-License-Identifier: MIT */
/*
 * Requests and the layers that they go through, in record mode: what the calls and returns of
 * watched methods (watch.h) mean.
 *
 * Each fiber with a watched call under way has a task. An entry point begins its request; one
 * inside another only adds details to the same request. A call is known by the address of Ruby's
 * frame: calls that ended without an event are found by that, as on shadow stacks (stack.h).
 */
#ifndef RUT_AGENT_REQUEST_H
#define RUT_AGENT_REQUEST_H

#include "core.h"

/* With the GVL: what is watched becomes known to Ruby, and exceptions are followed. May raise. */
void rut_agent_request_hook(struct rut_session *s);
void rut_agent_request_unhook(struct rut_session *s);

/* A call or return of a watched method. With the GVL. */
void rut_agent_request_event(struct rut_session *s, const struct rut_trace_arg *ta,
			     struct rut_variant *v);

#endif
