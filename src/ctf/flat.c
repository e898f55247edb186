/* SPDX-License-Identifier: MIT */
#include "ctf/flat.h"

#include <stdlib.h>

/* Whether the body is one segment of whole bytes, or empty. */
static bool is_fixed(const struct rut_ctf_program *prog, struct rut_flat_class *ret)
{
	const struct rut_ctf_step *s = prog->steps;

	if (s->op == RUT_CTF_OP_END)
		return true;
	if (s->op != RUT_CTF_OP_FIXED || s[1].op != RUT_CTF_OP_END || s->bits % 8 ||
	    s->bits / 8 > UINT32_MAX || s->align > 8 * UINT16_MAX)
		return false;
	ret->bytes = (uint32_t)(s->bits / 8);
	ret->mask = s->align > 8 ? (uint16_t)(s->align / 8 - 1) : 0;
	return true;
}

static bool saves_values(const struct rut_ctf_program *prog)
{
	for (const struct rut_ctf_step *s = prog->steps; s->op != RUT_CTF_OP_END; s++)
		if (s->op != RUT_CTF_OP_FIXED && s->op != RUT_CTF_OP_STRING)
			return true;
	return false;
}

static struct rut_flat_class describe(const struct rut_ctf_event_class *e, const uint8_t *wanted)
{
	struct rut_flat_class c = {.how = RUT_FLAT_UNKNOWN};
	bool want;

	if (!e)
		return c;
	want = !wanted || wanted[e->index];
	c.index = e->index;
	if (is_fixed(e->program, &c))
		c.how = want ? RUT_FLAT_TAKE : RUT_FLAT_SKIP;
	else if (!want)
		c.how = RUT_FLAT_WALK;
	else
		c.how = saves_values(e->program) ? RUT_FLAT_WALK_LAST : RUT_FLAT_WALK_TAKE;
	return c;
}

static bool is_same(const struct rut_ctf_header_plan *a, const struct rut_ctf_header_plan *b)
{
	return a->kind == b->kind && a->align == b->align && a->max_bytes == b->max_bytes &&
	       a->id_off == b->id_off && a->id_size == b->id_size && a->ts_off == b->ts_off &&
	       a->ts_size == b->ts_size && a->len == b->len && a->short_ts_off == b->short_ts_off &&
	       a->short_len == b->short_len;
}

static enum rut_flat_packed packed_form(const struct rut_flat *f)
{
	const struct rut_ctf_header_plan *h = &rut_meta_stream_class(f->sc)->header;

	for (size_t id = 0; id < f->n; id++)
		if (f->classes[id].mask)
			return RUT_FLAT_NOT_PACKED;
	if (is_same(h, &rut_flat_compact))
		return RUT_FLAT_PACKED_COMPACT;
	if (is_same(h, &rut_flat_large))
		return RUT_FLAT_PACKED_LARGE;
	return RUT_FLAT_NOT_PACKED;
}

struct rut_flat *rut_flat_new(const struct rut_ctf_stream_class *sc, const uint8_t *wanted)
{
	struct rut_flat *f = malloc(sizeof(*f) + sc->n_by_id * sizeof(f->classes[0]));

	if (!f)
		return NULL;
	f->sc = sc;
	f->n = sc->n_by_id;
	for (size_t id = 0; id < f->n; id++)
		f->classes[id] = describe(sc->by_id[id], wanted);
	f->packed = packed_form(f);
	return f;
}
