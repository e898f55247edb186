/* SPDX-License-Identifier: MIT */
#include "cli/session_verb.h"

#include <stdio.h>
#include <string.h>

int rut_cli_session_verb(const struct rut_cmd *cmd, int argc, char **argv,
			 int (*fn)(struct rut_recorder *r, const struct rut_session_verb *v,
				   struct rut_err *err))
{
	struct rut_session_verb v = {.events = ""};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	struct rut_args a;
	char events[1024] = "";
	int id, rc;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		size_t len = strlen(events), room = sizeof(events) - len;

		if (id == RUT_ARGS_HELP)
			return RUT_EXIT_OK;
		if (id == RUT_ARGS_POSITIONAL && !v.name)
			v.name = a.value;
		else if (id == RUT_ARGS_POSITIONAL)
			return rut_cli_usage_error(cmd, "one name only, not '%s' too", a.value);
		else if (id == 'o')
			v.output = a.value;
		else if (id == RUT_SESSION_OPT_TLS)
			v.tls = a.value;
		else if (id == RUT_SESSION_OPT_TO)
			v.to = a.value;
		else if (id == RUT_SESSION_OPT_TRIGGER)
			v.trigger = a.value;
		else if (id == RUT_SESSION_OPT_RUBY && v.nruby < sizeof(v.ruby) / sizeof(*v.ruby))
			v.ruby[v.nruby++] = a.value;
		else if (id == RUT_SESSION_OPT_RUBY)
			return rut_cli_usage_error(cmd, "too many --ruby");
		else if (id == 'e' && (size_t)snprintf(events + len, room, "%s%s", len ? "," : "",
						       a.value) >= room)
			return rut_cli_usage_error(cmd, "too many --event: use globs");
		else if (id != 'e' && id != RUT_ARGS_DASHES)
			return RUT_EXIT_USAGE;
	}
	if (!v.name)
		return rut_cli_usage_error(cmd, "the name of the session is missing");
	v.events = events;
	rc = rut_session_open(&r, v.name, &err);
	if (!rc)
		rc = fn(r, &v, &err);
	rut_recorder_free(r);
	return rc < 0 ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}
