/* SPDX-License-Identifier: MIT */
/*
 * path(p): the name of a file, by the kernel's bpf_d_path(). The kernel permits it in iterators and
 * at a few functions, and takes only pointers that it knows to be valid: those of the context and
 * what these point to. They are loaded directly here, not copied as other memory is.
 */
#include <linux/bpf.h>
#include <string.h>

#include "script/calls.h"
#include "script/gen.h"

static const struct rut_type *struct_of(const struct rut_type *t)
{
	return t->kind == RUT_T_POINTER && t->elem ? t->elem : t;
}

/* Fields alone lead from the context to this. */
static bool is_trusted(const struct rut_node *n)
{
	while (n->kind == RUT_N_FIELD)
		n = n->a;
	return n->kind == RUT_N_NAME && (!strcmp(n->text, "ctx") || !strcmp(n->text, "args"));
}

const struct rut_type *rut_check_path(struct rut_checker *c, struct rut_node *n)
{
	enum rut_probe_kind kind = c->ctx->kind;
	struct rut_node *p = n->list, *size = p->next;
	uint32_t most = c->prog->set.max_strlen;
	const struct rut_type *t;
	int64_t bytes = most;

	if (kind != RUT_PROBE_ITER && kind != RUT_PROBE_FENTRY && kind != RUT_PROBE_FEXIT)
		return rut_check_error(c, n,
				       "the kernel permits path() in iter, fentry and fexit "
				       "probes only, not in %s",
				       rut_probe_kind_name(kind));
	if (!rut_check_is_portable(c, n, "the way to the path"))
		return NULL;
	t = rut_check_expr(c, p);
	if (!t)
		return NULL;
	t = struct_of(t);
	if (t->kind != RUT_T_STRUCT || strcmp(t->name, "struct path") != 0)
		return rut_check_error(c, p, "path() takes a struct path: path(%s)",
				       kind == RUT_PROBE_ITER ? "ctx.file.f_path"
							      : "args.file.f_path");
	if (!is_trusted(p))
		return rut_check_error(c, p,
				       "the kernel takes only a struct path to which fields alone "
				       "lead from %s",
				       kind == RUT_PROBE_ITER ? "ctx" : "args");
	if (size && (!rut_check_int(c, size, "the size") || !rut_literal_int(size, &bytes) ||
		     bytes < 1 || bytes > most))
		return rut_check_error(c, size, "the size is a constant from 1 to %u (max_strlen)",
				       most);
	return rut_type_string(c->arena, (uint32_t)bytes);
}

/* Where it is, in memory that the kernel knows; null pointers on the way jump to `none`. */
static struct rut_mem locate(struct rut_gen *g, const struct rut_node *n, uint32_t none)
{
	struct rut_mem at = {g->ctx_reg, 0, RUT_SPACE_CTX};
	const struct rut_type_field *f = n->what;
	rut_vreg pointer;

	if (n->kind != RUT_N_FIELD)
		return at;
	at = locate(g, n->a, none);
	if (n->a->kind == RUT_N_FIELD && n->a->type->kind == RUT_T_POINTER) {
		pointer = rut_ir_load(&g->ir, 8, at.base, at.off);
		rut_ir_branch_imm(&g->ir, BPF_JEQ, pointer, 0, none);
		at = (struct rut_mem){pointer, 0, RUT_SPACE_KERNEL};
	}
	at.off += (int32_t)f->offset;
	return at;
}

/* A path that is longer than `to` loses its beginning. */
void rut_gen_path(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	uint32_t whole = g->prog->set.max_strlen, size = n->type->size;
	uint32_t none = rut_ir_label(&g->ir), bad = rut_ir_label(&g->ir),
		 end = rut_ir_label(&g->ir);
	uint32_t fits = rut_ir_label(&g->ir);
	struct rut_mem room = rut_gen_scratch_room(g, n, whole), at = locate(g, n->list, none);
	rut_vreg from = rut_ir_reg(&g->ir), len;

	if (n->list->type->kind == RUT_T_POINTER) {
		at.base = rut_ir_load(&g->ir, 8, at.base, at.off);
		at.off = 0;
		rut_ir_branch_imm(&g->ir, BPF_JEQ, at.base, 0, none);
	}
	if (at.off) {
		at.base = rut_ir_alu_imm(&g->ir, BPF_ADD, at.base, at.off);
		at.off = 0;
	}
	struct rut_ir_arg args[] = {RUT_ARG(at.base), rut_gen_arg(room), RUT_ARG_INT(whole)};
	len = rut_ir_call(&g->ir, BPF_FUNC_d_path, 3, args);
	rut_ir_branch_imm(&g->ir, BPF_JSLT, len, 0, bad);
	rut_ir_mov(&g->ir, from, rut_gen_pointer(g, room));
	rut_ir_branch_imm(&g->ir, BPF_JLE, len, size, fits);
	rut_ir_branch_imm(&g->ir, BPF_JGT, len, whole, fits);
	rut_ir_mov(&g->ir, from,
		   rut_ir_alu(&g->ir, BPF_ADD, from, rut_ir_alu_imm(&g->ir, BPF_SUB, len, size)));
	rut_ir_place(&g->ir, fits);
	rut_gen_read_text(g, n, to, size, from, RUT_SPACE_KERNEL);
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, bad);
	rut_gen_count(g, n, RUT_SITE_READ);
	rut_ir_place(&g->ir, none);
	rut_gen_zero(g, to, size);
	rut_ir_place(&g->ir, end);
}
