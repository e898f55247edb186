/* SPDX-License-Identifier: MIT */
/* `rutile list`: the sessions of this machine. What a killed process left is cleaned up. */
#include <stdio.h>

#include "cli/cmd.h"
#include "session/session.h"

static const struct rut_opt options[] = {
	{0},
};

static void on_cleaned(const char *name, void *arg)
{
	fprintf(stderr, "rutile list: removed the leftovers of '%s': its process was killed\n",
		name);
}

static void on_session(const char *name, void *arg)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	const struct rut_session_meta *m;

	if (rut_session_open(&r, name, &err) < 0) {
		printf("%-20s damaged: %s\n", name, err.msg);
		return;
	}
	m = r->meta;
	printf("%-20s %-8s %6.0fM %12llu events %8llu lost  %s\n", name,
	       m->running ? "records" : "stopped", (double)r->data_bytes / 1048576,
	       (unsigned long long)rut_recorder_records(r),
	       (unsigned long long)(rut_recorder_lost(r) + rut_recorder_missed(r)),
	       m->output.pattern[0] ? m->current
	       : m->output.to[0]    ? m->output.to
				    : "memory");
	rut_recorder_free(r);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return RUT_EXIT_OK;
		if (id == RUT_ARGS_POSITIONAL)
			return rut_cli_usage_error(
				cmd, "unexpected argument '%s': 'rutile status NAME' shows one",
				a.value);
		if (id != RUT_ARGS_DASHES)
			return RUT_EXIT_USAGE;
	}
	if (rut_session_clean(on_cleaned, NULL, &err) < 0 ||
	    rut_session_each(on_session, NULL, &err) < 0)
		return rut_cli_fail(cmd, &err);
	return RUT_EXIT_OK;
}

const struct rut_cmd cmd_list = {
	.name = "list",
	.group = "Record",
	.summary = "list the recording sessions",
	.usage = "",
	.options = options,
	.run = run,
};
