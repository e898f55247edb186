/* SPDX-License-Identifier: MIT */
#include "session/filter.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "ebpf/asm.h"
#include "expr/expr_priv.h"
#include "expr/prog.h"
#include "session/events.h"

#define TEMPS_MAX 32
#define REG_REC	  BPF_REG_1
#define REG_A	  BPF_REG_3
#define REG_B	  BPF_REG_4
#define REG_T	  BPF_REG_5

/* What find() knows about a field, kept in struct rut_expr_field. */
struct place {
	uint16_t offset; /* in the record; 0: at no fixed place */
	uint8_t bytes;	 /* of a number; of a text that is padded with zeros */
	bool negative;	 /* has a sign */
	bool big;	 /* big endian */
	bool small;	 /* without a sign, and far from 2^63 */
	bool text;	 /* text, padded or terminated by a zero byte */
	bool bad;	 /* sequences and the like */
};

_Static_assert(sizeof(struct place) <= sizeof(struct rut_expr_field), "fits");

struct class
{
	const struct rut_event *event;
	uint64_t contexts;
	struct rut_filter_names *names;
};

struct generator {
	const struct rut_expr_prog *prog;
	struct rut_asm out;
	uint32_t first_label; /* of the code's instruction 0; one for each */
	const char *event;
	struct rut_err *err;
	int rc;
};

static int refuse(struct generator *g, const char *why)
{
	if (!g->rc)
		g->rc = rut_err_set(g->err, EINVAL, "the kernel cannot filter %s by this: %s",
				    g->event, why);
	return g->rc;
}

static void emit_const(struct generator *g, uint8_t reg, uint64_t v)
{
	if ((int64_t)v == (int32_t)v || v == (uint32_t)v) {
		rut_asm_const(&g->out, reg, v);
		return;
	}
	/* Not the two-word load: the patched location must stay a plain sequence of words. */
	rut_asm_alu_imm(&g->out, BPF_MOV, reg, (int32_t)(v >> 32));
	rut_asm_alu_imm(&g->out, BPF_LSH, reg, 32);
	rut_asm_const(&g->out, REG_T, (uint32_t)v);
	rut_asm_alu(&g->out, BPF_OR, reg, REG_T);
}

/* Fields */

static bool find_context(uint64_t contexts, const char *name, struct place *ret)
{
	uint16_t offset = 8;

	for (size_t i = 0; i < RUT_CTX_COUNT; i++) {
		const struct rut_context_desc *c = &rut_contexts[i];
		const struct rut_field_kind_desc *kind = &rut_field_kinds[c->field.kind];

		if (!(contexts & c->bit))
			continue;
		if (!strcmp(name, c->field.name)) {
			*ret = (struct place){.offset = offset,
					      .bytes = (uint8_t)c->bytes,
					      .text = kind->form == RUT_FIELD_TEXT,
					      .negative = kind->form == RUT_FIELD_INT};
			return true;
		}
		offset = (uint16_t)(offset + c->bytes);
	}
	return false;
}

/* How a field is read; its offset is the caller's. */
static struct place field_place(const struct rut_field *f)
{
	const struct rut_field_kind_desc *kind = &rut_field_kinds[f->kind];
	struct place p = {.bytes = kind->bytes};

	switch (kind->form) {
	case RUT_FIELD_TEXT:
		p.text = f->kind != RUT_FK_TEXT || f->count < 256;
		p.bad = !p.text;
		if (f->kind == RUT_FK_TEXT)
			p.bytes = p.text ? (uint8_t)f->count : 0;
		break;
	case RUT_FIELD_INT:
	case RUT_FIELD_UINT:
	case RUT_FIELD_BIG:
		p.negative = kind->form == RUT_FIELD_INT;
		p.big = kind->form == RUT_FIELD_BIG;
		p.small = !p.negative && (p.bytes < 8 || f->count == 4);
		break;
	default:
		p.bad = true; /* the kernel's machine has no floating point */
	}
	return p;
}

static bool find_payload(const struct class *c, const char *name, struct place *ret)
{
	uint16_t offset = (uint16_t)(8 + rut_context_size(c->contexts));

	for (size_t i = 0; i < c->event->nfields; i++) {
		const struct rut_field *f = &c->event->fields[i];
		struct place p = field_place(f);

		p.offset = offset;
		if (!strcmp(f->name, name) && f->kind != RUT_FK_LEN8) {
			*ret = p;
			return true;
		}
		/* Behind something variable nothing has a fixed place. */
		if (f->kind == RUT_FK_TEXT)
			offset = offset ? (uint16_t)(offset + f->count) : 0;
		else if (f->kind >= RUT_FK_ARRAY_X8 && f->kind <= RUT_FK_ARRAY_X64)
			offset = offset ? (uint16_t)(offset +
						     (f->count << (f->kind - RUT_FK_ARRAY_X8)))
					: 0;
		else
			offset = p.bytes && offset ? (uint16_t)(offset + p.bytes) : 0;
	}
	return false;
}

static void note(struct rut_filter_names *n, const char *name, bool found)
{
	size_t i = 0;

	while (i < n->count && strcmp(n->list[i].name, name) != 0)
		i++;
	if (i == sizeof(n->list) / sizeof(*n->list))
		return;
	if (i == n->count) {
		snprintf(n->list[i].name, sizeof(n->list[i].name), "%s", name);
		n->count++;
	}
	n->list[i].found |= found;
}

static int find(const void *cls, enum rut_expr_scope scope, const char *path,
		struct rut_expr_field *ret)
{
	const struct class *c = cls;
	struct place p = {0};
	bool found = false;

	if (scope == RUT_EXPR_AUTO || scope == RUT_EXPR_PAYLOAD)
		found = find_payload(c, path, &p);
	if (!found &&
	    (scope == RUT_EXPR_AUTO || scope == RUT_EXPR_CTX || scope == RUT_EXPR_STREAM_CTX))
		found = find_context(c->contexts, path, &p);
	note(c->names, path, found);
	if (!found)
		return -ENOENT;
	memcpy(ret->bytes, &p, sizeof(p));
	return 0;
}

static const char *class_name(const void *cls)
{
	return ((const struct class *)cls)->event->name;
}

static const struct rut_expr_ops ops = {.find = find, .class_name = class_name};

/* Code */

static struct place place_of(const struct rut_expr_operand *o)
{
	struct place p;

	memcpy(&p, o->field.bytes, sizeof(p));
	return p;
}

/* Loads a number; *ret_unsigned says how it compares (constants suit both when not negative). */
static int load_number(struct generator *g, uint16_t operand, uint8_t reg, int *ret_sign)
{
	const struct rut_expr_operand *o = &g->prog->operands[operand];
	struct place p;

	*ret_sign = -1;
	switch (o->kind) {
	case OPERAND_CONST:
		if (o->val.type != RUT_EXPR_INT && o->val.type != RUT_EXPR_UINT)
			return refuse(g, "only whole numbers and texts exist there");
		*ret_sign = o->val.type == RUT_EXPR_INT ? (o->val.i < 0 ? -1 : 0) : 1;
		emit_const(g, reg, o->val.u);
		return 0;
	case OPERAND_TEMP:
		if (o->index >= TEMPS_MAX)
			return refuse(g, "it is too long");
		rut_asm_load(&g->out, 8, reg, BPF_REG_10, (int16_t)(-8 * (o->index + 1)));
		return 0;
	case OPERAND_FIELD:
		p = place_of(o);
		if (p.bad || p.text)
			return refuse(g, "a text or sequence is used as a number");
		if (!p.offset)
			return refuse(g, "a field behind a text has no fixed place");
		rut_asm_load(&g->out, p.bytes, reg, REG_REC, (int16_t)p.offset);
		if (p.big)
			rut_asm_insn(&g->out, BPF_ALU | BPF_END | BPF_TO_BE, reg, 0, 0,
				     8 * p.bytes);
		if (p.negative && p.bytes < 8) {
			rut_asm_alu_imm(&g->out, BPF_LSH, reg, 64 - 8 * p.bytes);
			rut_asm_alu_imm(&g->out, BPF_ARSH, reg, 64 - 8 * p.bytes);
		}
		/* Less than 64 bits without a sign: signed comparison is right as well. */
		*ret_sign = p.negative ? -1 : p.small ? 0 : 1;
		return 0;
	default:
		return refuse(g, "the time of an event is not known before it is stored");
	}
}

/* r0 = 1 or 0 by the jump that `code` takes. */
static void emit_truth(struct generator *g, uint8_t code)
{
	uint32_t end = rut_asm_label(&g->out);

	rut_asm_const(&g->out, BPF_REG_0, 1);
	rut_asm_branch(&g->out, code, REG_A, REG_B, end);
	rut_asm_const(&g->out, BPF_REG_0, 0);
	rut_asm_place(&g->out, end);
}

static bool is_text(const struct generator *g, uint16_t operand)
{
	const struct rut_expr_operand *o = &g->prog->operands[operand];

	return o->kind == OPERAND_CONST	  ? o->val.type == RUT_EXPR_STR
	       : o->kind == OPERAND_FIELD ? place_of(o).text
					  : false;
}

/* r0 = the field's text is (or, as a prefix, begins with) these bytes. */
static int compare_text(struct generator *g, uint16_t field, const char *s, uint32_t len,
			bool prefix)
{
	struct place p = place_of(&g->prog->operands[field]);
	uint32_t n = len + !prefix, end;

	if (!p.offset)
		return refuse(g, "only the first text of an event has a fixed place");
	if (memchr(s, 0, len) || n > 255)
		return refuse(g, "the text is too long");
	rut_asm_const(&g->out, BPF_REG_0, 0);
	if (p.bytes && len >= p.bytes)
		return 0; /* longer than the field can be: never */
	end = rut_asm_label(&g->out);
	for (uint32_t i = 0; i < n; i++) {
		rut_asm_load(&g->out, 1, REG_A, REG_REC, (int16_t)(p.offset + i));
		rut_asm_branch_imm(&g->out, BPF_JNE, REG_A, i < len ? (unsigned char)s[i] : 0, end);
	}
	rut_asm_const(&g->out, BPF_REG_0, 1);
	rut_asm_place(&g->out, end);
	return 0;
}

static int gen_text_relation(struct generator *g, const struct rut_expr_code *c)
{
	uint16_t field = c->a, text = c->b;

	if (g->prog->operands[field].kind == OPERAND_CONST) {
		field = c->b;
		text = c->a;
	}
	if (c->sub != OP2('=', '='))
		return refuse(g, "texts can only be equal there, not smaller or larger");
	if (g->prog->operands[field].kind != OPERAND_FIELD ||
	    g->prog->operands[text].kind != OPERAND_CONST)
		return refuse(g, "a text can only be compared with a constant");
	return compare_text(g, field, g->prog->operands[text].val.s,
			    g->prog->operands[text].val.len, false);
}

static int gen_relation(struct generator *g, const struct rut_expr_code *c)
{
	int sa, sb;
	bool is_unsigned;

	if (is_text(g, c->a) != is_text(g, c->b)) {
		rut_asm_const(&g->out, BPF_REG_0, 0);
		return 0;
	}
	if (is_text(g, c->a))
		return gen_text_relation(g, c);
	if (load_number(g, c->a, REG_A, &sa) || load_number(g, c->b, REG_B, &sb))
		return g->rc;
	if (sa * sb < 0)
		return refuse(g, "a number with a sign is compared with one of 64 bits without");
	is_unsigned = sa > 0 || sb > 0;
	switch (c->sub) {
	case OP2('=', '='):
		emit_truth(g, BPF_JEQ);
		break;
	case '<':
		emit_truth(g, is_unsigned ? BPF_JLT : BPF_JSLT);
		break;
	case '>':
		emit_truth(g, is_unsigned ? BPF_JGT : BPF_JSGT);
		break;
	case OP2('<', '='):
		emit_truth(g, is_unsigned ? BPF_JLE : BPF_JSLE);
		break;
	default:
		emit_truth(g, is_unsigned ? BPF_JGE : BPF_JSGE);
		break;
	}
	return 0;
}

static int gen_glob(struct generator *g, const struct rut_expr_code *c)
{
	const struct rut_expr_val *pattern = &g->prog->operands[c->b].val;
	uint32_t plain = 0;

	while (plain < pattern->len && !strchr("*?[\\", pattern->s[plain]))
		plain++;
	if (plain != pattern->len && (plain + 1 != pattern->len || pattern->s[plain] != '*'))
		return refuse(g, "of patterns only those with one '*' at the end are possible");
	if (g->prog->operands[c->a].kind != OPERAND_FIELD || !is_text(g, c->a))
		return refuse(g, "only a field that is a text can be matched");
	return compare_text(g, c->a, pattern->s, plain, plain != pattern->len);
}

static int gen_arith(struct generator *g, const struct rut_expr_code *c)
{
	int sa, sb;
	uint8_t code;

	if (c->dst >= TEMPS_MAX)
		return refuse(g, "it is too long");
	switch (c->sub) {
	case '+':
		code = BPF_ADD;
		break;
	case '-':
		code = BPF_SUB;
		break;
	case '*':
		code = BPF_MUL;
		break;
	case '&':
		code = BPF_AND;
		break;
	case '|':
		code = BPF_OR;
		break;
	case '^':
		code = BPF_XOR;
		break;
	default:
		return refuse(g, "of arithmetic only + - * & | ^ are possible");
	}
	if (load_number(g, c->a, REG_A, &sa) || load_number(g, c->b, REG_B, &sb))
		return g->rc;
	/* What is masked by a constant has no sign, whatever it was. */
	if ((sa > 0 || sb > 0) && (c->sub != '&' || (sa && sb)))
		return refuse(g, "arithmetic with numbers of 64 bits without a sign");
	rut_asm_alu(&g->out, code, REG_A, REG_B);
	rut_asm_store(&g->out, 8, BPF_REG_10, (int16_t)(-8 * (c->dst + 1)), REG_A);
	return 0;
}

static int gen_code(struct generator *g, const struct rut_expr_code *c)
{
	int sign;

	switch (c->op) {
	case CODE_CMP:
		return gen_relation(g, c);
	case CODE_GLOB:
		return gen_glob(g, c);
	case CODE_TEST:
		if (load_number(g, c->a, REG_A, &sign))
			return g->rc;
		rut_asm_const(&g->out, REG_B, 0);
		emit_truth(g, BPF_JNE);
		return 0;
	case CODE_NOT:
		rut_asm_alu_imm(&g->out, BPF_XOR, BPF_REG_0, 1);
		return 0;
	case CODE_JUMP_FALSE:
	case CODE_JUMP_TRUE:
		rut_asm_branch_imm(&g->out, c->op == CODE_JUMP_FALSE ? BPF_JEQ : BPF_JNE, BPF_REG_0,
				   0, g->first_label + c->a);
		return 0;
	case CODE_ARITH:
		return gen_arith(g, c);
	case CODE_BOOL:
		if (c->dst >= TEMPS_MAX)
			return refuse(g, "it is too long");
		rut_asm_store(&g->out, 8, BPF_REG_10, (int16_t)(-8 * (c->dst + 1)), BPF_REG_0);
		return 0;
	default:
		return refuse(g, "regular expressions are not possible");
	}
}

/* One body: r0 is 1 or 0 at its exit. */
static int gen_body(struct generator *g)
{
	const struct rut_expr_prog *p = g->prog;

	/* Jumps go from one instruction of the program to another, or to its end. */
	for (uint32_t i = 0; i <= p->ncode; i++) {
		uint32_t label = rut_asm_label(&g->out);

		if (!i)
			g->first_label = label;
	}
	rut_asm_const(&g->out, BPF_REG_0, 0);
	for (uint16_t i = 0; i < p->ncode; i++) {
		rut_asm_place(&g->out, g->first_label + i);
		if (gen_code(g, &p->code[i]))
			return g->rc;
	}
	rut_asm_place(&g->out, g->first_label + p->ncode);
	if (!p->cond) {
		int sign;

		if (load_number(g, p->result, REG_A, &sign))
			return g->rc;
		rut_asm_const(&g->out, REG_B, 0);
		emit_truth(g, BPF_JNE);
	}
	rut_asm_exit(&g->out);
	return rut_asm_finish(&g->out, g->err);
}

/* All bodies behind each other: "not class k: skip; body k", and at the end: drop. */
struct assembly {
	struct rut_strtab bodies; /* equal bodies are kept once */
	struct rut_filter_names *names;
	const struct rut_expr *expr;
	uint64_t contexts;
	struct rut_filter *filter;
	struct rut_err *err;
};

static int add_class(struct assembly *a, const struct rut_event *e)
{
	struct class c = {e, a->contexts, a->names};
	struct generator g = {.event = e->name, .err = a->err};
	struct rut_expr_prog *prog = NULL;
	int64_t body;
	int rc = rut_expr_bind(a->expr, &ops, &c, &prog);

	if (rc < 0)
		return rut_err_errno(a->err, -rc, "cannot bind the filter to '%s'", e->name);
	g.prog = prog;
	if (rut_expr_prog_constant(prog) >= 0) {
		a->filter->classes[e->id] =
			rut_expr_prog_constant(prog) ? RUT_FILTER_PASS : RUT_FILTER_DROP;
	} else {
		rc = gen_body(&g);
		body = rc ? 0 : rut_strtab_intern(&a->bodies, g.out.code.data, g.out.code.len);
		if (body < 0)
			rc = rut_err_set(a->err, ENOMEM, "out of memory");
		a->filter->classes[e->id] = RUT_FILTER_BODY + (uint32_t)body;
	}
	rut_asm_fini(&g.out);
	rut_expr_prog_free(prog);
	return rc;
}

static int add_classes(struct assembly *a, const struct rut_selection *sel)
{
	struct rut_syscall_event call;
	struct rut_event e;
	int rc = 0;

	for (uint32_t id = 0; id < RUT_EV_SD_START && !rc; id++) {
		bool unknown = id >= RUT_EV_SYSCALL_UNKNOWN;

		rut_event_static(&e, id);
		if (sel->events[id] || (unknown && rut_selection_any_syscall(sel)))
			rc = add_class(a, &e);
	}
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX && !rc; nr++) {
		if (sel->syscalls[nr] & RUT_SYSCALL_ENTRY && rut_event_syscall(&call, nr, false))
			rc = add_class(a, &call.event);
		if (!rc && sel->syscalls[nr] & RUT_SYSCALL_EXIT &&
		    rut_event_syscall(&call, nr, true))
			rc = add_class(a, &call.event);
	}
	return rc;
}

static int assemble(struct assembly *a)
{
	struct rut_asm out = {0};
	int rc;

	for (size_t i = 0; i < a->bodies.count; i++) {
		const struct rut_str *body = &a->bodies.strs[i];
		uint32_t next = rut_asm_label(&out);

		rut_asm_branch_imm(&out, BPF_JNE, BPF_REG_2, (int32_t)(RUT_FILTER_BODY + i), next);
		rut_asm_insns(&out, (const void *)body->data, body->len / sizeof(struct bpf_insn));
		rut_asm_place(&out, next);
	}
	rut_asm_const(&out, BPF_REG_0, 0);
	rut_asm_exit(&out);
	rc = rut_asm_finish(&out, a->err);
	if (!rc) {
		a->filter->ninsns = rut_asm_count(&out);
		a->filter->insns = (void *)rut_buf_take(&out.code);
	}
	rut_asm_fini(&out);
	return rc == -E2BIG ? rut_err_set(a->err, E2BIG, "the filter is too long") : rc;
}

static int compile(struct rut_filter *ret, const char *text, const struct rut_selection *selection,
		   const struct rut_event *event, uint64_t contexts, struct rut_filter_names *names,
		   struct rut_err *err)
{
	struct assembly a = {.contexts = contexts, .names = names, .filter = ret, .err = err};
	struct rut_expr *expr = NULL;
	int rc = rut_expr_parse(text, strlen(text), RUT_EXPR_FILTER, &expr, NULL, err);

	*ret = (struct rut_filter){0};
	if (rc)
		return rut_err_prefix(err, "filter");
	a.expr = expr;
	rc = event ? add_class(&a, event) : add_classes(&a, selection);
	if (!rc)
		rc = assemble(&a);
	rut_strtab_fini(&a.bodies);
	rut_expr_free(expr);
	return rc;
}

int rut_filter_compile(struct rut_filter *ret, const char *text,
		       const struct rut_selection *selection, uint64_t contexts,
		       struct rut_filter_names *names, struct rut_err *err)
{
	return compile(ret, text, selection, NULL, contexts, names, err);
}

int rut_filter_compile_event(struct rut_filter *ret, const char *text,
			     const struct rut_event *event, uint64_t contexts,
			     struct rut_filter_names *names, struct rut_err *err)
{
	struct rut_event e = *event;

	e.id = 0;
	return compile(ret, text, NULL, &e, contexts, names, err);
}

int rut_filter_check_names(const struct rut_filter_names *names, struct rut_err *err)
{
	for (size_t i = 0; i < names->count; i++)
		if (!names->list[i].found)
			return rut_err_set(
				err, EINVAL,
				"no selected event has a field '%s' (contexts must be asked "
				"for by --context)",
				names->list[i].name);
	return 0;
}

void rut_filter_fini(struct rut_filter *f)
{
	free(f->insns);
	f->insns = NULL;
}

/* The bytes of the function rut_filter() in the object, by its symbol. */
static struct bpf_insn *find_place(unsigned char *elf, size_t size, size_t *ret_n)
{
	const Elf64_Ehdr *eh = (const void *)elf;
	const Elf64_Shdr *sh;

	if (size < sizeof(*eh) || eh->e_shoff + (uint64_t)eh->e_shnum * sizeof(*sh) > size)
		return NULL;
	sh = (const void *)(elf + eh->e_shoff);
	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Sym *sym = (const void *)(elf + sh[i].sh_offset);
		const char *names;

		if (sh[i].sh_type != SHT_SYMTAB)
			continue;
		names = (const char *)elf + sh[sh[i].sh_link].sh_offset;
		for (size_t k = 0; k < sh[i].sh_size / sizeof(*sym); k++) {
			if (strcmp(names + sym[k].st_name, "rut_filter") != 0)
				continue;
			*ret_n = sym[k].st_size / sizeof(struct bpf_insn);
			return (void *)(elf + sh[sym[k].st_shndx].sh_offset + sym[k].st_value);
		}
	}
	return NULL;
}

int rut_filter_patch(const struct rut_filter *f, void *elf, size_t size, struct rut_err *err)
{
	size_t n = 0, pad;
	struct bpf_insn *place = find_place(elf, size, &n);

	if (!place)
		return rut_err_set(err, EPROTO, "the programs have no place for a filter");
	if (f->ninsns > n)
		return rut_err_set(err, E2BIG,
				   "the filter has %zu instructions, there is room for %zu: select "
				   "fewer events",
				   f->ninsns, n);
	/* Jumps to the next instruction, which the kernel removes, fill the rest. */
	pad = n - f->ninsns;
	memset(place, 0, pad * sizeof(*place));
	for (size_t i = 0; i < pad; i++)
		place[i].code = BPF_JMP | BPF_JA;
	memcpy(place + pad, f->insns, f->ninsns * sizeof(*place));
	return 0;
}
