/* SPDX-License-Identifier: MIT */
/* What scripts know of the Ruby frames of the current thread (ruby.h). */
#include <linux/bpf.h>
#include <string.h>

#include "bpf/ruby.h"
#include "bpf/script_ruby.h"
#include "script/calls.h"
#include "script/ruby.h"
#include "script/ruby_probe.h"

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

const struct rut_type *rut_check_rrequest(struct rut_checker *c, struct rut_node *n)
{
	if (rut_ruby_wants_requests(c, n))
		return NULL;
	return simple(c, RUT_T_RREQUEST);
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

/* "Order#total", "Order.find", "total"; in no method name is a star beside a letter. */
static bool is_method_name(const char *name)
{
	const char *at = strrchr(name, '#'), *label;

	at = at ? at : strrchr(name, '.');
	label = at ? at + 1 : name;
	if (at &&
	    (at == name || at - name >= RUT_CODE_CLASS || memchr(name, '*', (size_t)(at - name))))
		return false;
	return label[0] && strlen(label) < RUT_CODE_LABEL && !strpbrk(label, " (") &&
	       (!strchr(label, '*') || strspn(label, "*") == strlen(label));
}

bool rut_script_follows(const struct rut_script_program *p)
{
	if (p->reads_stacks || (!p->opts.ntargets && !p->opts.child))
		return false;
	for (uint32_t i = 0; i < p->nmethods; i++)
		if (strpbrk(p->methods[i], "#."))
			return true;
	return false;
}

/* in("Order#total") */
const struct rut_type *rut_check_in(struct rut_checker *c, struct rut_node *n)
{
	struct rut_script_program *p = c->prog;
	const char *name;

	if (n->list->kind != RUT_N_STRING || !is_method_name(n->list->text))
		return rut_check_error(c, n->list,
				       "in() takes the constant name of one method: "
				       "\"Order#total\", \"Order.find\" or \"total\"");
	if (rut_ruby_choose_session(p))
		return rut_check_error(c, n->list, "there are no random numbers yet");
	name = n->list->text;
	p->needs_ruby = true;
	n->index = 0;
	while (n->index < (int)p->nmethods && strcmp(p->methods[n->index], name) != 0)
		n->index++;
	if (n->index == RUT_SCRIPT_METHODS)
		return rut_check_error(c, n->list, "a script can ask for %d methods",
				       RUT_SCRIPT_METHODS);
	if (n->index == (int)p->nmethods)
		p->methods[p->nmethods++] = name;
	return rut_type_simple(RUT_T_BOOL);
}

rut_vreg rut_gen_in(struct rut_gen *g, struct rut_node *n)
{
	struct rut_ir_arg args[] = {RUT_ARG_INT(n->index)};

	return rut_ir_call_linked(&g->ir, RUT_RUBY_IN, 1, args);
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

rut_vreg rut_gen_rrequest(struct rut_gen *g, struct rut_node *n)
{
	return gen_here(g, RUT_HERE_REQUEST);
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
