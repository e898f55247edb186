/* SPDX-License-Identifier: MIT */
/*
 * Loops. The kernel's bpf_loop() and bpf_for_each_map_elem() call a function of the program for
 * each iteration, so that the verifier checks the body once, whatever the number of iterations.
 * The function has a frame of its own. What it shares with the probe is in the probe's frame, whose
 * address ("home") it gets: first a few fixed words, then the variables.
 */
#include <linux/bpf.h>
#include <string.h>

#include "script/gen.h"
#include "script/load.h"
#include "script/ruby_probe.h"

enum { LOOP_MAX = 1 << 23 };

/* Offsets in the probe's frame. */
enum { HOME = -8, HOME_SCRATCH = -8, HOME_CTX = -16, HOME_LEFT = -24 };

bool rut_gen_has_loops(const struct rut_node *n)
{
	for (; n; n = n->next) {
		/* Addresses are of memory, too. */
		if (n->kind == RUT_N_WHILE || n->kind == RUT_N_FOR ||
		    (n->kind == RUT_N_UNARY && n->op == '&'))
			return true;
		if (n->kind == RUT_N_CALL && !strcmp(n->text, "len") && n->list &&
		    n->list->kind == RUT_N_MAP)
			return true;
		if ((n->a && rut_gen_has_loops(n->a)) || (n->b && rut_gen_has_loops(n->b)) ||
		    (n->c && rut_gen_has_loops(n->c)) || (n->d && rut_gen_has_loops(n->d)) ||
		    (n->list && rut_gen_has_loops(n->list)))
			return true;
	}
	return false;
}

/* Something of the probe's frame, from here. */
struct rut_mem rut_gen_home(const struct rut_gen *g, int32_t off)
{
	if (!g->home)
		return (struct rut_mem){RUT_IR_FP, off, RUT_SPACE_BPF};
	return (struct rut_mem){g->home, off - HOME, RUT_SPACE_BPF};
}

void rut_gen_home_init(struct rut_gen *g)
{
	if (g->scratch)
		rut_ir_store(&g->ir, 8, RUT_IR_FP, HOME_SCRATCH, g->scratch);
	else
		rut_ir_store_imm(&g->ir, 8, RUT_IR_FP, HOME_SCRATCH, 0);
	rut_ir_store(&g->ir, 8, RUT_IR_FP, HOME_CTX, g->ctx_reg);
	rut_ir_store_imm(&g->ir, 8, RUT_IR_FP, HOME_LEFT, 0);
}

/* What the generator keeps while it is in a function of a loop. */
struct outer {
	struct rut_ir ir;
	rut_vreg ctx_reg, scratch, home;
	uint32_t exit;
	struct rut_loop *loop;
	int32_t frame;
	bool made_scratch;
};

/* Begins a function with the home as argument `arg` (from 0); others are in args[]. */
static void enter(struct rut_gen *g, struct outer *o, struct rut_loop *loop, unsigned home_arg,
		  rut_vreg *args)
{
	*o = (struct outer){.ir = g->ir,
			    .ctx_reg = g->ctx_reg,
			    .scratch = g->scratch,
			    .home = g->home,
			    .exit = g->exit,
			    .loop = g->loop,
			    .frame = g->frame};
	g->ir = (struct rut_ir){.place = o->ir.place};
	g->frame = 0;
	for (unsigned i = 0; i <= home_arg; i++) {
		args[i] = rut_ir_reg(&g->ir);
		rut_ir_add(&g->ir,
			   (struct rut_ir_insn){.op = RUT_IR_CTX, .dst = args[i], .imm = i});
	}
	g->home = args[home_arg];
	g->ctx_reg = rut_ir_load(&g->ir, 8, g->home, HOME_CTX - HOME);
	g->scratch = rut_ir_load(&g->ir, 8, g->home, HOME_SCRATCH - HOME);
	g->exit = rut_ir_label(&g->ir);
	*loop = (struct rut_loop){NULL, rut_ir_label(&g->ir), rut_ir_label(&g->ir)};
	g->loop = loop;
}

/* Ends it; its number. */
static uint32_t leave(struct rut_gen *g, struct outer *o, const struct rut_loop *loop)
{
	struct rut_ir body;

	rut_ir_place(&g->ir, loop->next);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	rut_ir_place(&g->ir, g->exit);
	rut_ir_store_imm(&g->ir, 8, g->home, HOME_LEFT - HOME, 1);
	rut_ir_place(&g->ir, loop->end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT, .imm = 1});
	body = g->ir;
	g->ir = o->ir;
	g->ctx_reg = o->ctx_reg;
	/* The enclosing code must have scratch memory when this has used it. */
	g->scratch = o->scratch;
	if (!g->scratch && g->scratch_max)
		g->scratch = rut_ir_reg(&g->ir);
	g->home = o->home;
	g->exit = o->exit;
	g->loop = o->loop;
	g->frame = o->frame;
	rut_buf_add(&g->functions, &body, sizeof(body));
	return (uint32_t)(g->functions.len / sizeof(body));
}

/* Behind the helper: did the body leave the probe? */
static void check_left(struct rut_gen *g)
{
	struct rut_mem left = rut_gen_home(g, HOME_LEFT);

	rut_ir_branch_imm(&g->ir, BPF_JNE, rut_ir_load(&g->ir, 8, left.base, left.off), 0, g->exit);
}

static struct rut_ir_arg home_arg(const struct rut_gen *g)
{
	return rut_gen_arg(rut_gen_home(g, HOME));
}

static void call_loop(struct rut_gen *g, const struct rut_node *n, struct rut_ir_arg count,
		      uint32_t function, bool bound)
{
	struct rut_ir_arg args[] = {count, RUT_ARG_FUNCTION(function), home_arg(g), RUT_ARG_INT(0)};
	rut_vreg done = rut_ir_call(&g->ir, BPF_FUNC_loop, 4, args);
	uint32_t good = rut_ir_label(&g->ir);

	if (bound) {
		rut_ir_branch_imm(&g->ir, BPF_JLT, done, LOOP_MAX, good);
		rut_gen_count(g, n, RUT_SITE_LOOP);
		rut_ir_place(&g->ir, good);
	}
	check_left(g);
}

void rut_gen_while(struct rut_gen *g, struct rut_node *n)
{
	struct outer o;
	struct rut_loop loop;
	rut_vreg args[2];

	enter(g, &o, &loop, 1, args);
	rut_gen_unless(g, n->a, loop.end);
	rut_gen_block(g, n->b);
	call_loop(g, n, RUT_ARG_INT(LOOP_MAX), leave(g, &o, &loop), true);
}

/* $i runs from begin to before end. Both are evaluated once. */
void rut_gen_for(struct rut_gen *g, struct rut_node *n)
{
	struct rut_mem room;
	uint32_t none = rut_ir_label(&g->ir), good = rut_ir_label(&g->ir), function;
	rut_vreg begin = rut_gen_scalar(g, n->b), end = rut_gen_scalar(g, n->c), count, args[2];
	struct outer o;
	struct rut_loop loop;

	room = (struct rut_mem){g->scratch, n->a->sym->begin_off, RUT_SPACE_BPF};
	rut_ir_store(&g->ir, 8, room.base, room.off, begin);
	rut_ir_branch(&g->ir, BPF_JSGE, begin, end, none);
	count = rut_ir_reg(&g->ir);
	rut_ir_mov(&g->ir, count, rut_ir_alu(&g->ir, BPF_SUB, end, begin));
	rut_ir_branch_imm(&g->ir, BPF_JLE, count, LOOP_MAX, good);
	rut_gen_count(g, n, RUT_SITE_LOOP);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = count, .imm = LOOP_MAX});
	rut_ir_place(&g->ir, good);
	enter(g, &o, &loop, 1, args);
	room = (struct rut_mem){g->scratch, n->a->sym->begin_off, RUT_SPACE_BPF};
	rut_gen_var_set(g, n->a->sym,
			rut_ir_alu(&g->ir, BPF_ADD, rut_ir_load(&g->ir, 8, room.base, room.off),
				   rut_ir_ext(&g->ir, args[0], 4, false)));
	rut_gen_block(g, n->d);
	function = leave(g, &o, &loop);
	call_loop(g, n, RUT_ARG(count), function, false);
	rut_ir_place(&g->ir, none);
}

/* Variables begin as 0 in each hit, as in each run of a program. */
static void zero_vars(struct rut_gen *g)
{
	for (const struct rut_sym *s = g->syms; s; s = s->next)
		if (s->placed)
			rut_gen_zero(g, rut_gen_var_mem(g, s),
				     rut_type_is_scalar(s->type) ? 8 : s->type->size);
}

void rut_gen_replay(struct rut_gen *g, struct rut_probe *probe)
{
	uint32_t stride = rut_ruby_hit_bytes(g->ctx->ruby);
	rut_vreg count = rut_ir_load(&g->ir, 8, g->ctx_reg, 8), args[2], base;
	struct outer o;
	struct rut_loop loop;
	uint32_t function;

	enter(g, &o, &loop, 1, args);
	base = rut_ir_load(&g->ir, 8, g->ctx_reg, 0);
	g->hit = rut_ir_alu(&g->ir, BPF_ADD, base,
			    rut_ir_alu_imm(&g->ir, BPF_MUL, rut_ir_ext(&g->ir, args[0], 4, false),
					   (int32_t)stride));
	zero_vars(g);
	if (probe->predicate)
		rut_gen_unless(g, probe->predicate, loop.next);
	rut_gen_block(g, probe->body);
	function = leave(g, &o, &loop);
	g->hit = 0;
	call_loop(g, probe->body, RUT_ARG(count), function, false);
}

static void call_each(struct rut_gen *g, const struct rut_node *map, uint32_t function)
{
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(RUT_MAP_USER + map->index),
				    RUT_ARG_FUNCTION(function), home_arg(g), RUT_ARG_INT(0)};

	rut_ir_call(&g->ir, BPF_FUNC_for_each_map_elem, 4, args);
}

/* for ($kv : @m): $kv is a tuple of the key and the value. */
void rut_gen_for_map(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_script_map *m = &g->prog->maps[n->b->index];
	const struct rut_type *pair = n->a->sym->type;
	uint32_t function;
	struct rut_mem to;
	rut_vreg args[4];
	struct outer o;
	struct rut_loop loop;

	enter(g, &o, &loop, 3, args);
	to = rut_gen_var_mem(g, n->a->sym);
	rut_gen_zero(g, to, pair->size);
	rut_gen_copy(g, to, (struct rut_mem){args[1], 0, RUT_SPACE_BPF}, m->key->size);
	if (rut_type_has_number(m->value))
		to.off += (int32_t)pair->fields[1].offset;
	if (rut_type_is_agg(m->value) && rut_type_has_number(m->value))
		rut_gen_store(
			g, to, 8,
			rut_gen_merged(g, n, m, RUT_MAP_USER + n->b->index, RUT_ARG(args[1])));
	else if (rut_type_has_number(m->value))
		rut_gen_copy(g, to, (struct rut_mem){args[2], 0, RUT_SPACE_BPF}, m->value->size);
	rut_gen_block(g, n->d);
	function = leave(g, &o, &loop);
	call_each(g, n->b, function);
	check_left(g);
}

/*
 * len(@m): counts the keys. Not in the frame: the verifier would know each count, and walk the
 * function once for each, when what is calculated of it matters to the verifier.
 */
rut_vreg rut_gen_map_len(struct rut_gen *g, struct rut_node *n)
{
	struct rut_mem count = rut_gen_scratch_room(g, n, 8);
	struct outer o;
	struct rut_loop loop;
	uint32_t function;
	rut_vreg args[4], v;

	rut_ir_store_imm(&g->ir, 8, count.base, count.off, 0);
	enter(g, &o, &loop, 3, args);
	v = rut_ir_load(&g->ir, 8, g->scratch, count.off);
	rut_ir_store(&g->ir, 8, g->scratch, count.off, rut_ir_alu_imm(&g->ir, BPF_ADD, v, 1));
	function = leave(g, &o, &loop);
	call_each(g, n->list, function);
	return rut_ir_load(&g->ir, 8, g->scratch, count.off);
}

/* Variables: registers, or in programs with loops words of the probe's frame. */

struct rut_mem rut_gen_var_mem(const struct rut_gen *g, const struct rut_sym *s)
{
	if (s->base == RUT_IR_FP)
		return rut_gen_home(g, s->off);
	return (struct rut_mem){g->scratch, s->off, RUT_SPACE_BPF};
}

rut_vreg rut_gen_var_get(struct rut_gen *g, const struct rut_sym *s)
{
	struct rut_mem m;

	if (s->reg)
		return s->reg;
	m = rut_gen_var_mem(g, s);
	return rut_ir_load(&g->ir, 8, m.base, m.off);
}

void rut_gen_var_set(struct rut_gen *g, const struct rut_sym *s, rut_vreg v)
{
	struct rut_mem m;

	if (s->reg) {
		rut_ir_mov(&g->ir, s->reg, v);
		return;
	}
	m = rut_gen_var_mem(g, s);
	rut_ir_store(&g->ir, 8, m.base, m.off, v);
}
