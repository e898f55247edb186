/* SPDX-License-Identifier: MIT */
/* Functions that change what a process or the kernel does: all of them need --unsafe. */
#include <linux/bpf.h>
#include <string.h>

#include "script/calls.h"

/* write_user(destination, source, length): true when it was written. */

const struct rut_type *rut_check_write_user(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *source = n->list->next, *length = source->next;
	const struct rut_type *to, *from;
	int64_t len;

	if (!c->prog->opts.unsafe)
		return rut_check_error(
			c, n, "%s",
			c->src->as_bpftrace
				? "write_user() is unsafe. To use you need the --unsafe flag"
				: "write_user() changes other processes: it needs --unsafe");
	to = rut_check_expr(c, n->list);
	from = rut_check_expr(c, source);
	if (!to || !from || !rut_check_int(c, length, "the length"))
		return NULL;
	if (!rut_type_is_scalar(to))
		return rut_check_error(c, n->list, "write_user() writes to a pointer");
	if (!rut_literal_int(length, &len) || len < 1 || len > from->size)
		return rut_check_error(c, length, "the length is a constant from 1 to %u",
				       from->size);
	return rut_type_simple(RUT_T_BOOL);
}

rut_vreg rut_gen_write_user(struct rut_gen *g, struct rut_node *n)
{
	struct rut_node *source = n->list->next;
	rut_vreg to = rut_gen_scalar(g, n->list), rc, r = rut_ir_reg(&g->ir);
	struct rut_ir_arg args[] = {RUT_ARG(to), rut_gen_arg(rut_gen_mem(g, source)),
				    RUT_ARG_INT((int64_t)source->next->value)};
	uint32_t end = rut_ir_label(&g->ir);

	rc = rut_ir_call(&g->ir, BPF_FUNC_probe_write_user, 3, args);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r});
	rut_ir_branch_imm(&g->ir, BPF_JNE, rc, 0, end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r, .imm = 1});
	rut_ir_place(&g->ir, end);
	return r;
}

/* override(value): what a function of the kernel returns in its place. */

const struct rut_type *rut_check_override(struct rut_checker *c, struct rut_node *n)
{
	if (!c->prog->opts.unsafe)
		return rut_check_error(c, n, "override() changes the kernel: it needs --unsafe");
	if (c->ctx->kind != RUT_PROBE_KPROBE)
		return rut_check_error(
			c, n,
			"override() needs kprobe, and a kernel that allows errors to "
			"be injected");
	return rut_check_int(c, n->list, "the value") ? rut_type_simple(RUT_T_VOID) : NULL;
}

rut_vreg rut_gen_override(struct rut_gen *g, struct rut_node *n)
{
	struct rut_ir_arg args[] = {RUT_ARG(g->ctx_reg), RUT_ARG(rut_gen_scalar(g, n->list))};

	rut_ir_call(&g->ir, BPF_FUNC_override_return, 2, args);
	return 0;
}
