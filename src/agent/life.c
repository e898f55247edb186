/* SPDX-License-Identifier: MIT */
#include "life.h"

static size_t majors_seen;

RUT_COLD void rut_agent_lives_next(void)
{
	size_t gcs = rb.rb_gc_count(), majors;

	if (gcs == rut_agent_hot.gcs_seen)
		return; /* Ruby has to be asked every time */
	majors = rb.rb_gc_stat(rb.sym_major_gc_count);
	rut_agent_hot.gcs_seen = gcs;
	rut_agent_hot.young += RUT_LIFE_STEP;
	if (majors == majors_seen)
		return;
	majors_seen = majors;
	rut_agent_hot.old += RUT_LIFE_STEP;
}

RUT_COLD bool rut_agent_life_marking(void)
{
	return rb.rb_gc_latest_gc_info(rb.sym_state) == rb.sym_marking;
}

static bool is_old(VALUE v)
{
	VALUE promoted = rb.abi->promoted_mask;

	return (rut_flags(v) & promoted) == promoted;
}

struct rut_life rut_agent_life_of(VALUE a, VALUE b)
{
	if (rut_agent_life_marking())
		return (struct rut_life){rut_agent_hot.young - RUT_LIFE_YOUNG + RUT_LIFE_MARKING};
	if (is_old(a) && (!b || is_old(b)))
		return (struct rut_life){rut_agent_hot.old};
	return (struct rut_life){rut_agent_hot.young};
}
