/* SPDX-License-Identifier: MIT */
/* `rutile snapshot`: copy what a flight recorder holds into a trace directory. */
#include <stdio.h>

#include "cli/record_opts.h"
#include "cli/record_script.h"
#include "cli/session_verb.h"
#include "cli/snapshot.h"
#include "script/session.h"
#include "session/snapshot.h"
#include "trigger/cause.h"

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

/* What is in it beside the rings. */
struct beside {
	const struct rut_companion *script;    /* NULL: none */
	const struct rut_trigger_cause *cause; /* NULL: none */
};

static int write_beside(void *arg, const char *dir, const struct rut_trace_clock *clock,
			uint64_t end_ns, struct rut_err *err)
{
	const struct beside *b = arg;
	int rc = b->cause ? rut_trigger_cause_write(b->cause, dir, err) : 0;

	if (!rc && b->script)
		rc = b->script->snapshot(b->script->arg, dir, clock, end_ns, err);
	return rc;
}

/*
 * What the script of the session has printed and counted is in it too, and why it was taken. The
 * clock is corrected to that of the host where the trigger fired.
 */
int rut_cli_snapshot(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	struct rut_script_session *script;
	struct rut_trigger_cause cause;
	struct rut_companion printed;
	struct beside beside = {0};
	const struct rut_companion both = {.snapshot = write_beside, .arg = &beside};
	char text[1024];
	int rc = v->trigger ? rut_trigger_cause_parse(&cause, v->trigger, text, sizeof(text), err)
			    : 0;

	if (rc)
		return rc;
	script = rut_cli_record_script_beside(v->name);
	if (script) {
		printed = rut_script_session_companion(script);
		beside.script = &printed;
	}
	beside.cause = v->trigger ? &cause : NULL;
	r->clock_correction_ns = v->trigger ? -cause.clock_offset_ns : 0;
	rc = snapshot(r, v, script || v->trigger ? &both : NULL, err);
	rut_script_session_free(script);
	return rc;
}

static const struct rut_opt options[] = {
	{"output", "DIR", "the directory (default: rutile-NAME-DATE-TIME)", 'o'},
	{"to", "URL", "send it to a collector: relay://HOST[:PORT], nats://HOST[:PORT]/STREAM",
	 RUT_SESSION_OPT_TO},
	{"tls", "DIR", "certificates for relays:// (default /etc/rutile/tls)", RUT_SESSION_OPT_TLS},
	{"trigger", "TEXT", "the firing of another machine's trigger that requested this snapshot",
	 RUT_SESSION_OPT_TRIGGER},
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, rut_cli_snapshot);
}

const struct rut_cmd cmd_snapshot = {
	.name = "snapshot",
	.group = "Record",
	.summary = "copy what a flight recorder holds into a trace directory",
	.usage = "NAME [-o DIR | --to URL]",
	.options = options,
	.run = run,
};
