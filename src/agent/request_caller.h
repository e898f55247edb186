/* SPDX-License-Identifier: MIT */
/* Which method of the application led to a span. */
#ifndef RUT_AGENT_REQUEST_CALLER_H
#define RUT_AGENT_REQUEST_CALLER_H

#include "core.h"

/*
 * The number of the row of the innermost method, outside of the running frame, in a file of the
 * application; RUT_RECORD_NO_CALLER. With the GVL. Does not allocate from Ruby.
 */
uint32_t rut_agent_request_caller(struct rut_session *s, const struct rut_trace_arg *ta);
void rut_agent_request_caller_fini(struct rut_session *s);

#endif
