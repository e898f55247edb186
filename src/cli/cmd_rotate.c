/* SPDX-License-Identifier: MIT */
/* `rutile rotate`: go on in the next trace directory. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	int rc = rut_session_rotate(r, err);

	if (!rc)
		printf("%s\n", r->meta->output.pattern[0] ? r->meta->current : r->meta->output.to);
	return rc;
}

static const struct rut_opt options[] = {
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_rotate = {
	.name = "rotate",
	.group = "Record",
	.summary = "close the trace directory and continue in a new one",
	.usage = "NAME",
	.options = options,
	.run = run,
};
