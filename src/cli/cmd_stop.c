/* SPDX-License-Identifier: MIT */
/* `rutile stop`: stop recording; the session and its buffers stay. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	int rc = rut_session_stop(r, err);

	if (!rc)
		printf("session '%s' is stopped\n", v->name);
	return rc;
}

static const struct rut_opt options[] = {
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_stop = {
	.name = "stop",
	.group = "Record",
	.summary = "stop recording; the session and its buffers stay",
	.usage = "NAME",
	.options = options,
	.run = run,
};
