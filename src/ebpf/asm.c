/* SPDX-License-Identifier: MIT */
#include "ebpf/asm.h"

#include <errno.h>

#include "base/err.h"

#ifndef BPF_PSEUDO_MAP_VALUE
#define BPF_PSEUDO_MAP_VALUE 2
#endif

/* The instruction of two slots that loads 64 bits. */
enum { LOAD_IMM64 = BPF_LD | BPF_SIZE(BPF_DW) | BPF_MODE(BPF_IMM) };

void rut_asm_fini(struct rut_asm *a)
{
	rut_buf_fini(&a->code);
	rut_buf_fini(&a->labels);
	rut_buf_fini(&a->jumps);
	rut_buf_fini(&a->maps);
	rut_buf_fini(&a->places);
	rut_buf_fini(&a->relos);
}

void rut_asm_relo(struct rut_asm *a, uint32_t target)
{
	struct rut_asm_ref ref = {(uint32_t)rut_asm_count(a) - 1, target};

	rut_buf_add(&a->relos, &ref, sizeof(ref));
}

void rut_asm_at(struct rut_asm *a, uint32_t place)
{
	a->place = place;
}

size_t rut_asm_count(const struct rut_asm *a)
{
	return a->code.len / sizeof(struct bpf_insn);
}

void rut_asm_insn(struct rut_asm *a, uint8_t code, uint8_t dst, uint8_t src, int16_t off,
		  int32_t imm)
{
	struct bpf_insn i = {
		.code = code, .dst_reg = dst & 15, .src_reg = src & 15, .off = off, .imm = imm};

	rut_buf_add(&a->code, &i, sizeof(i));
	rut_buf_add(&a->places, &a->place, sizeof(a->place));
}

void rut_asm_insns(struct rut_asm *a, const struct bpf_insn *insns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rut_asm_insn(a, insns[i].code, insns[i].dst_reg, insns[i].src_reg, insns[i].off,
			     insns[i].imm);
}

void rut_asm_const(struct rut_asm *a, uint8_t dst, uint64_t value)
{
	if ((int64_t)value == (int32_t)value) {
		rut_asm_alu_imm(a, BPF_MOV, dst, (int32_t)value);
	} else if (value == (uint32_t)value) {
		rut_asm_insn(a, BPF_ALU | BPF_MOV | BPF_K, dst, 0, 0, (int32_t)value);
	} else {
		rut_asm_insn(a, LOAD_IMM64, dst, 0, 0, (int32_t)value);
		rut_asm_insn(a, 0, 0, 0, 0, (int32_t)(value >> 32));
	}
}

void rut_asm_alu(struct rut_asm *a, uint8_t op, uint8_t dst, uint8_t src)
{
	rut_asm_insn(a, BPF_ALU64 | op | BPF_X, dst, src, 0, 0);
}

void rut_asm_alu_imm(struct rut_asm *a, uint8_t op, uint8_t dst, int32_t imm)
{
	rut_asm_insn(a, BPF_ALU64 | op | BPF_K, dst, 0, 0, imm);
}

void rut_asm_mov(struct rut_asm *a, uint8_t dst, uint8_t src)
{
	if (dst != src)
		rut_asm_alu(a, BPF_MOV, dst, src);
}

static uint8_t size_code(unsigned bytes)
{
	return bytes == 1 ? BPF_B : bytes == 2 ? BPF_H : bytes == 4 ? BPF_W : BPF_DW;
}

void rut_asm_load(struct rut_asm *a, unsigned bytes, uint8_t dst, uint8_t base, int16_t off)
{
	rut_asm_insn(a, BPF_LDX | BPF_MEM | size_code(bytes), dst, base, off, 0);
}

void rut_asm_store(struct rut_asm *a, unsigned bytes, uint8_t base, int16_t off, uint8_t src)
{
	rut_asm_insn(a, BPF_STX | BPF_MEM | size_code(bytes), base, src, off, 0);
}

void rut_asm_store_imm(struct rut_asm *a, unsigned bytes, uint8_t base, int16_t off, int32_t imm)
{
	rut_asm_insn(a, BPF_ST | BPF_MEM | size_code(bytes), base, 0, off, imm);
}

void rut_asm_call(struct rut_asm *a, int32_t helper)
{
	rut_asm_insn(a, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

void rut_asm_exit(struct rut_asm *a)
{
	rut_asm_insn(a, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void add_ref(struct rut_buf *refs, size_t insn, uint32_t target)
{
	struct rut_asm_ref r = {(uint32_t)insn, target};

	rut_buf_add(refs, &r, sizeof(r));
}

void rut_asm_map(struct rut_asm *a, uint8_t dst, uint32_t map, bool value, uint32_t offset)
{
	add_ref(&a->maps, rut_asm_count(a), map);
	rut_asm_insn(a, LOAD_IMM64, dst, value ? BPF_PSEUDO_MAP_VALUE : BPF_PSEUDO_MAP_FD, 0, -1);
	rut_asm_insn(a, 0, 0, 0, 0, (int32_t)offset);
}

void rut_asm_function(struct rut_asm *a, uint8_t dst, uint32_t label)
{
	add_ref(&a->jumps, rut_asm_count(a), label);
	rut_asm_insn(a, LOAD_IMM64, dst, BPF_PSEUDO_FUNC, 0, 0);
	rut_asm_insn(a, 0, 0, 0, 0, 0);
}

uint32_t rut_asm_label(struct rut_asm *a)
{
	uint32_t none = UINT32_MAX;

	rut_buf_add(&a->labels, &none, sizeof(none));
	return (uint32_t)(a->labels.len / sizeof(none)) - 1;
}

void rut_asm_place(struct rut_asm *a, uint32_t label)
{
	if (!a->labels.failed)
		((uint32_t *)a->labels.data)[label] = (uint32_t)rut_asm_count(a);
}

void rut_asm_jump(struct rut_asm *a, uint32_t label)
{
	add_ref(&a->jumps, rut_asm_count(a), label);
	rut_asm_insn(a, BPF_JMP | BPF_JA, 0, 0, 0, 0);
}

void rut_asm_branch(struct rut_asm *a, uint8_t cond, uint8_t reg, uint8_t src, uint32_t label)
{
	add_ref(&a->jumps, rut_asm_count(a), label);
	rut_asm_insn(a, BPF_JMP | cond | BPF_X, reg, src, 0, 0);
}

void rut_asm_branch_imm(struct rut_asm *a, uint8_t cond, uint8_t reg, int32_t imm, uint32_t label)
{
	add_ref(&a->jumps, rut_asm_count(a), label);
	rut_asm_insn(a, BPF_JMP | cond | BPF_K, reg, 0, 0, imm);
}

int rut_asm_finish(struct rut_asm *a, struct rut_err *err)
{
	const struct rut_asm_ref *refs = (const void *)a->jumps.data;
	struct bpf_insn *insns = (void *)a->code.data;
	const uint32_t *labels = (const void *)a->labels.data;

	if (a->code.failed || a->labels.failed || a->jumps.failed || a->maps.failed ||
	    a->places.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < a->jumps.len / sizeof(*refs); i++) {
		int64_t distance = (int64_t)labels[refs[i].target] - refs[i].insn - 1;

		if (labels[refs[i].target] == UINT32_MAX)
			return rut_err_set(err, EINVAL, "a jump has no target");
		if (insns[refs[i].insn].code == LOAD_IMM64) {
			insns[refs[i].insn].imm = (int32_t)distance;
			continue;
		}
		if (distance != (int16_t)distance)
			return rut_err_set(err, E2BIG,
					   "a program is too long: a jump over %lld "
					   "instructions",
					   (long long)distance);
		insns[refs[i].insn].off = (int16_t)distance;
	}
	return 0;
}
