/* SPDX-License-Identifier: MIT */
#include "cli/cmd.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "output/screen.h"
#include "output/text.h"

void rut_cli_args_init(struct rut_args *a, const struct rut_cmd *cmd, int argc, char **argv)
{
	*a = (struct rut_args){.cmd = cmd, .argc = argc, .argv = argv, .next = 1};
}

const struct rut_opt *rut_cli_cmd_opt(const struct rut_cmd *cmd, size_t i)
{
	const struct rut_opt *const lists[] = {cmd->options, cmd->more ? *cmd->more : NULL};

	for (size_t l = 0; l < sizeof(lists) / sizeof(*lists); l++)
		for (const struct rut_opt *o = lists[l]; o && o->name; o++)
			if (!i--)
				return o;
	return NULL;
}

static const struct rut_opt *find_long(const struct rut_cmd *cmd, const char *name, size_t len)
{
	const struct rut_opt *o;

	for (size_t i = 0; (o = rut_cli_cmd_opt(cmd, i)); i++)
		if (strlen(o->name) == len && !strncmp(o->name, name, len))
			return o;
	return NULL;
}

static const struct rut_opt *find_short(const struct rut_cmd *cmd, int c)
{
	const struct rut_opt *o;

	for (size_t i = 0; (o = rut_cli_cmd_opt(cmd, i)); i++)
		if (o->id == c)
			return o;
	return NULL;
}

static int take_value(struct rut_args *a, const struct rut_opt *o)
{
	if (a->next >= a->argc) {
		rut_cli_usage_error(a->cmd, "option '--%s' needs a value (%s)", o->name, o->arg);
		return RUT_ARGS_BAD;
	}
	a->value = a->argv[a->next++];
	return o->id;
}

static int next_long(struct rut_args *a, const char *word)
{
	const char *eq = strchr(word, '=');
	size_t len = eq ? (size_t)(eq - word) : strlen(word);
	const struct rut_opt *o = find_long(a->cmd, word, len);

	if (!o && len == 4 && !strncmp(word, "help", 4)) {
		rut_cli_print_help(a->cmd);
		return RUT_ARGS_HELP;
	}
	if (!o) {
		rut_cli_usage_error(a->cmd, "unknown option '--%.*s'", (int)len, word);
		return RUT_ARGS_BAD;
	}
	a->value = eq ? eq + 1 : NULL;
	if (!o->arg && eq) {
		rut_cli_usage_error(a->cmd, "option '--%s' takes no value", o->name);
		return RUT_ARGS_BAD;
	}
	if (o->arg && !eq && o->arg[0] != '[')
		return take_value(a, o);
	return o->id;
}

static int next_short(struct rut_args *a)
{
	int c = (unsigned char)*a->rest++;
	const struct rut_opt *o = isprint(c) ? find_short(a->cmd, c) : NULL;

	a->value = NULL;
	if (!o && c == 'h') {
		rut_cli_print_help(a->cmd);
		return RUT_ARGS_HELP;
	}
	if (!o) {
		rut_cli_usage_error(a->cmd, "unknown option '-%c'", c);
		return RUT_ARGS_BAD;
	}
	if (!o->arg || o->arg[0] == '[')
		return o->id;
	if (*a->rest) {
		a->value = a->rest;
		a->rest = NULL;
		return o->id;
	}
	return take_value(a, o);
}

int rut_cli_args_next(struct rut_args *a)
{
	const char *word;

	if (a->rest && *a->rest)
		return next_short(a);
	a->rest = NULL;
	if (a->next >= a->argc)
		return RUT_ARGS_END;
	word = a->argv[a->next++];
	if (!a->only_positional && !strcmp(word, "--")) {
		a->only_positional = true;
		return RUT_ARGS_DASHES;
	}
	if (a->only_positional || word[0] != '-' || !word[1]) {
		a->value = word;
		return RUT_ARGS_POSITIONAL;
	}
	if (word[1] == '-')
		return next_long(a, word + 2);
	a->rest = word + 1;
	return next_short(a);
}

int rut_cli_args_words(const struct rut_cmd *cmd, int argc, char **argv, const char ***ret,
		       size_t *n)
{
	const char **words = calloc((size_t)argc + 1, sizeof(*words));
	struct rut_args a;
	size_t found = 0;
	int id;

	if (!words)
		return rut_cli_usage_error(cmd, "out of memory");
	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_POSITIONAL) {
			words[found++] = a.value;
		} else if (id != RUT_ARGS_DASHES) {
			free(words);
			return id == RUT_ARGS_HELP ? id : RUT_EXIT_USAGE;
		}
	}
	*ret = words;
	*n = found;
	return 0;
}

int rut_cli_args_flag(const struct rut_cmd *cmd, int argc, char **argv, bool *ret)
{
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_POSITIONAL)
			return rut_cli_usage_error(cmd, "unexpected argument '%s'", a.value);
		if (id == RUT_ARGS_HELP)
			return id;
		if (id == RUT_ARGS_BAD)
			return RUT_EXIT_USAGE;
		*ret |= id != RUT_ARGS_DASHES;
	}
	return 0;
}

/* What comes before the command's name in messages: nothing for one that is a program's name. */
static const char *program(const struct rut_cmd *cmd)
{
	for (const struct rut_cmd *const *c = rut_cli_links; *c; c++)
		if (strcmp((*c)->name, cmd->name) == 0)
			return "";
	return "rutile ";
}

int rut_cli_usage_error(const struct rut_cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s%s: %s", program(cmd), cmd->name, cmd->where ? cmd->where : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see '%s%s --help')\n", program(cmd), cmd->name);
	return RUT_EXIT_USAGE;
}

int rut_cli_fail(const struct rut_cmd *cmd, const struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf clean = RUT_BUF_INIT;

	/* Of a host: names of files came from another machine. */
	if (cmd->where)
		rut_text_add_lines(&clean, err->msg);
	fprintf(stderr, "%s%s: %s%s\n", program(cmd), cmd->name, cmd->where ? cmd->where : "",
		clean.data && !clean.failed ? clean.data : err->msg);
	return RUT_EXIT_FAIL;
}

void rut_cli_log(enum rut_log_level level, const char *msg, void *arg)
{
	_cleanup_buf_ struct rut_buf clean = RUT_BUF_INIT;

	if (level < RUT_LOG_INFO)
		return;
	if (arg)
		rut_text_add_lines(&clean, msg);
	fprintf(stderr, "rutile: %s%s\n", arg ? (const char *)arg : "",
		clean.data && !clean.failed ? clean.data : msg);
}

void rut_cli_print_item(const char *left, int left_columns, const char *text)
{
	enum { NARROWEST = 20 }; /* what is left for the text */
	size_t width = rut_screen_width(STDOUT_FILENO), indent = (size_t)left_columns + 2;
	size_t at = (size_t)printf("  %-*s", left_columns, left);

	if (width < indent + NARROWEST) {
		printf(" %s\n", text);
		return;
	}
	while (*text) {
		size_t len = strcspn(text, " ");

		if (at + 1 + len > width) {
			printf("\n%*s", (int)indent, "");
			at = indent;
		}
		printf(" %.*s", (int)len, text);
		at += 1 + len;
		text += len + (text[len] == ' ');
	}
	putchar('\n');
}

void rut_cli_print_help(const struct rut_cmd *cmd)
{
	const struct rut_opt *o;

	printf("usage: rutile %s %s\n\n%s.\n", cmd->name, cmd->usage, cmd->summary);
	if (rut_cli_cmd_opt(cmd, 0))
		printf("\nOptions:\n");
	for (size_t i = 0; (o = rut_cli_cmd_opt(cmd, i)); i++) {
		char left[64];
		bool letter = o->id > ' ' && o->id < 127;
		const char *sep = !o->arg ? "" : o->arg[0] == '[' ? "=" : " ";

		if (!o->help)
			continue;
		snprintf(left, sizeof(left), "%c%c%c --%s%s%s", letter ? '-' : ' ',
			 letter ? o->id : ' ', letter ? ',' : ' ', o->name, sep,
			 o->arg ? o->arg : "");
		rut_cli_print_item(left, 26, o->help);
	}
	printf("\nThe manual page rutile-%s(1) says more.\n", cmd->name);
}
