/* SPDX-License-Identifier: MIT */
/* `rutile destroy`: ends a session and removes everything of it but its traces. */
#include "base/cleanup.h"
#include "cli/cmd.h"
#include "session/session.h"

static const struct rut_opt options[] = {
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	_cleanup_free_ const char **names = NULL;
	struct rut_err err = RUT_ERR_INIT;
	size_t n;
	int rc = rut_cli_args_words(cmd, argc, argv, &names, &n);

	if (rc)
		return rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc;
	if (!n)
		return rut_cli_usage_error(cmd, "the name of the session is missing");
	for (size_t i = 0; i < n; i++)
		if (rut_session_destroy(names[i], &err) < 0)
			rc = rut_cli_fail(cmd, &err);
	return rc;
}

const struct rut_cmd cmd_destroy = {
	.name = "destroy",
	.group = "Record",
	.summary = "end a session and remove its buffers",
	.usage = "NAME...",
	.options = options,
	.run = run,
};
