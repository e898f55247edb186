/* SPDX-License-Identifier: MIT */
/*
 * Calls of methods written in C, by the line that calls them. Ruby has no hook for one of them,
 * only for all: this is the expensive option.
 *
 * At the call the frame is the caller's; at the return too, unless an exception ends it: then it is
 * the C method's own, which is one frame below. On the shadow stack a C call stands just below its
 * caller's frame, above everything that it calls.
 */
#include "ccall.h"

#include "site.h"
#include "stack.h"
#include "trace.h"
#include "write_record.h"

void rut_agent_ccall_on_event(VALUE index, struct rut_trace_arg *ta)
{
	struct rut_session *s = rut_session_of(index);
	const struct rut_agent_site *site;

	if (RUT_UNLIKELY(rut_agent_own_work))
		return;
	if (RUT_UNLIKELY(!rb.ec_trace_arg))
		rut_agent_trace_arg_find(ta);
	if (s->mode == RUT_AGENT_RECORD) {
		rut_agent_record_c_method(s, ta);
		return;
	}
	if (ta->event == RUT_EVENT_C_RETURN) {
		if (rut_session_traces(s))
			rut_agent_trace_return(s, ta, true);
		else
			rut_agent_stack_pop_c(s, ta);
		return;
	}
	site = rut_agent_site(s, ta, ta->klass, ta->id, true);
	if (!site)
		return;
	rut_add(&site->row->calls, 1);
	if (s->mode == RUT_AGENT_TIME)
		rut_agent_stack_push(s, ta->ec, (const char *)ta->cfp - RUT_C_BELOW, site->v);
	else if (rut_session_traces(s))
		rut_agent_trace_call(s, 0, ta, (const char *)ta->cfp - RUT_C_BELOW, site->v);
}
