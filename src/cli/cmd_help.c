/* SPDX-License-Identifier: MIT */
/* `rutile help [VERB]`, and the tables that the completion scripts and the tests read. */
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>

enum { OPT_VERBS = 256, OPT_OPTIONS };

static const struct rut_opt options[] = {
	{"verbs", NULL, "print the names of all verbs, one a line", OPT_VERBS},
	{"options", "VERB", "print the options of a verb, one a line", OPT_OPTIONS},
	{0},
};

static int unknown_verb(const struct rut_cmd *cmd, const char *name)
{
	const struct rut_cmd *like = rut_cli_cmd_like(name);

	if (like)
		return rut_cli_usage_error(cmd, "unknown verb '%s': did you mean '%s'?", name,
					   like->name);
	return rut_cli_usage_error(cmd, "unknown verb '%s'", name);
}

extern const struct rut_cmd cmd_help;

static bool is_first_of_group(const struct rut_cmd *const *at)
{
	for (const struct rut_cmd *const *c = rut_cli_cmds; *c && c < at; c++)
		if (!strcmp((*c)->group, (*at)->group))
			return false;
	return true;
}

static void print_group(const char *group)
{
	printf("\n%s:\n", group);
	for (const struct rut_cmd *const *c = rut_cli_cmds; *c; c++)
		if (!strcmp((*c)->group, group))
			rut_cli_print_item((*c)->name, 16, (*c)->summary);
}

/* Group by group, wherever in the table a verb stands; our own last. */
static void print_verbs(void)
{
	printf("usage: rutile VERB [OPTIONS] [ARGUMENTS]\n");
	for (const struct rut_cmd *const *c = rut_cli_cmds; *c; c++)
		if (is_first_of_group(c) && strcmp((*c)->group, cmd_help.group) != 0)
			print_group((*c)->group);
	print_group(cmd_help.group);
	printf("\n'rutile help VERB' and the manual pages rutile(1), rutile-VERB(1) say more.\n");
}

static int print_options(const struct rut_cmd *cmd, const char *verb)
{
	const struct rut_cmd *c = rut_cli_cmd_find(verb);
	const struct rut_opt *o;

	if (!c)
		return unknown_verb(cmd, verb);
	for (size_t i = 0; (o = rut_cli_cmd_opt(c, i)); i++)
		if (o->help)
			printf("--%s%s%s\t%s\n", o->name, o->arg ? "=" : "", o->arg ? o->arg : "",
			       o->help);
	printf("--help\tprint the help of this verb\n");
	return RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	const struct rut_cmd *c;
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		switch (id) {
		case OPT_VERBS:
			for (const struct rut_cmd *const *v = rut_cli_cmds; *v; v++)
				printf("%s\n", (*v)->name);
			return RUT_EXIT_OK;
		case OPT_OPTIONS:
			return print_options(cmd, a.value);
		case RUT_ARGS_POSITIONAL:
			c = rut_cli_cmd_find(a.value);
			if (!c)
				return unknown_verb(cmd, a.value);
			rut_cli_print_help(c);
			return RUT_EXIT_OK;
		case RUT_ARGS_HELP:
			return RUT_EXIT_OK;
		default:
			return RUT_EXIT_USAGE;
		}
	}
	print_verbs();
	return RUT_EXIT_OK;
}

const struct rut_cmd cmd_help = {
	.name = "help",
	.group = "About rutile",
	.summary = "show what rutile can do, or the help of one verb",
	.usage = "[VERB]",
	.options = options,
	.run = run,
};
