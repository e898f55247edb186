/* SPDX-License-Identifier: MIT */
/*
 * The frame of a program: its context, its variables, and room in scratch memory where the stack is
 * too small. A CPU has a few places of scratch memory, because programs interrupt each other; one
 * that finds none free does nothing, which is counted.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ebpf/asm.h"
#include "script/fact.h"
#include "script/gen.h"
#include "script/load.h"
#include "script/ruby_probe.h"

_Static_assert(sizeof(struct rut_script_relo) == sizeof(struct rut_asm_ref), "one is the other");

/* Moves what was generated behind the prologue. */
static void prepend(struct rut_ir *ir, size_t body)
{
	size_t n = rut_ir_count(ir), head = n - body;
	struct rut_ir_insn *copy;

	if (ir->code.failed || !head)
		return;
	copy = malloc(head * sizeof(*copy));
	if (!copy) {
		ir->code.failed = true;
		return;
	}
	memcpy(copy, rut_ir_at(ir, body), head * sizeof(*copy));
	memmove(rut_ir_at(ir, head), rut_ir_at(ir, 0), body * sizeof(*copy));
	memcpy(rut_ir_at(ir, 0), copy, head * sizeof(*copy));
	free(copy);
}

/*
 * Linux 5.12 has an atomic exchange. Before, a place is of the one that finds itself alone: two
 * that see each other both go on to the next place.
 */
static bool counts_users(const struct rut_gen *g)
{
	return g->prog->opts.portable || !rut_script_kernel_at_least(5, 12);
}

static void add_user(struct rut_gen *g, int by)
{
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_ADD,
						.a = g->scratch,
						.b = rut_ir_const(&g->ir, by)});
}

static void gen_scratch(struct rut_gen *g, const struct rut_node *n)
{
	rut_vreg cpu = rut_ir_call(&g->ir, BPF_FUNC_get_smp_processor_id, 0, NULL);
	rut_vreg index = rut_ir_alu_imm(&g->ir, BPF_MUL, rut_ir_ext(&g->ir, cpu, 4, false),
					RUT_SCRATCH_NESTED);
	uint32_t found = rut_ir_label(&g->ir), lost = rut_ir_label(&g->ir);
	struct rut_gen_mark mark = rut_gen_mark(g);
	struct rut_mem key = rut_gen_room(g, n, 8);

	for (int i = 0; i < RUT_SCRATCH_NESTED; i++) {
		struct rut_ir_arg args[] = {RUT_ARG_MAPNO(RUT_MAP_SCRATCH), rut_gen_arg(key)};
		rut_vreg place, taken;

		rut_ir_store(&g->ir, 4, key.base, key.off,
			     i ? rut_ir_alu_imm(&g->ir, BPF_ADD, index, i) : index);
		place = rut_ir_call(&g->ir, BPF_FUNC_map_lookup_elem, 2, args);
		rut_ir_branch_imm(&g->ir, BPF_JEQ, place, 0, lost);
		rut_ir_mov(&g->ir, g->scratch, place);
		if (counts_users(g)) {
			add_user(g, 1);
			rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 8, g->scratch, 0), 1,
					  found);
			add_user(g, -1);
			continue;
		}
		taken = rut_ir_reg(&g->ir);
		rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_XCHG,
							.dst = taken,
							.a = g->scratch,
							.b = rut_ir_const(&g->ir, 1)});
		rut_ir_branch_imm(&g->ir, BPF_JEQ, taken, 0, found);
	}
	rut_ir_place(&g->ir, lost);
	rut_gen_count(g, n, RUT_SITE_SCRATCH);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	rut_ir_place(&g->ir, found);
	rut_gen_release(g, mark);
}

/*
 * After exit() nothing runs but end, so that what is printed does not change meanwhile; and nothing
 * but begin runs before its end, though all is attached by then: RUT_EXIT_HELD, the highest bit, is
 * set.
 */
static void gen_stop(struct rut_gen *g)
{
	uint32_t go = rut_ir_label(&g->ir);

	rut_vreg word;

	/* An iterator goes through all that there is: exit() ends the script behind it. */
	if (g->ctx->kind == RUT_PROBE_END || g->ctx->kind == RUT_PROBE_ITER)
		return;
	word = rut_ir_load(&g->ir, 8, rut_gen_exit_word(g), 0);
	if (g->ctx->kind == RUT_PROBE_BEGIN)
		word = rut_ir_alu_imm(&g->ir, BPF_LSH, word, 1);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, word, 0, go);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	rut_ir_place(&g->ir, go);
}

/* An iterator calls once more at its end, without an object. */
static void gen_object(struct rut_gen *g, const struct rut_node *n)
{
	struct rut_gen_mark mark = rut_gen_mark(g);
	struct rut_mem room = rut_gen_room(g, n, 8);
	uint32_t go = rut_ir_label(&g->ir);

	/* Behind `meta`. */
	rut_gen_read(g, n, room, (struct rut_mem){g->ctx_reg, 8, RUT_SPACE_KERNEL}, 8);
	rut_ir_branch_imm(&g->ir, BPF_JNE, rut_ir_load(&g->ir, 8, room.base, room.off), 0, go);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	rut_ir_place(&g->ir, go);
	rut_gen_release(g, mark);
}

static void gen_prologue(struct rut_gen *g, const struct rut_probe *probe)
{
	size_t body = rut_ir_count(&g->ir);

	g->ir.place = probe->specs->span.pos;
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CTX, .dst = g->ctx_reg});
	gen_stop(g);
	if (g->ctx->kind == RUT_PROBE_ITER)
		gen_object(g, probe->body);
	if (g->ctx->ruby && !g->ctx->replay)
		rut_gen_ruby_filter(g);
	if (g->scratch)
		gen_scratch(g, probe->body);
	if (g->has_loops)
		rut_gen_home_init(g);
	for (const struct rut_sym *s = g->syms; s; s = s->next) {
		if (!s->placed)
			continue;
		if (s->reg)
			rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = s->reg});
		else
			rut_gen_zero(g, (struct rut_mem){s->base, s->off, RUT_SPACE_BPF},
				     s->type->size);
	}
	prepend(&g->ir, body);
}

static void gen_epilogue(struct rut_gen *g)
{
	rut_ir_place(&g->ir, g->exit);
	if (g->scratch && counts_users(g))
		add_user(g, -1);
	else if (g->scratch)
		rut_ir_store_imm(&g->ir, 8, g->scratch, 0, 0);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
}

/* Variables have their places before the body, because loops go back before their assignment. */
static void place_vars(struct rut_gen *g, const struct rut_probe *probe)
{
	for (struct rut_sym *s = g->syms; s; s = s->next) {
		struct rut_mem m;

		if (!s->type || s->placed)
			continue;
		s->placed = true;
		if (rut_type_is_scalar(s->type) && !g->has_loops) {
			s->reg = rut_ir_reg(&g->ir);
			continue;
		}
		s->reg = 0;
		if (g->has_loops) {
			/* Not in the frame, whose words the verifier follows through each
			 * iteration. The word behind it: where a range begins. */
			uint32_t size = rut_type_is_scalar(s->type) ? 8 : s->type->size;

			m = rut_gen_scratch_room(g, probe->body, size + 16);
			s->begin_off = m.off + (int32_t)((size + 7) & ~7u);
		} else {
			m = rut_gen_room(g, probe->body, s->type->size);
		}
		s->base = m.base;
		s->off = m.off;
	}
}

/* Marks the functions that this code calls, and those that they call. */
static int mark_called(struct rut_ir *ir, struct rut_ir *functions, bool *called)
{
	int rc = rut_ir_clean(ir);

	for (size_t i = 0; i < rut_ir_count(ir) && !rc; i++) {
		const struct rut_ir_insn *insn = rut_ir_at(ir, i);
		const struct rut_ir_arg *args;

		if (insn->op != RUT_IR_CALL)
			continue;
		args = (const struct rut_ir_arg *)(void *)ir->args.data + insn->args;
		for (int k = 0; k < 5 && !rc; k++) {
			size_t f = (size_t)args[k].imm - 1;

			if (args[k].kind != RUT_IR_ARG_FUNCTION || called[f])
				continue;
			called[f] = true;
			rc = mark_called(&functions[f], functions, called);
		}
	}
	return rc;
}

/*
 * The probe itself, then the functions of its loops, but those of loops that are never reached: the
 * verifier counts the functions that are called.
 */
static int compile_functions(struct rut_gen *g, struct rut_asm *code, struct rut_err *err)
{
	struct rut_ir *functions = (void *)g->functions.data;
	size_t n = g->functions.len / sizeof(*functions);
	_cleanup_free_ bool *called = calloc(n + 1, sizeof(*called));
	int rc;

	if (g->functions.failed || !called || mark_called(&g->ir, functions, called))
		return rut_err_set(err, ENOMEM, "out of memory");
	/* Label i is function i + 1. */
	for (size_t i = 0; i < n; i++)
		rut_asm_label(code);
	rc = rut_ir_compile(&g->ir, code, err);
	for (size_t i = 0; i < n && !rc; i++) {
		if (!called[i])
			continue;
		g->nfunctions++;
		rut_asm_place(code, (uint32_t)i);
		rc = rut_ir_compile(&functions[i], code, err);
	}
	if (!rc)
		rc = rut_asm_finish(code, err);
	g->all_functions = (uint32_t)n;
	return rc;
}

static uint32_t *function_begins(const struct rut_gen *g, const struct rut_asm *code)
{
	uint32_t *begins = malloc((g->nfunctions + 1) * sizeof(*begins)), n = 0;
	const uint32_t *labels = (const uint32_t *)(const void *)code->labels.data;

	for (uint32_t i = 0; begins && i < g->all_functions; i++)
		if (labels[i] != UINT32_MAX)
			begins[n++] = labels[i];
	return begins;
}

static int add_prog(struct rut_gen *g, const struct rut_probe_ctx *ctx, struct rut_asm *code)
{
	struct rut_script_program *p = g->prog;
	struct rut_script_prog *progs = realloc(p->progs, (p->nprogs + 1) * sizeof(*progs));
	struct rut_script_prog *prog;

	if (!progs)
		return -ENOMEM;
	p->progs = progs;
	prog = &progs[p->nprogs++];
	*prog = (struct rut_script_prog){
		.type = ctx->prog_type,
		.expected = ctx->expected,
		.btf_id = ctx->btf_id,
		.span = ctx->spec->span,
		.attach = ctx->attach,
		.nattach = ctx->replay ? 0 : ctx->nattach,
		.replays = ctx->replay ? ctx->attach->config + 1 : 0,
		.fd = -1,
		.ninsns = rut_asm_count(code),
		.nmap_refs = code->maps.len / sizeof(struct rut_asm_ref),
	};
	prog->nfunctions = g->nfunctions;
	prog->functions = function_begins(g, code);
	if (!prog->functions)
		return -ENOMEM;
	prog->insns = (void *)rut_buf_take(&code->code);
	prog->places = (void *)rut_buf_take(&code->places);
	prog->map_refs = (void *)rut_buf_take(&code->maps);
	prog->nrelos = code->relos.len / sizeof(struct rut_asm_ref);
	prog->relos = (void *)rut_buf_take(&code->relos);
	return 0;
}

int rut_gen_probe(struct rut_script_program *p, const struct rut_probe_ctx *ctx,
		  struct rut_probe *probe, struct rut_sym *syms, struct rut_err *err)
{
	struct rut_gen g = {.prog = p, .ctx = ctx, .err = err, .syms = syms};
	struct rut_asm code = {0};

	g.ctx_reg = rut_ir_reg(&g.ir);
	g.exit = rut_ir_label(&g.ir);
	g.has_loops = ctx->replay || rut_gen_has_loops(probe->body) ||
		      rut_gen_has_loops(probe->predicate);
	g.frame = g.ir.frame = g.has_loops ? RUT_HOME_BYTES : 0;
	place_vars(&g, probe);
	if (ctx->replay) {
		rut_gen_replay(&g, probe);
	} else {
		if (probe->predicate)
			rut_gen_unless(&g, probe->predicate, g.exit);
		rut_gen_block(&g, probe->body);
	}
	gen_epilogue(&g);
	gen_prologue(&g, probe);
	if (!g.rc)
		g.rc = compile_functions(&g, &code, err);
	if (g.rc == -E2BIG && err)
		g.rc = rut_source_error(&p->src, ctx->spec->span, "%s", err->msg);
	if (!g.rc)
		g.rc = add_prog(&g, ctx, &code);
	if (g.scratch_max > p->scratch_bytes)
		p->scratch_bytes = g.scratch_max;
	rut_asm_fini(&code);
	for (size_t i = 0; i < g.functions.len / sizeof(struct rut_ir); i++)
		rut_ir_fini((struct rut_ir *)(void *)g.functions.data + i);
	rut_buf_fini(&g.functions);
	rut_ir_fini(&g.ir);
	return g.rc;
}
