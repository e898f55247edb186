/* SPDX-License-Identifier: MIT */
/* record(), and what acts on the session beside which a script runs: snapshot(), stop(). */
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "ring/ring.h"
#include "script/calls.h"
#include "script/format.h"

enum { FIELDS_MAX = 64 };

/* What a value is called: a variable, a builtin, a field, or what str(x) and its like are of. */
static const char *name_of(const struct rut_node *n)
{
	if (n->label)
		return n->label;
	switch (n->kind) {
	case RUT_N_NAME:
	case RUT_N_FIELD:
		return n->text;
	case RUT_N_VAR:
		return n->text + strspn(n->text, "$");
	case RUT_N_CALL:
		return n->list ? name_of(n->list) : n->text;
	case RUT_N_CAST:
		return name_of(n->a);
	default:
		return NULL;
	}
}

/*
 * The event as a format with names, "NAME pid=%s", from which all that follows knows its fields.
 * A '%' of the name would begin a conversion.
 */
static char *format_of(struct rut_checker *c, const struct rut_node *n)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	unsigned number = 0;

	for (const char *s = n->list->text; *s; s++)
		rut_buf_putc(&text, *s == '%' ? '_' : *s);
	for (const struct rut_node *e = n->list->next; e; e = e->next, number++) {
		const char *name = name_of(e);

		if (name)
			rut_buf_printf(&text, " %s=%%s", name);
		else
			rut_buf_printf(&text, " arg%u=%%s", number);
	}
	return text.failed ? NULL : rut_arena_strndup(c->arena, text.data, text.len);
}

const struct rut_type *rut_check_record(struct rut_checker *c, struct rut_node *n)
{
	struct rut_script_action action = {.kind = RUT_ACTION_RECORD, .map = -1};
	struct rut_type_field fields[FIELDS_MAX] = {0};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_node *values = n->list->next;
	uint32_t count = 0;

	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "the name of the event is a constant text");
	if (!c->prog->opts.session && !c->prog->opts.trace)
		return rut_check_error(c, n,
				       "record() writes into a trace: run the script with -o DIR/, "
				       "or in a session");
	/* record("x", (a = 1, b = 2)) is record("x", 1, 2) with names. */
	if (values->kind == RUT_N_RECORD && !values->next)
		n->list->next = values = values->list;
	for (struct rut_node *e = values; e; e = e->next) {
		const struct rut_type *t = rut_check_expr(c, e);

		if (!t)
			return NULL;
		if (count == FIELDS_MAX)
			return rut_check_error(c, e, "an event has at most %d fields", FIELDS_MAX);
		if (t->kind == RUT_T_VOID || rut_type_is_agg(t))
			return rut_check_error(c, e, "this has no value to record");
		fields[count++].type = t;
	}
	if (!c->loud)
		return rut_type_simple(RUT_T_VOID);
	action.args = rut_type_tuple(c->arena, RUT_T_TUPLE, fields, count);
	action.format = format_of(c, n);
	if (!action.format ||
	    rut_script_format_parse(&action.parsed, action.format, action.args, NULL, &err))
		return rut_check_error(c, n, "%s", err.code ? err.msg : "out of memory");
	n->index = rut_program_action(c->prog, &action, n);
	return rut_type_simple(RUT_T_VOID);
}

rut_vreg rut_gen_record_call(struct rut_gen *g, struct rut_node *n)
{
	rut_gen_send(g, n, n->list->next);
	return 0;
}

static const struct rut_type *check_act(struct rut_checker *c, struct rut_node *n,
					enum rut_script_action_kind kind)
{
	struct rut_script_action action = {.kind = kind, .map = -1};

	/* In a session stop() is the program's own. */
	if (c->prog->opts.session && kind == RUT_ACTION_STOP) {
		c->prog->freezes = true;
		n->index = -1;
		return rut_type_simple(RUT_T_VOID);
	}
	if (!c->prog->opts.beside)
		return rut_check_error(
			c, n,
			c->prog->opts.session ? "%s() needs a process: run the script beside the "
						"session, with 'rutile run --session NAME'"
					      : "%s() acts on a session: run the script beside it, "
						"with 'rutile run --session NAME'",
			n->text);
	if (n->list && n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "the name of the snapshot is a constant text");
	action.format = n->list ? n->list->text : NULL;
	if (c->loud)
		n->index = rut_program_action(c->prog, &action, n);
	return rut_type_simple(RUT_T_VOID);
}

const struct rut_type *rut_check_snapshot(struct rut_checker *c, struct rut_node *n)
{
	return check_act(c, n, RUT_ACTION_SNAPSHOT);
}

const struct rut_type *rut_check_stop(struct rut_checker *c, struct rut_node *n)
{
	return check_act(c, n, RUT_ACTION_STOP);
}

/*
 * Every ring is marked, and its open packet made to look old: the next record of any CPU finds the
 * mark (ring.bpf.h), at once and without a process.
 */
static void freeze(struct rut_gen *g, struct rut_node *n)
{
	struct rut_mem key = rut_gen_room(g, n, 8);
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(RUT_MAP_RINGS), rut_gen_arg(key)};
	rut_vreg cpu = rut_ir_reg(&g->ir), at;
	uint32_t head = rut_ir_label(&g->ir), next = rut_ir_label(&g->ir),
		 end = rut_ir_label(&g->ir);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = cpu});
	rut_ir_place(&g->ir, head);
	rut_ir_branch_imm(&g->ir, BPF_JGE, cpu, rut_program_ncpus(), end);
	rut_ir_at(&g->ir, rut_ir_count(&g->ir) - 1)->fact = rut_gen_cpus_fact(g);
	rut_ir_store(&g->ir, 4, key.base, key.off, cpu);
	at = rut_ir_call(&g->ir, BPF_FUNC_map_lookup_elem, 2, args);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, at, 0, next);
	rut_ir_store_imm(&g->ir, 8, at, offsetof(struct rut_ring_ctl, frozen), 1);
	rut_ir_store(&g->ir, 8, at, offsetof(struct rut_ring_ctl, opened_ns),
		     rut_ir_const(&g->ir, RUT_RING_FROZEN_NS));
	rut_ir_place(&g->ir, next);
	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){
			   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = cpu, .a = cpu, .imm = 1});
	rut_ir_jump(&g->ir, head);
	rut_ir_place(&g->ir, end);
}

rut_vreg rut_gen_act(struct rut_gen *g, struct rut_node *n)
{
	if (n->index < 0) {
		freeze(g, n);
		return 0;
	}
	rut_gen_send(g, n, NULL);
	return 0;
}
