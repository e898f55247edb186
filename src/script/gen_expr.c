/* SPDX-License-Identifier: MIT */
/* From the checked tree to intermediate code: expressions. */
#include <linux/bpf.h>
#include <string.h>

#include "script/gen.h"
#include "script/lex.h"

static bool is_bool_op(const struct rut_node *n)
{
	return (n->kind == RUT_N_BINARY && n->type && n->type->kind == RUT_T_BOOL) ||
	       (n->kind == RUT_N_UNARY && n->op == '!');
}

/* The value 1 or 0 of what is compiled as jumps. */
static rut_vreg gen_truth(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg v = rut_ir_reg(&g->ir);
	uint32_t no = rut_ir_label(&g->ir);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = v});
	rut_gen_unless(g, n, no);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = v, .imm = 1});
	rut_ir_place(&g->ir, no);
	return v;
}

/* The jump that is taken when the comparison does not hold. */
static uint8_t inverse(int op, bool is_signed)
{
	switch (op) {
	case RUT_OP_EQ:
		return BPF_JNE;
	case RUT_OP_NE:
		return BPF_JEQ;
	case '<':
		return is_signed ? BPF_JSGE : BPF_JGE;
	case '>':
		return is_signed ? BPF_JSLE : BPF_JLE;
	case RUT_OP_LE:
		return is_signed ? BPF_JSGT : BPF_JGT;
	default:
		return is_signed ? BPF_JSLT : BPF_JLT;
	}
}

static bool compares_signed(const struct rut_node *n)
{
	/* As in calculations, truth is a number with a sign. */
	bool a = n->a->type->is_signed || n->a->type->kind == RUT_T_BOOL;
	bool b = n->b->type->is_signed || n->b->type->kind == RUT_T_BOOL;

	if (rut_is_literal(n->a) && (int64_t)n->a->value >= 0)
		return b;
	if (rut_is_literal(n->b) && (int64_t)n->b->value >= 0)
		return a;
	return a && b;
}

/* Words of both are compared; one that differs jumps to `differs`. */
static void compare_words(struct rut_gen *g, struct rut_mem a, struct rut_mem b, uint32_t size,
			  uint32_t differs)
{
	for (uint32_t done = 0, step; done < size; done += step) {
		step = rut_gen_step(a.off + (int32_t)done, b.off + (int32_t)done, size - done);
		rut_ir_branch(&g->ir, BPF_JNE,
			      rut_ir_load(&g->ir, step, a.base, a.off + (int32_t)done),
			      rut_ir_load(&g->ir, step, b.base, b.off + (int32_t)done), differs);
	}
}

/* The same with the text of a constant and the zero behind it. */
static void compare_text(struct rut_gen *g, struct rut_mem a, const char *text, uint32_t size,
			 uint32_t differs)
{
	for (uint32_t done = 0, step; done < size; done += step) {
		uint64_t word = 0;

		step = rut_gen_step(a.off + (int32_t)done, 0, size - done);
		memcpy(&word, text + done, step);
		rut_ir_branch_imm(&g->ir, BPF_JNE,
				  rut_ir_load(&g->ir, step, a.base, a.off + (int32_t)done),
				  (int64_t)word, differs);
	}
}

/* Strings end with a zero within their size, and are filled up with zeros. */
static void gen_unless_equal(struct rut_gen *g, struct rut_node *n, uint32_t differs)
{
	const struct rut_type *ta = n->a->type, *tb = n->b->type;
	struct rut_node *text = n->b->kind == RUT_N_STRING   ? n->b
				: n->a->kind == RUT_N_STRING ? n->a
							     : NULL;
	uint32_t size = ta->size < tb->size ? ta->size : tb->size;

	if (text && ta->kind == RUT_T_STRING) {
		struct rut_node *other = text == n->b ? n->a : n->b;
		uint32_t len = (uint32_t)strlen(text->text) + 1;

		if (len > other->type->size) {
			rut_ir_jump(&g->ir, differs);
			return;
		}
		compare_text(g, rut_gen_mem(g, other), text->text, len, differs);
		return;
	}
	compare_words(g, rut_gen_mem(g, n->a), rut_gen_mem(g, n->b), size, differs);
}

static void gen_unless_compared(struct rut_gen *g, struct rut_node *n, uint32_t no)
{
	if (!rut_type_is_scalar(n->a->type)) {
		uint32_t differs = rut_ir_label(&g->ir);

		if (n->op == RUT_OP_EQ) {
			gen_unless_equal(g, n, no);
			rut_ir_place(&g->ir, differs);
			return;
		}
		gen_unless_equal(g, n, differs);
		rut_ir_jump(&g->ir, no);
		rut_ir_place(&g->ir, differs);
		return;
	}
	rut_vreg a = rut_gen_scalar(g, n->a);
	uint8_t cond = inverse(n->op, compares_signed(n));

	if (n->b->kind == RUT_N_INT)
		rut_ir_branch_imm(&g->ir, cond, a, (int64_t)n->b->value, no);
	else
		rut_ir_branch(&g->ir, cond, a, rut_gen_scalar(g, n->b), no);
}

void rut_gen_unless(struct rut_gen *g, struct rut_node *n, uint32_t no)
{
	uint32_t yes;

	if (!is_bool_op(n)) {
		rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_gen_scalar(g, n), 0, no);
		return;
	}
	if (n->kind == RUT_N_UNARY || n->op == RUT_OP_OR) {
		yes = rut_ir_label(&g->ir);
		if (n->kind == RUT_N_UNARY) {
			rut_gen_unless(g, n->a, yes);
			rut_ir_jump(&g->ir, no);
		} else {
			uint32_t second = rut_ir_label(&g->ir);

			rut_gen_unless(g, n->a, second);
			rut_ir_jump(&g->ir, yes);
			rut_ir_place(&g->ir, second);
			rut_gen_unless(g, n->b, no);
		}
		rut_ir_place(&g->ir, yes);
	} else if (n->op == RUT_OP_AND) {
		rut_gen_unless(g, n->a, no);
		rut_gen_unless(g, n->b, no);
	} else {
		gen_unless_compared(g, n, no);
	}
}

/* |v|, and in *sign what has its sign. */
static rut_vreg gen_abs(struct rut_gen *g, rut_vreg v)
{
	rut_vreg r = rut_ir_reg(&g->ir);
	uint32_t positive = rut_ir_label(&g->ir);

	rut_ir_mov(&g->ir, r, v);
	rut_ir_branch_imm(&g->ir, BPF_JSGE, r, 0, positive);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_NEG, .dst = r, .a = r});
	rut_ir_place(&g->ir, positive);
	return r;
}

/* The processor's signed division is not in all kernels. As in C: towards zero. */
static rut_vreg gen_signed_division(struct rut_gen *g, uint8_t op, rut_vreg a, rut_vreg b)
{
	rut_vreg r = rut_ir_reg(&g->ir);
	rut_vreg sign = op == BPF_DIV ? rut_ir_alu(&g->ir, BPF_XOR, a, b) : a;
	uint32_t positive = rut_ir_label(&g->ir);

	rut_ir_mov(&g->ir, r, rut_ir_alu(&g->ir, op, gen_abs(g, a), gen_abs(g, b)));
	rut_ir_branch_imm(&g->ir, BPF_JSGE, sign, 0, positive);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_NEG, .dst = r, .a = r});
	rut_ir_place(&g->ir, positive);
	return r;
}

rut_vreg rut_gen_signed_division(struct rut_gen *g, rut_vreg a, rut_vreg b)
{
	return gen_signed_division(g, BPF_DIV, a, b);
}

static uint8_t alu_of(int op, bool is_signed)
{
	switch (op) {
	case '+':
		return BPF_ADD;
	case '-':
		return BPF_SUB;
	case '*':
		return BPF_MUL;
	case '/':
		return BPF_DIV;
	case '%':
		return BPF_MOD;
	case '&':
		return BPF_AND;
	case '|':
		return BPF_OR;
	case '^':
		return BPF_XOR;
	case RUT_OP_SHL:
		return BPF_LSH;
	default:
		return is_signed ? BPF_ARSH : BPF_RSH;
	}
}

/* Pointers count in elements. */
rut_vreg rut_gen_scaled(struct rut_gen *g, rut_vreg v, const struct rut_type *pointer)
{
	uint32_t size = pointer->elem && pointer->elem->size ? pointer->elem->size : 1;

	if (pointer->elem)
		rut_check_size_fact(g->prog, NULL, pointer->elem);
	return size == 1 ? v : rut_ir_alu_imm(&g->ir, BPF_MUL, v, size);
}

static rut_vreg gen_binary(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_type *ta = n->a->type, *tb = n->b->type;
	bool division = n->op == '/' || n->op == '%';
	bool is_signed = division ? n->type->is_signed : ta->is_signed;
	uint8_t op = alu_of(n->op, is_signed);
	rut_vreg a, b;

	if (is_bool_op(n))
		return gen_truth(g, n);
	a = rut_gen_scalar(g, n->a);
	if (n->b->kind == RUT_N_INT && ta->kind != RUT_T_POINTER && !(division && is_signed) &&
	    !(op == BPF_LSH || op == BPF_RSH || op == BPF_ARSH))
		return tb->kind == RUT_T_POINTER
			       ? 0
			       : rut_ir_alu_imm(&g->ir, op, a, (int64_t)n->b->value);
	b = rut_gen_scalar(g, n->b);
	if (n->type->kind == RUT_T_POINTER) {
		if (ta->kind == RUT_T_POINTER)
			b = rut_gen_scaled(g, b, ta);
		else
			a = rut_gen_scaled(g, a, tb);
	}
	if (division && is_signed)
		return gen_signed_division(g, op, a, b);
	a = rut_ir_alu(&g->ir, op, a, b);
	if (ta->kind == RUT_T_POINTER && tb->kind == RUT_T_POINTER && ta->elem &&
	    ta->elem->size > 1)
		a = gen_signed_division(g, BPF_DIV, a, rut_ir_const(&g->ir, ta->elem->size));
	return a;
}

static rut_vreg gen_unary(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg v, r;

	if (n->op == '!')
		return gen_truth(g, n);
	if (n->op == '*')
		return rut_gen_load(g, n->type, rut_gen_address(g, n), n);
	if (n->op == '&' && n->a->kind == RUT_N_MAP)
		return rut_gen_map_address(g, n->a);
	if (n->op == '&')
		return rut_gen_pointer(g, rut_gen_var_mem(g, n->a->sym));
	v = rut_gen_scalar(g, n->a);
	if (n->op == '~')
		return rut_ir_alu_imm(&g->ir, BPF_XOR, v, -1);
	r = rut_ir_reg(&g->ir);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_NEG, .dst = r, .a = v});
	return r;
}

static rut_vreg gen_incdec(struct rut_gen *g, struct rut_node *n)
{
	int64_t by = n->op == RUT_OP_INC ? 1 : -1;
	const struct rut_type *t = n->a->kind == RUT_N_MAP ? n->a->type : n->type;
	rut_vreg old, v;

	if (t && t->kind == RUT_T_POINTER && t->elem && t->elem->size) {
		rut_check_size_fact(g->prog, n, t->elem);
		by *= t->elem->size;
	}
	if (n->a->kind == RUT_N_MAP) {
		v = rut_gen_map_add(g, n->a, rut_ir_const(&g->ir, by), n->type != NULL);
		return n->value ? rut_ir_alu_imm(&g->ir, BPF_ADD, v, by) : v;
	}
	old = rut_ir_reg(&g->ir);
	rut_ir_mov(&g->ir, old, rut_gen_var_get(g, n->a->sym));
	v = rut_ir_alu_imm(&g->ir, BPF_ADD, old, by);
	rut_gen_var_set(g, n->a->sym, v);
	return n->value ? v : old;
}

static rut_vreg gen_ternary(struct rut_gen *g, struct rut_node *n)
{
	uint32_t no = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);
	rut_vreg v = rut_ir_reg(&g->ir);

	rut_gen_unless(g, n->a, no);
	rut_ir_mov(&g->ir, v, rut_gen_scalar(g, n->b));
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, no);
	rut_ir_mov(&g->ir, v, rut_gen_scalar(g, n->c));
	rut_ir_place(&g->ir, end);
	return v;
}

static rut_vreg gen_cast(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg v;

	if (n->a->type->kind == RUT_T_FLOAT) {
		v = rut_gen_float_to_int(g, n->a);
	} else if (n->a->type->kind == RUT_T_ARRAY) {
		struct rut_mem m = rut_gen_mem(g, n->a);

		v = rut_ir_load(&g->ir, n->a->type->size, m.base, m.off);
	} else {
		v = rut_gen_scalar(g, n->a);
	}
	if (n->type->kind == RUT_T_BOOL) {
		rut_vreg r = rut_ir_reg(&g->ir);
		uint32_t end = rut_ir_label(&g->ir);

		rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r});
		rut_ir_branch_imm(&g->ir, BPF_JEQ, v, 0, end);
		rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r, .imm = 1});
		rut_ir_place(&g->ir, end);
		return r;
	}
	return n->type->size < 8 ? rut_ir_ext(&g->ir, v, n->type->size, n->type->is_signed) : v;
}

static rut_vreg gen_field(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_type_field *f = n->what;
	rut_vreg v = rut_gen_load(g, n->type, rut_gen_address(g, n), n);

	if (!f || !f->bits || f->bits == RUT_FIELD_DATA_LOC)
		return v;
	v = rut_ir_alu_imm(&g->ir, BPF_LSH, v, 64 - f->bits - f->bit_shift);
	return rut_ir_alu_imm(&g->ir, n->type->is_signed ? BPF_ARSH : BPF_RSH, v, 64 - f->bits);
}

static rut_vreg gen_block_value(struct rut_gen *g, struct rut_node *n)
{
	struct rut_node *last = n->list;

	while (last->next)
		last = last->next;
	rut_gen_statements(g, n->list, last);
	return rut_gen_scalar(g, last->a);
}

rut_vreg rut_gen_scalar(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_builtin *b;
	const struct rut_call *call;

	switch (n->kind) {
	case RUT_N_INT:
		return rut_ir_const(&g->ir, (int64_t)n->value);
	case RUT_N_VAR:
		return rut_gen_var_get(g, n->sym);
	case RUT_N_MAP:
		return rut_gen_map_get(g, n);
	case RUT_N_NAME:
		b = n->what;
		return b->scalar(g, n);
	case RUT_N_CALL:
		call = n->what;
		return call->scalar(g, n);
	case RUT_N_UNARY:
		return gen_unary(g, n);
	case RUT_N_BINARY:
		return gen_binary(g, n);
	case RUT_N_TERNARY:
		return gen_ternary(g, n);
	case RUT_N_CAST:
		return gen_cast(g, n);
	case RUT_N_FIELD:
		return gen_field(g, n);
	case RUT_N_INDEX:
		return rut_gen_load(g, n->type, rut_gen_address(g, n), n);
	case RUT_N_INCDEC:
		return gen_incdec(g, n);
	case RUT_N_BLOCK:
		return gen_block_value(g, n);
	default:
		rut_gen_fail(g, n, "internal error: no code for this value");
		return rut_ir_const(&g->ir, 0);
	}
}

void rut_gen_statement_value(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_type *t = n->type;

	if (n->kind == RUT_N_INCDEC && n->a->kind == RUT_N_MAP) {
		n->type = NULL; /* the value is not wanted */
		gen_incdec(g, n);
		n->type = t;
	} else if (n->kind == RUT_N_BLOCK) {
		rut_gen_block(g, n);
	} else if (!t || t->kind == RUT_T_VOID || rut_type_is_scalar(t)) {
		rut_gen_scalar(g, n);
	} else {
		rut_gen_mem(g, n);
	}
}
