/* SPDX-License-Identifier: MIT */
/* `rutile start`: starts a session in the background, or resumes a stopped one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/record_opts.h"
#include "script/session.h"

int rut_cli_start_parse(const struct rut_cmd *cmd, struct rut_record_opts *o, int argc, char **argv)
{
	struct rut_args a;
	int id, rc;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		rc = 0;
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_POSITIONAL && o->conf.name[0])
			return rut_cli_usage_error(cmd, "one name only, not '%s' too", a.value);
		if (id == RUT_ARGS_POSITIONAL)
			rc = rut_cli_record_session_name(cmd, o, a.value);
		else if (id == RUT_OPT_PROFILE && !rut_cli_record_is_hz(a.value))
			rc = rut_cli_profile_read(cmd, a.value, o);
		else if (id == 'o')
			rc = rut_cli_record_output(cmd, o, a.value);
		else if (id != RUT_ARGS_DASHES)
			rc = rut_cli_record_option(cmd, o, id, a.value);
		if (rc)
			return rc == -ENOENT ? RUT_EXIT_USAGE : rc;
	}
	return o->conf.name[0] ? 0 : rut_cli_usage_error(cmd, "the name of the session is missing");
}

static int check(const struct rut_cmd *cmd, const struct rut_record_opts *o)
{
	if (o->flight && o->output.pattern[0])
		return rut_cli_usage_error(cmd, "--flight and --output exclude each other");
	if (o->flight && o->output.to[0])
		return rut_cli_usage_error(cmd,
					   "--flight and --to exclude each other: 'rutile snapshot "
					   "--to' sends what is in memory");
	return rut_cli_record_check_loss(cmd, o);
}

/* The script is opened first: when that fails, the session stays stopped. */
static int resume_all(struct rut_recorder *r, const char *name, struct rut_err *err)
{
	struct rut_script_session *script = NULL;
	struct rut_guest guest;
	char dir[128];
	int rc;

	rut_session_dir(dir, sizeof(dir), name);
	rc = rut_script_session_open(&script, dir, err);
	if (rc && rc != -ENOENT)
		return rc;
	rc = script ? rut_script_session_reopen(script, dir, err) : 0;
	if (script)
		guest = rut_script_session_guest(script);
	if (!rc)
		rc = rut_session_resume(r, script ? &guest : NULL, err);
	rut_script_session_free(script);
	return rc;
}

/* A name alone means: go on with the session that was stopped. */
static int resume(const struct rut_cmd *cmd, const char *name)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	int rc = rut_session_open(&r, name, &err);

	if (rc == -ENOENT)
		return rut_cli_usage_error(cmd,
					   "there is no stopped session '%s': give --flight or "
					   "--output to make one",
					   name);
	if (!rc)
		rc = resume_all(r, name, &err);
	rut_recorder_free(r);
	if (rc)
		return rut_cli_fail(cmd, &err);
	printf("session '%s' resumed\n", name);
	return RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_record_opts o = {0};
	struct rut_err err = RUT_ERR_INIT;
	pid_t pid = 0;
	int rc = rut_cli_start_parse(cmd, &o, argc, argv);

	if (!rc)
		rc = check(cmd, &o);
	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	if (!o.flight && !rut_output_drains(&o.output) && o.script[0])
		return rut_cli_usage_error(cmd, "--script needs --flight or --output");
	if (!o.flight && !rut_output_drains(&o.output))
		return resume(cmd, o.conf.name);
	rut_cli_record_defaults(&o);
	rc = rut_cli_record_start(&o, &pid, &err);
	rut_cli_record_opts_fini(&o);
	if (rc < 0)
		return rut_cli_fail(cmd, &err);
	if (pid)
		printf("session '%s' records to '%s' (process %d)\n", o.conf.name,
		       o.output.pattern[0] ? o.output.pattern : o.output.to, pid);
	else
		printf("session '%s' records into memory\n", o.conf.name);
	return RUT_EXIT_OK;
}

const struct rut_cmd cmd_start = {
	.name = "start",
	.group = "Record",
	.summary = "start a recording session in the background",
	.usage = "NAME (--flight | -o PATTERN | --to URL | --profile FILE) [OPTIONS]",
	.options = rut_cli_start_options,
	.run = run,
};
