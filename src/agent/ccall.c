/* SPDX-License-Identifier: MIT */
/*
 * Calls of methods written in C, by the line that calls them. Ruby has no hook for one of them,
 * only for all: this is the expensive option.
 *
 * At the call the frame is the caller's; at the return too, unless an exception ends it: then it is
 * the C method's own, which is one frame below. On the shadow stack a C call stands just below its
 * caller's frame, above everything that it calls.
 */
#include "session.h"

#include "stack.h"

void rut_on_c_call(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_variant *v;
	const char *path;
	int line = 0;

	if (ta->event == RUT_EVENT_C_RETURN) {
		if (s->mode == RUT_AGENT_TRACE)
			rut_trace_return(s, ta, true);
		else
			rut_stack_pop_c(s, ta);
		return;
	}
	path = rut_source_location(&line);
	v = rut_site(s, ta->klass, ta->id, path, line);
	if (!v)
		return;
	rut_add(&v->row->calls, 1);
	if (s->mode == RUT_AGENT_TIME)
		rut_stack_push(s, ta->ec, (const char *)ta->cfp - RUT_C_BELOW, v);
	else if (s->mode == RUT_AGENT_TRACE)
		rut_trace_call(s, tp, ta, (const char *)ta->cfp - RUT_C_BELOW, v);
}
