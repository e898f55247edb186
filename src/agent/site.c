/* SPDX-License-Identifier: MIT */
#include "site.h"

#include "hit.h"
#include "names.h"
#include "variant.h"

#include <string.h>

#define SITES_MIN 4096u

static inline uint32_t site_hash(const struct rut_agent_site *k)
{
	return rut_site_hash(k->klass, k->place, k->mid, k->line);
}

/* Without what no GC has left in use, and twice the size if most of it was. */
static bool grow(struct rut_agent_sites *sites)
{
	uint32_t mask, holding = 0, count = 0;
	struct rut_agent_site *to;

	for (uint32_t i = 0; sites->slots && i <= sites->mask; i++)
		holding += sites->slots[i].life.epoch && rut_life_recent(sites->slots[i].life);
	mask = rut_grown_mask(sites->mask, holding, SITES_MIN);
	to = rut_agent_map((mask + 1ul) * sizeof(*to));
	if (!to)
		return false;
	for (uint32_t i = 0; sites->slots && i <= sites->mask; i++) {
		const struct rut_agent_site *site = &sites->slots[i];
		uint32_t j;

		if (!site->life.epoch || !rut_life_recent(site->life))
			continue;
		j = site_hash(site) & mask;
		while (to[j].life.epoch)
			j = (j + 1) & mask;
		to[j] = *site;
		count++;
	}
	rut_agent_unmap(sites->slots, (sites->mask + 1ul) * sizeof(*to));
	sites->slots = to;
	sites->mask = mask;
	sites->count = count;
	return true;
}

bool rut_agent_site_wanted(struct rut_session *s, const char *path, VALUE iseq)
{
	const struct rut_agent_path as_shown = {.s = {path, ""},
						.len = {path ? strlen(path) : 0, 0}};

	if (!path)
		return true;
	return iseq ? rut_agent_session_wants_file(s, iseq, NULL)
		    : rut_agent_filter_path(&s->filter, &as_shown);
}

/* Looks the names up and finds their row. */
static struct rut_variant *resolve(struct rut_session *s, VALUE klass, ID mid, const char *path,
				   int line, VALUE iseq, bool placed, uint32_t flags)
{
	struct rut_agent_rows *t = &s->table;
	const char *method = mid ? rb.rb_id2name(mid) : NULL;
	uint32_t path_str, class_str, method_str;
	struct rut_agent_row *row = NULL;
	char name[1024];
	bool singleton, wanted;

	rut_agent_class_name(klass, name, sizeof(name), &singleton);
	wanted = rut_agent_filter_name(&s->filter, name, singleton, method) &&
		 rut_agent_site_wanted(s, path, iseq);
	if (wanted) {
		bool by_line = mid || (placed && s->mode != RUT_AGENT_OBJECTS_TOTAL);

		/* Ruby allocates without a frame of the program: at its start, in its own threads.
		 */
		if (!path && by_line && !mid)
			path = "(native)";
		path_str = path && by_line ? rut_agent_table_str(t, path, strlen(path)) : 0;
		class_str = rut_agent_table_str(t, name, strlen(name));
		method_str = method ? rut_agent_table_str(t, method, strlen(method)) : 0;
		row = rut_agent_table_row(
			t, path_str, by_line ? (uint32_t)line : 0, class_str, method_str,
			(singleton && mid ? RUT_ROW_SINGLETON : 0) | (mid ? flags : 0));
		if (row && s->mode == RUT_AGENT_SCRIPT && method)
			rut_agent_hits_learn(s, row, name, singleton, method);
	}
	return row ? rut_agent_variant_of_row(s, row) : NULL;
}

/* First use, or first use after a GC. */
static void refresh(struct rut_session *s, struct rut_agent_site *site, const VALUE *cfp,
		    bool placed, uint32_t flags)
{
	bool by_path = placed && !cfp;
	const char *path = by_path ? site->place : NULL;
	int line = (int)site->line;

	if (!rut_single_ractor())
		rut_agent_session_ractors(s);

	if (cfp)
		path = rut_source_location(&line);
	site->v = resolve(s, site->klass, site->mid, path, line, cfp ? cfp[RUT_FRAME_ISEQ] : 0,
			  placed, flags);
	site->row = site->v ? site->v->row : NULL;
	/* The code that a path belongs to is not known: as if it were young. */
	site->life = rut_agent_life_of(site->klass, cfp ? cfp[RUT_FRAME_ISEQ] : 0);
	if (by_path && site->life.epoch == rut_agent_hot.old)
		site->life = (struct rut_life){rut_agent_hot.young};
}

/* `flags`: those of the rows of methods. */
static const struct rut_agent_site *find(struct rut_session *s, const struct rut_trace_arg *ta,
					 VALUE klass, ID mid, bool placed, uint32_t flags)
{
	struct rut_agent_sites *sites = &s->sites;
	struct rut_agent_site key = {.klass = klass, .mid = mid}, *site;
	const VALUE *cfp = placed ? rut_ruby_frame(ta->cfp) : NULL;
	uint32_t i;

	rut_lives_sync();
	if (cfp) {
		key.place = (const void *)cfp[RUT_FRAME_PC];
	} else if (placed) {
		int line;

		key.place = rut_source_location(&line);
		key.line = (uint32_t)line;
	}
	if (__builtin_expect(!sites->slots || sites->count > sites->mask / 4 * 3, 0)) {
		if (!grow(sites) && !sites->slots)
			return NULL;
		if (sites->count >= sites->mask)
			return NULL;
	}
	i = site_hash(&key) & sites->mask;
	for (;; i = (i + 1) & sites->mask) {
		site = &sites->slots[i];
		if (!site->life.epoch)
			break;
		if (site->klass == klass && site->place == key.place && site->mid == mid &&
		    site->line == key.line) {
			if (__builtin_expect(rut_life_holds(site->life), 1))
				return site->row ? site : NULL;
			break;
		}
	}
	if (!site->life.epoch) {
		sites->count++;
		*site = key;
	}
	refresh(s, site, cfp, placed, flags);
	return site->row ? site : NULL;
}

const struct rut_agent_site *rut_agent_site(struct rut_session *s, const struct rut_trace_arg *ta,
					    VALUE klass, ID mid, bool placed)
{
	return find(s, ta, klass, mid, placed, RUT_ROW_C);
}

const struct rut_agent_site *rut_agent_site_line(struct rut_session *s,
						 const struct rut_trace_arg *ta, VALUE klass,
						 ID mid)
{
	return find(s, ta, klass, mid, true, 0);
}

void rut_agent_sites_fini(struct rut_session *s)
{
	if (s->sites.slots)
		rut_agent_unmap(s->sites.slots, (s->sites.mask + 1ul) * sizeof(*s->sites.slots));
	if (s->slots.pages)
		rut_agent_unmap(s->slots.pages, (s->slots.mask + 1ul) * sizeof(*s->slots.pages));
}
