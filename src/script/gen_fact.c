/* SPDX-License-Identifier: MIT */
/* What code for other machines takes for granted: where it is generated, it becomes a fact. */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#include "script/fact.h"
#include "script/gen.h"

bool rut_check_is_portable(struct rut_checker *c, const struct rut_node *n, const char *what)
{
	if (!what || !c->prog->opts.portable)
		return true;
	rut_check_error(c, n,
			"%s is one of this machine alone: a script with it cannot be compiled for "
			"others",
			what);
	return false;
}

void rut_check_enum_fact(struct rut_checker *c, const struct rut_node *n, int64_t value)
{
	struct rut_script_fact f = {
		.kind = RUT_FACT_ENUM, .name = n->text, .value = value, .span = n->span};
	const struct rut_type *t = n->as;

	/* Those of the script are what it says they are. */
	for (const struct rut_def *d = c->prog->ast.defs; d; d = d->next)
		if (d->type == t)
			return;
	rut_fact_add(c->prog, &f);
}

void rut_check_size_fact(struct rut_script_program *p, const struct rut_node *n,
			 const struct rut_type *t)
{
	struct rut_script_fact f = {.kind = RUT_FACT_SIZE};

	while (t->kind == RUT_T_ARRAY && t->elem)
		t = t->elem;
	if (t->kind != RUT_T_STRUCT || !t->btf_id)
		return;
	f.of = t->name;
	f.value = t->size;
	if (n)
		f.span = n->span;
	rut_fact_add(p, &f);
}

uint32_t rut_gen_cpus_fact(struct rut_gen *g)
{
	const struct rut_script_fact f = {
		.kind = RUT_FACT_CPUS, .value = rut_program_ncpus(), .span = {g->ir.place, 1}};

	return rut_fact_add(g->prog, &f);
}

uint32_t rut_gen_task_fact(struct rut_gen *g, const struct rut_node *n, const char *field,
			   int64_t offset, uint32_t size)
{
	const struct rut_script_fact f = {.kind = RUT_FACT_FIELD,
					  .of = "struct task_struct",
					  .name = field,
					  .value = offset,
					  .size = size,
					  .span = n->span};

	return rut_fact_add(g->prog, &f);
}

static bool is_unnamed(const struct rut_type *t)
{
	return t->kind == RUT_T_STRUCT && t->btf_id && t->name[strlen(t->name) - 1] == ' ';
}

/* Parameters are in places of their own: that they are the same is all that there is to it. */
static uint32_t args_fact(struct rut_gen *g, struct rut_script_fact *f)
{
	const struct rut_script_attach *a = g->ctx->attach;

	switch (g->ctx->kind) {
	case RUT_PROBE_TRACEPOINT:
		f->kind = RUT_FACT_TRACEPOINT;
		f->group = a->group;
		f->of = a->event;
		return rut_fact_add(g->prog, f);
	case RUT_PROBE_RAWTRACEPOINT:
		f->kind = RUT_FACT_RAW;
		f->of = a->event;
		rut_fact_add(g->prog, f);
		return 0;
	case RUT_PROBE_FENTRY:
	case RUT_PROBE_FEXIT:
		f->kind = RUT_FACT_FUNCTION;
		f->of = a->event;
		rut_fact_add(g->prog, f);
		return 0;
	default:
		return 0;
	}
}

/* The fact of the field `path` of what `base` is or points to; 0: it is where it is. */
static uint32_t field_fact(struct rut_gen *g, struct rut_node *n, const struct rut_node *base,
			   const char *path, uint32_t offset)
{
	const struct rut_type *t =
		base->type->kind == RUT_T_POINTER ? base->type->elem : base->type;
	const struct rut_type_field *field = n->what;
	struct rut_script_fact f = {
		.kind = RUT_FACT_FIELD,
		.name = path,
		.value = offset,
		.size = field->type->size,
		.bits = field->bits,
		.shift = field->bit_shift,
		.span = n->span,
	};

	if (base->kind == RUT_N_NAME && !strcmp(base->text, "args"))
		return args_fact(g, &f);
	if (!t || t->kind != RUT_T_STRUCT || !t->btf_id)
		return 0;
	if (is_unnamed(t)) {
		rut_gen_fail(g, n,
			     "the structure has no name by which other machines would find '%s'",
			     path);
		return 0;
	}
	f.of = t->name;
	return rut_fact_add(g->prog, &f);
}

struct rut_mem rut_gen_portable_field(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_type_field *f = n->what;
	struct rut_node *base = n->a;
	uint32_t offset = f->offset, fact;
	struct rut_mem m = {0};
	char path[200], longer[200];

	snprintf(path, sizeof(path), "%s", n->text ? n->text : "");
	/* Structures without a name are found by a field of the one around them. */
	while (is_unnamed(base->type) && base->kind == RUT_N_FIELD) {
		const struct rut_type_field *outer = base->what;

		snprintf(longer, sizeof(longer), "%.90s.%.100s", base->text, path);
		snprintf(path, sizeof(path), "%s", longer);
		offset += outer->offset;
		base = base->a;
	}
	if (base->type->kind == RUT_T_POINTER) {
		m.base = rut_gen_scalar(g, base);
		m.space = base->type->user ? RUT_SPACE_USER : RUT_SPACE_KERNEL;
	} else {
		m = rut_gen_address(g, base);
	}
	fact = field_fact(g, n, base, path, offset);
	m.off += (int32_t)offset;
	if (fact && m.space == RUT_SPACE_CTX && !m.fact) {
		m.fact = fact;
		return m;
	}
	if (!fact)
		return m;
	m.base = rut_ir_alu_fact(&g->ir, BPF_ADD, rut_gen_pointer(g, (struct rut_mem){m.base}),
				 m.off, fact);
	m.off = 0;
	return m;
}
