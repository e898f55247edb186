/* SPDX-License-Identifier: MIT */
/*
 * Numbers with decimals (float, double). Programs of the kernel have no instructions for them: they
 * are read, kept, compared by user space and shown, and become integers, which is done here with
 * the instructions for integers.
 */
#include <linux/bpf.h>

#include "script/gen.h"

/* IEEE 754: bits of the fraction, what is added to the exponent, and the exponent's bits. */
struct layout {
	unsigned fraction, bias, mask;
};

static void set(struct rut_gen *g, rut_vreg dst, int64_t value)
{
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = dst, .imm = value});
}

/* As C does it on this machine: towards zero; INT64_MIN for what does not fit and what is none. */
rut_vreg rut_gen_float_to_int(struct rut_gen *g, struct rut_node *n)
{
	const struct layout l = n->type->size == 4 ? (struct layout){23, 127, 0xff}
						   : (struct layout){52, 1023, 0x7ff};
	struct rut_mem at = rut_gen_mem(g, n);
	struct rut_ir *ir = &g->ir;
	rut_vreg bits = rut_ir_load(ir, n->type->size, at.base, at.off), r = rut_ir_reg(ir);
	rut_vreg exponent =
		rut_ir_alu_imm(ir, BPF_AND, rut_ir_alu_imm(ir, BPF_RSH, bits, l.fraction), l.mask);
	rut_vreg one = rut_ir_const(ir, 1ll << l.fraction), fraction;
	uint32_t small = rut_ir_label(ir), sign = rut_ir_label(ir), end = rut_ir_label(ir);

	set(g, r, 0);
	rut_ir_branch_imm(ir, BPF_JLT, exponent, l.bias, end);
	set(g, r, INT64_MIN);
	rut_ir_branch_imm(ir, BPF_JGE, exponent, l.bias + 63, end);
	fraction = rut_ir_alu(ir, BPF_OR, one,
			      rut_ir_alu(ir, BPF_AND, bits, rut_ir_alu_imm(ir, BPF_SUB, one, 1)));
	rut_ir_branch_imm(ir, BPF_JLT, exponent, l.bias + l.fraction, small);
	rut_ir_mov(ir, r,
		   rut_ir_alu(ir, BPF_LSH, fraction,
			      rut_ir_alu_imm(ir, BPF_SUB, exponent, l.bias + l.fraction)));
	rut_ir_jump(ir, sign);
	rut_ir_place(ir, small);
	rut_ir_mov(ir, r,
		   rut_ir_alu(ir, BPF_RSH, fraction,
			      rut_ir_alu(ir, BPF_SUB, rut_ir_const(ir, l.bias + l.fraction),
					 exponent)));
	rut_ir_place(ir, sign);
	rut_ir_branch_imm(ir, BPF_JEQ,
			  rut_ir_alu_imm(ir, BPF_RSH, bits, n->type->size == 4 ? 31 : 63), 0, end);
	rut_ir_mov(ir, r, rut_ir_alu(ir, BPF_SUB, rut_ir_const(ir, 0), r));
	rut_ir_place(ir, end);
	return r;
}
