/* SPDX-License-Identifier: MIT */
/*
 * Register allocation by linear scan. A virtual register has one interval, from its first to its
 * last mention; one that is alive when a loop begins and mentioned within it lives to its end.
 * Calls destroy r0 to r5: what lives across one gets r6 to r9, the rest may have r3 to r5. r0, r1
 * and r2 are left to the emitter, which brings slots of the frame into them. When registers run
 * out, the interval that ends last gets a slot.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "script/ir.h"

#define FIRST_REG  3
#define FIRST_KEPT 6
#define LAST_REG   9

struct interval {
	rut_vreg reg;
	uint32_t begin, end; /* end 0: never mentioned */
	bool crosses;	     /* a call */
};

struct allocator {
	const struct rut_ir *ir;
	struct interval *all; /* by virtual register */
	uint32_t *calls;      /* positions, in order */
	size_t ncalls;
	struct interval *held[LAST_REG + 1]; /* by machine register */
	struct interval **spilled;	     /* with a slot that is in use, by slot */
	size_t nslots;
	struct rut_ir_places *places;
};

static void mention(struct allocator *a, rut_vreg reg, uint32_t at)
{
	struct interval *v;

	if (reg <= 0)
		return;
	v = &a->all[reg];
	if (!v->reg) {
		v->reg = reg;
		v->begin = at;
	}
	v->end = at;
}

/* A jump back: what is alive at its target stays so up to it. */
static void extend_loops(struct allocator *a, const uint32_t *labels)
{
	size_t n = rut_ir_count(a->ir);

	for (size_t i = 0; i < n; i++) {
		const struct rut_ir_insn *insn = rut_ir_at(a->ir, i);
		uint32_t target;

		if (insn->op != RUT_IR_JUMP && insn->op != RUT_IR_BRANCH)
			continue;
		target = labels[insn->target];
		if (target > i)
			continue;
		for (rut_vreg v = 1; v <= a->ir->nregs; v++)
			if (a->all[v].reg && a->all[v].begin < target && a->all[v].end >= target &&
			    a->all[v].end < i)
				a->all[v].end = (uint32_t)i;
	}
}

static int find_intervals(struct allocator *a)
{
	size_t n = rut_ir_count(a->ir);
	const struct rut_ir_arg *args = (const void *)a->ir->args.data;
	_cleanup_free_ uint32_t *labels = calloc((size_t)a->ir->nlabels + 1, sizeof(*labels));

	if (!labels)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const struct rut_ir_insn *insn = rut_ir_at(a->ir, i);

		if (insn->op == RUT_IR_LABEL)
			labels[insn->imm] = i;
		mention(a, insn->a, i);
		mention(a, insn->b, i);
		if (insn->op == RUT_IR_CALL) {
			for (unsigned k = 0; k < 5; k++)
				if (args[insn->args + k].kind == RUT_IR_ARG_REG)
					mention(a, args[insn->args + k].reg, i);
			a->calls[a->ncalls++] = i;
		}
		mention(a, insn->dst, i);
	}
	extend_loops(a, labels);
	return 0;
}

/* Is a call strictly within the interval? */
static bool crosses_call(const struct allocator *a, const struct interval *v)
{
	size_t low = 0, high = a->ncalls;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (a->calls[mid] <= v->begin)
			low = mid + 1;
		else
			high = mid;
	}
	return low < a->ncalls && a->calls[low] < v->end;
}

static void expire(struct allocator *a, uint32_t now)
{
	for (int r = FIRST_REG; r <= LAST_REG; r++)
		if (a->held[r] && a->held[r]->end <= now)
			a->held[r] = NULL;
	for (size_t s = 0; s < a->nslots; s++)
		if (a->spilled[s] && a->spilled[s]->end < now)
			a->spilled[s] = NULL;
}

static void give_slot(struct allocator *a, struct interval *v)
{
	size_t s = 0;

	/* A slot is free again when what had it ended before this one began. */
	while (s < a->nslots && a->spilled[s] && a->spilled[s]->end >= v->begin)
		s++;
	if (s == a->nslots)
		a->nslots++;
	a->spilled[s] = v;
	a->places->reg[v->reg] = -1;
	a->places->slot[v->reg] = -(((a->ir->frame + 7) & ~7) + 8 * ((int32_t)s + 1));
}

static void assign(struct allocator *a, struct interval *v, int hint)
{
	int first = v->crosses ? FIRST_KEPT : FIRST_REG, last = LAST_REG, victim = -1;

	if (hint >= first && !a->held[hint]) {
		a->held[hint] = v;
		a->places->reg[v->reg] = (int8_t)hint;
		return;
	}
	for (int r = first; r <= last; r++) {
		if (!a->held[r]) {
			a->held[r] = v;
			a->places->reg[v->reg] = (int8_t)r;
			return;
		}
		if (victim < 0 || a->held[r]->end > a->held[victim]->end)
			victim = r;
	}
	/* A slot is for the whole interval, so that which began earlier must get a new one. */
	if (a->held[victim]->end > v->end) {
		struct interval *out = a->held[victim];

		a->held[victim] = v;
		a->places->reg[v->reg] = (int8_t)victim;
		/* Its slot must have been free since it began. */
		a->places->reg[out->reg] = -1;
		a->spilled[a->nslots] = out;
		a->nslots++;
		a->places->slot[out->reg] = -(((a->ir->frame + 7) & ~7) + 8 * (int32_t)a->nslots);
		return;
	}
	give_slot(a, v);
}

static int by_begin(const void *x, const void *y)
{
	const struct interval *a = *(struct interval *const *)x, *b = *(struct interval *const *)y;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->reg < b->reg ? -1 : 1;
}

/* The register of what is moved into this one where it begins: the move is then nothing. */
static int hint_of(const struct allocator *a, const struct interval *v)
{
	const struct rut_ir_insn *insn = rut_ir_at(a->ir, v->begin);

	if (insn->dst != v->reg || insn->a <= 0 ||
	    (insn->op != RUT_IR_MOV && insn->op != RUT_IR_ALU && insn->op != RUT_IR_EXT))
		return -1;
	return a->all[insn->a].end == v->begin ? a->places->reg[insn->a] : -1;
}

static int scan(struct allocator *a, struct rut_err *err)
{
	size_t n = 0;
	_cleanup_free_ struct interval **order =
		calloc((size_t)a->ir->nregs + 1, sizeof(struct interval *));

	if (!order)
		return -ENOMEM;
	for (rut_vreg v = 1; v <= a->ir->nregs; v++) {
		if (!a->all[v].reg)
			continue;
		/* Arguments are in r1 to r5, which must not be overwritten by the first of them. */
		a->all[v].crosses = crosses_call(a, &a->all[v]) ||
				    rut_ir_at(a->ir, a->all[v].begin)->op == RUT_IR_CTX;
		order[n++] = &a->all[v];
	}
	qsort(order, n, sizeof(struct interval *), by_begin);
	for (size_t i = 0; i < n; i++) {
		expire(a, order[i]->begin);
		assign(a, order[i], hint_of(a, order[i]));
	}
	a->places->frame = ((a->ir->frame + 7) & ~7) + 8 * (int32_t)a->nslots;
	if (a->places->frame > RUT_IR_FRAME_SIZE)
		return rut_err_set(err, E2BIG,
				   "the probe is too large: its values need %d bytes of a stack "
				   "of %d; use fewer variables or maps at a time",
				   a->places->frame, RUT_IR_FRAME_SIZE);
	return 0;
}

int rut_ir_allocate(const struct rut_ir *ir, struct rut_ir_places *ret, struct rut_err *err)
{
	size_t nregs = (size_t)ir->nregs + 1;
	struct allocator a = {.ir = ir, .places = ret};
	int rc = -ENOMEM;

	ret->reg = calloc(nregs, sizeof(*ret->reg));
	ret->slot = calloc(nregs, sizeof(*ret->slot));
	a.all = calloc(nregs, sizeof(*a.all));
	a.calls = calloc(rut_ir_count(ir) + 1, sizeof(*a.calls));
	a.spilled = calloc(nregs + 1, sizeof(struct interval *));
	if (ret->reg && ret->slot && a.all && a.calls && a.spilled) {
		memset(ret->reg, -1, nregs);
		rc = find_intervals(&a);
	}
	if (!rc)
		rc = scan(&a, err);
	if (rc == -ENOMEM)
		rut_err_set(err, ENOMEM, "out of memory");
	free(a.all);
	free(a.calls);
	free(a.spilled);
	return rc;
}

void rut_ir_places_fini(struct rut_ir_places *p)
{
	free(p->reg);
	free(p->slot);
	*p = (struct rut_ir_places){0};
}
