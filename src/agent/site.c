/* SPDX-License-Identifier: MIT */
#include "site.h"

#include "session.h"

#include <string.h>

#define SITES_MIN 4096u

static uint32_t site_hash(VALUE klass, ID mid, const char *path, int line)
{
	uint64_t h = (uint64_t)klass * 0x9e3779b97f4a7c15ull;

	h ^= ((uint64_t)mid << 20) + (uint64_t)(unsigned)line;
	h ^= (uint64_t)(uintptr_t)path * 0xff51afd7ed558ccdull;
	h *= 0xc4ceb9fe1a85ec53ull;
	return (uint32_t)(h >> 32);
}

/* Twice the size, and without what no GC has left in use. */
static bool grow(struct rut_sites *sites)
{
	uint32_t mask = sites->slots ? sites->mask * 2 + 1 : SITES_MIN - 1, count = 0;
	struct rut_site *to = rut_map((mask + 1ul) * sizeof(*to));

	if (!to)
		return false;
	for (uint32_t i = 0; sites->slots && i <= sites->mask; i++) {
		const struct rut_site *site = &sites->slots[i];
		uint32_t j;

		if (site->epoch != sites->epoch)
			continue;
		j = site_hash(site->klass, site->mid, site->path, (int)site->line) & mask;
		while (to[j].epoch)
			j = (j + 1) & mask;
		to[j] = *site;
		count++;
	}
	rut_unmap(sites->slots, (sites->mask + 1ul) * sizeof(*to));
	sites->slots = to;
	sites->mask = mask;
	sites->count = count;
	return true;
}

/* Looks the names up and finds their row. */
static struct rut_variant *resolve(struct rut_session *s, VALUE klass, ID mid, const char *path,
				   int line, struct rut_variant *old)
{
	struct rut_table *t = &s->table;
	const char *method = mid ? rb.rb_id2name(mid) : NULL;
	uint32_t path_str, class_str, method_str;
	struct rut_agent_row *row = NULL;
	struct rut_variant *v;
	char name[1024];
	bool singleton, wanted;

	rut_class_name(klass, name, sizeof(name), &singleton);
	wanted = rut_filter_name(&s->filter, name, singleton, method) &&
		 (!path || rut_filter_path(&s->filter, path, strlen(path)));
	if (wanted) {
		bool by_line = mid || s->mode != RUT_AGENT_OBJECTS_TOTAL;

		path_str = path && by_line ? rut_table_str(t, path, strlen(path)) : 0;
		class_str = rut_table_str(t, name, strlen(name));
		method_str = method ? rut_table_str(t, method, strlen(method)) : 0;
		row = rut_table_row(
			t, path_str, by_line ? (uint32_t)line : 0, class_str, method_str,
			(singleton && mid ? RUT_ROW_SINGLETON : 0) | (mid ? RUT_ROW_C : 0));
	}
	if (old && old->row == row)
		return old;
	v = rut_session_alloc(s, sizeof(*v));
	if (v) {
		v->owner = klass;
		v->row = row;
		v->excluded = !wanted;
	}
	return v;
}

struct rut_variant *rut_site(struct rut_session *s, VALUE klass, ID mid, const char *path, int line)
{
	struct rut_sites *sites = &s->sites;
	struct rut_site *site;
	uint32_t i;

	if (__builtin_expect(!sites->slots || sites->count > sites->mask / 4 * 3, 0)) {
		if (!sites->epoch)
			sites->epoch = 1;
		if (!grow(sites) && !sites->slots)
			return NULL;
		if (sites->count >= sites->mask)
			return NULL;
	}
	i = site_hash(klass, mid, path, line) & sites->mask;
	for (;; i = (i + 1) & sites->mask) {
		site = &sites->slots[i];
		if (!site->epoch)
			break;
		if (site->klass == klass && site->path == path && site->mid == mid &&
		    site->line == (uint32_t)line) {
			if (__builtin_expect(site->epoch == sites->epoch, 1))
				return site->v && site->v->row ? site->v : NULL;
			break;
		}
	}
	if (!site->epoch)
		sites->count++;
	site->v = resolve(s, klass, mid, path, line, site->epoch ? site->v : NULL);
	site->klass = klass;
	site->mid = mid;
	site->path = path;
	site->line = (uint32_t)line;
	site->epoch = sites->epoch;
	return site->v && site->v->row ? site->v : NULL;
}

void rut_sites_fini(struct rut_session *s)
{
	rut_codes_fini(&s->codes);
	if (s->sites.slots)
		rut_unmap(s->sites.slots, (s->sites.mask + 1ul) * sizeof(*s->sites.slots));
	if (s->slots.pages)
		rut_unmap(s->slots.pages, (s->slots.mask + 1ul) * sizeof(*s->slots.pages));
}

void rut_on_gc(VALUE tp, void *session)
{
	struct rut_session *s = session;

	s->sites.epoch = s->sites.epoch + 1 ? s->sites.epoch + 1 : 1;
}
