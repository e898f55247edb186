/* SPDX-License-Identifier: MIT */
/* `rutile show`: what the script of a session has printed, and its maps. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "script/session.h"
#include "session/pin.h"

static const struct rut_opt options[] = {
	{"format", "FORMAT", "output format: text (default) or json", 'f'},
	{0},
};

RUT_DEFINE_CLEANUP(struct rut_script_session *, rut_script_session_free);

static int show(const char *name, bool json, struct rut_err *err)
{
	_cleanup_(rut_script_session_freep)
	struct rut_script_session *script = NULL;
	struct rut_recorder *r = NULL;
	char dir[128];
	/* Is there such a session, and may we look into it? */
	int rc = rut_session_open(&r, name, err);

	rut_recorder_free(r);
	if (rc)
		return rc;
	rut_session_dir(dir, sizeof(dir), name);
	rc = rut_script_session_open(&script, dir, err);
	return rc ? rc : rut_script_session_show(script, stdout, json, err);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_err err = RUT_ERR_INIT;
	const char *name = NULL, *format = "text";
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return RUT_EXIT_OK;
		if (id == RUT_ARGS_POSITIONAL && name)
			return rut_cli_usage_error(cmd, "one name only, not '%s' too", a.value);
		if (id == RUT_ARGS_POSITIONAL)
			name = a.value;
		else if (id == 'f')
			format = a.value;
		else if (id != RUT_ARGS_DASHES)
			return RUT_EXIT_USAGE;
	}
	if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0)
		return rut_cli_usage_error(cmd, "invalid format '%s': text or json", format);
	if (!name)
		return rut_cli_usage_error(cmd, "the name of the session is missing");
	return show(name, format[0] == 'j', &err) ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}

const struct rut_cmd cmd_show = {
	.name = "show",
	.group = "Record",
	.summary = "show what the script of a session has printed and counted",
	.usage = "NAME",
	.options = options,
	.run = run,
};
