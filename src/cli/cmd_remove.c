/* SPDX-License-Identifier: MIT */
/* `rutile remove`: stop recording some of the events of a session. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	if (!*v->events)
		return rut_err_set(err, EINVAL, "say what to remove: -e EVENTS");
	return rut_session_remove(r, v->events, err);
}

static const struct rut_opt options[] = {
	{"event", "EVENTS", "what to remove: names, globs, groups; may be repeated", 'e'},
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_remove = {
	.name = "remove",
	.group = "Record",
	.summary = "stop recording some of the events of a session",
	.usage = "NAME -e EVENTS",
	.options = options,
	.run = run,
};
