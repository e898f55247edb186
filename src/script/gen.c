/* SPDX-License-Identifier: MIT */
/* From the checked tree to intermediate code: memory, and statements. */
#include <stdarg.h>
#include <stdio.h>
#include <linux/bpf.h>

#include "script/check.h"
#include "script/gen.h"

/* Of the frame's 512 bytes; the rest is for registers, and shared with functions that are called.
 */
enum { FRAME_OBJECTS = 288, FRAME_LOOPS = 128 };

void rut_gen_fail(struct rut_gen *g, const struct rut_node *n, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (g->rc)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	g->rc = rut_source_error(&g->prog->src, n->span, "%s", text);
}

/* Memory */

struct rut_mem rut_gen_scratch_room(struct rut_gen *g, const struct rut_node *n, uint32_t size)
{
	uint32_t bytes = (size + 7) & ~7u;
	struct rut_mem m = {0, 0, RUT_SPACE_BPF};

	if (!g->scratch)
		g->scratch = rut_ir_reg(&g->ir);
	m.base = g->scratch;
	m.off = (int32_t)(8 + g->scratch_used);
	g->scratch_used += bytes;
	if (g->scratch_used > g->scratch_max)
		g->scratch_max = g->scratch_used;
	if (m.off + (int32_t)bytes > 32000)
		rut_gen_fail(g, n, "the probe needs more than 32000 bytes for values");
	return m;
}

struct rut_mem rut_gen_room(struct rut_gen *g, const struct rut_node *n, uint32_t size)
{
	uint32_t bytes = (size + 7) & ~7u;
	struct rut_mem m = {RUT_IR_FP, 0, RUT_SPACE_BPF};

	if (bytes <= 128 &&
	    g->frame + (int32_t)bytes <=
		    (g->has_loops || g->prog->needs_ruby ? FRAME_LOOPS : FRAME_OBJECTS)) {
		g->frame += (int32_t)bytes;
		if (g->frame > g->ir.frame)
			g->ir.frame = g->frame;
		m.off = -g->frame;
		return m;
	}
	return rut_gen_scratch_room(g, n, size);
}

struct rut_gen_mark rut_gen_mark(const struct rut_gen *g)
{
	return (struct rut_gen_mark){g->frame, g->scratch_used};
}

void rut_gen_release(struct rut_gen *g, struct rut_gen_mark m)
{
	g->frame = m.frame;
	g->scratch_used = m.scratch;
}

/* The stack is read and written in aligned words only. */
unsigned rut_gen_step(int32_t a, int32_t b, uint32_t left)
{
	unsigned step = 8;

	while (step > 1 && (a % (int32_t)step || b % (int32_t)step || step > left))
		step /= 2;
	return step;
}

void rut_gen_zero(struct rut_gen *g, struct rut_mem at, uint32_t size)
{
	for (uint32_t done = 0, step; done < size; done += step) {
		step = rut_gen_step(at.off + (int32_t)done, 0, size - done);
		rut_ir_store_imm(&g->ir, step, at.base, at.off + (int32_t)done, 0);
	}
}

rut_vreg rut_gen_pointer(struct rut_gen *g, struct rut_mem at)
{
	rut_vreg dst;

	if (at.fact)
		return rut_ir_alu_fact(&g->ir, BPF_ADD, at.base, at.off, at.fact);
	if (at.base != RUT_IR_FP)
		return at.off ? rut_ir_alu_imm(&g->ir, BPF_ADD, at.base, at.off) : at.base;
	dst = rut_ir_reg(&g->ir);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_FRAME, .dst = dst, .off = at.off});
	return dst;
}

struct rut_ir_arg rut_gen_arg(struct rut_mem at)
{
	if (at.base == RUT_IR_FP)
		return RUT_ARG_STACK(at.off);
	return (struct rut_ir_arg){RUT_IR_ARG_REG, at.base, at.off};
}

void rut_gen_copy(struct rut_gen *g, struct rut_mem to, struct rut_mem from, uint32_t size)
{
	if (to.base == from.base && to.off == from.off)
		return;
	if (size > 128) {
		struct rut_ir_arg args[] = {rut_gen_arg(to), RUT_ARG_INT(size), rut_gen_arg(from)};

		rut_ir_call(&g->ir, BPF_FUNC_probe_read_kernel, 3, args);
		return;
	}
	for (uint32_t done = 0, step; done < size; done += step) {
		step = rut_gen_step(to.off + (int32_t)done, from.off + (int32_t)done, size - done);
		rut_ir_store(&g->ir, step, to.base, to.off + (int32_t)done,
			     rut_ir_load(&g->ir, step, from.base, from.off + (int32_t)done));
	}
}

void rut_gen_store(struct rut_gen *g, struct rut_mem to, unsigned size, rut_vreg v)
{
	rut_ir_store(&g->ir, size, to.base, to.off, v);
}

/* An address in the value of the counters' map. */
rut_vreg rut_gen_counter(struct rut_gen *g, uint32_t index)
{
	rut_vreg dst = rut_ir_reg(&g->ir);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_VALUE,
						.dst = dst,
						.imm = RUT_MAP_COUNTERS,
						.off = (int32_t)(8 * index)});
	return dst;
}

void rut_gen_count(struct rut_gen *g, const struct rut_node *n, enum rut_site_kind kind)
{
	uint32_t site = rut_program_site(g->prog, kind, n->span);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_ADD,
						.a = rut_gen_counter(g, site + RUT_COUNTER_SITES),
						.b = rut_ir_const(&g->ir, 1)});
}

rut_vreg rut_gen_exit_word(struct rut_gen *g)
{
	return rut_gen_counter(g, RUT_COUNTER_EXIT);
}

rut_vreg rut_gen_begin_time(struct rut_gen *g)
{
	return rut_gen_counter(g, RUT_COUNTER_BEGIN);
}

void rut_gen_set_exit(struct rut_gen *g, rut_vreg code)
{
	rut_ir_store(&g->ir, 8, rut_gen_counter(g, RUT_COUNTER_EXIT), 0,
		     rut_ir_alu_imm(&g->ir, BPF_ADD, code, 1));
}

void rut_gen_read(struct rut_gen *g, const struct rut_node *n, struct rut_mem to,
		  struct rut_mem from, uint32_t size)
{
	struct rut_ir_arg args[] = {rut_gen_arg(to), RUT_ARG_INT(size),
				    from.fact ? RUT_ARG(rut_gen_pointer(g, from))
					      : rut_gen_arg(from)};
	uint32_t good = rut_ir_label(&g->ir);
	rut_vreg rc;

	if (from.space == RUT_SPACE_BPF) {
		rut_gen_copy(g, to, from, size);
		return;
	}
	rc = rut_ir_call(&g->ir,
			 from.space == RUT_SPACE_USER ? BPF_FUNC_probe_read_user
						      : BPF_FUNC_probe_read_kernel,
			 3, args);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rc, 0, good);
	/* The helper has filled it with zeros. */
	rut_gen_count(g, n, RUT_SITE_READ);
	rut_ir_place(&g->ir, good);
}

rut_vreg rut_gen_load(struct rut_gen *g, const struct rut_type *t, struct rut_mem from,
		      const struct rut_node *n)
{
	bool aligned = from.space == RUT_SPACE_BPF ||
		       (from.space == RUT_SPACE_CTX && !(from.off % (int32_t)t->size));
	struct rut_mem room;
	rut_vreg v;

	if (aligned) {
		v = rut_ir_load(&g->ir, t->size, from.base, from.off);
		rut_ir_at(&g->ir, rut_ir_count(&g->ir) - 1)->fact = from.fact;
	} else {
		room = rut_gen_room(g, n, 8);
		rut_gen_read(g, n, room, from, t->size);
		v = rut_ir_load(&g->ir, t->size, room.base, room.off);
	}
	return t->is_signed && t->size < 8 ? rut_ir_ext(&g->ir, v, t->size, true) : v;
}

/* Statements */

static void gen_assign_var(struct rut_gen *g, struct rut_node *n, struct rut_node *value)
{
	struct rut_sym *s = n->sym;

	if (rut_type_is_scalar(s->type)) {
		rut_vreg v = rut_gen_scalar(g, value);

		if (s->declared && s->type->size < 8)
			v = rut_ir_ext(&g->ir, v, s->type->size, s->type->is_signed);
		rut_gen_var_set(g, s, v);
	} else {
		rut_gen_into(g, value, s->type, rut_gen_var_mem(g, s));
	}
}

static void gen_assign(struct rut_gen *g, struct rut_node *n)
{
	struct rut_node sum;

	if (n->a->kind == RUT_N_MAP && (n->op == '+' || n->op == '-')) {
		rut_vreg by = rut_gen_scalar(g, n->b);

		if (n->a->type && n->a->type->kind == RUT_T_POINTER)
			by = rut_gen_scaled(g, by, n->a->type);
		if (n->op == '-')
			by = rut_ir_alu(&g->ir, BPF_SUB, rut_ir_const(&g->ir, 0), by);
		rut_gen_map_add(g, n->a, by, false);
		return;
	}
	if (n->op) {
		/* $x op= v is $x = $x op v. */
		sum = *n;
		sum.kind = RUT_N_BINARY;
		sum.type = n->a->type && n->a->type->kind == RUT_T_POINTER
				   ? n->a->type
				   : rut_type_int(8, n->a->type && n->a->type->is_signed);
		if (n->a->kind == RUT_N_MAP)
			rut_gen_map_set(g, n->a, &sum);
		else
			gen_assign_var(g, n->a, &sum);
		return;
	}
	if (n->a->kind == RUT_N_MAP)
		rut_gen_map_set(g, n->a, n->b);
	else
		gen_assign_var(g, n->a, n->b);
}

static void gen_let(struct rut_gen *g, struct rut_node *n)
{
	struct rut_sym *s = n->a->sym;

	if (!s || !s->type)
		return;
	if (n->b) {
		gen_assign_var(g, n->a, n->b);
		return;
	}
	if (rut_type_is_scalar(s->type))
		rut_gen_var_set(g, s, rut_ir_const(&g->ir, 0));
	else
		rut_gen_zero(g, rut_gen_var_mem(g, s), s->type->size);
}

static void gen_if(struct rut_gen *g, struct rut_node *n)
{
	uint32_t no = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);

	rut_gen_unless(g, n->a, no);
	rut_gen_block(g, n->b);
	if (n->c)
		rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, no);
	if (n->c && n->c->kind == RUT_N_IF)
		gen_if(g, n->c);
	else if (n->c)
		rut_gen_block(g, n->c);
	rut_ir_place(&g->ir, end);
}

static void gen_unroll(struct rut_gen *g, struct rut_node *n)
{
	struct rut_loop loop = {.outer = g->loop, .end = rut_ir_label(&g->ir)};
	int64_t count = 0;

	rut_literal_int(n->a, &count);
	g->loop = &loop;
	for (int64_t i = 0; i < count; i++) {
		loop.next = rut_ir_label(&g->ir);
		rut_gen_block(g, n->b);
		rut_ir_place(&g->ir, loop.next);
	}
	rut_ir_place(&g->ir, loop.end);
	g->loop = loop.outer;
}

static void gen_statement(struct rut_gen *g, struct rut_node *n)
{
	struct rut_gen_mark mark = rut_gen_mark(g);

	g->ir.place = n->span.pos;
	switch (n->kind) {
	case RUT_N_ASSIGN:
		gen_assign(g, n);
		break;
	case RUT_N_LET:
		gen_let(g, n);
		break;
	case RUT_N_IF:
		gen_if(g, n);
		break;
	case RUT_N_UNROLL:
		gen_unroll(g, n);
		break;
	case RUT_N_WHILE:
		rut_gen_while(g, n);
		break;
	case RUT_N_FOR:
		if (n->c)
			rut_gen_for(g, n);
		else
			rut_gen_for_map(g, n);
		break;
	case RUT_N_BREAK:
		rut_ir_jump(&g->ir, g->loop->end);
		break;
	case RUT_N_CONTINUE:
		rut_ir_jump(&g->ir, g->loop->next);
		break;
	case RUT_N_RETURN:
		if (n->a && g->ctx->kind == RUT_PROBE_TEST)
			rut_ir_store(&g->ir, 8, rut_gen_counter(g, RUT_COUNTER_RETURN), 0,
				     rut_gen_scalar(g, n->a));
		rut_ir_jump(&g->ir, g->exit);
		break;
	case RUT_N_BLOCK:
		rut_gen_block(g, n);
		break;
	default:
		rut_gen_statement_value(g, n->a);
		break;
	}
	rut_gen_release(g, mark);
}

void rut_gen_block(struct rut_gen *g, struct rut_node *block)
{
	for (struct rut_node *n = block->list; n && !g->rc; n = n->next)
		gen_statement(g, n);
}

void rut_gen_statements(struct rut_gen *g, struct rut_node *first, const struct rut_node *end)
{
	for (struct rut_node *n = first; n && n != end && !g->rc; n = n->next)
		gen_statement(g, n);
}
