/* SPDX-License-Identifier: MIT */
/* One hook: a tracepoint that is enabled for some code. */
#ifndef RUT_AGENT_TARGET_H
#define RUT_AGENT_TARGET_H

#include "core.h"

/*
 * A hook on this code (its wrapper) and the methods in it, `methods` of them. Returns the
 * tracepoint, or 0.
 */
VALUE rut_agent_target_hook(struct rut_session *s, VALUE wrapper, VALUE iseq, int kind,
			    uint32_t methods);
void rut_agent_target_unhook(struct rut_session *s, VALUE tp);
/* A tracepoint of any kind for one target; false: Ruby refused. */
bool rut_agent_target_enable(VALUE tp, VALUE wrapper);

#endif
