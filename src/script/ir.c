/* SPDX-License-Identifier: MIT */
#include "script/ir.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

void rut_ir_fini(struct rut_ir *ir)
{
	rut_buf_fini(&ir->code);
	rut_buf_fini(&ir->args);
}

rut_vreg rut_ir_reg(struct rut_ir *ir)
{
	return ++ir->nregs;
}

uint32_t rut_ir_label(struct rut_ir *ir)
{
	return ir->nlabels++;
}

size_t rut_ir_count(const struct rut_ir *ir)
{
	return ir->code.len / sizeof(struct rut_ir_insn);
}

struct rut_ir_insn *rut_ir_at(const struct rut_ir *ir, size_t i)
{
	return (struct rut_ir_insn *)(void *)ir->code.data + i;
}

struct rut_ir_insn *rut_ir_add(struct rut_ir *ir, struct rut_ir_insn insn)
{
	static struct rut_ir_insn nowhere;

	insn.place = ir->place;
	rut_buf_add(&ir->code, &insn, sizeof(insn));
	if (ir->code.failed)
		return &nowhere;
	return rut_ir_at(ir, rut_ir_count(ir) - 1);
}

rut_vreg rut_ir_const(struct rut_ir *ir, int64_t v)
{
	rut_vreg dst = rut_ir_reg(ir);

	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = dst, .imm = v});
	return dst;
}

rut_vreg rut_ir_alu(struct rut_ir *ir, uint8_t op, rut_vreg a, rut_vreg b)
{
	rut_vreg dst = rut_ir_reg(ir);

	rut_ir_add(ir,
		   (struct rut_ir_insn){.op = RUT_IR_ALU, .sub = op, .dst = dst, .a = a, .b = b});
	return dst;
}

rut_vreg rut_ir_alu_imm(struct rut_ir *ir, uint8_t op, rut_vreg a, int64_t imm)
{
	rut_vreg dst;

	if (imm != (int32_t)imm)
		return rut_ir_alu(ir, op, a, rut_ir_const(ir, imm));
	dst = rut_ir_reg(ir);
	rut_ir_add(ir, (struct rut_ir_insn){
			       .op = RUT_IR_ALU, .sub = op, .dst = dst, .a = a, .imm = imm});
	return dst;
}

rut_vreg rut_ir_alu_fact(struct rut_ir *ir, uint8_t op, rut_vreg a, int64_t imm, uint32_t fact)
{
	rut_vreg dst = rut_ir_reg(ir);

	rut_ir_add(
		ir,
		(struct rut_ir_insn){
			.op = RUT_IR_ALU, .sub = op, .dst = dst, .a = a, .imm = imm, .fact = fact});
	return dst;
}

rut_vreg rut_ir_load(struct rut_ir *ir, unsigned size, rut_vreg base, int32_t off)
{
	rut_vreg dst = rut_ir_reg(ir);

	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_LOAD,
					    .size = (uint8_t)size,
					    .dst = dst,
					    .a = base,
					    .off = off});
	return dst;
}

void rut_ir_store(struct rut_ir *ir, unsigned size, rut_vreg base, int32_t off, rut_vreg v)
{
	rut_ir_add(
		ir,
		(struct rut_ir_insn){
			.op = RUT_IR_STORE, .size = (uint8_t)size, .a = base, .b = v, .off = off});
}

void rut_ir_store_imm(struct rut_ir *ir, unsigned size, rut_vreg base, int32_t off, int32_t imm)
{
	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_STORE,
					    .size = (uint8_t)size,
					    .a = base,
					    .off = off,
					    .imm = imm});
}

void rut_ir_mov(struct rut_ir *ir, rut_vreg dst, rut_vreg a)
{
	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_MOV, .dst = dst, .a = a});
}

rut_vreg rut_ir_ext(struct rut_ir *ir, rut_vreg a, unsigned size, bool is_signed)
{
	rut_vreg dst;

	if (size >= 8)
		return a;
	dst = rut_ir_reg(ir);
	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_EXT,
					    .sub = is_signed,
					    .size = (uint8_t)size,
					    .dst = dst,
					    .a = a});
	return dst;
}

void rut_ir_place(struct rut_ir *ir, uint32_t label)
{
	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_LABEL, .imm = label});
}

void rut_ir_jump(struct rut_ir *ir, uint32_t label)
{
	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_JUMP, .target = label});
}

void rut_ir_branch(struct rut_ir *ir, uint8_t cond, rut_vreg a, rut_vreg b, uint32_t label)
{
	rut_ir_add(ir, (struct rut_ir_insn){
			       .op = RUT_IR_BRANCH, .sub = cond, .a = a, .b = b, .target = label});
}

void rut_ir_branch_imm(struct rut_ir *ir, uint8_t cond, rut_vreg a, int64_t imm, uint32_t label)
{
	if (imm != (int32_t)imm) {
		rut_ir_branch(ir, cond, a, rut_ir_const(ir, imm), label);
		return;
	}
	rut_ir_add(ir,
		   (struct rut_ir_insn){
			   .op = RUT_IR_BRANCH, .sub = cond, .a = a, .imm = imm, .target = label});
}

static rut_vreg add_call(struct rut_ir *ir, bool linked, int number, unsigned n,
			 const struct rut_ir_arg *args)
{
	struct rut_ir_arg five[5] = {0};
	rut_vreg dst = rut_ir_reg(ir);
	uint32_t first = (uint32_t)(ir->args.len / sizeof(*args));

	for (unsigned i = 0; i < n; i++)
		five[i] = args[i];
	rut_buf_add(&ir->args, five, sizeof(five));
	rut_ir_add(ir, (struct rut_ir_insn){.op = RUT_IR_CALL,
					    .sub = linked,
					    .dst = dst,
					    .imm = number,
					    .args = first});
	return dst;
}

rut_vreg rut_ir_call(struct rut_ir *ir, int helper, unsigned n, const struct rut_ir_arg *args)
{
	return add_call(ir, false, helper, n, args);
}

rut_vreg rut_ir_call_linked(struct rut_ir *ir, int function, unsigned n,
			    const struct rut_ir_arg *args)
{
	return add_call(ir, true, function, n, args);
}

/* Cleaning */

static bool has_target(const struct rut_ir_insn *i)
{
	return i->op == RUT_IR_JUMP || i->op == RUT_IR_BRANCH || i->op == RUT_IR_MAYGOTO;
}

/* Marks what can be reached from the begin; `labels`: the instruction of each label. */
static int reach(const struct rut_ir *ir, const uint32_t *labels, uint8_t *reached)
{
	size_t n = rut_ir_count(ir), depth = 0;
	_cleanup_free_ uint32_t *todo = malloc((n + 1) * sizeof(*todo));

	if (!todo)
		return -ENOMEM;
	todo[depth++] = 0;
	while (depth) {
		for (size_t i = todo[--depth]; i < n && !reached[i]; i++) {
			const struct rut_ir_insn *insn = rut_ir_at(ir, i);

			reached[i] = 1;
			if (has_target(insn) && !reached[labels[insn->target]])
				todo[depth++] = labels[insn->target];
			if (insn->op == RUT_IR_JUMP || insn->op == RUT_IR_EXIT)
				break;
		}
	}
	return 0;
}

static bool is_pure(const struct rut_ir_insn *i)
{
	switch (i->op) {
	case RUT_IR_CTX:
	case RUT_IR_CONST:
	case RUT_IR_MOV:
	case RUT_IR_ALU:
	case RUT_IR_NEG:
	case RUT_IR_EXT:
	case RUT_IR_SWAP:
	case RUT_IR_LOAD:
	case RUT_IR_MAP:
	case RUT_IR_VALUE:
	case RUT_IR_FRAME:
		return true;
	default:
		return false;
	}
}

static void count_uses(const struct rut_ir *ir, const struct rut_ir_insn *i, uint32_t *uses, int by)
{
	if (i->a > 0)
		uses[i->a] += (uint32_t)by;
	if (i->b > 0)
		uses[i->b] += (uint32_t)by;
	if (i->op == RUT_IR_CALL) {
		const struct rut_ir_arg *args = (const void *)ir->args.data;

		for (unsigned k = 0; k < 5; k++)
			if (args[i->args + k].kind == RUT_IR_ARG_REG && args[i->args + k].reg > 0)
				uses[args[i->args + k].reg] += (uint32_t)by;
	}
}

static int remove_unused(struct rut_ir *ir)
{
	size_t n = rut_ir_count(ir);
	_cleanup_free_ uint32_t *uses = calloc((size_t)ir->nregs + 1, sizeof(*uses));

	if (!uses)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		count_uses(ir, rut_ir_at(ir, i), uses, 1);
	for (size_t i = n; i-- > 0;) {
		struct rut_ir_insn *insn = rut_ir_at(ir, i);

		/* Some helpers return nothing that may be read. */
		if (insn->op == RUT_IR_CALL && !uses[insn->dst])
			insn->dst = 0;
		if (!is_pure(insn) || uses[insn->dst])
			continue;
		count_uses(ir, insn, uses, -1);
		insn->op = RUT_IR_NOP;
		insn->a = insn->b = insn->dst = 0;
	}
	return 0;
}

int rut_ir_clean(struct rut_ir *ir)
{
	size_t n = rut_ir_count(ir);
	_cleanup_free_ uint32_t *labels = calloc((size_t)ir->nlabels + 1, sizeof(*labels));
	_cleanup_free_ uint8_t *reached = calloc(n + 1, 1);
	int rc;

	if (!labels || !reached || ir->code.failed || ir->args.failed)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (rut_ir_at(ir, i)->op == RUT_IR_LABEL)
			labels[rut_ir_at(ir, i)->imm] = (uint32_t)i;
	rc = reach(ir, labels, reached);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct rut_ir_insn *insn = rut_ir_at(ir, i);

		if (!reached[i])
			*insn = (struct rut_ir_insn){.op = RUT_IR_NOP};
	}
	return remove_unused(ir);
}
