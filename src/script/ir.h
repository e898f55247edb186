/* SPDX-License-Identifier: MIT */
/*
 * The intermediate code of one program: a linear list of instructions over virtual registers, which
 * hold 64 bits: numbers, already extended to 64 bits, or pointers. A register may be written more
 * than once. Memory is the frame (RUT_IR_FP), map values and records of the ring.
 *
 * Passes: rut_ir_clean() removes what is not reached or not used, rut_ir_allocate() finds machine
 * registers or slots of the frame, rut_ir_emit() makes eBPF of it.
 */
#ifndef RUT_SCRIPT_IR_H
#define RUT_SCRIPT_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct rut_asm;
struct rut_err;

typedef int32_t rut_vreg; /* 0: none */

#define RUT_IR_FP ((rut_vreg)-1) /* the frame pointer, as base of loads and stores */

enum rut_ir_op {
	RUT_IR_NOP,
	RUT_IR_CTX,	/* dst = argument imm: of a probe 0, its context; first of all */
	RUT_IR_CONST,	/* dst = imm */
	RUT_IR_MOV,	/* dst = a */
	RUT_IR_ALU,	/* dst = a sub b, or imm when b is 0 */
	RUT_IR_NEG,	/* dst = -a */
	RUT_IR_EXT,	/* dst = the lower `size` bytes of a, extended by sign (sub) or zeros */
	RUT_IR_SWAP,	/* dst = the lower `size` bytes of a, in the other byte order */
	RUT_IR_LOAD,	/* dst = size bytes at a + off */
	RUT_IR_STORE,	/* size bytes at a + off = b, or imm when b is 0 */
	RUT_IR_ADD,	/* 64 bits at a + off += b, atomically */
	RUT_IR_XCHG,	/* dst = the 64 bits at a + off, which become b, atomically */
	RUT_IR_FETCH,	/* dst = the 64 bits at a + off, before b is added, atomically */
	RUT_IR_LABEL,	/* imm */
	RUT_IR_JUMP,	/* to label imm */
	RUT_IR_BRANCH,	/* if (a sub b, or imm when b is 0) to label `target` */
	RUT_IR_CALL,	/* dst = helper imm, or (sub) linked function imm, of args */
	RUT_IR_MAP,	/* dst = map imm */
	RUT_IR_VALUE,	/* dst = address in the value of the array map imm, at off */
	RUT_IR_FRAME,	/* dst = frame + off */
	RUT_IR_MAYGOTO, /* to label imm when the kernel's bound for loops is reached */
	RUT_IR_EXIT,	/* return imm */
};

enum rut_ir_arg_kind {
	RUT_IR_ARG_NONE,
	RUT_IR_ARG_REG,
	RUT_IR_ARG_IMM,
	RUT_IR_ARG_FRAME,
	RUT_IR_ARG_MAP,
	RUT_IR_ARG_FUNCTION,
};

struct rut_ir_arg {
	enum rut_ir_arg_kind kind;
	rut_vreg reg;
	int64_t imm; /* IMM: the number; FRAME, REG: offset; MAP: its number */
};

struct rut_ir_insn {
	uint8_t op, sub, size;
	uint32_t place; /* position in the source */
	rut_vreg dst, a, b;
	int32_t off;
	uint32_t target;
	int64_t imm;
	uint32_t args; /* CALL: index of the first of five in rut_ir.args */
	uint32_t fact; /* ALU, BRANCH, CONST, LOAD: what `imm` or `off` is of, from 1 (fact.h); 0 */
};

struct rut_ir {
	struct rut_buf code; /* struct rut_ir_insn */
	struct rut_buf args; /* struct rut_ir_arg */
	uint32_t place;	     /* of what is added */
	rut_vreg nregs;
	uint32_t nlabels;
	int32_t frame; /* bytes of the frame in use, for objects; at most RUT_IR_FRAME_MAX */
};

enum { RUT_IR_FRAME_SIZE = 512 };

/* Where the registers are. */
struct rut_ir_places {
	int8_t *reg;   /* owned; by virtual register: 0 to 9, or -1 */
	int32_t *slot; /* owned; offset from the frame pointer when reg is -1 */
	int32_t frame; /* bytes of the frame in use, with slots */
};

void rut_ir_fini(struct rut_ir *ir);
rut_vreg rut_ir_reg(struct rut_ir *ir);
uint32_t rut_ir_label(struct rut_ir *ir);
struct rut_ir_insn *rut_ir_add(struct rut_ir *ir, struct rut_ir_insn insn);
size_t rut_ir_count(const struct rut_ir *ir);
struct rut_ir_insn *rut_ir_at(const struct rut_ir *ir, size_t i);

/* Shorthand: each adds one instruction and returns the register that it writes. */
rut_vreg rut_ir_const(struct rut_ir *ir, int64_t v);
rut_vreg rut_ir_alu(struct rut_ir *ir, uint8_t op, rut_vreg a, rut_vreg b);
rut_vreg rut_ir_alu_imm(struct rut_ir *ir, uint8_t op, rut_vreg a, int64_t imm);
/* ... whatever imm is, which is of that fact (0: of none). */
rut_vreg rut_ir_alu_fact(struct rut_ir *ir, uint8_t op, rut_vreg a, int64_t imm, uint32_t fact);
rut_vreg rut_ir_load(struct rut_ir *ir, unsigned size, rut_vreg base, int32_t off);
void rut_ir_store(struct rut_ir *ir, unsigned size, rut_vreg base, int32_t off, rut_vreg v);
void rut_ir_store_imm(struct rut_ir *ir, unsigned size, rut_vreg base, int32_t off, int32_t imm);
void rut_ir_mov(struct rut_ir *ir, rut_vreg dst, rut_vreg a);
rut_vreg rut_ir_ext(struct rut_ir *ir, rut_vreg a, unsigned size, bool is_signed);
void rut_ir_place(struct rut_ir *ir, uint32_t label);
void rut_ir_jump(struct rut_ir *ir, uint32_t label);
void rut_ir_branch(struct rut_ir *ir, uint8_t cond, rut_vreg a, rut_vreg b, uint32_t label);
void rut_ir_branch_imm(struct rut_ir *ir, uint8_t cond, rut_vreg a, int64_t imm, uint32_t label);
rut_vreg rut_ir_call(struct rut_ir *ir, int helper, unsigned n, const struct rut_ir_arg *args);
/* A call of a function that is linked (link.h), by its number. */
rut_vreg rut_ir_call_linked(struct rut_ir *ir, int function, unsigned n,
			    const struct rut_ir_arg *args);

#define RUT_ARG(r)	    ((struct rut_ir_arg){RUT_IR_ARG_REG, (r), 0})
#define RUT_ARG_INT(v)	    ((struct rut_ir_arg){RUT_IR_ARG_IMM, 0, (v)})
#define RUT_ARG_STACK(o)    ((struct rut_ir_arg){RUT_IR_ARG_FRAME, 0, (o)})
#define RUT_ARG_FUNCTION(f) ((struct rut_ir_arg){RUT_IR_ARG_FUNCTION, 0, (f)})
#define RUT_ARG_MAPNO(m)    ((struct rut_ir_arg){RUT_IR_ARG_MAP, 0, (m)})

/* Removes what is never reached and what computes something that is not used. 0 or -ENOMEM. */
int rut_ir_clean(struct rut_ir *ir);

/* -E2BIG: the frame is too small for what does not fit into registers. */
int rut_ir_allocate(const struct rut_ir *ir, struct rut_ir_places *ret, struct rut_err *err);
void rut_ir_places_fini(struct rut_ir_places *p);

int rut_ir_emit(const struct rut_ir *ir, const struct rut_ir_places *places, struct rut_asm *out,
		struct rut_err *err);

/* All three. */
int rut_ir_compile(struct rut_ir *ir, struct rut_asm *out, struct rut_err *err);

#endif
