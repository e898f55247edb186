/* SPDX-License-Identifier: MIT */
#include "ebpf/disasm.h"

#include <inttypes.h>

#include "base/buf.h"

static const char *const alu_ops[16] = {
	"+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>=", "neg", "%=", "^=", "=", "s>>=", "end"};
static const char *const jump_ops[16] = {"goto", "==",	 ">",	 ">=", "&",  "!=", "s>",
					 "s>=",	 "call", "exit", "<",  "<=", "s<", "s<="};
static const char *const sizes[4] = {"u32", "u16", "u8", "u64"};

#ifndef BPF_ATOMIC
#define BPF_ATOMIC 0xc0
#endif

static void put_alu(const struct bpf_insn *i, struct rut_buf *out)
{
	char r = BPF_CLASS(i->code) == BPF_ALU64 ? 'r' : 'w';
	unsigned op = BPF_OP(i->code);

	if (op == BPF_NEG)
		rut_buf_printf(out, "%c%u = -%c%u", r, i->dst_reg, r, i->dst_reg);
	else if (op == BPF_END)
		rut_buf_printf(out, "r%u = %s%d r%u", i->dst_reg,
			       BPF_SRC(i->code) == BPF_TO_BE ? "be" : "le", i->imm, i->dst_reg);
	else if (BPF_SRC(i->code) == BPF_X)
		rut_buf_printf(out, "%c%u %s %c%u", r, i->dst_reg, alu_ops[op >> 4], r, i->src_reg);
	else
		rut_buf_printf(out, "%c%u %s %d", r, i->dst_reg, alu_ops[op >> 4], i->imm);
}

static void put_jump(const struct bpf_insn *i, size_t at, struct rut_buf *out)
{
	unsigned op = BPF_OP(i->code);

	if (op == BPF_CALL)
		rut_buf_printf(out, "call %s%d", i->src_reg == BPF_PSEUDO_CALL ? "function " : "",
			       i->imm);
	else if (op == BPF_EXIT)
		rut_buf_puts(out, "exit");
	else if (op == BPF_JA)
		rut_buf_printf(out, "goto %" PRId64, (int64_t)at + 1 + i->off);
	else if (BPF_SRC(i->code) == BPF_X)
		rut_buf_printf(out, "if r%u %s r%u goto %" PRId64, i->dst_reg, jump_ops[op >> 4],
			       i->src_reg, (int64_t)at + 1 + i->off);
	else
		rut_buf_printf(out, "if r%u %s %d goto %" PRId64, i->dst_reg, jump_ops[op >> 4],
			       i->imm, (int64_t)at + 1 + i->off);
}

static void put_memory(const struct bpf_insn *i, struct rut_buf *out)
{
	const char *size = sizes[BPF_SIZE(i->code) >> 3];

	switch (BPF_CLASS(i->code)) {
	case BPF_LDX:
		rut_buf_printf(out, "r%u = *(%s *)(r%u %+d)", i->dst_reg, size, i->src_reg, i->off);
		break;
	case BPF_ST:
		rut_buf_printf(out, "*(%s *)(r%u %+d) = %d", size, i->dst_reg, i->off, i->imm);
		break;
	default:
		if (BPF_MODE(i->code) == BPF_ATOMIC)
			rut_buf_printf(out, "atomic %x *(%s *)(r%u %+d), r%u", (unsigned)i->imm,
				       size, i->dst_reg, i->off, i->src_reg);
		else
			rut_buf_printf(out, "*(%s *)(r%u %+d) = r%u", size, i->dst_reg, i->off,
				       i->src_reg);
	}
}

size_t rut_disasm(const struct bpf_insn *insns, size_t at, struct rut_buf *out)
{
	const struct bpf_insn *i = &insns[at];

	rut_buf_printf(out, "%4zu: ", at);
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		rut_buf_printf(out, "r%u = %s0x%" PRIx64 " ll\n", i->dst_reg,
			       i->src_reg == BPF_PSEUDO_MAP_FD	    ? "map "
			       : i->src_reg == BPF_PSEUDO_MAP_VALUE ? "value of map "
			       : i->src_reg == BPF_PSEUDO_FUNC	    ? "function "
								    : "",
			       (uint64_t)(uint32_t)i[1].imm << 32 | (uint32_t)i->imm);
		return 2;
	case BPF_ALU:
	case BPF_ALU64:
		put_alu(i, out);
		break;
	case BPF_JMP:
		put_jump(i, at, out);
		break;
	default:
		put_memory(i, out);
		break;
	}
	rut_buf_putc(out, '\n');
	return 1;
}
