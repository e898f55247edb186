/* SPDX-License-Identifier: MIT */
#include "ruby/drain.h"

#include "ruby/events.h"
#include "ruby/record_out.h"
#include "ruby/requests_out.h"

int rut_drain(struct rut_tracer *t, struct rut_err *err)
{
	if (t->on_request)
		rut_requests_round(t);
	return t->config.mode == RUT_RUBY_RECORD ? rut_record_round(t, err)
						 : rut_events_round(t, err);
}
