/* SPDX-License-Identifier: MIT */
/*
 * matches(text, "regex"...), glob(text, "pattern"...): a text against sets of constant patterns.
 * All patterns of a call become one deterministic automaton, a table of states in a map: a byte of
 * the text costs one load, however many patterns there are.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "expr/regex.h"
#include "script/calls.h"

/* "a*.[ch]" as "^a.*\\.[ch]$" */
static void add_glob(struct rut_buf *out, const char *p)
{
	rut_buf_putc(out, '^');
	for (; *p; p++) {
		const char *close = *p == '[' ? strchr(p + 2, ']') : NULL;

		if (close && p[1]) {
			rut_buf_puts(out, p[1] == '!' ? "[^" : "[");
			for (p += p[1] == '!' ? 2 : 1; p < close; p++) {
				if (*p == '\\' || *p == '^')
					rut_buf_putc(out, '\\');
				rut_buf_putc(out, *p);
			}
			rut_buf_putc(out, ']');
		} else if (*p == '*') {
			rut_buf_puts(out, ".*");
		} else if (*p == '?') {
			rut_buf_putc(out, '.');
		} else {
			if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_",
				    *p))
				rut_buf_putc(out, '\\');
			rut_buf_putc(out, *p);
		}
	}
	rut_buf_putc(out, '$');
}

/* The patterns as alternatives of one. */
static bool join(struct rut_checker *c, struct rut_node *n, bool is_glob, struct rut_buf *all)
{
	for (struct rut_node *e = n->list->next; e; e = e->next) {
		if (e->kind != RUT_N_STRING) {
			rut_check_error(c, e, "the patterns of %s() are constant texts", n->text);
			return false;
		}
		rut_buf_puts(all, all->len ? "|(" : "(");
		if (is_glob)
			add_glob(all, e->text);
		else
			rut_buf_add(all, e->text, e->len);
		rut_buf_putc(all, ')');
	}
	return true;
}

/* The table of the patterns, appended to those of the script. */
static bool compile(struct rut_checker *c, struct rut_node *n, const char *pattern,
		    struct rut_script_table *ret)
{
	struct rut_script_program *p = c->prog;
	struct rut_expr_regex *r = NULL;
	_cleanup_free_ uint8_t(*next)[256] = NULL;
	const char *why = "out of memory";
	size_t at = 0, states = 0;
	uint8_t *grown;
	int rc = rut_expr_regex_new(pattern, strlen(pattern), &r, &at, &why);

	if (rc) {
		rut_check_error(c, n->list->next, "%s", why);
		return false;
	}
	rc = rut_expr_regex_table(r, &next, &states);
	rut_expr_regex_free(r);
	if (rc) {
		rut_check_error(c, n->list->next,
				"the patterns have more than %d states together: use fewer, or two "
				"calls",
				RUT_EXPR_DFA_MAX);
		return false;
	}
	grown = realloc(p->tables, p->tables_bytes + states * sizeof(*next));
	if (!grown)
		return false;
	p->tables = grown;
	memcpy(grown + p->tables_bytes, next, states * sizeof(*next));
	*ret = (struct rut_script_table){(uint32_t)p->tables_bytes, (uint32_t)states};
	p->tables_bytes += states * sizeof(*next);
	return true;
}

const struct rut_type *rut_check_matches(struct rut_checker *c, struct rut_node *n)
{
	_cleanup_buf_ struct rut_buf all = RUT_BUF_INIT;
	struct rut_script_table *table;

	if (!rut_check_text(c, n->list) || !join(c, n, n->text[0] == 'g', &all))
		return NULL;
	/* Once for all events that the probe matches. */
	if (!c->loud || n->d)
		return rut_type_simple(RUT_T_BOOL);
	table = rut_arena_alloc(c->arena, sizeof(*table));
	n->d = rut_arena_alloc(c->arena, sizeof(*n->d));
	if (!table || !n->d || !compile(c, n, all.data, table))
		return NULL;
	*n->d = (struct rut_node){.kind = RUT_N_INT, .what = table, .span = n->span};
	return rut_type_simple(RUT_T_BOOL);
}

/* The state that follows on a byte of the text, in *state; jumps to `end` when it is the last. */
static void step(struct rut_gen *g, const struct rut_script_table *t, rut_vreg tables,
		 rut_vreg state, rut_vreg byte, uint32_t end)
{
	rut_vreg at = rut_ir_alu_imm(&g->ir, BPF_LSH, state, 8);

	at = rut_ir_alu(&g->ir, BPF_OR, at, byte);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = state});
	rut_ir_branch_imm(&g->ir, BPF_JGE, at, (int64_t)t->states * 256, end);
	at = rut_ir_alu(&g->ir, BPF_ADD, tables, at);
	rut_ir_mov(&g->ir, state, rut_ir_load(&g->ir, 1, at, 0));
	rut_ir_branch_imm(&g->ir, BPF_JLE, state, RUT_EXPR_DFA_MATCH, end);
}

rut_vreg rut_gen_matches(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_script_table *t = n->d->what;
	uint32_t size = n->list->type->size, head = rut_ir_label(&g->ir),
		 end = rut_ir_label(&g->ir), last = rut_ir_label(&g->ir);
	rut_vreg base = rut_gen_pointer(g, rut_gen_mem(g, n->list)), i = rut_ir_reg(&g->ir);
	rut_vreg state = rut_ir_reg(&g->ir), tables = rut_ir_reg(&g->ir), at;

	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){.op = RUT_IR_VALUE, .dst = tables, .imm = RUT_MAP_TABLES});
	tables = rut_ir_alu_imm(&g->ir, BPF_ADD, tables, t->offset);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = i});
	rut_ir_add(&g->ir, (struct rut_ir_insn){
				   .op = RUT_IR_CONST, .dst = state, .imm = RUT_EXPR_DFA_START});
	rut_ir_place(&g->ir, head);
	rut_ir_branch_imm(&g->ir, BPF_JGE, i, size, last);
	at = rut_ir_alu(&g->ir, BPF_ADD, base, i);
	step(g, t, tables, state, rut_ir_load(&g->ir, 1, at, 0), end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){
				   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = i, .a = i, .imm = 1});
	rut_ir_jump(&g->ir, head);
	/* A text without a zero ends here. */
	rut_ir_place(&g->ir, last);
	step(g, t, tables, state, rut_ir_const(&g->ir, 0), end);
	rut_ir_place(&g->ir, end);
	return state;
}
