/* SPDX-License-Identifier: MIT */
/*
 * Stacks and symbols. A stack is kept once, in a table by its hash, and values hold the hash. What
 * two different stacks have in common with 2^64 possible hashes is not looked for.
 */
#include <linux/bpf.h>
#include <string.h>

#include "script/calls.h"

static const struct {
	const char *name;
	enum rut_stack_mode mode;
} modes[] = {
	{"bpftrace", RUT_STACK_BPFTRACE},
	{"perf", RUT_STACK_PERF},
	{"raw", RUT_STACK_RAW},
};

static bool stack_mode(const struct rut_node *n, enum rut_stack_mode *ret)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (n->kind == RUT_N_NAME && !strcmp(n->text, modes[i].name)) {
			*ret = modes[i].mode;
			return true;
		}
	return false;
}

/* kstack, kstack(), kstack(mode), kstack(limit), kstack(mode, limit) */
const struct rut_type *rut_check_stack(struct rut_checker *c, struct rut_node *n,
				       enum rut_type_kind kind, int64_t most)
{
	struct rut_type *t = rut_type_new(c->arena, kind, 16, 8);
	struct rut_node *a = n->list;
	int64_t limit = 0;

	t->stack_mode = c->prog->set.stack_mode;
	if (a && stack_mode(a, &t->stack_mode))
		a = a->next;
	if (a) {
		if (a->kind == RUT_N_NAME && !rut_builtin_find(a->text))
			return rut_check_error(c, a,
					       "the form of a stack is bpftrace, perf or raw");
		if (!rut_check_int(c, a, "the number of frames"))
			return NULL;
		if (!rut_literal_int(a, &limit) || limit < 1)
			return rut_check_error(c, a, "the number of frames is a constant above 0");
		if (limit > most)
			return rut_check_error(c, a, "a stack has at most %d frames", (int)most);
		if (a->next)
			return rut_check_error(c, a->next, "nothing more is expected here");
	}
	t->stack_limit = (uint32_t)limit;
	return t;
}

const struct rut_type *rut_check_kstack(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_stack(c, n, RUT_T_KSTACK, RUT_STACK_WORDS);
}

const struct rut_type *rut_check_ustack(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_stack(c, n, RUT_T_USTACK, RUT_STACK_WORDS);
}

/* The process as this one's PID namespace, and its /proc, know it: names are looked up there. */
static rut_vreg own_pid(struct rut_gen *g)
{
	struct rut_node pid = {.kind = RUT_N_NAME, .text = "pid"};

	return rut_gen_pid(g, &pid);
}

/* The hash of `frames` words. The loop has a constant bound, which the verifier follows. */
static rut_vreg gen_hash(struct rut_gen *g, struct rut_mem words, rut_vreg frames)
{
	rut_vreg i = rut_ir_reg(&g->ir), h = rut_ir_reg(&g->ir), k, at;
	uint32_t head = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = i});
	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = h, .imm = 0x5bd1e9955bd1e995});
	k = rut_ir_const(&g->ir, (int64_t)0x9e3779b97f4a7c15ull);
	rut_ir_place(&g->ir, head);
	rut_ir_branch_imm(&g->ir, BPF_JGE, i, RUT_STACK_WORDS, end);
	rut_ir_branch(&g->ir, BPF_JGE, i, frames, end);
	at = rut_ir_alu(&g->ir, BPF_ADD, rut_gen_pointer(g, words),
			rut_ir_alu_imm(&g->ir, BPF_LSH, i, 3));
	rut_ir_mov(&g->ir, h, rut_ir_alu(&g->ir, BPF_XOR, h, rut_ir_load(&g->ir, 8, at, 0)));
	rut_ir_mov(&g->ir, h, rut_ir_alu(&g->ir, BPF_MUL, h, k));
	rut_ir_mov(&g->ir, h,
		   rut_ir_alu(&g->ir, BPF_XOR, h, rut_ir_alu_imm(&g->ir, BPF_RSH, h, 29)));
	rut_ir_add(&g->ir, (struct rut_ir_insn){
				   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = i, .a = i, .imm = 1});
	rut_ir_jump(&g->ir, head);
	rut_ir_place(&g->ir, end);
	return rut_ir_alu_imm(&g->ir, BPF_OR, h, 1);
}

/* Puts the stack into the table, if it is not there. */
static void gen_keep(struct rut_gen *g, struct rut_node *n, struct rut_mem id, struct rut_mem words)
{
	struct rut_ir_arg find[] = {RUT_ARG_MAPNO(RUT_MAP_STACKS), rut_gen_arg(id)};
	struct rut_ir_arg put[] = {RUT_ARG_MAPNO(RUT_MAP_STACKS), rut_gen_arg(id),
				   rut_gen_arg(words), RUT_ARG_INT(BPF_ANY)};
	uint32_t there = rut_ir_label(&g->ir);
	rut_vreg found = rut_ir_call(&g->ir, BPF_FUNC_map_lookup_elem, 2, find), rc;

	rut_ir_branch_imm(&g->ir, BPF_JNE, found, 0, there);
	rc = rut_ir_call(&g->ir, BPF_FUNC_map_update_elem, 4, put);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rc, 0, there);
	rut_gen_count(g, n, RUT_SITE_STACK);
	rut_ir_place(&g->ir, there);
}

void rut_gen_stack(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	bool user = n->type->kind == RUT_T_USTACK;
	uint32_t limit = n->type->stack_limit ? n->type->stack_limit : RUT_STACK_WORDS;
	struct rut_mem words = rut_gen_room(g, n, RUT_STACK_WORDS * 8);
	struct rut_ir_arg args[] = {RUT_ARG(g->ctx_reg), rut_gen_arg(words), RUT_ARG_INT(limit * 8),
				    RUT_ARG_INT(user ? BPF_F_USER_STACK : 0)};
	uint32_t none = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);
	rut_vreg bytes, frames = rut_ir_reg(&g->ir), tgid;
	struct rut_mem id;

	g->prog->needs_stacks = true;
	/* The table has whole stacks. */
	if (limit < RUT_STACK_WORDS)
		rut_gen_zero(g, (struct rut_mem){words.base, words.off + (int32_t)limit * 8, 0},
			     (RUT_STACK_WORDS - limit) * 8);
	bytes = rut_ir_call(&g->ir, BPF_FUNC_get_stack, 4, args);
	rut_ir_branch_imm(&g->ir, BPF_JSLE, bytes, 0, none);
	rut_ir_mov(&g->ir, frames, rut_ir_alu_imm(&g->ir, BPF_RSH, bytes, 3));
	id = rut_gen_room(g, n, 8);
	rut_gen_store(g, id, 8, gen_hash(g, words, frames));
	gen_keep(g, n, id, words);
	rut_gen_copy(g, to, id, 8);
	tgid = own_pid(g);
	rut_ir_store(&g->ir, 4, to.base, to.off + 8, user ? tgid : rut_ir_const(&g->ir, 0));
	rut_ir_store(&g->ir, 4, to.base, to.off + 12, frames);
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, none);
	rut_gen_zero(g, to, 16);
	rut_ir_place(&g->ir, end);
}

/* ksym(address), usym(address) */

const struct rut_type *rut_check_ksym(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n->list);

	if (!t)
		return NULL;
	if (!rut_type_is_scalar(t))
		return rut_check_error(c, n->list, "%s() takes an address", n->text);
	return rut_type_simple(RUT_T_KSYM);
}

rut_vreg rut_gen_first(struct rut_gen *g, struct rut_node *n)
{
	return rut_gen_scalar(g, n->list);
}

const struct rut_type *rut_check_usym(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_ksym(c, n) ? rut_type_simple(RUT_T_USYM) : NULL;
}

void rut_gen_usym(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_vreg tgid;

	rut_gen_store(g, to, 8, rut_gen_scalar(g, n->list));
	tgid = own_pid(g);
	rut_ir_store(&g->ir, 4, to.base, to.off + 8, tgid);
	rut_ir_store_imm(&g->ir, 4, to.base, to.off + 12, (int32_t)g->ctx->probe_index);
}
