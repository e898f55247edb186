/* SPDX-License-Identifier: MIT */
/* Functions of texts and bytes. */
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/socket.h>

#include "script/calls.h"
#include "script/lex.h"

/* buf(pointer, length), buf(array) */

const struct rut_type *rut_check_buf(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n->list);
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_node *length = n->list->next;
	uint32_t size = c->prog->set.max_strlen;
	int64_t v;

	if (!t || (length && !rut_check_int(c, length, "the length")))
		return NULL;
	if (t->kind == RUT_T_ARRAY || t->kind == RUT_T_STRING) {
		if (!length || t->size < size)
			size = t->size;
	} else if (!rut_type_is_scalar(t)) {
		return rut_check_error(c, n->list, "buf() takes a pointer or an array, not %s",
				       rut_type_text(t, &text));
	} else if (!length) {
		return rut_check_error(c, n, "buf() of a pointer takes a length");
	}
	if (length && rut_literal_int(length, &v)) {
		if (v < 0)
			return rut_check_error(c, length, "the length is negative");
		if (v < size)
			size = (uint32_t)v;
	}
	return rut_type_new(c->arena, RUT_T_BUF, 4 + size, 4);
}

/* At most `max`, as the verifier must see. */
static rut_vreg limited(struct rut_gen *g, rut_vreg v, uint32_t max)
{
	rut_vreg r = rut_ir_reg(&g->ir);
	uint32_t good = rut_ir_label(&g->ir);

	rut_ir_mov(&g->ir, r, v);
	rut_ir_branch_imm(&g->ir, BPF_JLE, r, max, good);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r, .imm = max});
	rut_ir_place(&g->ir, good);
	return r;
}

void rut_gen_buf(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	const struct rut_type *t = n->list->type;
	struct rut_node *length = n->list->next;
	uint32_t size = n->type->size - 4, good = rut_ir_label(&g->ir);
	struct rut_mem from = {0, 0, rut_call_space(g, t)}, data = to;
	rut_vreg len, rc;

	data.off += 4;
	if (rut_type_is_scalar(t)) {
		from.base = rut_gen_scalar(g, n->list);
	} else {
		from = rut_gen_address(g, n->list);
		if (from.space == RUT_SPACE_CTX)
			from.space = RUT_SPACE_KERNEL;
		if (from.space == RUT_SPACE_BPF)
			from.space = RUT_SPACE_KERNEL; /* the helper reads ours as well */
	}
	rut_gen_zero(g, to, n->type->size);
	if (!size)
		return;
	len = length && length->kind != RUT_N_INT ? limited(g, rut_gen_scalar(g, length), size)
						  : rut_ir_const(&g->ir, size);
	rut_ir_store(&g->ir, 4, to.base, to.off, len);
	struct rut_ir_arg args[] = {rut_gen_arg(data), RUT_ARG(len), rut_gen_arg(from)};
	rc = rut_ir_call(&g->ir,
			 from.space == RUT_SPACE_USER ? BPF_FUNC_probe_read_user
						      : BPF_FUNC_probe_read_kernel,
			 3, args);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rc, 0, good);
	rut_gen_count(g, n, RUT_SITE_READ);
	rut_ir_place(&g->ir, good);
}

/* ntop(address), ntop(family, address): a number is IPv4, 4 or 16 bytes say what they are. */

const struct rut_type *rut_check_ntop(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *a = n->list->next ? n->list->next : n->list;
	const struct rut_type *t = rut_check_expr(c, a);
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (!t || (n->list->next && !rut_check_int(c, n->list, "the family")))
		return NULL;
	if (rut_type_is_int(t) || ((t->kind == RUT_T_ARRAY || t->kind == RUT_T_STRING) &&
				   (t->size == 4 || t->size == 16)))
		return rut_type_simple(RUT_T_INET);
	return rut_check_error(c, a, "ntop() takes a number, or 4 or 16 bytes, not %s",
			       rut_type_text(t, &text));
}

void rut_gen_ntop(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_node *a = n->list->next ? n->list->next : n->list;
	int family = a->type->size == 16 && !rut_type_is_int(a->type) ? AF_INET6 : AF_INET;
	struct rut_mem bytes = to, from;

	bytes.off += 4;
	rut_gen_zero(g, to, 20);
	if (n->list->next)
		rut_ir_store(&g->ir, 4, to.base, to.off, rut_gen_scalar(g, n->list));
	else
		rut_ir_store_imm(&g->ir, 4, to.base, to.off, family);
	if (rut_type_is_int(a->type)) {
		rut_ir_store(&g->ir, 4, bytes.base, bytes.off, rut_gen_scalar(g, a));
		return;
	}
	from = a->kind == RUT_N_CALL ? rut_gen_mem(g, a) : rut_gen_address(g, a);
	rut_gen_read(g, n, bytes, from, a->type->size);
}

/* pton("127.0.0.1"): the bytes of a constant address. */

const struct rut_type *rut_check_pton(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *a = n->list;
	uint8_t bytes[16];

	if (a->kind != RUT_N_STRING)
		return rut_check_error(c, a, "pton() takes a constant text");
	if (inet_pton(AF_INET, a->text, bytes) == 1)
		return rut_type_array(c->arena, rut_type_int(1, false), 4);
	if (inet_pton(AF_INET6, a->text, bytes) == 1)
		return rut_type_array(c->arena, rut_type_int(1, false), 16);
	return rut_check_error(c, a, "'%s' is not an address", a->text);
}

void rut_gen_pton(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_node text = *n->list;
	struct rut_type as = {.kind = RUT_T_STRING, .size = n->type->size, .align = 1};
	uint8_t bytes[17] = {0};

	inet_pton(n->type->size == 4 ? AF_INET : AF_INET6, text.text, bytes);
	for (uint32_t i = 0; i < n->type->size; i++)
		rut_ir_store_imm(&g->ir, 1, to.base, to.off + (int32_t)i, bytes[i]);
	(void)as;
}

/* macaddr(bytes) */

const struct rut_type *rut_check_macaddr(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n->list);
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (!t)
		return NULL;
	if ((t->kind == RUT_T_ARRAY || t->kind == RUT_T_STRING) && t->size == 6)
		return rut_type_simple(RUT_T_MAC);
	return rut_check_error(c, n->list, "macaddr() takes 6 bytes, not %s",
			       rut_type_text(t, &text));
}

void rut_gen_macaddr(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_gen_read(g, n, to, rut_gen_address(g, n->list), 6);
}

/* bswap(number) */

const struct rut_type *rut_check_bswap(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_int(c, n->list, "the argument of bswap()");

	return t ? rut_type_int(t->size, false) : NULL;
}

rut_vreg rut_gen_bswap(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg v = rut_gen_scalar(g, n->list), r;

	if (n->type->size == 1)
		return v;
	r = rut_ir_reg(&g->ir);
	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){
			   .op = RUT_IR_SWAP, .size = (uint8_t)n->type->size, .dst = r, .a = v});
	return r;
}

/* strlen(text): bytes before the first zero. The loop is bound by the size. */

static void gen_probe_text(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_node text = *n;

	text.kind = RUT_N_STRING;
	text.text = g->ctx->attach[0].name;
	text.len = (uint32_t)strlen(text.text);
	rut_gen_into(g, &text, n->type, to);
}

static const struct rut_builtin probe_text = {"probe", NULL, NULL, gen_probe_text};

bool rut_check_text(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n);
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (!t)
		return false;
	if (t->kind == RUT_T_STRING)
		return true;
	/* Each name that matches is compiled for itself: it is known here. */
	if (t->kind == RUT_T_PROBE && n->kind == RUT_N_NAME && c->ctx->nattach) {
		n->what = &probe_text;
		n->type = rut_type_string(c->arena, (uint32_t)strlen(c->ctx->attach[0].name) + 1);
		return true;
	}
	rut_check_error(c, n, "a string is expected, not %s", rut_type_text(t, &text));
	return false;
}

const struct rut_type *rut_check_strlen(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_text(c, n->list) ? rut_type_int(8, false) : NULL;
}

rut_vreg rut_gen_strlen(struct rut_gen *g, struct rut_node *n)
{
	uint32_t size = n->list->type->size, head = rut_ir_label(&g->ir),
		 end = rut_ir_label(&g->ir);
	rut_vreg base = rut_gen_pointer(g, rut_gen_mem(g, n->list)), i = rut_ir_reg(&g->ir), at;

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = i});
	rut_ir_place(&g->ir, head);
	rut_ir_branch_imm(&g->ir, BPF_JGE, i, size, end);
	at = rut_ir_alu(&g->ir, BPF_ADD, base, i);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 1, at, 0), 0, end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){
				   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = i, .a = i, .imm = 1});
	rut_ir_jump(&g->ir, head);
	rut_ir_place(&g->ir, end);
	return i;
}

/* strncmp(a, b, n): 0 when the first n bytes are equal, or both end before. */

const struct rut_type *rut_check_strncmp(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *b = n->list->next, *count = b->next;
	int64_t v;

	if (!rut_check_text(c, n->list) || !rut_check_text(c, b) ||
	    !rut_check_int(c, count, "the length"))
		return NULL;
	if (!rut_literal_int(count, &v) || v < 0)
		return rut_check_error(c, count, "the length is a constant, not negative");
	return rut_type_int(8, false);
}

rut_vreg rut_gen_strncmp(struct rut_gen *g, struct rut_node *n)
{
	struct rut_node *na = n->list, *nb = na->next;
	uint32_t size = (uint32_t)nb->next->value, end = rut_ir_label(&g->ir);
	uint32_t differs = rut_ir_label(&g->ir), equal = rut_ir_label(&g->ir);
	struct rut_mem a = rut_gen_mem(g, na), b = rut_gen_mem(g, nb);
	rut_vreg r = rut_ir_reg(&g->ir);

	if (size > na->type->size)
		size = na->type->size;
	if (size > nb->type->size)
		size = nb->type->size;
	for (uint32_t i = 0; i < size; i++) {
		rut_vreg x = rut_ir_load(&g->ir, 1, a.base, a.off + (int32_t)i);

		rut_ir_branch(&g->ir, BPF_JNE, x,
			      rut_ir_load(&g->ir, 1, b.base, b.off + (int32_t)i), differs);
		rut_ir_branch_imm(&g->ir, BPF_JEQ, x, 0, equal);
	}
	rut_ir_place(&g->ir, equal);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r});
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, differs);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r, .imm = 1});
	rut_ir_place(&g->ir, end);
	return r;
}

/* strcontains(text, part), strstr(text, part): part is a constant. */

const struct rut_type *rut_check_strcontains(struct rut_checker *c, struct rut_node *n)
{
	if (!rut_check_text(c, n->list) || !rut_check_text(c, n->list->next))
		return NULL;
	if (n->list->next->kind != RUT_N_STRING)
		return rut_check_error(c, n->list->next, "what %s() looks for is a constant text",
				       n->text);
	return !strcmp(n->text, "strstr") ? rut_type_int(8, true) : rut_type_simple(RUT_T_BOOL);
}

/* Where the part is; -1: nowhere. */
static rut_vreg find_part(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_node *part = n->list->next;
	uint32_t size = n->list->type->size, head = rut_ir_label(&g->ir);
	uint32_t none = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);
	rut_vreg base = rut_gen_pointer(g, rut_gen_mem(g, n->list)), i = rut_ir_reg(&g->ir), at;

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = i});
	if (part->len + 1 > size)
		rut_ir_jump(&g->ir, none);
	rut_ir_place(&g->ir, head);
	if (part->len + 1 <= size) {
		uint32_t next = rut_ir_label(&g->ir);

		rut_ir_branch_imm(&g->ir, BPF_JGE, i, size - part->len, none);
		at = rut_ir_alu(&g->ir, BPF_ADD, base, i);
		for (uint32_t k = 0; k < part->len; k++)
			rut_ir_branch_imm(&g->ir, BPF_JNE, rut_ir_load(&g->ir, 1, at, (int32_t)k),
					  (unsigned char)part->text[k], next);
		rut_ir_jump(&g->ir, end);
		rut_ir_place(&g->ir, next);
		rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 1, at, 0), 0, none);
		rut_ir_add(&g->ir,
			   (struct rut_ir_insn){
				   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = i, .a = i, .imm = 1});
		rut_ir_jump(&g->ir, head);
	}
	rut_ir_place(&g->ir, none);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = i, .imm = -1});
	rut_ir_place(&g->ir, end);
	return i;
}

rut_vreg rut_gen_strcontains(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg i = find_part(g, n), r;
	uint32_t end;

	if (n->type->kind != RUT_T_BOOL)
		return i;
	r = rut_ir_reg(&g->ir);
	end = rut_ir_label(&g->ir);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r});
	rut_ir_branch_imm(&g->ir, BPF_JSLT, i, 0, end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r, .imm = 1});
	rut_ir_place(&g->ir, end);
	return r;
}

/* str_concat(a, b) */

const struct rut_type *rut_check_concat(struct rut_checker *c, struct rut_node *n)
{
	if (!rut_check_text(c, n->list) || !rut_check_text(c, n->list->next))
		return NULL;
	return rut_type_string(c->arena, n->list->type->size + n->list->next->type->size - 1);
}

void rut_gen_concat(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_node *a = n->list, *b = a->next;
	uint32_t head = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);
	rut_vreg base, i = rut_ir_reg(&g->ir), at;
	struct rut_mem second = rut_gen_mem(g, b);

	rut_gen_zero(g, to, n->type->size);
	rut_gen_into(g, a, a->type, to);
	base = rut_gen_pointer(g, to);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = i});
	rut_ir_place(&g->ir, head);
	rut_ir_branch_imm(&g->ir, BPF_JGE, i, a->type->size - 1, end);
	at = rut_ir_alu(&g->ir, BPF_ADD, base, i);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 1, at, 0), 0, end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){
				   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = i, .a = i, .imm = 1});
	rut_ir_jump(&g->ir, head);
	rut_ir_place(&g->ir, end);
	at = rut_ir_alu(&g->ir, BPF_ADD, base, i);
	struct rut_ir_arg args[] = {RUT_ARG(at), RUT_ARG_INT(b->type->size), rut_gen_arg(second)};
	rut_ir_call(&g->ir, BPF_FUNC_probe_read_kernel, 3, args);
}
