/* SPDX-License-Identifier: MIT */
/* `rutile destroy`: ends a session and removes everything of it but its traces. */
#include <stdio.h>

#include "cli/cmd.h"
#include "session/session.h"

static const struct rut_opt options[] = {
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_args a;
	int id, n = 0;

	rut_args_init(&a, cmd, argc, argv);
	while ((id = rut_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return RUT_EXIT_OK;
		if (id == RUT_ARGS_DASHES)
			continue;
		if (id != RUT_ARGS_POSITIONAL)
			return RUT_EXIT_USAGE;
		if (rut_session_destroy(a.value, &err) < 0)
			return rut_fail(cmd, &err);
		n++;
	}
	return n ? RUT_EXIT_OK : rut_usage_error(cmd, "the name of the session is missing");
}

const struct rut_cmd cmd_destroy = {
	.name = "destroy",
	.group = "Record",
	.summary = "end a session and remove its buffers",
	.usage = "NAME...",
	.options = options,
	.run = run,
};
