/* SPDX-License-Identifier: MIT */
#include "ctf/program.h"

#include <string.h>

#include "ctf/meta.h"

struct compiler {
	struct rut_meta *m;
	struct rut_err *err;
	struct rut_ctf_step *steps;
	uint32_t n_steps, n_segs;
	bool open;	     /* the last segment still grows */
	uint32_t open_step;  /* the step of that segment */
	uint32_t open_align; /* alignment of its begin */
	uint64_t off;	     /* bits of it so far */
};

static int add_step(struct compiler *c, struct rut_ctf_step step)
{
	struct rut_ctf_step *steps;

	if (c->n_steps >= 4 * RUT_META_MAX_SEGS)
		return rut_err_set(c->err, EINVAL, "a record has too many parts");
	steps = rut_arena_grow(&c->m->arena, c->steps, c->n_steps, sizeof(*steps));
	if (!steps)
		return rut_err_set(c->err, ENOMEM, "the description grows too large");
	steps[c->n_steps++] = step;
	c->steps = steps;
	return 0;
}

static int new_segment(struct compiler *c, enum rut_ctf_op op, const struct rut_ctf_type *t,
		       uint32_t align, uint64_t bits)
{
	if (c->n_segs >= RUT_META_MAX_SEGS)
		return rut_err_set(c->err, EINVAL, "a record has too many parts");
	return add_step(c, (struct rut_ctf_step){.op = (uint8_t)op,
						 .seg = (uint16_t)c->n_segs++,
						 .align = align,
						 .bits = bits,
						 .type = t});
}

/* Puts something of a known size at the end: opens a segment when the distance is unknown. */
static int place(struct compiler *c, struct rut_ctf_type *t, uint64_t bits)
{
	int rc;

	if (c->open)
		c->off = (c->off + t->align - 1) & ~((uint64_t)t->align - 1);
	if (!c->open || t->align > c->open_align || c->off + bits > UINT32_MAX) {
		if ((rc = new_segment(c, RUT_CTF_OP_FIXED, NULL, t->align, 0)) < 0)
			return rc;
		c->open = true;
		c->open_step = c->n_steps - 1;
		c->open_align = t->align;
		c->off = 0;
	}
	t->located = true;
	t->seg = c->steps[c->open_step].seg;
	t->off = (uint32_t)c->off;
	c->off += bits;
	c->steps[c->open_step].bits = c->off;
	return 0;
}

/* Something of unknown size: a segment of its own. */
static int place_unknown(struct compiler *c, enum rut_ctf_op op, struct rut_ctf_type *t,
			 uint64_t bits)
{
	c->open = false;
	t->located = true;
	t->off = 0;
	t->seg = (uint16_t)c->n_segs;
	return new_segment(c, op, t, t->align, bits);
}

static int compile(struct compiler *c, struct rut_ctf_type *t)
{
	uint64_t stride;
	int rc;

	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		if ((rc = place(c, t, 0)) < 0)
			return rc;
		for (uint32_t i = 0; i < t->n_fields; i++)
			if ((rc = compile(c, t->fields[i].type)) < 0)
				return rc;
		return 0;
	case RUT_CTF_KIND_STRING:
		return place_unknown(c, t->char_bytes == 1 ? RUT_CTF_OP_STRING : RUT_CTF_OP_ANY, t,
				     0);
	case RUT_CTF_KIND_SEQUENCE:
		stride = t->elem->fixed ? (t->elem->size + t->elem->align - 1) &
						  ~((uint64_t)t->elem->align - 1)
					: 0;
		if (!stride || stride != t->elem->size || t->elem->saves)
			return place_unknown(c, RUT_CTF_OP_ANY, t, 0);
		return place_unknown(c, RUT_CTF_OP_SEQUENCE, t, t->len_bytes ? 8 : stride);
	default:
		if (!t->fixed || (t->elem && t->elem->saves))
			return place_unknown(c, RUT_CTF_OP_ANY, t, 0);
		if ((rc = place(c, t, t->size)) < 0 || t->reg < 0)
			return rc;
		return add_step(
			c, (struct rut_ctf_step){
				   .op = RUT_CTF_OP_SAVE, .seg = t->seg, .off = t->off, .type = t});
	}
}

int rut_meta_compile(struct rut_meta *m, struct rut_ctf_event_class *cls, struct rut_err *err)
{
	struct compiler c = {.m = m, .err = err};
	struct rut_ctf_program *prog;
	int rc;

	for (int s = RUT_CTF_SCOPE_STREAM_CONTEXT; s < RUT_CTF_SCOPE_COUNT; s++) {
		struct rut_ctf_type *root = rut_ctf_class_scope(cls, (enum rut_ctf_scope)s);

		if (root && (rc = compile(&c, root)) < 0)
			return rc;
	}
	if ((rc = add_step(&c, (struct rut_ctf_step){.op = RUT_CTF_OP_END})) < 0)
		return rc;
	prog = rut_arena_alloc(&m->arena, sizeof(*prog));
	if (!prog)
		return rut_err_set(err, ENOMEM, "the description grows too large");
	*prog = (struct rut_ctf_program){c.n_steps, c.n_segs, c.steps};
	cls->program = prog;
	if (c.n_segs > m->max_segs)
		m->max_segs = c.n_segs;
	return 0;
}
