/* SPDX-License-Identifier: MIT */
/* Trace mode: one event per call, return and exception, in a ring. */
#ifndef RUT_AGENT_TRACE_H
#define RUT_AGENT_TRACE_H

#include "core.h"

int rut_agent_trace_init(struct rut_session *s, uint64_t ring_bytes);
void rut_agent_trace_fini(struct rut_session *s);
int rut_agent_trace_fork(struct rut_session *s);
void rut_agent_trace_call(struct rut_session *s, VALUE tp, struct rut_trace_arg *ta,
			  const void *cfp, struct rut_variant *v);
void rut_agent_trace_return(struct rut_session *s, struct rut_trace_arg *ta, bool is_c);
void rut_agent_trace_on_raise(VALUE tp, void *session);
/* A thread (its row) and the rows of its frames, innermost first. */
void rut_agent_trace_stack(struct rut_session *s, uint32_t thread, uint32_t tid,
			   const uint32_t *rows, uint32_t count);

#endif
