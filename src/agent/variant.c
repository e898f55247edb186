/* SPDX-License-Identifier: MIT */
#include "variant.h"

#include "hit.h"
#include "names.h"
#include "template.h"

#include <errno.h>
#include <string.h>

#define OWNERS_MIN 1024u

static size_t by_row_bytes(const struct rut_session *s)
{
	return s->table.hdr->row_cap * sizeof(struct rut_variant);
}

int rut_agent_variants_init(struct rut_session *s)
{
	s->variants.by_row = rut_agent_map(by_row_bytes(s));
	return s->variants.by_row ? 0 : -ENOMEM;
}

void rut_agent_variants_fini(struct rut_session *s)
{
	struct rut_variants *vs = &s->variants;

	if (vs->by_row)
		rut_agent_unmap(vs->by_row, by_row_bytes(s));
	if (vs->owners)
		rut_agent_unmap(vs->owners, (vs->mask + 1ul) * sizeof(*vs->owners));
	*vs = (struct rut_variants){0};
}

struct rut_variant *rut_agent_variant_of_row(const struct rut_session *s, struct rut_agent_row *row)
{
	struct rut_variant *v = &s->variants.by_row[row - s->table.rows];

	v->row = row;
	return v;
}

static struct rut_owner *slot_of(const struct rut_variants *vs, const struct rut_rec *r,
				 VALUE owner, VALUE mid)
{
	uint64_t h = ((uint64_t)owner ^ (uint64_t)(uintptr_t)r << 17 ^ (uint64_t)mid << 34) *
		     0x9e3779b97f4a7c15ull;
	uint32_t i = (uint32_t)(h >> 32) & vs->mask;

	for (;; i = (i + 1) & vs->mask) {
		struct rut_owner *o = &vs->owners[i];

		if (!o->life.epoch || (o->owner == owner && o->rec == r && o->mid == mid))
			return o;
	}
}

static bool grow(struct rut_variants *vs)
{
	struct rut_variants to = {.mask = 0};
	uint32_t holding = 0;

	for (uint32_t i = 0; vs->owners && i <= vs->mask; i++)
		holding += vs->owners[i].life.epoch && rut_life_recent(vs->owners[i].life);
	to.mask = rut_grown_mask(vs->mask, holding, OWNERS_MIN);
	to.owners = rut_agent_map((to.mask + 1ul) * sizeof(*to.owners));
	if (!to.owners)
		return false;
	for (uint32_t i = 0; vs->owners && i <= vs->mask; i++) {
		const struct rut_owner *o = &vs->owners[i];

		if (!o->life.epoch || !rut_life_recent(o->life))
			continue;
		*slot_of(&to, o->rec, o->owner, o->mid) = *o;
		to.count++;
	}
	if (vs->owners)
		rut_agent_unmap(vs->owners, (vs->mask + 1ul) * sizeof(*vs->owners));
	vs->owners = to.owners;
	vs->mask = to.mask;
	vs->count = to.count;
	return true;
}

#define EXCLUDED_MAX 8192u /* rows, when what is left out gets one, too */

/* By name. */
static struct rut_variant *look_up(const struct rut_rec *r, VALUE owner, VALUE mid,
				   bool *ret_excluded)
{
	struct rut_session *s = r->s;
	struct rut_agent_rows *t = &s->table;
	const char *method = mid == rb.qnil ? NULL : rb.rb_id2name(rb.rb_sym2id(mid));
	uint32_t class_str, method_str;
	struct rut_agent_row *row;
	struct rut_variant *v;
	char name[1024], template[512];
	bool singleton;

	rut_agent_class_name(owner, name, sizeof(name), &singleton);
	if (rut_agent_template_name(rut_agent_table_get(t, r->path), method, template,
				    sizeof(template))) {
		method = template;
		memcpy(name, RUT_TEMPLATE_CLASS, sizeof(RUT_TEMPLATE_CLASS));
	}
	*ret_excluded = !rut_agent_filter_name(&s->filter, name, singleton, method);
	if (*ret_excluded && (s->filter.watches || t->hdr->row_count >= EXCLUDED_MAX))
		return NULL;
	class_str = rut_agent_table_str(t, name, strlen(name));
	method_str = method ? rut_agent_table_str(t, method, strlen(method)) : 0;
	if (*ret_excluded) {
		/* For a filter that lets nothing through: what there would have been. */
		rut_agent_table_row(t, r->path, r->line, class_str, method_str,
				    (singleton ? RUT_ROW_SINGLETON : 0) | RUT_ROW_EXCLUDED);
		return NULL;
	}
	row = rut_agent_table_row(t, r->path, r->line, class_str, method_str,
				  singleton ? RUT_ROW_SINGLETON : 0);
	if (!row)
		return NULL;
	v = rut_agent_variant_of_row(s, row);
	v->owner = owner;
	v->mid = mid;
	v->watch = s->filter.watches && method
			   ? rut_agent_watches_find(s->filter.watches, name, singleton, method)
			   : NULL;
	if (s->mode == RUT_AGENT_SCRIPT && method)
		rut_agent_hits_learn(s, row, name, singleton, method);
	v->inside = s->trace.inside &&
		    rut_agent_filter_inside(s->trace.inside, name, singleton, method);
	return v;
}

static struct rut_variant *find_locked(struct rut_variants *vs, const struct rut_rec *r,
				       VALUE owner, VALUE mid, bool *ret_excluded)
{
	struct rut_owner *o;
	struct rut_variant *v;

	if (!vs->owners || vs->count > vs->mask / 4 * 3)
		if ((!grow(vs) && !vs->owners) || vs->count >= vs->mask)
			return look_up(r, owner, mid, ret_excluded);
	o = slot_of(vs, r, owner, mid);
	if (o->life.epoch && rut_life_holds(o->life)) {
		*ret_excluded = !o->v;
		return o->v;
	}
	v = look_up(r, owner, mid, ret_excluded);
	if (!v && !*ret_excluded)
		return NULL;
	vs->count += !o->life.epoch;
	*o = (struct rut_owner){
		.rec = r, .owner = owner, .mid = mid, .life = rut_agent_life_of(owner, 0), .v = v};
	return v;
}

struct rut_variant *rut_agent_variant_find(const struct rut_rec *r, VALUE owner, VALUE mid,
					   bool *ret_excluded)
{
	struct rut_variants *vs = &r->s->variants;
	struct rut_variant *v;

	*ret_excluded = false;
	rut_lock(&vs->lock);
	v = find_locked(vs, r, owner, mid, ret_excluded);
	rut_unlock(&vs->lock);
	return v;
}

bool rut_agent_variant_is(const struct rut_session *s, const struct rut_variant *v, VALUE owner,
			  VALUE mid)
{
	const char *class_name = rut_agent_table_get(&s->table, v->row->class_name);
	char name[1024];
	bool singleton;

	if (v->mid != mid || v->owner == owner)
		return v->mid == mid;
	rut_agent_class_name(owner, name, sizeof(name), &singleton);
	return class_name && strcmp(class_name, name) == 0 &&
	       singleton == !!(v->row->flags & RUT_ROW_SINGLETON);
}
