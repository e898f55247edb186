/* SPDX-License-Identifier: MIT */
/* What scripts know of the Ruby frames of the current thread (ruby.h). */
#include <linux/bpf.h>

#include "bpf/ruby.h"
#include "bpf/script_ruby.h"
#include "script/calls.h"
#include "script/ruby.h"

static const struct rut_type *simple(struct rut_checker *c, enum rut_type_kind kind)
{
	c->prog->needs_ruby = true;
	return rut_type_simple(kind);
}

const struct rut_type *rut_check_rmethod(struct rut_checker *c, struct rut_node *n)
{
	return simple(c, RUT_T_RMETHOD);
}

const struct rut_type *rut_check_rline(struct rut_checker *c, struct rut_node *n)
{
	return simple(c, RUT_T_RLINE);
}

const struct rut_type *rut_check_rthread(struct rut_checker *c, struct rut_node *n)
{
	return simple(c, RUT_T_RTHREAD);
}

/* rstack, rstack(limit) */
const struct rut_type *rut_check_rstack(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_stack(c, n, RUT_T_RSTACK, RUT_RUBY_DEPTH);

	if (t && t->stack_mode != RUT_STACK_BPFTRACE)
		return rut_check_error(c, n->list, "rstack has one form only");
	c->prog->needs_ruby = c->prog->needs_rstacks = true;
	return t;
}

static rut_vreg gen_here(struct rut_gen *g, enum rut_script_here what)
{
	struct rut_ir_arg args[] = {RUT_ARG_INT(what)};

	return rut_ir_call_linked(&g->ir, RUT_RUBY_HERE, 1, args);
}

rut_vreg rut_gen_rmethod(struct rut_gen *g, struct rut_node *n)
{
	return gen_here(g, RUT_HERE_METHOD);
}

rut_vreg rut_gen_rline(struct rut_gen *g, struct rut_node *n)
{
	return gen_here(g, RUT_HERE_LINE);
}

rut_vreg rut_gen_rthread(struct rut_gen *g, struct rut_node *n)
{
	return gen_here(g, RUT_HERE_THREAD);
}

void rut_gen_rstack(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	uint32_t limit = n->type->stack_limit ? n->type->stack_limit : RUT_RUBY_DEPTH;
	struct rut_ir_arg args[] = {RUT_ARG_INT(limit)};

	rut_gen_store(g, to, 8, rut_ir_call_linked(&g->ir, RUT_RUBY_STACK, 1, args));
	rut_ir_store_imm(&g->ir, 8, to.base, to.off + 8, 0);
}
