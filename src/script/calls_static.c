/* SPDX-License-Identifier: MIT */
/* Functions that are calculated when the script is compiled. */
#include <string.h>

#include "script/calls.h"
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
	rut_program_option(c->prog, name->text);
	given = option_value(c->prog, name->text);
	if (! or || (or->kind == RUT_N_INT && or->op == RUT_INT_BOOL)) {
		bool value = given ? strcmp(given, "false") != 0 && strcmp(given, "0") != 0
			     : or  ? or->value
				   : false;

		if (given && *given && strcmp(given, "true") != 0 && strcmp(given, "1") != 0 &&
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
