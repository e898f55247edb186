/* SPDX-License-Identifier: MIT */
#include "cli/ruby_opts.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ruby/tracer.h"

int rut_cli_words_add(struct rut_words *w, const char *word)
{
	const char **more = reallocarray(w->v, w->count + 2, sizeof(*more));

	if (!more)
		return -ENOMEM;
	w->v = more;
	w->v[w->count++] = word;
	w->v[w->count] = NULL;
	return 0;
}

void rut_cli_words_fini(struct rut_words *w)
{
	free(w->v);
}

void rut_cli_ruby_opts_fini(struct rut_ruby_opts *o)
{
	rut_cli_words_fini(&o->targets);
	rut_cli_words_fini(&o->paths);
	rut_cli_words_fini(&o->classes);
	rut_cli_words_fini(&o->methods);
}

void rut_cli_notice(const struct rut_cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "rutile %s: ", cmd->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void rut_cli_notice_untraced(const struct rut_cmd *cmd, const struct rut_tracer *t)
{
	char why[512];

	if (rut_tracer_untraced(t, why, sizeof(why)))
		rut_cli_notice(cmd, "the command was not traced: %s", why);
}

int rut_cli_take_duration(struct rut_args *a, const char *option, uint64_t *ret_ns)
{
	if (rut_parse_duration(a->value, ret_ns) < 0)
		return rut_cli_usage_error(a->cmd,
					   "--%s: '%s' is not a time such as 10ms, 2s or 5m",
					   option, a->value);
	return -1;
}

int rut_cli_take_interval(struct rut_args *a, uint64_t *ret_ns)
{
	int rc = rut_cli_take_duration(a, "interval", ret_ns);

	if (rc < 0 && *ret_ns < 1000000)
		return rut_cli_usage_error(a->cmd, "--interval: at least 1ms");
	return rc;
}

int rut_cli_take_limit(struct rut_args *a, uint64_t *ret)
{
	if (rut_parse_u64(a->value, ret) < 0)
		return rut_cli_usage_error(a->cmd, "--limit: '%s' is not a number", a->value);
	return -1;
}

static int take_word(struct rut_ruby_opts *o, const char *word)
{
	if (!strcmp(word, "app"))
		o->app = true;
	else if (!strcmp(word, "all"))
		o->all = true;
	else
		return rut_cli_words_add(&o->targets, word);
	return 0;
}

static int take_glob(struct rut_args *a, struct rut_words *to)
{
	if (!a->value[0] || !strcmp(a->value, "!"))
		return rut_cli_usage_error(a->cmd, "the pattern of the filter is empty");
	return rut_cli_words_add(to, a->value) < 0 ? RUT_EXIT_FAIL : -1;
}

bool rut_cli_ruby_opts_take(struct rut_ruby_opts *o, struct rut_args *a, int id, int *ret_exit)
{
	*ret_exit = -1;
	switch (id) {
	case RUT_OPT_PATH:
		*ret_exit = take_glob(a, &o->paths);
		return true;
	case RUT_OPT_CLASS:
		*ret_exit = take_glob(a, &o->classes);
		return true;
	case RUT_OPT_METHOD:
		*ret_exit = take_glob(a, &o->methods);
		return true;
	case RUT_OPT_C_CALLS:
		o->c_calls = true;
		return true;
	case RUT_OPT_JSON:
		o->json = true;
		return true;
	case RUT_OPT_TRY_NEWER:
		o->try_newer = true;
		return true;
	case RUT_OPT_DURATION:
		*ret_exit = rut_cli_take_duration(a, "duration", &o->duration_ns);
		return true;
	case 'o':
		o->output = a->value;
		return true;
	case RUT_ARGS_POSITIONAL:
		if (take_word(o, a->value) < 0)
			*ret_exit = RUT_EXIT_FAIL;
		return true;
	case RUT_ARGS_DASHES:
		o->command = a->argv + a->next;
		a->next = a->argc;
		return true;
	case RUT_ARGS_HELP:
		*ret_exit = RUT_EXIT_OK;
		return true;
	case RUT_ARGS_BAD:
		*ret_exit = RUT_EXIT_USAGE;
		return true;
	}
	return false;
}

int rut_cli_ruby_opts_check(const struct rut_ruby_opts *o, const struct rut_cmd *cmd)
{
	if (o->app && o->all)
		return rut_cli_usage_error(cmd, "'app' and 'all' exclude each other");
	if (o->command && !o->command[0])
		return rut_cli_usage_error(cmd, "'--' needs a command after it");
	if (o->command && o->targets.count)
		return rut_cli_usage_error(cmd, "either targets or '-- COMMAND', not both");
	if (!o->command && !o->targets.count)
		return rut_cli_usage_error(cmd, "which process? Give a PID, a role or name that "
						"'rutile ps' shows, or '-- COMMAND'");
	return -1;
}

int rut_cli_ruby_opts_open(const struct rut_ruby_opts *o, struct rut_err *err)
{
	struct stat st;
	int fd;

	if (!o->output)
		return STDOUT_FILENO;
	if (!stat(o->output, &st) && S_ISREG(st.st_mode) && st.st_size)
		fprintf(stderr, "rutile: replacing '%s'\n", o->output);
	fd = open(o->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0)
		return rut_err_errno(err, errno, "cannot write '%s'", o->output);
	return fd;
}
