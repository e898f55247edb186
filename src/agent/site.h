/* SPDX-License-Identifier: MIT */
/*
 * Sites: from what a hook sees (the address of a class, a method's id, the place in the program) to
 * the row that counts it. The place is the address of an instruction, which is at hand, where Ruby
 * code runs; otherwise a path and a line, which Ruby has to look up. Entries hold for a time
 * (life.h).
 */
#ifndef RUT_AGENT_SITE_H
#define RUT_AGENT_SITE_H

#include "core.h"

/*
 * The site of class `klass`, method `mid` (0: an allocation) where the program is now; NULL when it
 * is not wanted. Its row is there. With `placed` false it is the same for all places. Allocates
 * nothing from Ruby. With the GVL.
 */
const struct rut_agent_site *rut_agent_site(struct rut_session *s, const struct rut_trace_arg *ta,
					    VALUE klass, ID mid, bool placed);
/* The same for a line of a method that is written in Ruby. */
const struct rut_agent_site *rut_agent_site_line(struct rut_session *s,
						 const struct rut_trace_arg *ta, VALUE klass,
						 ID mid);
void rut_agent_sites_fini(struct rut_session *s);

static RUT_INLINE uint32_t rut_site_hash(VALUE klass, const void *place, ID mid, uint32_t line)
{
	uint64_t h = klass ^ (uint64_t)(uintptr_t)place << 8 ^ (uint64_t)mid << 24 ^ line;

	return (uint32_t)(h * 0x9e3779b97f4a7c15ull >> 32);
}

/*
 * The site of this call of a C method, when it is usual: the instruction that calls is known, and
 * the entry holds. Its row may be NULL, when the call is not wanted.
 */
static RUT_INLINE const struct rut_agent_site *rut_hot_site(const struct rut_session *s,
							    const struct rut_trace_arg *ta)
{
	const struct rut_agent_sites *sites = &s->sites;
	const VALUE *cfp = ta->cfp;
	const struct rut_agent_site *site;
	const void *place;

	if (RUT_UNLIKELY(!rut_single_ractor() || !rut_lives_synced() || !sites->slots))
		return NULL;
	if (RUT_UNLIKELY(*(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_C)) {
		cfp = rut_ruby_frame(cfp);
		if (!cfp)
			return NULL;
	}
	place = (const void *)cfp[RUT_FRAME_PC];
	site = &sites->slots[rut_site_hash(ta->klass, place, ta->id, 0) & sites->mask];
	while (RUT_UNLIKELY(site->klass != ta->klass || site->place != place ||
			    site->mid != ta->id)) {
		if (!site->life.epoch)
			return NULL;
		if (++site > &sites->slots[sites->mask])
			site = sites->slots;
	}
	return rut_life_holds_plainly(site->life) ? site : NULL;
}

/* Does the filter want what is in this file? `iseq`: the code that runs there, when it is known. */
bool rut_agent_site_wanted(struct rut_session *s, const char *path, VALUE iseq);

#endif
