/* SPDX-License-Identifier: MIT */
/* `rutile clear`: discard what the buffers hold. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	if (r->conf.mode != RUT_RING_OVERWRITE)
		return rut_err_set(err, EINVAL,
				   "session '%s' writes files: nothing stays in its buffers",
				   v->name);
	rut_session_clear(r);
	return 0;
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
	.summary = "discard what the buffers hold",
	.usage = "NAME",
	.options = options,
	.run = run,
};
