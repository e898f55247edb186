/* SPDX-License-Identifier: MIT */
#include "cli/record_static.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "usdt/ctl.h"
#include "usdt/tap.h"

int rut_cli_record_static_event(const struct rut_cmd *cmd, struct rut_record_static *s,
				const char *value)
{
	const size_t skip = strlen(RUT_USDT_EVENT_PREFIX);

	if (strncmp(value, RUT_USDT_EVENT_PREFIX, skip) != 0)
		return -ENOENT;
	if (!value[skip])
		return rut_cli_usage_error(cmd, "'%s' should be ruby_static:PROVIDER:NAME", value);
	if (s->nglobs == sizeof(s->globs) / sizeof(*s->globs))
		return rut_cli_usage_error(cmd,
					   "too many events of the form ruby_static:PROVIDER:NAME");
	s->globs[s->nglobs++] = value + skip;
	return 0;
}

int rut_cli_record_static_prepare(struct rut_record_static *s, struct rut_err *err)
{
	return s->nglobs ? rut_usdt_taps_new(&s->taps, s->globs, s->nglobs, err) : 0;
}

void rut_cli_record_static_command(const struct rut_record_static *s)
{
	const char *env = s->taps ? rut_usdt_taps_env(s->taps) : NULL;

	if (env)
		setenv(RUT_USDT_RECORD_ENV, env, 1);
	else
		unsetenv(RUT_USDT_RECORD_ENV);
}

int rut_cli_record_static_open(struct rut_record_static *s, const char *dir, struct rut_err *err)
{
	int rc = 0;

	if (!s->taps)
		return 0;
	for (; s->nadded < s->npids && !rc; s->nadded++)
		rc = rut_usdt_taps_add_pid(s->taps, s->pids[s->nadded], err);
	if (rc)
		return rc;
	snprintf(s->dir, sizeof(s->dir), "%s", dir);
	return rut_usdt_taps_open(s->taps, dir, err);
}

void rut_cli_record_static_step(struct rut_record_static *s)
{
	static bool said;
	struct rut_err err = RUT_ERR_INIT;

	if (s->taps && rut_usdt_taps_step(s->taps, &err) < 0 && !said) {
		fprintf(stderr, "rutile record: %s; recording continues in memory\n", err.msg);
		said = true;
	}
}

void rut_cli_record_static_close(struct rut_record_static *s)
{
	uint64_t lost, bytes, packets;
	size_t processes;

	if (!s->taps)
		return;
	rut_cli_record_static_step(s);
	rut_usdt_taps_end(s->taps, &processes, &lost, &bytes, &packets);
	fprintf(stderr,
		"rutile record: %s: static tracepoints of %zu process%s, %.1f MiB in %" PRIu64
		" packets, %" PRIu64 " events lost\n",
		s->dir, processes, processes == 1 ? "" : "es", (double)bytes / 1048576, packets,
		lost);
	rut_usdt_taps_free(s->taps);
	s->taps = NULL;
}
