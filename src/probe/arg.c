/* SPDX-License-Identifier: MIT */
#include "probe/arg.h"

#include <ctype.h>
#include <stdbool.h>
#include <errno.h>
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
 * the instruction, whose address is known in every process.
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

	*a = (struct rut_probe_arg){.reg = -1, .index = -1, .bytes = 8};
	if (strchr(p, '@') && strcspn(p, "@") < strcspn(p, " ")) {
		size = strtol(p, &end, 10);
		/* "8f@%xmm0": a float; its register is not in pt_regs. */
		if (*end == 'f')
			end++;
		if (*end != '@')
			return NULL;
		p = end + 1;
	}
	a->negative = size < 0;
	size = labs(size);
	if (size != 1 && size != 2 && size != 4 && size != 8)
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
	*ret = (struct rut_probe_arg){.kind = RUT_ARG_REG, .index = -1, .bytes = 8};
	if (i < 0)
		ret->reg = result_register;
	else if ((size_t)i < sizeof(call_registers) / sizeof(*call_registers))
		ret->reg = call_registers[i];
	else
		return -EINVAL;
	return 0;
}
