/* SPDX-License-Identifier: MIT */
/* `rutile add`: record more events in a running session. */
#include <stdio.h>

#include "cli/record_ruby.h"
#include "cli/session_verb.h"

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	/* Where a process is started to hold them, these are its own. */
	struct rut_record_ruby ruby = {.flight = true, .wait = true};
	struct rut_companion companion = rut_cli_record_ruby_companion(&ruby);
	int rc = 0;

	if (!*v->events && !v->nruby)
		return rut_err_set(err, EINVAL, "say what to add: -e EVENTS, --ruby TARGET");
	if (*v->events)
		rc = rut_session_add(r, v->events, err);
	for (size_t i = 0; i < v->nruby && !rc; i++)
		rc = rut_session_change_ruby(r, true, v->ruby[i], &companion, err);
	return rc;
}

static const struct rut_opt options[] = {
	{"event", "EVENTS", "what to add: names, globs, groups; may be repeated", 'e'},
	{"ruby", "TARGET[:EVENTS]", "add events of these Ruby processes; may be repeated",
	 RUT_SESSION_OPT_RUBY},
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_add = {
	.name = "add",
	.group = "Record",
	.summary = "record more events in a running session",
	.usage = "NAME (-e EVENTS | --ruby TARGET[:EVENTS])...",
	.options = options,
	.run = run,
};
