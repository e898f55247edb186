/* SPDX-License-Identifier: MIT */
/*
 * How long an address of Ruby's stays that of the same object.
 *
 * Tables that are looked up by address (site.h, code.c) keep nothing of the application alive: an
 * entry was true when it was written, and is compared again once a GC may have freed or moved what
 * it stands for. A hook on Ruby's GC events would say when that is, but costs every allocation of
 * the process a slower path (a tenth of the time of a web request). The count of GCs costs a load:
 *
 * - What is old (promoted) goes in a major GC only.
 * - What is young goes in any GC, but not before the next one begins, when the count goes up.
 * - Except while a GC marks step by step: who is alive at that moment may be left unmarked, and
 *   freed with no further GC begun. Such entries hold only as long as the marking lasts.
 */
#ifndef RUT_AGENT_LIFE_H
#define RUT_AGENT_LIFE_H

#include "rb.h"

enum rut_life_kind {
	RUT_LIFE_YOUNG,
	RUT_LIFE_OLD,
	RUT_LIFE_MARKING,
};

struct rut_life {
	uint32_t epoch; /* 0: an entry that is free */
	uint8_t kind;	/* enum rut_life_kind */
};

/* Of the process. `young` and `old` are the epochs of what is valid now; never 0. */
extern struct rut_lives {
	size_t gcs, majors;
	uint32_t young, old;
} rut_lives;

void rut_lives_next(size_t gcs);
bool rut_life_marking(void);

/* Of what is looked at now: `a` and `b` are objects that are alive; `b` may be 0. */
struct rut_life rut_life_of(VALUE a, VALUE b);

/* Before addresses are looked up. With the GVL. */
static inline void rut_lives_sync(void)
{
	size_t gcs = rb.rb_gc_count();

	if (__builtin_expect(gcs != rut_lives.gcs, 0))
		rut_lives_next(gcs);
}

static inline bool rut_life_holds(struct rut_life life)
{
	if (__builtin_expect(life.kind == RUT_LIFE_OLD, 1))
		return life.epoch == rut_lives.old;
	return life.epoch == rut_lives.young && (life.kind == RUT_LIFE_YOUNG || rut_life_marking());
}

/* Young things and old ones: may the entry still be what it was? Otherwise its place is free. */
static inline bool rut_life_recent(struct rut_life life)
{
	return life.epoch == (life.kind == RUT_LIFE_OLD ? rut_lives.old : rut_lives.young);
}

#endif
