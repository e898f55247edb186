/* SPDX-License-Identifier: MIT */
/*
 * From the intermediate code to eBPF instructions. Operands that have a slot of the frame are
 * brought into r0 (first operand) and r1 (second); r2 is for constants that have no other place.
 */
#include <errno.h>

#include "base/err.h"
#include "ebpf/asm.h"
#include "script/ir.h"

#ifndef BPF_XCHG
#define BPF_XCHG (0xe0 | BPF_FETCH)
#endif
#ifndef BPF_ATOMIC
#define BPF_ATOMIC 0xc0
#endif
#ifndef BPF_FETCH
#define BPF_FETCH 0x01
#endif
#ifndef BPF_JCOND
#define BPF_JCOND 0xe0
#endif

struct emitter {
	const struct rut_ir *ir;
	const struct rut_ir_places *places;
	struct rut_asm *out;
	uint32_t first_label; /* of the assembler, for label 0 */
};

/* The register in which the value is, or is brought: `temp` when it has a slot. */
static uint8_t get(struct emitter *e, rut_vreg v, uint8_t temp)
{
	if (v == RUT_IR_FP)
		return BPF_REG_10;
	if (e->places->reg[v] >= 0)
		return (uint8_t)e->places->reg[v];
	rut_asm_load(e->out, 8, temp, BPF_REG_10, (int16_t)e->places->slot[v]);
	return temp;
}

/* Where a result is computed: its register, or r0. */
static uint8_t target(const struct emitter *e, rut_vreg v)
{
	return e->places->reg[v] >= 0 ? (uint8_t)e->places->reg[v] : BPF_REG_0;
}

/* Puts a result that was computed in `reg` where it belongs. */
static void put(struct emitter *e, rut_vreg v, uint8_t reg)
{
	if (e->places->reg[v] >= 0)
		rut_asm_mov(e->out, (uint8_t)e->places->reg[v], reg);
	else
		rut_asm_store(e->out, 8, BPF_REG_10, (int16_t)e->places->slot[v], reg);
}

/* The last instruction has the number of a fact. */
static void mark(struct emitter *e, const struct rut_ir_insn *i)
{
	if (i->fact)
		rut_asm_relo(e->out, i->fact - 1);
}

static bool commutes(uint8_t op)
{
	return op == BPF_ADD || op == BPF_MUL || op == BPF_AND || op == BPF_OR || op == BPF_XOR;
}

static void emit_alu(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t d = target(e, i->dst), a = get(e, i->a, BPF_REG_0), b;

	if (!i->b) {
		rut_asm_mov(e->out, d, a);
		rut_asm_alu_imm(e->out, i->sub, d, (int32_t)i->imm);
		mark(e, i);
		put(e, i->dst, d);
		return;
	}
	b = get(e, i->b, BPF_REG_1);
	if (d == b && d != a) {
		if (commutes(i->sub)) {
			rut_asm_alu(e->out, i->sub, d, a);
			put(e, i->dst, d);
			return;
		}
		rut_asm_mov(e->out, BPF_REG_2, b);
		b = BPF_REG_2;
	}
	rut_asm_mov(e->out, d, a);
	rut_asm_alu(e->out, i->sub, d, b);
	put(e, i->dst, d);
}

static void emit_ext(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t d = target(e, i->dst), a = get(e, i->a, BPF_REG_0);
	int bits = 64 - 8 * i->size;

	if (!i->sub && i->size == 4) {
		rut_asm_insn(e->out, BPF_ALU | BPF_MOV | BPF_X, d, a, 0, 0);
	} else if (!i->sub) {
		rut_asm_mov(e->out, d, a);
		rut_asm_alu_imm(e->out, BPF_AND, d, i->size == 1 ? 0xff : 0xffff);
	} else {
		rut_asm_mov(e->out, d, a);
		rut_asm_alu_imm(e->out, BPF_LSH, d, bits);
		rut_asm_alu_imm(e->out, BPF_ARSH, d, bits);
	}
	put(e, i->dst, d);
}

static void emit_unary(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t d = target(e, i->dst), a = get(e, i->a, BPF_REG_0);

	rut_asm_mov(e->out, d, a);
	if (i->op == RUT_IR_NEG)
		rut_asm_insn(e->out, BPF_ALU64 | BPF_NEG, d, 0, 0, 0);
	else
		rut_asm_insn(e->out, BPF_ALU | BPF_END | BPF_TO_BE, d, 0, 0, 8 * i->size);
	put(e, i->dst, d);
}

static void emit_store(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t a = get(e, i->a, BPF_REG_0);

	if (i->b)
		rut_asm_store(e->out, i->size, a, (int16_t)i->off, get(e, i->b, BPF_REG_1));
	else
		rut_asm_store_imm(e->out, i->size, a, (int16_t)i->off, (int32_t)i->imm);
}

static void emit_atomic(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t a = get(e, i->a, BPF_REG_0), b = get(e, i->b, BPF_REG_1);
	int32_t op = i->op == RUT_IR_XCHG ? BPF_XCHG : BPF_ADD | BPF_FETCH;

	if (i->op == RUT_IR_ADD) {
		rut_asm_insn(e->out, BPF_STX | BPF_ATOMIC | BPF_DW, a, b, (int16_t)i->off, BPF_ADD);
		return;
	}
	rut_asm_mov(e->out, BPF_REG_1, b);
	rut_asm_insn(e->out, BPF_STX | BPF_ATOMIC | BPF_DW, a, BPF_REG_1, (int16_t)i->off, op);
	put(e, i->dst, BPF_REG_1);
}

static void emit_branch(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t a = get(e, i->a, BPF_REG_0);
	uint32_t label = e->first_label + i->target;

	if (i->b)
		rut_asm_branch(e->out, i->sub, a, get(e, i->b, BPF_REG_1), label);
	else
		rut_asm_branch_imm(e->out, i->sub, a, (int32_t)i->imm, label);
	mark(e, i);
}

/* Argument i into register i + 1, when the old value is no longer needed. */
static void move_arg(struct emitter *e, const struct rut_ir_arg *a, uint8_t to, int from)
{
	switch (a->kind) {
	case RUT_IR_ARG_REG:
		if (from >= 0)
			rut_asm_mov(e->out, to, (uint8_t)from);
		else if (a->reg == RUT_IR_FP)
			rut_asm_mov(e->out, to, BPF_REG_10);
		else
			rut_asm_load(e->out, 8, to, BPF_REG_10, (int16_t)e->places->slot[a->reg]);
		if (a->imm)
			rut_asm_alu_imm(e->out, BPF_ADD, to, (int32_t)a->imm);
		break;
	case RUT_IR_ARG_IMM:
		rut_asm_const(e->out, to, (uint64_t)a->imm);
		break;
	case RUT_IR_ARG_FRAME:
		rut_asm_mov(e->out, to, BPF_REG_10);
		rut_asm_alu_imm(e->out, BPF_ADD, to, (int32_t)a->imm);
		break;
	case RUT_IR_ARG_MAP:
		rut_asm_map(e->out, to, (uint32_t)a->imm, false, 0);
		break;
	case RUT_IR_ARG_FUNCTION:
		rut_asm_function(e->out, to, (uint32_t)a->imm - 1);
		break;
	case RUT_IR_ARG_NONE:
		break;
	}
}

/* The moves happen as if at once: what is still a source is not overwritten. */
static void emit_call(struct emitter *e, const struct rut_ir_insn *i)
{
	const struct rut_ir_arg *args =
		(const struct rut_ir_arg *)(void *)e->ir->args.data + i->args;
	int from[5];
	bool done[5] = {false};

	for (int k = 0; k < 5; k++) {
		from[k] = args[k].kind == RUT_IR_ARG_REG && args[k].reg > 0
				  ? e->places->reg[args[k].reg]
				  : -1;
		done[k] = args[k].kind == RUT_IR_ARG_NONE;
	}
	for (;;) {
		int ready = -1, pending = -1;

		for (int k = 0; k < 5 && ready < 0; k++) {
			bool blocked = false;

			if (done[k])
				continue;
			pending = k;
			for (int m = 0; m < 5; m++)
				blocked |= m != k && !done[m] && from[m] == k + 1;
			if (!blocked)
				ready = k;
		}
		if (pending < 0)
			break;
		if (ready < 0) { /* a circle: through r0 */
			int was = from[pending];

			rut_asm_mov(e->out, BPF_REG_0, (uint8_t)was);
			for (int m = 0; m < 5; m++)
				if (!done[m] && from[m] == was)
					from[m] = BPF_REG_0;
			continue;
		}
		move_arg(e, &args[ready], (uint8_t)(ready + 1), from[ready]);
		done[ready] = true;
	}
	if (i->sub)
		rut_asm_insn(e->out, BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, (int32_t)i->imm);
	else
		rut_asm_call(e->out, (int32_t)i->imm);
	if (i->dst)
		put(e, i->dst, BPF_REG_0);
}

static void emit_value(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t d = target(e, i->dst);

	switch (i->op) {
	case RUT_IR_CTX:
		d = (uint8_t)(BPF_REG_1 + i->imm);
		break;
	case RUT_IR_CONST:
		rut_asm_const(e->out, d, (uint64_t)i->imm);
		mark(e, i);
		break;
	case RUT_IR_MAP:
		rut_asm_map(e->out, d, (uint32_t)i->imm, false, 0);
		break;
	case RUT_IR_VALUE:
		rut_asm_map(e->out, d, (uint32_t)i->imm, true, (uint32_t)i->off);
		break;
	default: /* RUT_IR_FRAME */
		rut_asm_mov(e->out, d, BPF_REG_10);
		rut_asm_alu_imm(e->out, BPF_ADD, d, i->off);
		break;
	}
	put(e, i->dst, d);
}

static void emit_one(struct emitter *e, const struct rut_ir_insn *i)
{
	uint8_t d;

	switch (i->op) {
	case RUT_IR_NOP:
		break;
	case RUT_IR_MOV:
		put(e, i->dst, get(e, i->a, BPF_REG_0));
		break;
	case RUT_IR_ALU:
		emit_alu(e, i);
		break;
	case RUT_IR_NEG:
	case RUT_IR_SWAP:
		emit_unary(e, i);
		break;
	case RUT_IR_EXT:
		emit_ext(e, i);
		break;
	case RUT_IR_LOAD:
		d = target(e, i->dst);
		rut_asm_load(e->out, i->size, d, get(e, i->a, BPF_REG_0), (int16_t)i->off);
		mark(e, i);
		put(e, i->dst, d);
		break;
	case RUT_IR_STORE:
		emit_store(e, i);
		break;
	case RUT_IR_ADD:
	case RUT_IR_XCHG:
	case RUT_IR_FETCH:
		emit_atomic(e, i);
		break;
	case RUT_IR_LABEL:
		rut_asm_place(e->out, e->first_label + (uint32_t)i->imm);
		break;
	case RUT_IR_JUMP:
	case RUT_IR_MAYGOTO:
		rut_asm_jump(e->out, e->first_label + i->target);
		break;
	case RUT_IR_BRANCH:
		emit_branch(e, i);
		break;
	case RUT_IR_CALL:
		emit_call(e, i);
		break;
	case RUT_IR_EXIT:
		rut_asm_const(e->out, BPF_REG_0, (uint64_t)i->imm);
		rut_asm_exit(e->out);
		break;
	default:
		emit_value(e, i);
		break;
	}
}

/* Is this a jump to a label that only labels stand before? */
static bool is_empty_jump(const struct rut_ir *ir, size_t at)
{
	const struct rut_ir_insn *jump = rut_ir_at(ir, at);

	if (jump->op != RUT_IR_JUMP)
		return false;
	for (size_t i = at + 1; i < rut_ir_count(ir); i++) {
		const struct rut_ir_insn *insn = rut_ir_at(ir, i);

		if (insn->op == RUT_IR_LABEL && insn->imm == jump->target)
			return true;
		if (insn->op != RUT_IR_LABEL && insn->op != RUT_IR_NOP)
			return false;
	}
	return false;
}

int rut_ir_emit(const struct rut_ir *ir, const struct rut_ir_places *places, struct rut_asm *out,
		struct rut_err *err)
{
	struct emitter e = {.ir = ir, .places = places, .out = out};

	for (uint32_t i = 0; i < ir->nlabels; i++) {
		uint32_t label = rut_asm_label(out);

		if (!i)
			e.first_label = label;
	}
	for (size_t i = 0; i < rut_ir_count(ir); i++) {
		const struct rut_ir_insn *insn = rut_ir_at(ir, i);

		rut_asm_at(out, insn->place);
		if (!is_empty_jump(ir, i))
			emit_one(&e, insn);
	}
	return 0;
}

int rut_ir_compile(struct rut_ir *ir, struct rut_asm *out, struct rut_err *err)
{
	struct rut_ir_places places = {0};
	int rc = rut_ir_clean(ir);

	if (rc)
		return rut_err_set(err, -rc, "out of memory");
	rc = rut_ir_allocate(ir, &places, err);
	if (!rc)
		rc = rut_ir_emit(ir, &places, out, err);
	rut_ir_places_fini(&places);
	return rc;
}
