/* SPDX-License-Identifier: MIT */
/*
 * An assembler for eBPF: instructions are appended to a buffer, jumps name labels and are resolved
 * when all is there. Nothing is checked before rut_asm_finish(), which also reports what ran out of
 * memory or range.
 */
#ifndef RUT_EBPF_ASM_H
#define RUT_EBPF_ASM_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct rut_err;

struct rut_asm {
	struct rut_buf code;   /* struct bpf_insn */
	struct rut_buf labels; /* uint32_t: index of the instruction, UINT32_MAX: not placed */
	struct rut_buf jumps;  /* struct rut_asm_ref: jumps to labels */
	struct rut_buf maps;   /* struct rut_asm_ref: loads of maps */
	struct rut_buf places; /* uint32_t for each instruction: the argument of rut_asm_at() */
	struct rut_buf relos;  /* struct rut_asm_ref: numbers that may differ where it is loaded */
	uint32_t place;
};

struct rut_asm_ref {
	uint32_t insn;
	uint32_t target; /* label, number of the map, or argument of rut_asm_relo() */
};

void rut_asm_fini(struct rut_asm *a);

/* Position in the source of the instructions that follow. */
void rut_asm_at(struct rut_asm *a, uint32_t place);

size_t rut_asm_count(const struct rut_asm *a);

/* The offset or number of the last instruction is one that `target` describes. */
void rut_asm_relo(struct rut_asm *a, uint32_t target);

/* One instruction as it is. */
void rut_asm_insn(struct rut_asm *a, uint8_t code, uint8_t dst, uint8_t src, int16_t off,
		  int32_t imm);

/* Instructions that were assembled before: their jumps stay among them. */
void rut_asm_insns(struct rut_asm *a, const struct bpf_insn *insns, size_t n);

/* dst = value, by the shortest form. */
void rut_asm_const(struct rut_asm *a, uint8_t dst, uint64_t value);

/* dst op= src or imm; op: BPF_ADD and its like. */
void rut_asm_alu(struct rut_asm *a, uint8_t op, uint8_t dst, uint8_t src);
void rut_asm_alu_imm(struct rut_asm *a, uint8_t op, uint8_t dst, int32_t imm);
void rut_asm_mov(struct rut_asm *a, uint8_t dst, uint8_t src);

/* bytes: 1, 2, 4 or 8. */
void rut_asm_load(struct rut_asm *a, unsigned bytes, uint8_t dst, uint8_t base, int16_t off);
void rut_asm_store(struct rut_asm *a, unsigned bytes, uint8_t base, int16_t off, uint8_t src);
void rut_asm_store_imm(struct rut_asm *a, unsigned bytes, uint8_t base, int16_t off, int32_t imm);

void rut_asm_call(struct rut_asm *a, int32_t helper);
void rut_asm_exit(struct rut_asm *a);

/* dst = the map with this number, or (value) the address in its only entry's value at `offset`. */
void rut_asm_map(struct rut_asm *a, uint8_t dst, uint32_t map, bool value, uint32_t offset);

/* dst = the function that begins at the label, for helpers that call it. */
void rut_asm_function(struct rut_asm *a, uint8_t dst, uint32_t label);

/* A new label; rut_asm_place() puts it before the next instruction. */
uint32_t rut_asm_label(struct rut_asm *a);
void rut_asm_place(struct rut_asm *a, uint32_t label);
void rut_asm_jump(struct rut_asm *a, uint32_t label);
/* cond: BPF_JEQ and its like. */
void rut_asm_branch(struct rut_asm *a, uint8_t cond, uint8_t reg, uint8_t src, uint32_t label);
void rut_asm_branch_imm(struct rut_asm *a, uint8_t cond, uint8_t reg, int32_t imm, uint32_t label);

/* Resolves the jumps. 0, -ENOMEM, or -E2BIG: a jump is too far. */
int rut_asm_finish(struct rut_asm *a, struct rut_err *err);

#endif
