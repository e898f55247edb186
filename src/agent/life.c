/* SPDX-License-Identifier: MIT */
#include "life.h"

/* RUBY_FL_PROMOTED: two bits that count to three until 3.2, one since then. */
#define PROMOTED_3_2 0x60ul
#define PROMOTED     0x20ul

struct rut_lives rut_lives = {.young = 1, .old = 1};

void rut_lives_next(size_t gcs)
{
	size_t majors = rb.rb_gc_stat(rb.sym_major_gc_count);

	rut_lives.gcs = gcs;
	rut_lives.young = rut_lives.young + 1 ? rut_lives.young + 1 : 1;
	if (majors == rut_lives.majors)
		return;
	rut_lives.majors = majors;
	rut_lives.old = rut_lives.old + 1 ? rut_lives.old + 1 : 1;
}

bool rut_life_marking(void)
{
	return rb.rb_gc_latest_gc_info(rb.sym_state) == rb.sym_marking;
}

static bool is_old(VALUE v)
{
	VALUE promoted = rb.version < 303 ? PROMOTED_3_2 : PROMOTED;

	return (rut_flags(v) & promoted) == promoted;
}

struct rut_life rut_life_of(VALUE a, VALUE b)
{
	if (rut_life_marking())
		return (struct rut_life){rut_lives.young, RUT_LIFE_MARKING};
	if (is_old(a) && (!b || is_old(b)))
		return (struct rut_life){rut_lives.old, RUT_LIFE_OLD};
	return (struct rut_life){rut_lives.young, RUT_LIFE_YOUNG};
}
