/* SPDX-License-Identifier: MIT */
/* Functions that are calculated when the script is compiled. */
#include <string.h>
#include <strings.h>

#include "script/btf.h"
#include "script/calls.h"
#include "script/format.h"
#include "script/lex.h"

/* getopt("name"), getopt("name", default), getopt("name", default, "description") */

/* What was given: the text behind NAME=, "" for NAME alone; NULL: it was not. */
static const char *option_value(const struct rut_script_program *p, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = p->opts.nnamed; i-- > 0;) {
		const char *given = p->opts.named[i];

		if (!strncmp(given, name, len) && given[len] == '=')
			return given + len + 1;
		if (!strcmp(given, name))
			return "";
	}
	return NULL;
}

static const struct rut_type *become_bool(struct rut_node *n, bool value)
{
	n->kind = RUT_N_INT;
	n->op = RUT_INT_BOOL;
	n->value = value;
	return rut_type_simple(RUT_T_BOOL);
}

static const struct rut_type *become_text(struct rut_checker *c, struct rut_node *n,
					  const char *text)
{
	n->kind = RUT_N_STRING;
	n->text = text;
	n->len = (uint32_t)strlen(text);
	return rut_type_string(c->arena, n->len + 1);
}

static const struct rut_type *become_number(struct rut_checker *c, struct rut_node *n,
					    const char *name, const char *text)
{
	bool negative = *text == '-';
	uint64_t value;

	if (!rut_lex_number(text + negative, &value) && c->src->as_bpftrace && c->loud) {
		c->failed = true;
		rut_source_plain(c->src,
				 "program command line option --%s invalid integer (value: %s)",
				 name, text);
		return NULL;
	}
	if (!rut_lex_number(text + negative, &value))
		return rut_check_error(c, n, "--%s takes a number, not '%s'", name, text);
	n->kind = RUT_N_INT;
	n->op = negative ? RUT_INT_CALCULATED : 0;
	n->value = negative ? -value : value;
	return rut_type_int(8, negative || (int64_t)value >= 0);
}

const struct rut_type *rut_check_getopt(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *name = n->list, * or = name->next;
	const char *given;

	if (name->kind != RUT_N_STRING)
		return rut_check_error(c, name, "getopt() takes a constant name");
	if (or &&!rut_check_expr(c, or))
		return NULL;
	if (or && or->kind != RUT_N_INT && or->kind != RUT_N_STRING)
		return rut_check_error(c, or, "the default of getopt() is a constant");
	rut_program_option(c->prog, name->text, or && or->next && or->next->kind == RUT_N_STRING
							? or->next->text
							: NULL);
	given = option_value(c->prog, name->text);
	if (! or || (or->kind == RUT_N_INT && or->op == RUT_INT_BOOL)) {
		bool value = given ? strcasecmp(given, "false") != 0 && strcmp(given, "0") != 0
			     : or  ? or->value
				   : false;

		if (given && *given && strcasecmp(given, "true") != 0 && strcmp(given, "1") != 0 &&
		    value)
			return rut_check_error(c, n, "--%s is true or false, not '%s'", name->text,
					       given);
		return become_bool(n, value);
	}
	if (or->kind == RUT_N_STRING)
		return become_text(c, n, given ? given : or->text);
	if (given)
		return become_number(c, n, name->text, given);
	n->kind = RUT_N_INT;
	n->op = or->op;
	n->value = or->value;
	return or->type;
}

/* is_str(x), is_ptr(x) and their like: questions about the type of a value. */

const struct rut_type *rut_check_is(struct rut_checker *c, struct rut_node *n)
{
	const char *what = n->text + strlen("is_");
	bool literal = n->list->kind == RUT_N_INT || n->list->kind == RUT_N_STRING ||
		       n->list->kind == RUT_N_PARAM,
	     yes;
	const struct rut_type *t = rut_check_expr(c, n->list);

	if (!t)
		return NULL;
	if (!strcmp(what, "str"))
		yes = t->kind == RUT_T_STRING;
	else if (!strcmp(what, "array"))
		yes = t->kind == RUT_T_ARRAY;
	else if (!strcmp(what, "ptr"))
		yes = t->kind == RUT_T_POINTER;
	else if (!strcmp(what, "integer"))
		yes = t->kind == RUT_T_INT;
	else if (!strcmp(what, "unsigned_integer"))
		yes = t->kind == RUT_T_INT && !t->is_signed;
	else
		yes = literal;
	return become_bool(n, yes);
}

/* fail("format", constants...): an error of the compilation. */
const struct rut_type *rut_check_fail(struct rut_checker *c, struct rut_node *n)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_node *arg = n->list->next;

	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list,
				       "the first argument of fail() is a constant text");
	for (const char *s = n->list->text; *s; s++) {
		if (*s != '%' || s[1] == '%' || !s[1]) {
			rut_buf_putc(&text, *s);
			s += *s == '%' && s[1] == '%';
			continue;
		}
		s += 1 + strspn(s + 1, "lhz");
		if (!arg || !rut_check_expr(c, arg) ||
		    (arg->kind != RUT_N_INT && arg->kind != RUT_N_STRING))
			return rut_check_error(c, arg ? arg : n, "fail() takes constants");
		if (arg->kind == RUT_N_STRING)
			rut_buf_add(&text, arg->text, arg->len);
		else
			rut_buf_printf(&text, "%lld", (long long)arg->value);
		arg = arg->next;
	}
	return rut_check_error(c, n, "%s", text.data ? text.data : "");
}

const struct rut_type *rut_check_static_assert(struct rut_checker *c, struct rut_node *n)
{
	if (!rut_check_expr(c, n->list))
		return NULL;
	if (n->list->kind != RUT_N_INT)
		return rut_check_error(c, n->list, "static_assert() takes a constant condition");
	if (n->list->next->kind != RUT_N_STRING)
		return rut_check_error(c, n->list->next, "the message is a constant text");
	if (!n->list->value)
		return rut_check_error(c, n, "%s", n->list->next->text);
	n->kind = RUT_N_BLOCK;
	n->list = NULL;
	return rut_type_simple(RUT_T_VOID);
}

/* kfunc_exist("name"), kfunc_allowed("name"): a function of the kernel that programs may call. */
const struct rut_type *rut_check_kfunc(struct rut_checker *c, struct rut_node *n)
{
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "%s() takes a constant name", n->text);
	if (!rut_check_is_portable(c, n, "what functions the kernel has"))
		return NULL;
	/* Programs here call none of them. */
	return become_bool(n, !strcmp(n->text, "kfunc_exist") &&
				      rut_kernel_function(c->prog, n->list->text));
}
