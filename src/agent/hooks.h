/* SPDX-License-Identifier: MIT */
/* The hooks of Ruby methods: see hooks.c. */
#ifndef RUT_AGENT_HOOKS_H
#define RUT_AGENT_HOOKS_H

#include "core.h"

rut_tp_fn rut_agent_hook_for(const struct rut_session *s, int kind, uint32_t *ret_events);
bool rut_agent_hook_is_ours(rut_tp_fn fn);
/* What Ruby may call in place of its tracepoint, for a hook of this kind; NULL: nothing. */
rut_raw_fn rut_agent_hook_direct(const struct rut_session *s, int kind);
/* The row that this call of the record's code belongs to; NULL: none. */
struct rut_variant *rut_agent_hook_variant(struct rut_rec *r, struct rut_trace_arg *ta);
/* The hook of all methods. */
void rut_agent_hook_on_any_call(VALUE tp, void *session);

#endif
