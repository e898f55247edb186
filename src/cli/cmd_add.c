/* SPDX-License-Identifier: MIT */
/* `rutile add`: record more events in a running session. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	if (!*v->events)
		return rut_err_set(err, EINVAL, "say what to add: -e EVENTS");
	return rut_session_add(r, v->events, err);
}

static const struct rut_opt options[] = {
	{"event", "EVENTS", "what to add: names, globs, groups; may be repeated", 'e'},
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_add = {
	.name = "add",
	.group = "Record",
	.summary = "record more events in a running session",
	.usage = "NAME -e EVENTS",
	.options = options,
	.run = run,
};
