/* SPDX-License-Identifier: MIT */
/* `rutile attach`: copies what a flight recorder holds into a trace directory, and continues there.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "cli/record_script.h"
#include "cli/session_verb.h"
#include "script/session.h"

static const struct rut_opt options[] = {
	{"output", "DIR", "the directory (default: rutile-NAME-DATE-TIME)", 'o'},
	{0},
};

static volatile sig_atomic_t detach;

static void on_signal(int sig)
{
	detach = 1;
}

static int follow(struct rut_recorder *r, const struct rut_session_verb *v,
		  struct rut_script_session *script, struct rut_err *err)
{
	struct sigaction sa = {.sa_handler = on_signal};
	struct rut_output_conf conf = {.exact = v->output};
	struct rut_consumer c;
	int rc;

	if (r->conf.mode != RUT_RING_OVERWRITE)
		return rut_err_set(err, EINVAL, "session '%s' already writes to '%s'", v->name,
				   r->meta->current);
	if (v->output)
		snprintf(conf.pattern, sizeof(conf.pattern), "%s", v->output);
	else
		snprintf(conf.pattern, sizeof(conf.pattern), "rutile-%s-%%Y%%m%%d-%%H%%M%%S",
			 v->name);
	/* Ctrl+C and Ctrl+\ both leave the session as it is. */
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	rc = rut_consumer_open(&c, r, &conf, err);
	if (rc < 0)
		return rc;
	if (script) {
		const struct rut_companion printed = rut_script_session_reader(script);

		if (rut_consumer_accompany(&c, &printed, err))
			fprintf(stderr, "rutile attach: what the script prints is left out: %s\n",
				err->msg);
	}
	fprintf(stderr, "rutile attach: following '%s' into '%s'; Ctrl+\\ detaches\n", v->name,
		c.writer.path);
	rut_consumer_statedump(&c);
	while (!detach && r->meta->running) {
		bool failed = rc < 0;

		rc = rut_consumer_step(&c, err);
		if (rc < 0 && !failed)
			fprintf(stderr, "rutile attach: %s; retrying\n", err->msg);
		if (rc >= 0 && failed)
			fprintf(stderr, "rutile attach: writing to '%s' again\n", c.writer.path);
		rut_consumer_wait(&c, c.sleep_ms);
	}
	if (c.writer.lapped)
		fprintf(stderr,
			"rutile attach: %llu packets were overwritten before they were read\n",
			(unsigned long long)c.writer.lapped);
	rc = rut_consumer_close(&c, err);
	/* That was ours: the session itself writes nothing. */
	r->meta->write_errno = 0;
	return rc;
}

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	struct rut_script_session *script = rut_cli_record_script_beside(v->name);
	int rc = follow(r, v, script, err);

	rut_script_session_free(script);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_attach = {
	.name = "attach",
	.group = "Record",
	.summary = "write a flight recorder's events into a trace directory",
	.usage = "NAME [-o DIR]",
	.options = options,
	.run = run,
};
