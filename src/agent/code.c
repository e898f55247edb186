/* SPDX-License-Identifier: MIT */
/*
 * Hooks that serve many methods: the one of a file (files.c), and one for all methods, where a hook
 * for each file cannot be had: Ruby 2.5 has no such thing, and with YJIT each one that is set costs
 * a walk through the whole heap.
 *
 * They find the record by the address of the code that runs, in a table with entries that are valid
 * for a time (life.h). It also has the records of hooks of one method each where those cannot be
 * found from the code (rut_agent_hooklist_known). A global hook gets every call of the program:
 * what the filter leaves out costs this look. It also stays in the code, disabled, because Ruby
 * does not take it out; and of ractors it sees the main one only.
 */
#include "code.h"

#include "variant.h"

#define CODES_MIN 1024u

/* Shared empty table, read-only. */
static struct rut_agent_code nothing;

void rut_agent_codes_init(struct rut_codes *codes)
{
	*codes = (struct rut_codes){.slots = &nothing};
}

void rut_agent_codes_fini(struct rut_codes *codes)
{
	if (codes->mask)
		rut_agent_unmap(codes->slots, (codes->mask + 1ul) * sizeof(*codes->slots));
	rut_agent_codes_init(codes);
}

/* The one of this code, or a free one. */
static inline struct rut_agent_code *slot_of(const struct rut_codes *codes, VALUE iseq)
{
	struct rut_agent_code *code = rut_code_slot(codes, iseq);

	while (code->life.epoch && code->iseq != iseq)
		if (++code > &codes->slots[codes->mask])
			code = codes->slots;
	return code;
}

static bool grow(struct rut_codes *codes)
{
	struct rut_codes to = {.mask = 0};
	uint32_t holding = 0;

	for (uint32_t i = 0; i <= codes->mask; i++)
		holding += codes->slots[i].life.epoch && rut_life_recent(codes->slots[i].life);
	to.mask = rut_grown_mask(codes->mask, holding, CODES_MIN);
	to.slots = rut_agent_map((to.mask + 1ul) * sizeof(*to.slots));
	if (!to.slots)
		return false;
	for (uint32_t i = 0; i <= codes->mask; i++) {
		const struct rut_agent_code *code = &codes->slots[i];

		if (!code->life.epoch || !rut_life_recent(code->life))
			continue;
		*slot_of(&to, code->iseq) = *code;
		to.count++;
	}
	rut_agent_codes_fini(codes);
	*codes = to;
	return true;
}

static struct rut_rec **rec_slot(const struct rut_recs *recs, uint32_t path, uint32_t line,
				 uint8_t kind)
{
	uint64_t h = ((uint64_t)path << 32 ^ (uint64_t)line << 2 ^ kind) * 0x9e3779b97f4a7c15ull;
	uint32_t i = (uint32_t)(h >> 32) & recs->mask;

	for (;; i = (i + 1) & recs->mask) {
		const struct rut_rec *r = recs->slots[i];

		if (!r || (r->path == path && r->line == line && r->kind == kind))
			return &recs->slots[i];
	}
}

static bool recs_grow(struct rut_recs *recs)
{
	struct rut_recs to = {.mask = recs->slots ? recs->mask * 2 + 1 : CODES_MIN - 1,
			      .count = recs->count};

	to.slots = rut_agent_map((to.mask + 1ul) * sizeof(*to.slots));
	if (!to.slots)
		return false;
	for (uint32_t i = 0; recs->slots && i <= recs->mask; i++)
		if (recs->slots[i])
			*rec_slot(&to, recs->slots[i]->path, recs->slots[i]->line,
				  recs->slots[i]->kind) = recs->slots[i];
	rut_agent_recs_fini(recs);
	*recs = to;
	return true;
}

void rut_agent_recs_fini(struct rut_recs *recs)
{
	if (recs->slots)
		rut_agent_unmap(recs->slots, (recs->mask + 1ul) * sizeof(struct rut_rec *));
	*recs = (struct rut_recs){0};
}

/*
 * The record of this place in the program. Code that is compiled there again and again (by eval, or
 * when files are loaded again) shares it: records live as long as the session.
 */
static struct rut_rec *rec_of(struct rut_session *s, uint32_t path, uint32_t line, uint8_t kind)
{
	struct rut_rec **slot, *r;

	if (!s->recs.slots || s->recs.count > s->recs.mask / 4 * 3)
		if (!recs_grow(&s->recs) && (!s->recs.slots || s->recs.count >= s->recs.mask))
			return NULL;
	slot = rec_slot(&s->recs, path, line, kind);
	r = *slot;
	if (r)
		return r;
	r = rut_agent_session_alloc(s, sizeof(*r));
	if (!r)
		return NULL;
	r->s = s;
	r->kind = kind;
	r->shared = true;
	r->path = path;
	r->line = line;
	s->recs.count++;
	*slot = r;
	return r;
}

void rut_agent_code_drop(struct rut_rec *r)
{
	if (r->dropping || r->shared)
		return;
	r->drop = r->dropping = true;
	__atomic_fetch_add(&r->s->dropper.count, 1, __ATOMIC_RELAXED);
}

/* That is so in the Rubies that we know. */
static bool is_ment(VALUE v)
{
	return !rut_special_p(v) && rut_imemo(v) == RUT_IMEMO_MENT;
}

struct rut_variant *rut_agent_code_resolve(struct rut_rec *r, struct rut_trace_arg *ta, VALUE ment)
{
	VALUE iseq = ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ], owner, mid;
	struct rut_variant *v;
	bool excluded;

	owner = rb.rb_tracearg_defined_class(ta);
	mid = rb.rb_tracearg_method_id(ta);
	if (mid == rb.qnil) {
		if (!r->seen)
			rut_agent_code_drop(r);
		return NULL;
	}
	v = rut_agent_variant_find(r, owner, mid, &excluded);
	if (excluded && r->kind == RUT_REC_METHOD && !r->seen)
		rut_agent_code_drop(r);
	r->seen = true;
	if (!v && !excluded)
		return NULL;
	/* Another ractor must not see the key of one and the method of the other. */
	if (!rut_single_ractor() || !is_ment(ment)) {
		r->ment = 0;
	} else {
		r->ment = ment;
		r->last = v;
		r->life = rut_agent_life_of(owner, ment);
		if (r->shared) {
			r->iseq = iseq;
			r->life = rut_life_both(r->life, rut_agent_life_of(iseq, 0));
		}
	}
	return v;
}

/* Is it still the code of this record, after a GC? */
static struct rut_rec *resolve(struct rut_session *s, VALUE iseq, bool bmethod, struct rut_rec *old)
{
	uint8_t kind = bmethod ? RUT_REC_BLOCK : RUT_REC_METHOD;
	uint32_t path, line;

	if (!rut_agent_session_wants_file(s, iseq, &path))
		return NULL;
	line = (uint32_t)rut_fix2long(rb.rb_profile_frame_first_lineno(iseq));
	if (old && old->path == path && old->line == line && old->kind == kind)
		return old;
	return rec_of(s, path, line, kind);
}

/* The place of this code in the table, its own or a free one; NULL: no memory. */
static struct rut_agent_code *place_of(struct rut_session *s, VALUE iseq)
{
	struct rut_codes *codes = &s->codes;

	rut_lives_sync();
	if (RUT_UNLIKELY(!codes->mask || codes->count > codes->mask / 4 * 3))
		if ((!grow(codes) && !codes->mask) || codes->count >= codes->mask)
			return NULL;
	return slot_of(codes, iseq);
}

static void fill(struct rut_session *s, struct rut_agent_code *code, VALUE iseq, struct rut_rec *r)
{
	s->codes.count += !code->life.epoch;
	code->rec = r;
	code->iseq = iseq;
	code->ment = 0;
	code->call_life = (struct rut_life){0};
	code->life = rut_agent_life_of(iseq, 0);
}

/* The place of this code, which is right now; NULL: no memory. */
static struct rut_agent_code *find(struct rut_session *s, VALUE iseq, bool bmethod)
{
	struct rut_agent_code *code = place_of(s, iseq);
	struct rut_rec *r;

	if (!code || RUT_LIKELY(rut_life_holds(code->life)))
		return code;
	r = resolve(s, iseq, bmethod, code->life.epoch ? code->rec : NULL);
	if (r)
		r->ment = 0; /* it may be another method of this place */
	if (r && !r->shared)
		r->iseq = iseq;
	fill(s, code, iseq, r);
	return code;
}

void rut_agent_code_adopt(struct rut_session *s, struct rut_rec *r)
{
	struct rut_agent_code *code;

	rut_lock(&s->codes_lock);
	code = place_of(s, r->iseq);
	if (code)
		fill(s, code, r->iseq, r);
	rut_unlock(&s->codes_lock);
}

struct rut_rec *rut_agent_code_rec(struct rut_session *s, VALUE iseq, bool bmethod)
{
	bool single = rut_single_ractor();
	const struct rut_agent_code *code;
	struct rut_rec *r;

	if (RUT_UNLIKELY(!single))
		rut_lock(&s->codes_lock);
	code = find(s, iseq, bmethod);
	r = code ? code->rec : NULL;
	if (RUT_UNLIKELY(!single))
		rut_unlock(&s->codes_lock);
	return r;
}

RUT_COLD struct rut_variant *rut_agent_code_variant(struct rut_session *s, struct rut_trace_arg *ta)
{
	VALUE iseq = ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ];
	struct rut_agent_code *code;
	struct rut_variant *v;

	if (!rut_single_ractor()) {
		struct rut_rec *r = rut_agent_code_rec(s, iseq, false);

		return r ? rut_rec_variant(r, ta) : NULL;
	}
	code = find(s, iseq, false);
	if (!code || !code->rec)
		return NULL;
	v = rut_rec_variant(code->rec, ta);
	if (v && code->rec->ment) {
		code->ment = code->rec->ment;
		code->call_life = rut_life_both(code->life, code->rec->life);
		code->v = v;
		code->row = v->row;
	}
	return v;
}
