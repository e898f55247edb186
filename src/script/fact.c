/* SPDX-License-Identifier: MIT */
#include "script/fact.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "script/btf.h"
#include "script/check.h"
#include "script/tracefs.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static const char *keep(struct rut_script_program *p, const char *s)
{
	return s ? rut_arena_strndup(&p->ast.arena, s, strlen(s)) : NULL;
}

uint32_t rut_fact_add(struct rut_script_program *p, const struct rut_script_fact *f)
{
	struct rut_script_fact *facts;

	if (!p->opts.portable)
		return 0;
	for (size_t i = 0; i < p->nfacts; i++)
		if (p->facts[i].kind == f->kind && same_text(p->facts[i].group, f->group) &&
		    same_text(p->facts[i].of, f->of) && same_text(p->facts[i].name, f->name))
			return (uint32_t)i + 1;
	facts = realloc(p->facts, (p->nfacts + 1) * sizeof(*facts));
	if (!facts)
		return 0;
	p->facts = facts;
	facts[p->nfacts] = *f;
	facts[p->nfacts].group = keep(p, f->group);
	facts[p->nfacts].of = keep(p, f->of);
	facts[p->nfacts].name = keep(p, f->name);
	return (uint32_t)++p->nfacts;
}

/* ---- On the machine where the script is loaded ---- */

static int differs(struct rut_script_program *p, const struct rut_script_fact *f, const char *what)
{
	return rut_source_error(
		&p->src, f->span,
		"%s%s%s is %s than where the script was compiled: compile it on such a machine",
		f->of ? f->of : "", f->of && f->name ? "." : "", f->name ? f->name : "", what);
}

static int find_in(struct rut_script_program *p, const struct rut_script_fact *f,
		   const struct rut_type *t, int64_t *ret)
{
	struct rut_nearest near = {f->name, strlen(f->name), "", 0};
	const struct rut_type_field *field = NULL;
	char path[256], *save = NULL;
	int64_t offset = 0;

	snprintf(path, sizeof(path), "%s", f->name);
	for (char *name = strtok_r(path, ".", &save); name; name = strtok_r(NULL, ".", &save)) {
		uint32_t base = 0;

		if (t->kind == RUT_T_STRUCT)
			rut_check_complete(p, t);
		field = rut_check_find_field(p, t, name, &near, &base);
		if (!field)
			return rut_source_error(&p->src, f->span,
						"%s of this kernel has no field '%s'", f->of,
						f->name);
		offset += base + field->offset;
		t = field->type;
	}
	if (!field || field->type->size != f->size)
		return differs(p, f, "of another size");
	if (field->bits != f->bits || field->bit_shift != f->shift)
		return differs(p, f, "in other bits");
	*ret = offset;
	return 0;
}

static int find_size(struct rut_script_program *p, const struct rut_script_fact *f,
		     const struct rut_type *t, int64_t *ret)
{
	*ret = t->size;
	return *ret == f->value ? 0 : differs(p, f, "of another size");
}

static int find_tracepoint(struct rut_script_program *p, const struct rut_script_fact *f,
			   int64_t *ret)
{
	struct rut_err err = RUT_ERR_INIT;
	const struct rut_type *t = rut_tracepoint_args(p, f->group, f->of, &err);

	if (!t)
		return rut_source_error(&p->src, f->span, "%s", err.msg);
	return find_in(p, f, t, ret);
}

/* Parameters are at places of their own: they cannot be moved. */
static int find_param(struct rut_script_program *p, const struct rut_script_fact *f,
		      const struct rut_type *t, int64_t *ret)
{
	int rc = t ? find_in(p, f, t, ret) : -ENOENT;

	if (rc == -ENOENT)
		return rut_source_error(&p->src, f->span, "this kernel's types have no '%s'",
					f->of);
	if (!rc && *ret != f->value)
		return differs(p, f, "another parameter");
	return rc;
}

int rut_fact_find(struct rut_script_program *p, const struct rut_script_fact *f, int64_t *ret)
{
	const struct rut_type *t = NULL;
	uint32_t id;

	switch (f->kind) {
	case RUT_FACT_CPUS:
		*ret = rut_program_ncpus();
		return 0;
	case RUT_FACT_TRACEPOINT:
		return find_tracepoint(p, f, ret);
	case RUT_FACT_RAW:
		return find_param(p, f, rut_kernel_rawtp_args(p, f->of), ret);
	case RUT_FACT_FUNCTION:
		id = rut_kernel_function(p, f->of);
		return find_param(p, f, id ? rut_kernel_function_args(p, id) : NULL, ret);
	case RUT_FACT_ENUM:
		if (!rut_kernel_enumerator(p, f->name, ret))
			return rut_source_error(&p->src, f->span,
						"this kernel's types have no '%s'", f->name);
		return *ret == f->value ? 0 : differs(p, f, "another number");
	default:
		break;
	}
	t = rut_kernel_type(p, f->of);
	if (!t)
		return rut_source_error(
			&p->src, f->span,
			"this kernel has no '%s', or no BTF (CONFIG_DEBUG_INFO_BTF)", f->of);
	return f->kind == RUT_FACT_SIZE ? find_size(p, f, t, ret) : find_in(p, f, t, ret);
}

/* The offset of a load, the number of all else. False: it does not fit. */
static bool patch(struct bpf_insn *i, int64_t delta)
{
	int64_t off = i->off + delta, imm = (int64_t)i->imm + delta;

	if (BPF_CLASS(i->code) == BPF_LDX) {
		i->off = (int16_t)off;
		return i->off == off;
	}
	i->imm = (int32_t)imm;
	return i->imm == imm;
}

static int patch_prog(struct rut_script_program *p, struct rut_script_prog *prog,
		      const int64_t *delta)
{
	for (size_t i = 0; i < prog->nrelos; i++) {
		const struct rut_script_relo *r = &prog->relos[i];

		if (!patch(&prog->insns[r->insn], delta[r->fact]))
			return rut_source_error(&p->src, p->facts[r->fact].span,
						"this is too far away in this kernel");
	}
	return 0;
}

int rut_fact_relocate(struct rut_script_program *p)
{
	_cleanup_free_ int64_t *delta = calloc(p->nfacts + 1, sizeof(*delta));
	int rc = 0;

	if (!delta)
		return -ENOMEM;
	for (size_t i = 0; i < p->nfacts; i++) {
		int64_t now = 0;
		int failed = rut_fact_find(p, &p->facts[i], &now);

		delta[i] = now - p->facts[i].value;
		rc = rc ? rc : failed;
	}
	for (size_t i = 0; i < p->nprogs && !rc; i++)
		rc = patch_prog(p, &p->progs[i], delta);
	return rc;
}
