/* SPDX-License-Identifier: MIT */
#include "cli/record_script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/ruby_target.h"
#include "script/library.h"
#include "script/session.h"
#include "session/pin.h"

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

int rut_cli_record_script_target(struct rut_words *targets, const char *value)
{
	char *word = strdup(value);

	if (word && !rut_cli_words_add(targets, word))
		return 0;
	free(word);
	return RUT_EXIT_FAIL;
}

void rut_cli_record_script_fini(struct rut_words *targets)
{
	for (size_t i = 0; i < targets->count; i++)
		free((char *)(uintptr_t)targets->v[i]);
	rut_cli_words_fini(targets);
}

/* Each word by itself: one of them may mean no process yet. */
static int find_targets(void *arg, pid_t **ret_pids, size_t *ret_n, struct rut_err *err)
{
	const struct rut_words *words = arg;
	pid_t *all = NULL;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < words->count; i++) {
		const char *word[] = {words->v[i], NULL};
		struct rut_ruby_opts opts = {.targets = {word, 1}};
		struct rut_err why = RUT_ERR_INIT;
		struct rut_targets found = {0};
		int one = rut_cli_targets_find(&found, &opts, &why);
		pid_t *more = found.count ? realloc(all, (n + found.count) * sizeof(*all)) : all;

		if (more) {
			all = more;
			if (found.count)
				memcpy(all + n, found.pids, found.count * sizeof(*all));
			n += found.count;
		}
		if (one && !rc) {
			rc = one;
			*err = why;
		}
		rut_cli_targets_fini(&found);
	}
	*ret_pids = all;
	*ret_n = n;
	return n ? 0 : rc;
}

int rut_cli_record_script_load(struct rut_script_session **ret, const char *path, bool flight,
			       const struct rut_words *targets, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT, messages = RUT_BUF_INIT;
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
	struct rut_script_session_conf conf = {
		.name = path,
		.flight = flight,
		.find = targets && targets->count ? find_targets : NULL,
		.find_arg = (void *)(uintptr_t)targets,
	};
	int rc = rut_buf_read_file(&text, path, 16u << 20);

	if (rc)
		return rut_err_errno(err, -rc, "cannot open '%s'", path);
	for (size_t i = 0; targets && i < targets->count; i++)
		rut_buf_printf(&names, "%s\n", targets->v[i]);
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

struct rut_script_session *rut_cli_record_script_beside(struct rut_companion *ret_beside,
							const char *session)
{
	struct rut_script_session *s = NULL;
	struct rut_err err = RUT_ERR_INIT;
	char dir[128];
	int rc;

	rut_session_dir(dir, sizeof(dir), session);
	rc = rut_script_session_open(&s, dir, &err);
	if (rc && rc != -ENOENT)
		rut_warn("%s: the snapshot is without its output", err.msg);
	if (s)
		*ret_beside = rut_script_session_companion(s);
	return s;
}
