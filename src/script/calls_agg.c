/* SPDX-License-Identifier: MIT */
/*
 * Aggregations: what a CPU adds to its own value of the map. A program can be interrupted by
 * another one of the same CPU, so that additions are atomic, and the larger or smaller value is
 * exchanged until none is lost.
 */
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "script/calls.h"
#include "script/load.h"

enum { HIST_BITS_MAX = 5, LHIST_SLOTS_MAX = 1000 };

static void add_word(struct rut_gen *g, rut_vreg at, int32_t off, rut_vreg by)
{
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_ADD, .a = at, .b = by, .off = off});
}

static rut_vreg one(struct rut_gen *g)
{
	return rut_ir_const(&g->ir, 1);
}

const struct rut_type *rut_check_count(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_simple(RUT_T_COUNT);
}

void rut_update_count(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	add_word(g, at, 0, one(g));
}

static const struct rut_type *check_numbers(struct rut_checker *c, struct rut_node *n,
					    enum rut_type_kind kind, uint32_t size)
{
	const struct rut_type *t = rut_check_int(c, n->list, "the value");
	struct rut_type *agg;

	if (!t)
		return NULL;
	agg = rut_type_new(c->arena, kind, size, 8);
	agg->is_signed = t->is_signed;
	return agg;
}

const struct rut_type *rut_check_sum(struct rut_checker *c, struct rut_node *n)
{
	return check_numbers(c, n, RUT_T_SUM, 8);
}

void rut_update_sum(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	add_word(g, at, 0, rut_gen_scalar(g, n->list));
}

const struct rut_type *rut_check_avg(struct rut_checker *c, struct rut_node *n)
{
	return check_numbers(c, n, RUT_T_AVG, 16);
}

const struct rut_type *rut_check_stats(struct rut_checker *c, struct rut_node *n)
{
	return check_numbers(c, n, RUT_T_STATS, 16);
}

void rut_update_avg(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	add_word(g, at, 0, rut_gen_scalar(g, n->list));
	add_word(g, at, 8, one(g));
}

const struct rut_type *rut_check_min(struct rut_checker *c, struct rut_node *n)
{
	return check_numbers(c, n, RUT_T_MIN, 16);
}

const struct rut_type *rut_check_max(struct rut_checker *c, struct rut_node *n)
{
	return check_numbers(c, n, RUT_T_MAX, 16);
}

/* What comes back is stored again while it is the one to keep. */
static void update_extreme(struct rut_gen *g, struct rut_node *n, rut_vreg at, bool is_max)
{
	bool is_signed = n->type->is_signed;
	uint8_t keeps = is_max ? is_signed ? BPF_JSGE : BPF_JGE : is_signed ? BPF_JSLE : BPF_JLE;
	rut_vreg v = rut_ir_reg(&g->ir), old;
	uint32_t first = rut_ir_label(&g->ir), done = rut_ir_label(&g->ir);

	rut_ir_mov(&g->ir, v, rut_gen_scalar(g, n->list));
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 8, at, 8), 0, first);
	rut_ir_branch(&g->ir, keeps, rut_ir_load(&g->ir, 8, at, 0), v, done);
	/* Without an atomic exchange: exact unless another program of this CPU comes in between. */
	if (!g->prog->opts.portable && !rut_script_kernel_at_least(5, 12))
		rut_ir_store(&g->ir, 8, at, 0, v);
	else
		for (int i = 0; i < RUT_SCRATCH_NESTED; i++) {
			old = rut_ir_reg(&g->ir);
			rut_ir_add(&g->ir, (struct rut_ir_insn){
						   .op = RUT_IR_XCHG, .dst = old, .a = at, .b = v});
			rut_ir_branch(&g->ir, keeps, v, old, done);
			rut_ir_mov(&g->ir, v, old);
		}
	rut_ir_jump(&g->ir, done);
	rut_ir_place(&g->ir, first);
	rut_ir_store(&g->ir, 8, at, 0, v);
	rut_ir_store_imm(&g->ir, 8, at, 8, 1);
	rut_ir_place(&g->ir, done);
}

void rut_update_min(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	update_extreme(g, n, at, false);
}

void rut_update_max(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	update_extreme(g, n, at, true);
}

/* Adds to the word `slot`, which the verifier must see to be one of `words`. */
static void add_slot(struct rut_gen *g, rut_vreg at, rut_vreg slot, uint32_t words, rut_vreg by)
{
	uint32_t done = rut_ir_label(&g->ir);
	rut_vreg place;

	rut_ir_branch_imm(&g->ir, BPF_JGE, slot, words, done);
	place = rut_ir_alu(&g->ir, BPF_ADD, at, rut_ir_alu_imm(&g->ir, BPF_LSH, slot, 3));
	add_word(g, place, 0, by);
	rut_ir_place(&g->ir, done);
}

static bool constant(struct rut_checker *c, struct rut_node *n, int64_t *ret)
{
	if (!rut_check_int(c, n, "this"))
		return false;
	if (rut_literal_int(n, ret))
		return true;
	rut_check_error(c, n, "a constant is expected here");
	return false;
}

const struct rut_type *rut_check_hist(struct rut_checker *c, struct rut_node *n)
{
	int64_t bits = 0;
	struct rut_type *t;

	if (!rut_check_int(c, n->list, "the value"))
		return NULL;
	if (n->list->next && !constant(c, n->list->next, &bits))
		return NULL;
	if (bits < 0 || bits > HIST_BITS_MAX)
		return rut_check_error(c, n->list->next, "the bits of hist() are 0 to %d",
				       HIST_BITS_MAX);
	t = rut_type_new(c->arena, RUT_T_HIST, 8 * rut_script_hist_words((unsigned)bits), 8);
	t->bits = (uint32_t)bits;
	return t;
}

/* log2, by halves. */
static rut_vreg gen_log2(struct rut_gen *g, rut_vreg value)
{
	rut_vreg v = rut_ir_reg(&g->ir), l = rut_ir_reg(&g->ir);

	rut_ir_mov(&g->ir, v, value);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = l});
	for (int half = 32; half; half /= 2) {
		uint32_t less = rut_ir_label(&g->ir);

		rut_ir_branch_imm(&g->ir, BPF_JLT, v, (int64_t)1 << half, less);
		rut_ir_add(
			&g->ir,
			(struct rut_ir_insn){
				.op = RUT_IR_ALU, .sub = BPF_RSH, .dst = v, .a = v, .imm = half});
		rut_ir_add(
			&g->ir,
			(struct rut_ir_insn){
				.op = RUT_IR_ALU, .sub = BPF_ADD, .dst = l, .a = l, .imm = half});
		rut_ir_place(&g->ir, less);
	}
	return l;
}

/* rut_script_hist_slot() as code. */
void rut_update_hist(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	uint32_t bits = n->type->bits, end = rut_ir_label(&g->ir), small = rut_ir_label(&g->ir);
	rut_vreg v = rut_gen_scalar(g, n->list), slot = rut_ir_reg(&g->ir), l, part;

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = slot});
	rut_ir_branch_imm(&g->ir, BPF_JSLT, v, 0, end);
	rut_ir_branch_imm(&g->ir, BPF_JLT, v, (int64_t)1 << bits, small);
	l = gen_log2(g, v);
	if (bits) {
		part = rut_ir_alu_imm(&g->ir, BPF_SUB, l, bits);
		part = rut_ir_alu_imm(&g->ir, BPF_AND, rut_ir_alu(&g->ir, BPF_RSH, v, part),
				      (1 << bits) - 1);
		l = rut_ir_alu_imm(&g->ir, BPF_SUB, l, (int64_t)bits - 1);
		l = rut_ir_alu_imm(&g->ir, BPF_LSH, l, bits);
		l = rut_ir_alu(&g->ir, BPF_ADD, l, part);
		rut_ir_mov(&g->ir, slot, rut_ir_alu_imm(&g->ir, BPF_ADD, l, 1));
	} else {
		rut_ir_mov(&g->ir, slot, rut_ir_alu_imm(&g->ir, BPF_ADD, l, 2));
	}
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, small);
	rut_ir_mov(&g->ir, slot, rut_ir_alu_imm(&g->ir, BPF_ADD, v, 1));
	rut_ir_place(&g->ir, end);
	add_slot(g, at, slot, n->type->size / 8, one(g));
}

const struct rut_type *rut_check_lhist(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *min = n->list->next, *max = min->next, *step = max->next;
	struct rut_type *t;

	if (!rut_check_int(c, n->list, "the value"))
		return NULL;
	t = rut_type_new(c->arena, RUT_T_LHIST, 0, 8);
	if (!constant(c, min, &t->min) || !constant(c, max, &t->max) ||
	    !constant(c, step, &t->step))
		return NULL;
	if (t->step <= 0)
		return rut_check_error(c, step, "the step of lhist() must be more than 0");
	if (t->max <= t->min)
		return rut_check_error(c, max,
				       "the maximum of lhist() must be more than the minimum");
	if (t->max - t->min < t->step)
		return rut_check_error(c, step, "the step is larger than the whole range");
	if ((t->max - t->min) / t->step > LHIST_SLOTS_MAX)
		return rut_check_error(c, n, "lhist() has at most %d slots, not %lld",
				       LHIST_SLOTS_MAX, (long long)((t->max - t->min) / t->step));
	t->size = 8 * rut_script_lhist_words(t);
	return t;
}

void rut_update_lhist(struct rut_gen *g, struct rut_node *n, rut_vreg at)
{
	const struct rut_type *t = n->type;
	uint32_t words = t->size / 8, end = rut_ir_label(&g->ir), over = rut_ir_label(&g->ir);
	rut_vreg v = rut_gen_scalar(g, n->list), slot = rut_ir_reg(&g->ir), off;

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = slot});
	rut_ir_branch_imm(&g->ir, BPF_JSLT, v, t->min, end);
	rut_ir_branch_imm(&g->ir, BPF_JSGE, v, t->min + (int64_t)(words - 2) * t->step, over);
	off = rut_ir_alu_imm(&g->ir, BPF_SUB, v, t->min);
	off = rut_ir_alu_imm(&g->ir, BPF_DIV, off, t->step);
	rut_ir_mov(&g->ir, slot, rut_ir_alu_imm(&g->ir, BPF_ADD, off, 1));
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, over);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = slot, .imm = words - 1});
	rut_ir_place(&g->ir, end);
	add_slot(g, at, slot, words, one(g));
}

/* tseries(value, interval, count), tseries(value, interval, count, "sum") */

enum { TSERIES_MAX = 1000 };

static bool series_kind(const struct rut_node *n, enum rut_type_kind *ret)
{
	static const struct {
		const char *name;
		enum rut_type_kind kind;
	} kinds[] = {
		{"avg", RUT_T_AVG}, {"sum", RUT_T_SUM}, {"min", RUT_T_MIN}, {"max", RUT_T_MAX}};

	for (size_t i = 0; n->kind == RUT_N_STRING && i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (!strcmp(kinds[i].name, n->text)) {
			*ret = kinds[i].kind;
			return true;
		}
	}
	return false;
}

/* BPFTRACE_DUMMY_TS_MAP=@x, of bpftrace's tests: the time is the value of that map. */
static bool check_clock(struct rut_checker *c, struct rut_node *n)
{
	const char *name = getenv("BPFTRACE_DUMMY_TS_MAP");

	if (!name || *name != '@')
		return true;
	if (!n->d) {
		n->d = rut_arena_alloc(c->arena, sizeof(*n->d));
		if (!n->d)
			return false;
		*n->d = (struct rut_node){.kind = RUT_N_MAP, .span = n->span, .text = name};
	}
	return rut_check_int(c, n->d, "the time") != NULL;
}

const struct rut_type *rut_check_tseries(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *interval = n->list->next, *count = interval->next, *agg = count->next;
	const struct rut_type *v = rut_check_int(c, n->list, "the value");
	int64_t ns, number;
	struct rut_type *t;

	if (!v || !constant(c, interval, &ns) || !constant(c, count, &number))
		return NULL;
	if (ns <= 0)
		return rut_check_error(c, interval,
				       "the interval of tseries() must be more than 0");
	if (number < 1 || number > TSERIES_MAX)
		return rut_check_error(c, count, "tseries() has 1 to %d intervals", TSERIES_MAX);
	t = rut_type_new(c->arena, RUT_T_TSERIES, 8 * RUT_SCRIPT_TSERIES_WORDS * (uint32_t)number,
			 8);
	if (agg && !series_kind(agg, &t->agg))
		return rut_check_error(c, agg,
				       "intervals are put together by \"avg\", \"sum\", \"min\" or "
				       "\"max\"");
	if (!check_clock(c, n))
		return NULL;
	t->is_signed = v->is_signed;
	t->interval_ns = (uint64_t)ns;
	t->count = (uint32_t)number;
	return t;
}

/* The value of an interval that has some already. */
static void merge_interval(struct rut_gen *g, const struct rut_type *t, rut_vreg at, rut_vreg v)
{
	uint32_t keep = rut_ir_label(&g->ir);
	rut_vreg old = rut_ir_load(&g->ir, 8, at, 8);

	if (t->agg == RUT_T_MIN)
		rut_ir_branch(&g->ir, t->is_signed ? BPF_JSLE : BPF_JLE, old, v, keep);
	else if (t->agg == RUT_T_MAX)
		rut_ir_branch(&g->ir, t->is_signed ? BPF_JSGE : BPF_JGE, old, v, keep);
	else if (t->agg != RUT_T_NONE)
		v = rut_ir_alu(&g->ir, BPF_ADD, old, v);
	rut_ir_store(&g->ir, 8, at, 8, v);
	rut_ir_place(&g->ir, keep);
}

/* The layout is in type.h. An interval that comes again in the ring of them is reset. */
void rut_update_tseries(struct rut_gen *g, struct rut_node *n, rut_vreg words)
{
	const struct rut_type *t = n->type;
	uint32_t same = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir),
		 count = rut_ir_label(&g->ir);
	rut_vreg v = rut_gen_scalar(g, n->list), at, number, slot, now;

	now = n->d ? rut_gen_scalar(g, n->d)
		   : rut_ir_call(&g->ir, BPF_FUNC_ktime_get_boot_ns, 0, NULL);
	number = rut_ir_alu(&g->ir, BPF_DIV, now, rut_ir_const(&g->ir, (int64_t)t->interval_ns));
	slot = rut_ir_alu_imm(&g->ir, BPF_MOD, number, t->count);
	rut_ir_branch_imm(&g->ir, BPF_JGE, slot, t->count, end);
	number = rut_ir_alu_imm(&g->ir, BPF_ADD, number, 1);
	at = rut_ir_alu(&g->ir, BPF_ADD, words,
			rut_ir_alu_imm(&g->ir, BPF_MUL, slot, 8 * RUT_SCRIPT_TSERIES_WORDS));
	rut_ir_branch(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 8, at, 0), number, same);
	rut_ir_store(&g->ir, 8, at, 0, number);
	rut_ir_store(&g->ir, 8, at, 8, v);
	rut_ir_store_imm(&g->ir, 8, at, 16, 0);
	rut_ir_jump(&g->ir, count);
	rut_ir_place(&g->ir, same);
	merge_interval(g, t, at, v);
	rut_ir_place(&g->ir, count);
	add_word(g, at, 16, one(g));
	rut_ir_store(&g->ir, 8, at, 24, now);
	rut_ir_place(&g->ir, end);
}
