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

int rut_cli_record_script_load(struct rut_script_session **ret, const char *path, bool flight,
			       struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT, messages = RUT_BUF_INIT;
	const struct rut_script_session_conf conf = {.name = path, .flight = flight};
	int rc = rut_buf_read_file(&text, path, 16u << 20);

	if (rc)
		return rut_err_errno(err, -rc, "cannot open '%s'", path);
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
