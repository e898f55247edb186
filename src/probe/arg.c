/* SPDX-License-Identifier: MIT */
#include "probe/arg.h"

#include <ctype.h>
#include <stdbool.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#if defined(__x86_64__)
#include <sys/user.h>

#define REG(field) offsetof(struct user_regs_struct, field)

/* struct pt_regs has the layout of the first 21 words of user_regs_struct. */
static const struct {
	const char *names[5]; /* 8, 4, 2, 1 bytes, and the second byte */
	short offset;
} registers[] = {
	{{"rax", "eax", "ax", "al", "ah"}, REG(rax)},
	{{"rbx", "ebx", "bx", "bl", "bh"}, REG(rbx)},
	{{"rcx", "ecx", "cx", "cl", "ch"}, REG(rcx)},
	{{"rdx", "edx", "dx", "dl", "dh"}, REG(rdx)},
	{{"rsi", "esi", "si", "sil", ""}, REG(rsi)},
	{{"rdi", "edi", "di", "dil", ""}, REG(rdi)},
	{{"rbp", "ebp", "bp", "bpl", ""}, REG(rbp)},
	{{"rsp", "esp", "sp", "spl", ""}, REG(rsp)},
	{{"r8", "r8d", "r8w", "r8b", ""}, REG(r8)},
	{{"r9", "r9d", "r9w", "r9b", ""}, REG(r9)},
	{{"r10", "r10d", "r10w", "r10b", ""}, REG(r10)},
	{{"r11", "r11d", "r11w", "r11b", ""}, REG(r11)},
	{{"r12", "r12d", "r12w", "r12b", ""}, REG(r12)},
	{{"r13", "r13d", "r13w", "r13b", ""}, REG(r13)},
	{{"r14", "r14d", "r14w", "r14b", ""}, REG(r14)},
	{{"r15", "r15d", "r15w", "r15b", ""}, REG(r15)},
	{{"rip", "eip", "", "", ""}, REG(rip)},
};

static const short call_registers[] = {REG(rdi), REG(rsi), REG(rdx), REG(rcx), REG(r8), REG(r9)};
static const short result_register = REG(rax);

/* The offset in pt_regs, one more for a second byte ("ah"); -1: no such register. */
static short find_register(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
		for (int k = 0; k < 5; k++)
			if (strlen(registers[i].names[k]) == len && len &&
			    !memcmp(registers[i].names[k], name, len))
				return (short)(registers[i].offset + (k == 4));
	return -1;
}
#else
static const short call_registers[] = {0, 8, 16, 24, 32, 40, 48, 56};
static const short result_register = 0;

/* aarch64: x0 to x30, sp, in the order of pt_regs. */
static short find_register(const char *name, size_t len)
{
	char *end;
	long n;

	if (len == 2 && !memcmp(name, "sp", 2))
		return 31 * 8;
	if (len < 2 || (name[0] != 'x' && name[0] != 'w'))
		return -1;
	n = strtol(name + 1, &end, 10);
	return end == name + len && n >= 0 && n <= 30 ? (short)(n * 8) : -1;
}
#endif

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* "%rdi": returns what follows, or NULL. */
static const char *take_register(const char *p, short *ret)
{
	const char *start = ++p;

	while (is_word(*p))
		p++;
	*ret = find_register(start, (size_t)(p - start));
	return *ret < 0 ? NULL : p;
}

/* "-20(%rbp,%rax,8)" or "(%rdi)"; p stands at what is before the parenthesis. */
static const char *take_memory(const char *p, struct rut_probe_arg *a)
{
	char *end;

	a->kind = RUT_ARG_MEM;
	a->value = strtoll(p, &end, 0);
	p = end;
	if (*p++ != '(')
		return NULL;
	if (*p == '%' && !(p = take_register(p, &a->reg)))
		return NULL;
	if (*p == ',' && p[1] == '%') {
		p = take_register(p + 1, &a->index);
		if (p && *p == ',') {
			long scale = strtol(p + 1, &end, 10);

			p = end;
			while (scale > 1 && a->scale < 3) {
				a->scale++;
				scale >>= 1;
			}
		}
	}
	return p && *p == ')' ? p + 1 : NULL;
}

struct resolver {
	rut_arg_resolve_fn fn; /* NULL: no symbols */
	void *arg;
};

/*
 * "symbol", "symbol+8(%rip)", "8+symbol(%rip)", as memory or ("$symbol") as an address: relative to
 * the instruction, at an address known in every process.
 */
static const char *take_symbol(const char *p, struct rut_probe_arg *a, bool is_address,
			       const struct resolver *r)
{
	const char *end = p + strcspn(p, " "), *name = NULL;
	int64_t distance = 0, sum = 0;
	size_t len = 0;

	while (p < end && *p != '(') {
		char *after;

		p += *p == '+';
		if (isalpha((unsigned char)*p) || *p == '_' || *p == '.') {
			for (name = p, len = 0; is_word(*p); p++)
				len++;
			continue;
		}
		sum += strtoll(p, &after, 0);
		if (after == p)
			break;
		p = after;
	}
	a->kind = RUT_ARG_MISSING;
#if defined(__x86_64__)
	if (name && r->fn && (p == end || !strncmp(p, "(%rip)", 6)) &&
	    !r->fn(name, len, &distance, r->arg)) {
		a->kind = is_address ? RUT_ARG_PLACE : RUT_ARG_MEM;
		a->reg = REG(rip);
		a->value = distance + sum;
	}
#endif
	return end;
}

/* Does a symbol stand in this operand? */
static bool has_symbol(const char *p)
{
	size_t len = strcspn(p, "( ");

	for (size_t i = 0; i < len; i++) {
		if (p[i] == '0' && (p[i + 1] == 'x' || p[i + 1] == 'X'))
			return false;
		if (isalpha((unsigned char)p[i]) || p[i] == '_')
			return true;
	}
	return false;
}

/* One "[-]SIZE@OPERAND"; returns what follows, or NULL. */
static const char *take_arg(const char *p, struct rut_probe_arg *a, const struct resolver *r)
{
	char *end;
	long size = 8;
	bool is_float = false;

	*a = (struct rut_probe_arg){.reg = -1, .index = -1, .bytes = 8};
	if (strchr(p, '@') && strcspn(p, "@") < strcspn(p, " ")) {
		size = strtol(p, &end, 10);
		/* "8f@%xmm0": a float; its register is not in pt_regs. */
		is_float = *end == 'f';
		end += is_float;
		if (*end != '@')
			return NULL;
		p = end + 1;
	}
	a->form = is_float ? RUT_ARG_FLOAT : size < 0 ? RUT_ARG_SIGNED : RUT_ARG_UNSIGNED;
	size = labs(size);
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return NULL;
	if (is_float && size < 4)
		return NULL;
	a->bytes = (unsigned char)size;
	if (*p == '$' && has_symbol(p + 1))
		return take_symbol(p + 1, a, true, r);
	if (*p == '$') {
		a->kind = RUT_ARG_CONST;
		a->value = strtoll(p + 1, &end, 0);
		return end;
	}
	if (!strncmp(p, "%xmm", 4)) {
		/* Vector registers are not saved where a program can see them. */
		a->kind = RUT_ARG_MISSING;
		/* Not a number. */
		if (is_float)
			a->value = size == 4 ? 0x7fc00000 : 0x7ff8000000000000;
		return p + strcspn(p, " ");
	}
	if (*p != '%' && has_symbol(p))
		return take_symbol(p, a, false, r);
	if (*p == '%') {
		a->kind = RUT_ARG_REG;
		return take_register(p, &a->reg);
	}
	return take_memory(p, a);
}

int rut_arg_parse(const char *text, struct rut_probe_arg *ret, struct rut_err *err)
{
	return rut_arg_parse_at(text, ret, NULL, NULL, err);
}

int rut_arg_parse_at(const char *text, struct rut_probe_arg *ret, rut_arg_resolve_fn resolve,
		     void *arg, struct rut_err *err)
{
	const struct resolver r = {resolve, arg};
	const char *p = text + strspn(text, " ");
	int n = 0;

	while (*p) {
		const char *next;

		if (n == RUT_PROBE_ARGS)
			return rut_err_set(err, E2BIG, "a probe with more than %d arguments",
					   RUT_PROBE_ARGS);
		next = take_arg(p, &ret[n], &r);
		if (!next || (*next && *next != ' '))
			return rut_err_set(err, EINVAL, "the argument '%.*s' is not understood",
					   (int)strcspn(p, " "), p);
		n++;
		p = next + strspn(next, " ");
	}
	return n;
}

int rut_arg_of_call(int i, struct rut_probe_arg *ret)
{
	const int n = sizeof(call_registers) / sizeof(*call_registers);

	*ret = (struct rut_probe_arg){.kind = RUT_ARG_REG, .index = -1, .bytes = 8};
	if (i < n) {
		ret->reg = i < 0 ? result_register : call_registers[i];
		return 0;
	}
#if defined(__x86_64__)
	/* At the entry, above the return address. */
	if (i < RUT_PROBE_ARGS) {
		ret->kind = RUT_ARG_MEM;
		ret->reg = REG(rsp);
		ret->value = 8 * (i - n + 1);
		return 0;
	}
#endif
	return -EINVAL;
}

static const struct {
	const char *name;
	uint8_t bytes, form;
} types[] = {
	[RUT_TYPE_NONE] = {"", 8, RUT_ARG_UNSIGNED},
	[RUT_TYPE_U8] = {"u8", 1, RUT_ARG_UNSIGNED},
	[RUT_TYPE_U16] = {"u16", 2, RUT_ARG_UNSIGNED},
	[RUT_TYPE_U32] = {"u32", 4, RUT_ARG_UNSIGNED},
	[RUT_TYPE_U64] = {"u64", 8, RUT_ARG_UNSIGNED},
	[RUT_TYPE_S8] = {"s8", 1, RUT_ARG_SIGNED},
	[RUT_TYPE_S16] = {"s16", 2, RUT_ARG_SIGNED},
	[RUT_TYPE_S32] = {"s32", 4, RUT_ARG_SIGNED},
	[RUT_TYPE_S64] = {"s64", 8, RUT_ARG_SIGNED},
	[RUT_TYPE_X8] = {"x8", 1, RUT_ARG_UNSIGNED},
	[RUT_TYPE_X16] = {"x16", 2, RUT_ARG_UNSIGNED},
	[RUT_TYPE_X32] = {"x32", 4, RUT_ARG_UNSIGNED},
	[RUT_TYPE_X64] = {"x64", 8, RUT_ARG_UNSIGNED},
	[RUT_TYPE_F32] = {"f32", 4, RUT_ARG_FLOAT},
	[RUT_TYPE_F64] = {"f64", 8, RUT_ARG_FLOAT},
	[RUT_TYPE_STR] = {"str", 8, RUT_ARG_UNSIGNED},
};

unsigned rut_arg_type_bytes(enum rut_arg_type type)
{
	return types[type].bytes;
}

/* The end of one argument: a comma or the parenthesis, but not one within an operand. */
static size_t spec_length(const char *p)
{
	size_t n = 0;
	int depth = 0;

	for (; p[n] && (depth || !strchr(",)", p[n])); n++)
		depth += p[n] == '(' ? 1 : p[n] == ')' ? -1 : 0;
	return n;
}

static int parse_spec(const char *p, size_t len, struct rut_arg_spec *ret, struct rut_err *err)
{
	size_t name = 0, type = len;

	*ret = (struct rut_arg_spec){0};
	while (name < len && (isalnum((unsigned char)p[name]) || p[name] == '_'))
		name++;
	if (!name || name >= sizeof(ret->name) || (name < len && !strchr("=:", p[name])))
		return rut_err_set(err, EINVAL, "invalid name '%.*s'", (int)len, p);
	memcpy(ret->name, p, name);
	for (size_t i = name; i < len; i++)
		if (p[i] == ':')
			type = i;
	for (size_t i = 1; type < len && i < sizeof(types) / sizeof(*types); i++)
		if (strlen(types[i].name) == len - type - 1 &&
		    !memcmp(types[i].name, p + type + 1, len - type - 1))
			ret->type = (enum rut_arg_type)i;
	if (type < len && !ret->type)
		return rut_err_set(
			err, EINVAL,
			"invalid type '%.*s': s8 to s64, u8 to u64, x8 to x64, f32, f64, str",
			(int)(len - type - 1), p + type + 1);
	if (name == type)
		return 0;
	if (p[name] != '=' || type - name - 1 >= sizeof(ret->operand) || type == name + 1)
		return rut_err_set(err, EINVAL, "'%.*s' names no place", (int)len, p);
	memcpy(ret->operand, p + name + 1, type - name - 1);
	return 0;
}

int rut_arg_specs_parse(const char *text, struct rut_arg_spec *ret, struct rut_err *err)
{
	int n = 0, rc;

	while (text && *text && *text != ')') {
		size_t len = spec_length(text);

		if (n == RUT_PROBE_ARGS)
			return rut_err_set(err, E2BIG, "more than %d arguments", RUT_PROBE_ARGS);
		rc = parse_spec(text, len, &ret[n++], err);
		if (rc)
			return rc;
		text += len;
		text += *text == ',';
	}
	return n;
}

void rut_arg_set_type(struct rut_probe_arg *a, enum rut_arg_type type)
{
	/* What is written as a constant, or not known, has no size. */
	if (type == RUT_TYPE_NONE)
		return;
	a->bytes = types[type].bytes;
	a->form = types[type].form;
}

int rut_arg_of_spec(const struct rut_arg_spec *s, int i, struct rut_probe_arg *ret,
		    struct rut_err *err)
{
	struct rut_probe_arg all[RUT_PROBE_ARGS];
	char text[96];
	size_t size;

	if (!s->operand[0]) {
		if (s->type == RUT_TYPE_F32 || s->type == RUT_TYPE_F64)
			return rut_err_set(
				err, ENOTSUP,
				"'%s': programs in the kernel cannot see the registers of "
				"floats; say where in memory it is: '%s=@-8(%%rbp):f64'",
				s->name, s->name);
		if (rut_arg_of_call(i, ret) < 0)
			return rut_err_set(err, EINVAL, "'%s': only %d arguments can be had",
					   s->name, i);
		rut_arg_set_type(ret, s->type);
		return 0;
	}
	/* With a size, as in the note of a static probe, or behind a bare '@'. */
	size = strcspn(s->operand, "@");
	if (s->operand[size] && size)
		snprintf(text, sizeof(text), "%s", s->operand);
	else
		snprintf(text, sizeof(text), "8@%s", s->operand + (s->operand[size] == '@'));
	if (strchr(text, ' ') || rut_arg_parse(text, all, err) != 1)
		return rut_err_set(err, EINVAL,
				   "invalid location '%s': %%rdi, @8(%%rdi), 4@(%%rax,%%rbx,4)",
				   s->operand);
	*ret = all[0];
	if (ret->kind == RUT_ARG_MISSING)
		return rut_err_set(err, ENOTSUP, "'%s' cannot be seen by a program in the kernel",
				   s->operand);
	rut_arg_set_type(ret, s->type);
	return 0;
}
