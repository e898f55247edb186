/* SPDX-License-Identifier: MIT */
/*
 * Short paths for the headers of events that occur in practice.
 *
 * LTTng writes one of two forms: an enumeration that is the id itself unless it says "extended",
 * and a variant with the time alone or id and time. Rutile packs both into one word. Others write
 * id and time plainly. Whatever else the metadata says is read by walking the type
 * (RUT_CTF_HEADER_GENERAL). What is recognised is recognised by structure, sizes and places, never
 * by a tracer's name.
 */
#include <stdint.h>

#include "ctf/meta.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#define NATIVE_BE true
#else
#define NATIVE_BE false
#endif

static uint32_t align_up(uint32_t v, uint32_t align)
{
	return (v + align - 1) & ~(align - 1);
}

/* An unsigned integer of whole bytes in this machine's order. */
static bool plain(const struct rut_ctf_type *t)
{
	return (t->kind == RUT_CTF_KIND_INT || t->kind == RUT_CTF_KIND_ENUM) && !t->vlen &&
	       !t->is_signed && !t->reversed &&
	       (t->size == 8 || t->size == 16 || t->size == 32 || t->size == 64) &&
	       (t->big_endian == NATIVE_BE || t->size == 8);
}

/* Id and time among plain integers, `from` bits after the header's begin. */
static bool plan_flat(const struct rut_ctf_type *s, uint32_t header_align, uint32_t from,
		      struct rut_ctf_header_plan *ret)
{
	uint32_t pos = from;

	if (s->kind != RUT_CTF_KIND_STRUCT || s->n_fields > 16 || s->align > header_align)
		return false;
	pos = align_up(pos, s->align);
	for (uint32_t i = 0; i < s->n_fields; i++) {
		const struct rut_ctf_type *f = s->fields[i].type;

		pos = align_up(pos, f->align);
		if (!plain(f) || pos % 8 || f->reg >= 0)
			return false;
		if (f->role == RUT_CTF_ROLE_EVENT_ID) {
			if (ret->id_size)
				return false;
			ret->id_off = (uint16_t)(pos / 8);
			ret->id_size = (uint16_t)(f->size / 8);
		} else if (f->role == RUT_CTF_ROLE_TIMESTAMP) {
			if (ret->ts_size)
				return false;
			ret->ts_off = (uint16_t)(pos / 8);
			ret->ts_size = (uint16_t)(f->size / 8);
		}
		pos += (uint32_t)f->size;
	}
	ret->len = (uint16_t)(pos / 8);
	return true;
}

/* Whether the variant takes option `*ret_short` for all values of the tag but `escape`. */
static bool escape_tag(const struct rut_ctf_type *v, uint64_t escape, uint32_t *ret_short,
		       uint32_t *ret_long)
{
	bool have_short = false, have_long = false;

	if (v->n_fields != 2 || v->n_ranges != 2 || v->tag_signed)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		const struct rut_ctf_range *r = &v->ranges[i];

		if (r->lo == 0 && r->hi == escape - 1) {
			*ret_short = r->label;
			have_short = true;
		} else if (r->lo == escape && r->hi == escape) {
			*ret_long = r->label;
			have_long = true;
		}
	}
	return have_short && have_long && *ret_short != *ret_long;
}

static bool plan_escape(const struct rut_ctf_type *h, struct rut_ctf_header_plan *ret)
{
	const struct rut_ctf_type *id, *v, *brief, *ts;
	uint32_t brief_option = 0, long_option = 0, pos;
	bool compact;

	if (h->n_fields != 2 || h->align < 8)
		return false;
	id = h->fields[0].type;
	v = h->fields[1].type;
	if ((id->kind != RUT_CTF_KIND_INT && id->kind != RUT_CTF_KIND_ENUM) || id->vlen ||
	    id->is_signed || id->reversed || id->role != RUT_CTF_ROLE_EVENT_ID ||
	    id->big_endian != NATIVE_BE || NATIVE_BE || v->kind != RUT_CTF_KIND_VARIANT ||
	    v->len_reg != id->reg || (id->size != 5 && id->size != 16))
		return false;
	compact = id->size == 5;
	if (!escape_tag(v, ((uint64_t)1 << id->size) - 1, &brief_option, &long_option))
		return false;
	brief = v->fields[brief_option].type;
	if (brief->kind != RUT_CTF_KIND_STRUCT || brief->n_fields != 1 || brief->align > h->align)
		return false;
	ts = brief->fields[0].type;
	if (ts->role != RUT_CTF_ROLE_TIMESTAMP || ts->kind != RUT_CTF_KIND_INT || ts->vlen ||
	    ts->reversed || ts->reg >= 0 || ts->big_endian || ts->is_signed ||
	    ts->size != (compact ? 27 : 32))
		return false;
	pos = align_up((uint32_t)id->size, brief->align);
	if (compact ? pos != 5 : pos % 8)
		return false;
	ret->short_ts_off = (uint16_t)(pos / 8);
	ret->short_len = (uint16_t)((pos + ts->size) / 8);
	ret->kind = compact ? RUT_CTF_HEADER_COMPACT : RUT_CTF_HEADER_LARGE;
	return plan_flat(v->fields[long_option].type, h->align, (uint32_t)id->size, ret) &&
	       ret->id_size == 4 && ret->ts_size == 8;
}

static bool plan_word(const struct rut_ctf_type *h, struct rut_ctf_header_plan *ret)
{
	const struct rut_ctf_type *id, *ts;

	if (h->kind != RUT_CTF_KIND_STRUCT || h->n_fields != 2 || h->align < 8 || NATIVE_BE)
		return false;
	id = h->fields[0].type;
	ts = h->fields[1].type;
	if (!plain(id) || id->size != 16 || id->reg >= 0 || id->role != RUT_CTF_ROLE_EVENT_ID ||
	    ts->kind != RUT_CTF_KIND_INT || ts->vlen || ts->reversed || ts->is_signed ||
	    ts->big_endian || ts->size != 48 || ts->align > 16 || ts->reg >= 0 ||
	    ts->role != RUT_CTF_ROLE_TIMESTAMP)
		return false;
	ret->kind = RUT_CTF_HEADER_WORD;
	ret->len = 8;
	return true;
}

void rut_meta_plan_header(struct rut_meta_stream_class *sc)
{
	const struct rut_ctf_type *h = sc->pub.event_header;
	struct rut_ctf_header_plan plan = {.kind = RUT_CTF_HEADER_GENERAL};

	sc->header = plan;
	if (!h) {
		sc->header.kind = RUT_CTF_HEADER_NONE;
		sc->header.align = 1;
		return;
	}
	sc->header.align = h->align;
	if (sc->header_referred)
		return;
	if (h->align >= 8 && plan_flat(h, h->align, 0, &plan)) {
		plan.kind = RUT_CTF_HEADER_FLAT;
	} else {
		plan = (struct rut_ctf_header_plan){0};
		if (!plan_word(h, &plan) && !plan_escape(h, &plan))
			return;
	}
	plan.align = h->align;
	plan.max_bytes = plan.len > plan.short_len ? plan.len : plan.short_len;
	sc->header = plan;
}
