/* SPDX-License-Identifier: MIT */
/* Values that do not fit into a register, and where they are. */
#include <linux/bpf.h>
#include <string.h>

#include "script/gen.h"
#include "script/ruby_probe.h"

/* Where a part of a value is. */
static struct rut_mem within(struct rut_mem m, int64_t off)
{
	m.off += (int32_t)off;
	return m;
}

static enum rut_space space_of(const struct rut_type *pointer)
{
	return pointer->user ? RUT_SPACE_USER : RUT_SPACE_KERNEL;
}

/* An element, by a number that is not known before it runs; beyond the end: the first. */
static struct rut_mem gen_element(struct rut_gen *g, struct rut_node *n, struct rut_mem base,
				  uint32_t count)
{
	rut_vreg i, at;
	uint32_t size = n->type->size;

	rut_check_size_fact(g->prog, n, n->type);
	if (n->b->kind == RUT_N_INT && (!count || n->b->value < count))
		return within(base, (int64_t)(n->b->value * size));
	i = rut_gen_scalar(g, n->b);
	if (count) {
		uint32_t good = rut_ir_label(&g->ir);
		rut_vreg safe = rut_ir_reg(&g->ir);

		rut_ir_mov(&g->ir, safe, i);
		rut_ir_branch_imm(&g->ir, BPF_JLT, safe, count, good);
		rut_gen_count(g, n, RUT_SITE_READ);
		rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = safe});
		rut_ir_place(&g->ir, good);
		i = safe;
	}
	if (size != 1)
		i = rut_ir_alu_imm(&g->ir, BPF_MUL, i, size);
	at = rut_ir_alu(&g->ir, BPF_ADD, rut_gen_pointer(g, base), i);
	return (struct rut_mem){at, 0, base.space};
}

struct rut_mem rut_gen_address(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_type *t;
	const struct rut_type_field *f;

	switch (n->kind) {
	case RUT_N_UNARY: /* '*' */
		t = n->a->type;
		return (struct rut_mem){rut_gen_scalar(g, n->a), 0,
					t->kind == RUT_T_POINTER ? space_of(t) : RUT_SPACE_KERNEL};
	case RUT_N_FIELD:
		if (g->prog->opts.portable)
			return rut_gen_portable_field(g, n);
		t = n->a->type;
		f = n->what;
		if (t->kind == RUT_T_POINTER)
			return (struct rut_mem){rut_gen_scalar(g, n->a), (int32_t)f->offset,
						space_of(t)};
		return within(rut_gen_address(g, n->a), f->offset);
	case RUT_N_INDEX:
		t = n->a->type;
		if (t->kind == RUT_T_POINTER)
			return gen_element(
				g, n, (struct rut_mem){rut_gen_scalar(g, n->a), 0, space_of(t)}, 0);
		return gen_element(g, n, rut_gen_address(g, n->a),
				   t->kind == RUT_T_STRING ? t->size : t->count);
	case RUT_N_NAME:
		if (rut_is_ruby_record(g->ctx, n))
			return rut_gen_ruby_record(g);
		if (!strcmp(n->text, "args") && g->ctx->args_in_ctx)
			return (struct rut_mem){g->ctx_reg, 0,
						g->ctx->btf_id ? RUT_SPACE_KERNEL : RUT_SPACE_CTX};
		return rut_gen_mem(g, n);
	default:
		return rut_gen_mem(g, n);
	}
}

/* A string of a tracepoint's record, of which a word says where it is and how long. */
static void gen_data_loc(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
			 struct rut_mem to)
{
	struct rut_mem at = rut_gen_address(g, n);
	rut_vreg word = rut_gen_load(g, rut_type_int(4, false), at, n);
	rut_vreg off = rut_ir_alu_imm(&g->ir, BPF_AND, word, 0xffff);
	rut_vreg from = rut_ir_alu(&g->ir, BPF_ADD,
				   rut_gen_pointer(g, (struct rut_mem){g->ctx_reg, 0, 0}), off);

	rut_gen_read_text(g, n, to, as->size, from, RUT_SPACE_KERNEL);
}

void rut_gen_read_text(struct rut_gen *g, const struct rut_node *n, struct rut_mem to,
		       uint32_t size, rut_vreg from, enum rut_space space)
{
	struct rut_ir_arg args[] = {rut_gen_arg(to), RUT_ARG_INT(size), RUT_ARG(from)};
	uint32_t good = rut_ir_label(&g->ir);
	rut_vreg rc;

	rut_gen_zero(g, to, size);
	rc = rut_ir_call(&g->ir,
			 space == RUT_SPACE_USER ? BPF_FUNC_probe_read_user_str
						 : BPF_FUNC_probe_read_kernel_str,
			 3, args);
	rut_ir_branch_imm(&g->ir, BPF_JSGE, rc, 0, good);
	rut_gen_count(g, n, RUT_SITE_READ);
	rut_ir_place(&g->ir, good);
}

static void gen_constant_text(struct rut_gen *g, const struct rut_node *n,
			      const struct rut_type *as, struct rut_mem to)
{
	uint32_t len = n->len < as->size ? n->len : as->size - 1;

	for (uint32_t done = 0, step; done < as->size; done += step) {
		int32_t word = 0;

		step = rut_gen_step(to.off + (int32_t)done, 0, as->size - done);
		/* Words of eight bytes are stored as numbers of four with a sign. */
		if (step == 8 && done < len)
			step = 4;
		if (done < len)
			memcpy(&word, n->text + done, len - done < step ? len - done : step);
		rut_ir_store_imm(&g->ir, step, to.base, to.off + (int32_t)done, word);
	}
}

/* The field of a record that has the name of `like`; of a tuple the one at that place. */
static const struct rut_type_field *field_like(const struct rut_type *t,
					       const struct rut_type_field *like, uint32_t i)
{
	for (uint32_t k = 0; t->kind == RUT_T_RECORD && like->name && k < t->nfields; k++)
		if (t->fields[k].name && !strcmp(t->fields[k].name, like->name))
			return &t->fields[k];
	return &t->fields[i];
}

static void gen_tuple(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
		      struct rut_mem to)
{
	uint32_t i = 0, end = 0;

	/* The values of a record may come in any order. */
	if (as->kind == RUT_T_RECORD) {
		rut_gen_zero(g, to, as->size);
		end = as->size;
	}
	for (struct rut_node *e = n->list; e; e = e->next, i++) {
		const struct rut_type_field like = {.name = e->label},
					    *f = field_like(as, &like, i);

		if (as->kind == RUT_T_RECORD) {
			rut_gen_into(g, e, f->type, within(to, f->offset));
			continue;
		}
		if (f->offset > end)
			rut_gen_zero(g, within(to, end), f->offset - end);
		rut_gen_into(g, e, f->type, within(to, f->offset));
		end = f->offset + f->type->size;
	}
	if (as->size > end)
		rut_gen_zero(g, within(to, end), as->size - end);
}

static void gen_ternary_into(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
			     struct rut_mem to)
{
	uint32_t no = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);

	rut_gen_unless(g, n->a, no);
	rut_gen_into(g, n->b, as, to);
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, no);
	rut_gen_into(g, n->c, as, to);
	rut_ir_place(&g->ir, end);
}

static void gen_block_into(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
			   struct rut_mem to)
{
	struct rut_node *last = n->list;

	while (last->next)
		last = last->next;
	rut_gen_statements(g, n->list, last);
	rut_gen_into(g, last->a, as, to);
}

/* What is shorter than `as` is filled up with zeros, by member where it has some. */
static void convert(struct rut_gen *g, const struct rut_type *from_type, struct rut_mem from,
		    const struct rut_type *as, struct rut_mem to)
{
	if (as->kind == RUT_T_STRING && from_type->size < as->size) {
		rut_gen_copy(g, to, from, from_type->size);
		rut_gen_zero(g, within(to, from_type->size), as->size - from_type->size);
		return;
	}
	if (as->kind == RUT_T_STRING && from_type->size > as->size) {
		rut_gen_copy(g, to, from, as->size - 1);
		rut_gen_zero(g, within(to, as->size - 1), 1);
		return;
	}
	if (rut_type_is_int(as) && rut_type_is_int(from_type) && as->size != from_type->size) {
		rut_gen_store(g, to, as->size, rut_gen_load(g, from_type, from, NULL));
		return;
	}
	if ((as->kind != RUT_T_TUPLE && as->kind != RUT_T_RECORD) ||
	    rut_type_same_layout(as, from_type)) {
		rut_gen_copy(g, to, from, as->size);
		return;
	}
	rut_gen_zero(g, to, as->size);
	for (uint32_t i = 0; i < as->nfields; i++) {
		const struct rut_type_field *a = &as->fields[i], *f = field_like(from_type, a, i);

		convert(g, f->type, within(from, f->offset), a->type, within(to, a->offset));
	}
}

static bool is_lvalue(const struct rut_node *n)
{
	return n->kind == RUT_N_FIELD || n->kind == RUT_N_INDEX ||
	       (n->kind == RUT_N_UNARY && n->op == '*');
}

/* What is read as a text lacks the last character of an array that is full. */
static void read_last(struct rut_gen *g, const struct rut_node *n, struct rut_mem to,
		      struct rut_mem from, uint32_t size)
{
	uint32_t shorter = rut_ir_label(&g->ir);

	if (size < 2 || size != n->type->size)
		return;
	rut_ir_branch_imm(&g->ir, BPF_JEQ,
			  rut_ir_load(&g->ir, 1, to.base, to.off + (int32_t)size - 2), 0, shorter);
	to.off += (int32_t)size - 1;
	from.off += (int32_t)size - 1;
	if (from.space == RUT_SPACE_CTX)
		from.space = RUT_SPACE_KERNEL;
	rut_gen_read(g, n, to, from, 1);
	rut_ir_place(&g->ir, shorter);
}

/* Copies a struct, array or text from memory of the kernel or of a process. */
static void gen_lvalue_into(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
			    struct rut_mem to)
{
	struct rut_mem from = rut_gen_address(g, n);

	if (n->type->kind == RUT_T_STRING && from.space != RUT_SPACE_BPF) {
		/* A char array, which need not end with a zero. */
		uint32_t size = n->type->size < as->size ? n->type->size : as->size;

		rut_gen_zero(g, to, as->size);
		rut_gen_read_text(g, n, to, size, rut_gen_pointer(g, from),
				  from.space == RUT_SPACE_USER ? RUT_SPACE_USER : RUT_SPACE_KERNEL);
		read_last(g, n, to, from, size);
		return;
	}
	if (from.space == RUT_SPACE_BPF) {
		convert(g, n->type, from, as, to);
		return;
	}
	if (g->prog->opts.portable && n->type->kind == RUT_T_STRUCT && n->type->btf_id)
		rut_gen_fail(g, n,
			     "a whole structure of the kernel is laid out otherwise on other "
			     "machines: take the fields that are wanted");
	rut_gen_read(g, n, to, from, n->type->size);
}

static void gen_memory_into(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
			    struct rut_mem to)
{
	const struct rut_builtin *b = n->kind == RUT_N_NAME ? n->what : NULL;
	const struct rut_call *call = n->kind == RUT_N_CALL ? n->what : NULL;
	const struct rut_type_field *f = n->kind == RUT_N_FIELD ? n->what : NULL;
	bool same = rut_type_same_layout(n->type, as);

	if (n->kind == RUT_N_CAST && rut_type_is_scalar(n->a->type)) {
		rut_gen_store(g, to, as->size, rut_gen_scalar(g, n->a));
	} else if (n->kind == RUT_N_CAST && n->a->type->kind == as->kind) {
		rut_gen_into(g, n->a, as, to);
	} else if (n->kind == RUT_N_CAST) {
		rut_gen_copy(g, to, rut_gen_mem(g, n->a), as->size);
	} else if (n->kind == RUT_N_STRING) {
		gen_constant_text(g, n, as, to);
	} else if (n->kind == RUT_N_TUPLE || n->kind == RUT_N_RECORD) {
		gen_tuple(g, n, as, to);
	} else if (n->kind == RUT_N_TERNARY) {
		gen_ternary_into(g, n, as, to);
	} else if (n->kind == RUT_N_BLOCK) {
		gen_block_into(g, n, as, to);
	} else if (f && f->bits == RUT_FIELD_DATA_LOC) {
		gen_data_loc(g, n, as, to);
	} else if (is_lvalue(n)) {
		gen_lvalue_into(g, n, as, to);
	} else if (same && b && b->into) {
		b->into(g, n, to);
	} else if (same && call && call->into) {
		call->into(g, n, to);
	} else if (same && n->kind == RUT_N_MAP) {
		rut_gen_map_get_into(g, n, to);
	} else {
		convert(g, n->type, rut_gen_mem(g, n), as, to);
	}
}

void rut_gen_into(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
		  struct rut_mem to)
{
	struct rut_gen_mark mark = rut_gen_mark(g);

	if (!rut_type_is_scalar(as))
		gen_memory_into(g, n, as, to);
	else if (n->kind == RUT_N_INT && (int64_t)n->value == (int32_t)n->value)
		rut_ir_store_imm(&g->ir, as->size, to.base, to.off, (int32_t)n->value);
	else
		rut_gen_store(g, to, as->size, rut_gen_scalar(g, n));
	rut_gen_release(g, mark);
}

/*
 * Memory that the value is in already, or room for it. The room is of the statement: it is released
 * at its end.
 */
struct rut_mem rut_gen_mem(struct rut_gen *g, struct rut_node *n)
{
	struct rut_mem room;

	if (n->kind == RUT_N_VAR && !rut_type_is_scalar(n->type))
		return rut_gen_var_mem(g, n->sym);
	if (is_lvalue(n) && !rut_type_is_scalar(n->type)) {
		const struct rut_type_field *f = n->kind == RUT_N_FIELD ? n->what : NULL;

		if (!f || f->bits != RUT_FIELD_DATA_LOC) {
			struct rut_node *base = n->a;

			/* Parts of our own memory need no copy. */
			if (base->kind == RUT_N_VAR && n->kind == RUT_N_FIELD &&
			    base->type->kind != RUT_T_POINTER)
				return rut_gen_address(g, n);
		}
	}
	room = rut_gen_room(g, n, n->type->size);
	if (rut_type_is_scalar(n->type)) {
		rut_gen_store(g, room, n->type->size, rut_gen_scalar(g, n));
	} else {
		struct rut_gen_mark mark = rut_gen_mark(g);

		gen_memory_into(g, n, n->type, room);
		rut_gen_release(g, mark);
	}
	return room;
}
