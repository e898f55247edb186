/* SPDX-License-Identifier: MIT */
/*
 * How long an address of Ruby's stays that of the same object.
 *
 * Tables that are looked up by address (site.h, code.c) keep nothing of the application alive: an
 * entry was true when it was written, and is compared again once a GC may have freed or moved what
 * it stands for. A hook on Ruby's GC events would say when that is, but costs every allocation of
 * the process a slower path (a tenth of the time of a web request). The count of GCs costs a load:
 *
 * - Old (promoted) objects are freed by a major GC only.
 * - Young objects are freed by any GC, but not before the next one begins, when the count is
 * incremented.
 * - Except while a GC marks step by step: an object that is alive then may be left unmarked, and
 *   freed with no further GC begun. Such entries hold only as long as the marking lasts.
 */
#ifndef RUT_AGENT_LIFE_H
#define RUT_AGENT_LIFE_H

#include "rb.h"

#define RUT_LIFE_STEP 4

struct rut_life {
	uint64_t epoch; /* 0: an entry that is free */
};

void rut_agent_lives_next(void);
bool rut_agent_life_marking(void);

/* For an entry made now: `a` and `b` are objects that are alive; `b` may be 0. */
struct rut_life rut_agent_life_of(VALUE a, VALUE b);

/* As long as both of them hold, which they do now. */
static inline struct rut_life rut_life_both(struct rut_life a, struct rut_life b)
{
	return a.epoch % RUT_LIFE_STEP > b.epoch % RUT_LIFE_STEP ? a : b;
}

static inline bool rut_lives_synced(void)
{
	return *rut_agent_hot.gcs == rut_agent_hot.gcs_seen;
}

/* Before addresses are looked up. With the GVL. */
static inline void rut_lives_sync(void)
{
	if (RUT_UNLIKELY(!rut_lives_synced()))
		rut_agent_lives_next();
}

/* ... and no GC need be asked whether it is marking. */
static inline bool rut_life_holds_plainly(struct rut_life life)
{
	return RUT_LIKELY(life.epoch == rut_agent_hot.old) || life.epoch == rut_agent_hot.young;
}

static inline bool rut_life_holds(struct rut_life life)
{
	return rut_life_holds_plainly(life) ||
	       (life.epoch == rut_agent_hot.young - RUT_LIFE_YOUNG + RUT_LIFE_MARKING &&
		rut_agent_life_marking());
}

/* Young things and old ones: may the entry still be what it was? Otherwise its place is free. */
static inline bool rut_life_recent(struct rut_life life)
{
	return rut_life_holds_plainly(life) ||
	       life.epoch == rut_agent_hot.young - RUT_LIFE_YOUNG + RUT_LIFE_MARKING;
}

#endif
