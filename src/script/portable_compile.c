/* SPDX-License-Identifier: MIT */
/* A script for other machines: compiled once for `rutile run`, and once for sessions. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/load.h"
#include "script/portable.h"
#include "script/script.h"
#include "script/session.h"

static int compile_run(struct rut_script_program **ret, const char *name, const char *text,
		       size_t len, struct rut_err *err)
{
	/* record() is of traces, which are named when it runs. */
	const struct rut_script_opts opts = {.name = name, .trace = true, .portable = true};
	int rc = rut_script_compile(ret, text, len, &opts, err);

	return rc ? rc : rut_script_load(*ret, err);
}

/* What acts on a session has no other use. */
static bool is_for_sessions(const struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nactions; i++)
		if (p->actions[i].kind == RUT_ACTION_SNAPSHOT ||
		    p->actions[i].kind == RUT_ACTION_STOP)
			return true;
	return p->freezes;
}

int rut_portable_compile(struct rut_buf *out, const char *name, const char *text, size_t len,
			 bool flight, struct rut_buf *messages, struct rut_err *err)
{
	const struct rut_script_session_conf conf = {
		.name = name, .flight = flight, .portable = true};
	struct rut_script_program *programs[RUT_PORTABLE_USES] = {NULL}, *run = NULL;
	struct rut_script_session *session = NULL;
	int rc;

	if (rut_portable_is(text, len))
		return rut_err_set(err, EINVAL, "the script '%s' is compiled already", name);
	rc = rut_script_session_new(&session, text, len, &conf, messages, err);
	if (rc)
		return rc;
	programs[RUT_PORTABLE_SESSION] = rut_script_session_program(session);
	if (!is_for_sessions(programs[RUT_PORTABLE_SESSION])) {
		rc = compile_run(&run, name, text, len, err);
		if (rc && run && run->src.messages.len)
			rut_buf_add(messages, run->src.messages.data, run->src.messages.len);
		programs[RUT_PORTABLE_RUN] = run;
	}
	if (!rc && rut_portable_write(out, programs))
		rc = rut_err_set(err, ENOMEM, "out of memory");
	rut_script_free(run);
	rut_script_session_free(session);
	return rc;
}
