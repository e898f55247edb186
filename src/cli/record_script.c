/* SPDX-License-Identifier: MIT */
#include "cli/record_script.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/proc.h"
#include "cli/cmd.h"
#include "cli/ruby_target.h"
#include "script/library.h"
#include "script/session.h"
#include "session/pin.h"

/* Messages. */
enum { MAX_TOLD = 256 };

int rut_cli_record_script_set(const struct rut_cmd *cmd, char *to, size_t size, const char *value)
{
	_cleanup_free_ char *path = NULL;
	struct rut_err err = RUT_ERR_INIT;

	if (*to)
		return rut_cli_usage_error(cmd, "one script only, not '%s' too", value);
	if (!strchr(value, '/') && access(value, F_OK)) {
		if (rut_script_library_find(&path, value, &err))
			return rut_cli_usage_error(cmd, "%s", err.msg);
	} else {
		/* The session may be started again from another directory. */
		path = realpath(value, NULL);
		if (!path)
			return rut_cli_usage_error(cmd, "cannot open '%s': %s", value,
						   strerror(errno));
	}
	if ((size_t)snprintf(to, size, "%s", path) >= size)
		return rut_cli_usage_error(cmd, "the path '%s' is too long", path);
	return 0;
}

/* 0: the word is a name, or such a process there cannot be. */
static pid_t as_pid(const char *word)
{
	uint64_t pid;

	return !rut_parse_u64(word, &pid) && pid <= INT_MAX ? (pid_t)pid : 0;
}

int rut_cli_record_script_target(struct rut_script_targets *targets, const char *value)
{
	uint64_t *more =
		reallocarray(targets->starts, targets->words.count + 1, sizeof(*targets->starts));
	char *word = strdup(value);
	pid_t pid = as_pid(value);

	if (more) {
		targets->starts = more;
		more[targets->words.count] = pid ? rut_proc_start(pid) : 0;
	}
	if (more && word && !rut_cli_words_add(&targets->words, word))
		return 0;
	free(word);
	return RUT_EXIT_FAIL;
}

static void free_words(struct rut_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free((char *)(uintptr_t)words->v[i]);
	rut_cli_words_fini(words);
}

void rut_cli_record_script_fini(struct rut_script_targets *targets)
{
	free_words(&targets->words);
	free_words(&targets->told);
	free(targets->starts);
	targets->starts = NULL;
}

/* They are looked for every second. */
static void tell_once(void *arg, const char *why)
{
	struct rut_script_targets *targets = arg;
	char *copy;

	for (size_t i = 0; i < targets->told.count; i++)
		if (!strcmp(targets->told.v[i], why))
			return;
	if (targets->told.count == MAX_TOLD)
		free_words(&targets->told);
	rut_warn("%s", why);
	copy = strdup(why);
	if (copy && rut_cli_words_add(&targets->told, copy))
		free(copy);
}

static int find_word(struct rut_script_targets *targets, size_t i, struct rut_targets *found,
		     struct rut_err *err)
{
	const char *word[] = {targets->words.v[i], NULL};
	struct rut_ruby_opts opts = {.targets = {word, 1}, .tell = tell_once, .tell_arg = targets};
	pid_t pid = as_pid(word[0]);

	/* Another process may have got the number. */
	if (pid && (!targets->starts[i] || rut_proc_start(pid) != targets->starts[i]))
		return rut_err_set(err, ESRCH, "process %d has ended", pid);
	return rut_cli_targets_find(found, &opts, err);
}

/* Each word by itself: one of them may mean no process yet. */
static int find_targets(void *arg, pid_t **ret_pids, size_t *ret_n, struct rut_err *err)
{
	struct rut_script_targets *targets = arg;
	pid_t *all = NULL;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < targets->words.count; i++) {
		struct rut_err why = RUT_ERR_INIT;
		struct rut_targets found = {0};
		int one = find_word(targets, i, &found, &why);
		pid_t *more = found.count ? realloc(all, (n + found.count) * sizeof(*all)) : all;

		if (more) {
			all = more;
			if (found.count)
				memcpy(all + n, found.pids, found.count * sizeof(*all));
			n += found.count;
		}
		/* At first the session is not started when there is no other one. */
		if (one == -EPERM && (n || targets->begun))
			tell_once(targets, why.msg);
		if (one && !rc) {
			rc = one;
			*err = why;
		}
		rut_cli_targets_fini(&found);
	}
	targets->begun = true;
	*ret_pids = all;
	*ret_n = n;
	return n ? 0 : rc;
}

int rut_cli_record_script_load(struct rut_script_session **ret, const char *path, bool flight,
			       struct rut_script_targets *targets, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT, messages = RUT_BUF_INIT;
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
	struct rut_script_session_conf conf = {
		.name = path,
		.flight = flight,
		.find = targets && targets->words.count ? find_targets : NULL,
		.find_arg = targets,
	};
	int rc = rut_buf_read_file(&text, path, 16u << 20);

	if (rc)
		return rut_err_errno(err, -rc, "cannot open '%s'", path);
	for (size_t i = 0; targets && i < targets->words.count; i++)
		rut_buf_printf(&names, "%s\n", targets->words.v[i]);
	if (names.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	conf.targets = names.data;
	rc = rut_script_session_new(ret, text.data ? text.data : "", text.len, &conf, &messages,
				    err);
	if (messages.len)
		fputs(messages.data, stderr);
	if (rc && !err->code)
		return rut_err_set(err, -rc, "the script '%s' cannot run in a session", path);
	return rc;
}

struct rut_script_session *rut_cli_record_script_beside(const char *session)
{
	struct rut_script_session *s = NULL;
	struct rut_err err = RUT_ERR_INIT;
	char dir[128];
	int rc;

	rut_session_dir(dir, sizeof(dir), session);
	rc = rut_script_session_open(&s, dir, &err);
	if (rc && rc != -ENOENT)
		rut_warn("%s: the trace is without its output", err.msg);
	return s;
}
