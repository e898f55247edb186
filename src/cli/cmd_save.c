/* SPDX-License-Identifier: MIT */
/* `rutile save`: a session's configuration as a profile, for `start --profile` and the service. */
#include <stdio.h>
#include <string.h>

#include "cli/record_opts.h"
#include "cli/session_verb.h"
#include "script/session.h"

static const struct rut_opt options[] = {
	{"output", "FILE", "write there instead of standard output", 'o'},
	{0},
};

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	/* "x": a profile that exists is not overwritten. */
	FILE *out = v->output ? fopen(v->output, "wxe") : stdout;
	struct rut_script_session_status script;
	char dir[128];
	int rc = 0;

	if (!out)
		return rut_err_errno(err, errno, "cannot make '%s'", v->output);
	rut_cli_profile_write(out, &r->meta->conf, &r->meta->output);
	rut_session_dir(dir, sizeof(dir), v->name);
	if (!rut_script_session_status(&script, dir))
		fprintf(out, "script = %s\n", script.path);
	for (const char *t = script.targets; *t; t += strcspn(t, "\n") + 1)
		fprintf(out, "script-target = %.*s\n", (int)strcspn(t, "\n"), t);
	if (ferror(out) || fflush(out))
		rc = rut_err_errno(err, errno, "cannot write the profile");
	if (out != stdout)
		fclose(out);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_save = {
	.name = "save",
	.group = "Record",
	.summary = "print the configuration of a session as a profile",
	.usage = "NAME [-o FILE]",
	.options = options,
	.run = run,
};
