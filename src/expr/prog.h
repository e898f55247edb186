/* SPDX-License-Identifier: MIT */
/*
 * The compact form: a list of 8-byte instructions over a table of operands.
 *
 * There is one truth register. Comparisons set it, JUMP_FALSE and JUMP_TRUE make && and || short
 * circuits, and arithmetic puts its results into temporary operands. Jumps go forward only, so a
 * program always ends.
 */
#ifndef RUT_EXPR_PROG_H
#define RUT_EXPR_PROG_H

#include "expr/expr.h"
#include "expr/regex.h"

enum rut_expr_operand_kind {
	OPERAND_CONST,
	OPERAND_FIELD,
	OPERAND_TIME,
	OPERAND_FRAME, /* of the begin event `depth` periods up */
	OPERAND_TEMP,
	OPERAND_SET,
};

/* The values of the enumeration labels that were asked for: sorted ranges that do not overlap. */
struct rut_expr_set {
	size_t count, cap;
	struct rut_expr_range {
		uint64_t lo, hi;
	} ranges[];
};

struct rut_expr_operand {
	uint8_t kind;
	uint8_t depth;
	uint16_t index; /* FRAME: slot; TEMP: which */
	union {
		struct rut_expr_val val;
		struct rut_expr_field field;
		const struct rut_expr_regex *regex;
		struct rut_expr_set *set; /* owned */
	};
};

enum rut_expr_opcode {
	CODE_CMP,	 /* truth = a `sub` b */
	CODE_GLOB,	 /* truth = a matches pattern b */
	CODE_REGEX,	 /* truth = a matches regex b */
	CODE_LABEL,	 /* truth = a is in set b */
	CODE_TEST,	 /* truth = a is not 0 */
	CODE_NOT,	 /* truth = !truth */
	CODE_JUMP_FALSE, /* to instruction a */
	CODE_JUMP_TRUE,
	CODE_ARITH, /* temp dst = a `sub` b */
	CODE_BOOL,  /* temp dst = truth */
};

struct rut_expr_code {
	uint8_t op;
	uint8_t dst;
	uint16_t sub;
	uint16_t a, b;
};

_Static_assert(sizeof(struct rut_expr_code) == 8, "instructions are compact");

#define RUT_EXPR_MAX_TEMPS 64

struct rut_expr_prog {
	const struct rut_expr_ops *ops;	   /* borrowed from the binder's caller */
	struct rut_expr_code *code;	   /* owned */
	struct rut_expr_operand *operands; /* owned; strings borrowed from the expression */
	uint16_t ncode, noperands;
	uint16_t cap_code, cap_operands;
	uint8_t ntemps;
	int8_t constant; /* -1: run it */
	bool nothing;	 /* a value: this class has none of its fields */
	bool cond;	 /* the result is the truth register, else the operand `result` */
	uint16_t result;
};

#endif
