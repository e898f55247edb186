/* SPDX-License-Identifier: MIT */
/* `rutile snapshot`: copy what a flight recorder holds into a trace directory. */
#include <stdio.h>

#include "cli/record_opts.h"
#include "cli/record_script.h"
#include "cli/session_verb.h"
#include "script/session.h"
#include "session/snapshot.h"

static int report(const char *where, const struct rut_snapshot *snap)
{
	printf("%s: %llu events, %.1f MiB, %.3f s\n", where, (unsigned long long)snap->records,
	       (double)snap->bytes / 1048576, (double)(snap->end_ns - snap->begin_ns) / 1e9);
	return 0;
}

static int snapshot(struct rut_recorder *r, const struct rut_session_verb *v,
		    const struct rut_companion *beside, struct rut_err *err)
{
	struct rut_output_conf conf = {0};
	struct rut_snapshot snap;
	char path[RUT_PATH_MAX];
	int rc;

	if (r->conf.mode != RUT_RING_OVERWRITE)
		return rut_err_set(
			err, EINVAL,
			"session '%s' writes to '%s': 'rutile rotate %s' closes a directory",
			v->name, r->meta->current, v->name);
	if (v->to) {
		rc = rut_snapshot_send(r, v->to, rut_cli_spool_dir(), v->tls, beside, &snap, err);
		snprintf(path, sizeof(path), "%s", v->to);
		return rc ? rc : report(path, &snap);
	}
	if (v->output)
		snprintf(path, sizeof(path), "%s", v->output);
	else
		snprintf(conf.pattern, sizeof(conf.pattern), "rutile-%s-%%Y%%m%%d-%%H%%M%%S",
			 v->name);
	rc = v->output ? 0 : rut_output_path(&conf, path, sizeof(path), err);
	if (!rc)
		rc = rut_snapshot_write(r, path, beside, &snap, err);
	return rc ? rc : report(path, &snap);
}

/* What the script of the session has printed and counted is in it too. */
static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	struct rut_companion beside;
	struct rut_script_session *script = rut_cli_record_script_beside(&beside, v->name);
	int rc = snapshot(r, v, script ? &beside : NULL, err);

	rut_script_session_free(script);
	return rc;
}

static const struct rut_opt options[] = {
	{"output", "DIR", "the directory (default: rutile-NAME-DATE-TIME)", 'o'},
	{"to", "URL", "send it to a collector: relay://HOST[:PORT], nats://HOST[:PORT]/STREAM",
	 RUT_SESSION_OPT_TO},
	{"tls", "DIR", "certificates for relays:// (default /etc/rutile/tls)", RUT_SESSION_OPT_TLS},
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_snapshot = {
	.name = "snapshot",
	.group = "Record",
	.summary = "copy what a flight recorder holds into a trace directory",
	.usage = "NAME [-o DIR | --to URL]",
	.options = options,
	.run = run,
};
