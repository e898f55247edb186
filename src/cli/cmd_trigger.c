/* SPDX-License-Identifier: MIT */
/* `rutile trigger`: when something happens, save what was recorded, or do something else. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/trigger_watch.h"
#include "fleet/rules.h"
#include "stream/publish.h"

enum { OPT_FILE = 256, WORDS_MAX = 64, NAMES_MAX = 1024 };

/* The ids are those of `keys`, from 512 on. */
static const char *const keys[] = {"when", "do",	"burst", "cooldown", "output",
				   "disk", "disk-full", "group", "fleet"};

enum { KEYS = sizeof(keys) / sizeof(*keys), OPT_KEY = 512 };

static const struct rut_opt options[] = {
	{"when", "TEXT",
	 "fired (default); event NAMES [if FILTER]; rate NAMES [if FILTER] > N per TIME; "
	 "slow CALLS > TIME [pN per TIME]; period FILE [NAME] > TIME [pN per TIME]; period "
	 "DEFINITION > TIME; request TARGET > TIME [pN per TIME]; "
	 "method TARGET NAME > TIME; gvl TARGET > TIME; runqueue > TIME; killed [GLOB]; script "
	 "SCRIPT; "
	 "log FILE matches REGEX [> NUMBER]; every TIME; at HH:MM[,HH:MM...]",
	 OPT_KEY},
	{"do", "TEXT",
	 "snapshot SESSION; rotate SESSION; stop SESSION; start SESSION [OPTIONS]; add SESSION "
	 "EVENTS for TIME; add SESSION --ruby TARGET[:EVENTS] for TIME; stacks [TARGET]; exec "
	 "PROGRAM [ARGUMENT]...; publish URL; fleet HOSTS snapshot SESSION [OPTIONS]; may be "
	 "given several times",
	 OPT_KEY + 1},
	{"burst", "N[/TIME]", "act at most N times in TIME (default 1/10s)", OPT_KEY + 2},
	{"cooldown", "TIME", "do nothing for TIME after that", OPT_KEY + 3},
	{"output", "DIR", "where snapshots go (default: the current directory)", OPT_KEY + 4},
	{"disk", "SIZE", "limit of all its snapshots together", OPT_KEY + 5},
	{"disk-full", "oldest|refuse",
	 "at the --disk limit, remove the oldest snapshot (default) or take no more", OPT_KEY + 6},
	{"group", "GROUP", "users of this group may fire it, too", OPT_KEY + 7},
	{"fleet", "FILE", "file that names the fleet's server (default " RUT_FLEET_CONF ")",
	 OPT_KEY + 8},
	{"file", "FILE", "read these options from a file, a line NAME = VALUE each", OPT_FILE},
	{0},
};

struct words {
	const char *word[WORDS_MAX];
	size_t n;
};

/* ---- add ---- */

static int read_file(const struct rut_cmd *cmd, struct rut_trigger *t, const char *path)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	struct rut_err err = RUT_ERR_INIT;

	if (!f)
		return rut_cli_usage_error(cmd, "cannot open '%s': %s", path, strerror(errno));
	if (rut_trigger_read(t, f, &err))
		return rut_cli_usage_error(cmd, "%s, %s", path, err.msg);
	return 0;
}

static int add(const struct rut_cmd *cmd, struct rut_trigger *t, const struct words *w)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc;

	if (w->n != 2)
		return rut_cli_usage_error(
			cmd, "one name: 'rutile trigger add NAME --when ... --do ...'");
	if (!rut_trigger_name_ok(w->word[1]))
		return rut_cli_usage_error(
			cmd, "invalid name '%s': up to %d letters, digits, '-', '_', '.'",
			w->word[1], RUT_TRIGGER_NAME_MAX);
	if (!t->nactions)
		return rut_cli_usage_error(
			cmd, "the action is missing: for example --do 'snapshot SESSION'");
	snprintf(t->name, sizeof(t->name), "%s", w->word[1]);
	if (t->dir[0] != '/' && rut_trigger_set(t, "output", t->dir, &err))
		return rut_cli_fail(cmd, &err);
	rc = rut_cli_trigger_start(t, cmd, &err);
	if (rc && !err.code)
		return RUT_EXIT_USAGE;
	return rc ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}

/* ---- fire, test, remove ---- */

static int fire(const struct rut_cmd *cmd, const struct words *w)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;

	rut_buf_puts(&b, "fire");
	for (size_t i = 2; i < w->n; i++) {
		if (!strchr(w->word[i], '='))
			return rut_cli_usage_error(cmd, "'%s' is not KEY=VALUE", w->word[i]);
		rut_buf_printf(&b, " %s", w->word[i]);
	}
	if (b.len > RUT_TRIGGER_MESSAGE_MAX)
		return rut_cli_usage_error(cmd, "the values are longer than %d bytes",
					   RUT_TRIGGER_MESSAGE_MAX);
	rut_buf_putc(&b, 0);
	if (b.failed)
		return RUT_EXIT_FAIL;
	return rut_cli_trigger_send(w->word[1], b.data, false, &err) ? rut_cli_fail(cmd, &err)
								     : RUT_EXIT_OK;
}

static int test(const struct rut_cmd *cmd, const struct words *w)
{
	struct rut_err err = RUT_ERR_INIT;

	return rut_cli_trigger_send(w->word[1], "test", true, &err) ? rut_cli_fail(cmd, &err)
								    : RUT_EXIT_OK;
}

static int remove_trigger(const struct rut_cmd *cmd, const struct words *w)
{
	struct rut_err err = RUT_ERR_INIT;

	return rut_cli_trigger_end(w->word[1], &err) ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}

/* What the action `publish` runs. */
static int publish(const struct rut_cmd *cmd, const struct words *w)
{
	const char *message = getenv(RUT_TRIGGER_MESSAGE_ENV);
	struct rut_err err = RUT_ERR_INIT;

	if (!message)
		return rut_cli_usage_error(cmd, "no message in " RUT_TRIGGER_MESSAGE_ENV);
	return rut_publish(w->word[1], NULL, "application/json", message, strlen(message), &err)
		       ? rut_cli_fail(cmd, &err)
		       : RUT_EXIT_OK;
}

/* ---- list ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Why its process has ended, "" when it did not say. */
static void read_reason(FILE *f, char *ret, size_t size)
{
	char line[2 * RUT_TRIGGER_TEXT_MAX];

	ret[0] = 0;
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, RUT_TRIGGER_ENDED, strlen(RUT_TRIGGER_ENDED)))
			snprintf(ret, size, ": %s", line + strlen(RUT_TRIGGER_ENDED));
	}
}

static void print_one(const char *name)
{
	char reason[2 * RUT_TRIGGER_TEXT_MAX + 4] = "";
	struct rut_trigger_status s = {0};
	struct rut_err err = RUT_ERR_INIT;
	_cleanup_file_ FILE *f = NULL;
	struct rut_trigger t;
	char path[256];
	int rc;

	rut_trigger_init(&t);
	rut_cli_trigger_path(path, sizeof(path), name, ".conf");
	f = fopen(path, "re");
	if (f) {
		rut_trigger_read(&t, f, &err);
		read_reason(f, reason, sizeof(reason));
	}
	rc = rut_cli_trigger_ask(name, &s, &err);
	if (rc == -ENOENT)
		printf("%-20s %8s %10s %7s  its process has exited%s\n", name, "-", "-", "-",
		       reason);
	else if (rc)
		printf("%-20s %8s %10s %7s  %s\n", name, "-", "-", "-", err.msg);
	else
		printf("%-20s %8llu %10llu %7llu  %s%s\n", name, (unsigned long long)s.fired,
		       (unsigned long long)s.suppressed, (unsigned long long)s.failed, t.when_text,
		       s.busy ? " (acts now)" : "");
}

static int list(const struct rut_cmd *cmd)
{
	char *names[NAMES_MAX];
	size_t n = 0;
	DIR *d = opendir(RUT_TRIGGER_DIR);
	struct dirent *e;

	while (d && n < NAMES_MAX && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len > 5 && !strcmp(e->d_name + len - 5, ".conf")) {
			e->d_name[len - 5] = 0;
			names[n] = strdup(e->d_name);
			n += names[n] != NULL;
		}
	}
	if (d)
		closedir(d);
	if (!n)
		return RUT_EXIT_OK;
	qsort(names, n, sizeof(*names), by_name);
	printf("%-20s %8s %10s %7s  %s\n", "NAME", "FIRED", "SUPPRESSED", "FAILED", "WHEN");
	for (size_t i = 0; i < n; i++) {
		print_one(names[i]);
		free(names[i]);
	}
	return RUT_EXIT_OK;
}

/* ---- The command line ---- */

static int parse(const struct rut_cmd *cmd, int argc, char **argv, struct rut_trigger *t,
		 struct words *w)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_args a;
	int id, rc = 0;

	rut_cli_args_init(&a, cmd, argc, argv);
	while (!rc && (id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return RUT_ARGS_HELP;
		if (id >= OPT_KEY && id < OPT_KEY + KEYS)
			rc = rut_trigger_set(t, keys[id - OPT_KEY], a.value, &err)
				     ? rut_cli_usage_error(cmd, "%s", err.msg)
				     : 0;
		else if (id == OPT_FILE)
			rc = read_file(cmd, t, a.value);
		else if (id == RUT_ARGS_POSITIONAL && w->n < WORDS_MAX)
			w->word[w->n++] = a.value;
		else if (id != RUT_ARGS_DASHES)
			rc = id == RUT_ARGS_POSITIONAL
				     ? rut_cli_usage_error(cmd, "too many arguments")
				     : RUT_EXIT_USAGE;
	}
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	static struct rut_trigger t;
	struct words w = {.n = 0};
	int rc;

	rut_trigger_init(&t);
	rc = parse(cmd, argc, argv, &t, &w);
	if (rc)
		return rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc;
	if (!w.n)
		return rut_cli_usage_error(
			cmd, "the command is missing: add, list, fire, test or remove");
	if (!strcmp(w.word[0], "add"))
		return add(cmd, &t, &w);
	if (!strcmp(w.word[0], "list") && w.n == 1)
		return list(cmd);
	if (w.n < 2)
		return rut_cli_usage_error(cmd, "the name of the trigger is missing");
	if (!strcmp(w.word[0], "fire"))
		return fire(cmd, &w);
	if (w.n == 2 && !strcmp(w.word[0], "test"))
		return test(cmd, &w);
	if (w.n == 2 && !strcmp(w.word[0], "remove"))
		return remove_trigger(cmd, &w);
	if (w.n == 2 && !strcmp(w.word[0], "publish"))
		return publish(cmd, &w);
	return rut_cli_usage_error(cmd, "'%s' is none of: add, list, fire, test, remove",
				   w.word[0]);
}

const struct rut_cmd cmd_trigger = {
	.name = "trigger",
	.group = "Record",
	.summary = "save what was recorded when something happens",
	.usage =
		"add NAME --when TEXT --do TEXT... | list | fire NAME [KEY=VALUE]... | test NAME | "
		"remove NAME",
	.options = options,
	.run = run,
};
