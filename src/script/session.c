/* SPDX-License-Identifier: MIT */
#include "script/session_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "script/load.h"
#include "script/portable.h"
#include "script/ruby_attach.h"
#include "script/ruby_probe.h"
#include "script/trace.h"

struct rut_script_session *rut_script_session_make(const char *name)
{
	struct rut_script_session *s = calloc(1, sizeof(*s));

	if (s)
		snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

void rut_script_session_free(struct rut_script_session *s)
{
	if (!s)
		return;
	rut_script_session_rubies_end(s);
	rut_script_trace_close(s->trace, 0, 0, NULL);
	rut_script_out_free(s->out);
	rut_script_journal_close(&s->journal);
	rut_script_symbols_free(s->symbols);
	rut_script_free(s->p);
	if (s->nowhere)
		fclose(s->nowhere);
	free(s->next_ns);
	free(s->misses);
	free(s->text);
	rut_buf_fini(&s->file);
	free(s->params_text);
	free(s->params);
	rut_buf_fini(&s->filled);
	free(s);
}

/* What needs a process while the script runs. */
static const char *needs_process(enum rut_script_action_kind kind)
{
	switch (kind) {
	case RUT_ACTION_PRINT_MAP:
	case RUT_ACTION_PRINT_KEY:
		return "print() of a map is done by a process";
	case RUT_ACTION_CLEAR:
		return "clear() is done by a process";
	case RUT_ACTION_ZERO:
		return "zero() is done by a process";
	case RUT_ACTION_TIME:
		return "time() is done by a process (printf() has the time of its event)";
	case RUT_ACTION_CAT:
		return "cat() is done by a process";
	case RUT_ACTION_SYSTEM:
		return "system() is done by a process";
	default:
		return NULL;
	}
}

#define NO_PROCESS ", and a flight recorder has none: start the session with --output"

/* Probes that have no meaning in a session: -EINVAL. */
static int check_kinds(struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];
		enum rut_probe_kind kind = prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN;

		if (kind == RUT_PROBE_ITER || kind == RUT_PROBE_SIGNAL)
			return rut_source_error(&p->src, prog->span,
						"this probe is one of 'rutile run' alone");
	}
	return 0;
}

/* Errors of the script: -EINVAL. */
static int check_flight(struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];
		enum rut_probe_kind kind = prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN;

		if (kind == RUT_PROBE_INTERVAL || kind == RUT_PROBE_END)
			return rut_source_error(&p->src, prog->span,
						"this probe runs in a process" NO_PROCESS);
	}
	for (size_t i = 0; i < p->nactions; i++) {
		const struct rut_script_action *a = &p->actions[i];
		const char *why = needs_process(a->kind);

		if (why)
			return rut_source_error(
				&p->src, (struct rut_span){a->pos, a->end_column - a->column},
				"%s" NO_PROCESS, why);
	}
	return 0;
}

int rut_script_session_prepare(struct rut_script_session *s, struct rut_err *err)
{
	if (rut_script_symbols_new(&s->symbols))
		return rut_err_set(err, ENOMEM, "out of memory");
	rut_run_names_init(&s->names, s->p, s->symbols);
	s->style = (struct rut_script_style){.compat = s->p->opts.compat,
					     .max_strlen = s->p->set.max_strlen,
					     .trailer = s->p->set.trailer,
					     .names = &s->names};
	return 0;
}

/* The compiler's parameters are kept: the program points to them. */
static int keep_params(struct rut_script_session *s, const char *const *params, size_t n)
{
	_cleanup_buf_ struct rut_buf all = RUT_BUF_INIT;
	const char *p;

	for (size_t i = 0; i < n; i++)
		rut_buf_add(&all, params[i], strlen(params[i]) + 1);
	rut_buf_putc(&all, '\0');
	s->params = calloc(n + 1, sizeof(*s->params));
	if (all.failed || !s->params)
		return -ENOMEM;
	s->params_text = rut_buf_take(&all);
	p = s->params_text;
	for (size_t i = 0; i < n; i++, p += strlen(p) + 1)
		s->params[i] = p;
	return 0;
}

/* A script that is compiled: what it takes for granted is not looked up. */
static int decode(struct rut_script_session *s, const char *file, size_t len,
		  const struct rut_script_opts *opts, struct rut_err *err)
{
	int rc = rut_portable_read(&s->p, s->name, file, len, RUT_PORTABLE_SESSION, opts->unsafe,
				   err);

	if (rc)
		return rc;
	if (opts->nparams)
		return rut_err_set(err, EINVAL,
				   "the script '%s' is compiled: its parameters are in it",
				   s->name);
	s->p->opts.flight = opts->flight;
	rut_buf_add(&s->file, file, len);
	return s->file.failed ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

int rut_script_session_compile(struct rut_script_session *s, const char *text, size_t len,
			       const struct rut_script_opts *opts, struct rut_err *err)
{
	struct rut_script_opts own = *opts;
	int rc = keep_params(s, opts->params, opts->nparams);

	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	own.name = s->name;
	own.params = s->params;
	own.session = true;
	if (rut_portable_is(text, len))
		rc = decode(s, text, len, opts, err);
	else
		rc = rut_script_compile(&s->p, text, len, &own, err);
	if (!rc && own.portable && (s->p->needs_ruby || s->p->nruby_probes))
		rc = rut_source_error(&s->p->src, s->p->progs[0].span,
				      "names and probes of Ruby are found where the script runs: "
				      "it cannot be compiled for other machines");
	if (!rc)
		rc = check_kinds(s->p);
	if (!rc && own.flight)
		rc = check_flight(s->p);
	return rc;
}

/* Are there processes for probes of Ruby, and probes for the processes? */
static int check_rubies(struct rut_script_session *s, struct rut_err *err)
{
	bool needed = rut_script_needs_agent(s->p);

	if (needed == !!s->find)
		return 0;
	if (!needed)
		return rut_err_set(err, EINVAL,
				   "the script '%s' has no probes of Ruby: --script-target is for "
				   "these",
				   s->name);
	rut_script_ruby_error(s->p,
			      "which processes? name them with --script-target TARGET (a PID, "
			      "or a name or role that 'rutile ps' shows)");
	return -EINVAL;
}

int rut_script_session_new(struct rut_script_session **ret, const char *text, size_t len,
			   const struct rut_script_session_conf *conf, struct rut_buf *messages,
			   struct rut_err *err)
{
	const struct rut_script_opts opts = {
		.params = conf->params,
		.nparams = conf->nparams,
		.flight = conf->flight,
		.portable = conf->portable,
	};
	struct rut_script_session *s = rut_script_session_make(conf->name);
	int rc;

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	s->find = conf->find;
	s->find_arg = conf->find_arg;
	if (conf->targets && strlen(conf->targets) >= sizeof(s->targets)) {
		rut_script_session_free(s);
		return rut_err_set(err, E2BIG, "the names of --script-target are too long");
	}
	snprintf(s->targets, sizeof(s->targets), "%s", conf->targets ? conf->targets : "");
	rc = rut_script_session_compile(s, text, len, &opts, err);
	if (!rc && s->file.len)
		rc = rut_portable_settle(s->p, err);
	if (!rc)
		rc = check_rubies(s, err);
	/* stop() refers to a map that is there when the session is made. */
	if (!rc && !s->p->freezes)
		rc = rut_script_load(s->p, err);
	if (!rc)
		rc = rut_script_session_prepare(s, err);
	if (s->p && s->p->src.messages.len)
		rut_buf_add(messages, s->p->src.messages.data, s->p->src.messages.len);
	if (rc) {
		rut_script_session_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct rut_script_program *rut_script_session_program(struct rut_script_session *s)
{
	return s->p;
}
