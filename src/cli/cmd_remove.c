/* SPDX-License-Identifier: MIT */
/* `rutile remove`: stop recording some of the events of a session. */
#include <stdio.h>

#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	int rc = 0;

	if (!*v->events && !v->nruby)
		return rut_err_set(err, EINVAL, "say what to remove: -e EVENTS, --ruby TARGET");
	if (*v->events)
		rc = rut_session_remove(r, v->events, err);
	for (size_t i = 0; i < v->nruby && !rc; i++)
		rc = rut_session_change_ruby(r, false, v->ruby[i], NULL, err);
	return rc;
}

static const struct rut_opt options[] = {
	{"event", "EVENTS", "what to remove: names, globs, groups; may be repeated", 'e'},
	{"ruby", "TARGET[:EVENTS]", "Ruby events to remove, as they were added; may be repeated",
	 RUT_SESSION_OPT_RUBY},
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_remove = {
	.name = "remove",
	.group = "Record",
	.summary = "stop recording some of the events of a session",
	.usage = "NAME (-e EVENTS | --ruby TARGET[:EVENTS])...",
	.options = options,
	.run = run,
};
