/* SPDX-License-Identifier: MIT */
/*
 * debugf(): a line into the kernel's own trace (trace_pipe), by its helper for that: a constant
 * format of numbers and texts, of which the helper takes three.
 */
#include <ctype.h>
#include <linux/bpf.h>
#include <string.h>

#include "script/calls.h"

enum { VALUES_MAX = 3 };

/* Behind the '%' of a conversion at `at`: its letter, past the flags and width that the kernel's
 * bpf_bprintf_prepare() skips, and 'l'. */
static const char *conversion(const char *at)
{
	at += strspn(at, "-+ 0");
	at += strspn(at, "0123456789");
	return at + strspn(at, "l");
}

/* Does the kernel take this character of a format? */
static bool is_text(unsigned char c)
{
	return c < 0x80 && (isprint(c) || isspace(c));
}

/* The format as the kernel reads it: numbers have 64 bits. NULL: the kernel would refuse it, when
 * the program runs and nobody sees it. */
static char *of_kernel(struct rut_arena *a, const char *format, unsigned *ret_values)
{
	char *out = rut_arena_alloc(a, 3 * strlen(format) + 1), *to = out;

	*ret_values = 0;
	while (out && *format) {
		const char *letter = conversion(format + 1);

		if (!is_text(*format))
			return NULL;
		if (*format != '%') {
			*to++ = *format++;
			continue;
		}
		if (format[1] == '%') {
			*to++ = *format++;
			*to++ = *format++;
			continue;
		}
		if (!*letter || !strchr("diuxXsp", *letter))
			return NULL;
		if (*letter == 's' && isalnum((unsigned char)letter[1]))
			return NULL;
		if (*letter == 'p') {
			memcpy(to, "0x%llx", 6);
			to += 6;
		} else {
			for (const char *p = format; p < letter; p++)
				if (*p != 'l')
					*to++ = *p;
			if (*letter != 's') {
				*to++ = 'l';
				*to++ = 'l';
			}
			*to++ = *letter;
		}
		++*ret_values;
		format = letter + 1;
	}
	if (out)
		*to = '\0';
	return out;
}

/* The letters of the conversions, one for each value. */
static char letter_of(const char *format, unsigned value)
{
	for (; *format; format++) {
		if (*format != '%')
			continue;
		if (format[1] == '%') {
			format++;
			continue;
		}
		format = conversion(format + 1);
		if (!value--)
			return *format;
	}
	return 0;
}

const struct rut_type *rut_check_debugf(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *format = n->list;
	unsigned values, given = 0;

	if (c->prog->opts.portable)
		return rut_check_error(c, n, "debugf() writes into this machine's own trace");
	if (format->kind != RUT_N_STRING)
		return rut_check_error(c, format,
				       "the first argument of debugf() is a constant text");
	if (!of_kernel(c->arena, format->text, &values))
		return rut_check_error(c, format,
				       "debugf() has %%d, %%i, %%u, %%x, %%X, %%p and %%s of the "
				       "kernel with \"0 +-\" and a width, in ASCII; no letter or "
				       "digit follows %%s");
	for (struct rut_node *e = format->next; e; e = e->next, given++) {
		const struct rut_type *t = rut_check_expr(c, e);
		bool text = letter_of(format->text, given) == 's';

		if (!t)
			return NULL;
		if (given == VALUES_MAX)
			return rut_check_error(c, e, "debugf() takes at most %d values",
					       VALUES_MAX);
		if (text ? t->kind != RUT_T_STRING : !rut_type_is_scalar(t))
			return rut_check_error(c, e,
					       text ? "%%s of debugf() takes a text"
						    : "debugf() takes numbers and texts");
	}
	if (given != values)
		return rut_check_error(c, n, "the format has %u values, %u are given", values,
				       given);
	return rut_type_simple(RUT_T_VOID);
}

rut_vreg rut_gen_debugf(struct rut_gen *g, struct rut_node *n)
{
	unsigned values, count = 2;
	struct rut_node text = *n->list;
	struct rut_ir_arg args[2 + VALUES_MAX];
	struct rut_mem room;

	text.text = of_kernel(&g->prog->ast.arena, n->list->text, &values);
	if (!text.text)
		return 0;
	text.len = (uint32_t)strlen(text.text);
	text.type = rut_type_string(&g->prog->ast.arena, text.len + 1);
	room = rut_gen_mem(g, &text);
	args[1] = RUT_ARG_INT(text.len + 1);
	for (struct rut_node *e = n->list->next; e; e = e->next)
		args[count++] = e->type->kind == RUT_T_STRING
					? RUT_ARG(rut_gen_pointer(g, rut_gen_mem(g, e)))
					: RUT_ARG(rut_gen_scalar(g, e));
	args[0] = rut_gen_arg(room);
	rut_ir_call(&g->ir, BPF_FUNC_trace_printk, count, args);
	return 0;
}
