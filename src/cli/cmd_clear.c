/* SPDX-License-Identifier: MIT */
/* `rutile clear`: discard what the buffers, or the collector, hold. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	return rut_session_clear(r, err);
}

static const struct rut_opt options[] = {
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_clear = {
	.name = "clear",
	.group = "Record",
	.summary = "discard what a session has recorded",
	.usage = "NAME",
	.options = options,
	.run = run,
};
