/* SPDX-License-Identifier: MIT */
/*
 * `rutile service`: the sessions that the machine is meant to have, one profile each in
 * /etc/rutile/sessions.d/NAME.conf, the triggers in NAME.trigger beside them, and the scripts in
 * /etc/rutile/scripts.d/NAME.bt, or NAME.rbc where they are compiled. Called by systemd units and
 * the LSB script.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/logfile.h"
#include "cli/record_opts.h"
#include "cli/record_script.h"
#include "cli/service_script.h"
#include "cli/trigger_watch.h"
#include "script/session.h"
#include "session/daemon.h"

#define SESSIONS_DIR "/etc/rutile/sessions.d"
#define PROFILE	     ".conf"
#define TRIGGER	     ".trigger"
#define SCRIPTS_DIR  "/etc/rutile/scripts.d"
#define SCRIPT	     ".bt"
#define COMPILED     ".rbc"

enum { OPT_DIR = 256, OPT_SCRIPTS };

static const struct rut_opt options[] = {
	{"dir", "DIR", "where the profiles are (default: " SESSIONS_DIR ")", OPT_DIR},
	{"scripts", "DIR", "where the scripts are (default: " SCRIPTS_DIR ")", OPT_SCRIPTS},
	{0},
};

struct service {
	const struct rut_cmd *cmd;
	const char *dir, *scripts;
	const char *action;
	const char *only; /* NULL: all */
	int done, failed;
};

static int read_profile(struct service *s, const char *name, struct rut_record_opts *o)
{
	char path[RUT_PATH_MAX], where[RUT_PATH_MAX + 2];
	struct rut_cmd there = *s->cmd;
	int rc;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s.conf", s->dir, name) >= sizeof(path))
		return rut_cli_usage_error(s->cmd, "the name '%s' is too long", path);
	snprintf(where, sizeof(where), "%s: ", path);
	there.where = where;
	*o = (struct rut_record_opts){0};
	rc = rut_cli_record_session_name(&there, o, name);
	if (!rc)
		rc = rut_cli_profile_read(s->cmd, path, o);
	if (rc)
		return rc;
	if (o->flight && o->output.pattern[0])
		return rut_cli_usage_error(s->cmd, "%s: flight and output exclude each other",
					   path);
	if (!o->flight && !rut_output_drains(&o->output)) {
		mkdir(RUT_LOG_DIR, 0750);
		snprintf(o->output.pattern, sizeof(o->output.pattern),
			 RUT_LOG_DIR "/%s-%%Y%%m%%d-%%H%%M%%S", name);
	}
	rut_cli_record_defaults(o);
	return rut_cli_record_check_loss(&there, o);
}

/* The service reports on its output and in its log file. */
static struct rut_logfile service_log = {
	.who = "service", .size_bytes = RUT_LOG_BYTES, .keep = RUT_LOG_KEEP};

static void print_and_log(enum rut_log_level level, const char *msg, void *arg)
{
	if (level < RUT_LOG_INFO)
		return;
	fprintf(stderr, "rutile service: %s\n", msg);
	rut_logfile_append(&service_log, level, msg);
}

static void open_service_log(void)
{
	mkdir(rut_cli_log_dir(), 0750);
	snprintf(service_log.path, sizeof(service_log.path), "%s/service.log", rut_cli_log_dir());
	rut_log_set_sink(print_and_log, NULL);
}

static int fail(const char *name, const struct rut_err *err)
{
	rut_warn("'%s': %s", name, err->msg);
	return RUT_EXIT_FAIL;
}

static void note(const char *name, const char *what)
{
	char msg[400];

	snprintf(msg, sizeof(msg), "'%s' %s", name, what);
	rut_logfile_append(&service_log, RUT_LOG_INFO, msg);
}

/* Starts a session; frees its options. */
static int begin(const char *name, struct rut_record_opts *o)
{
	struct rut_err err = RUT_ERR_INIT;
	pid_t pid;
	int rc = rut_cli_record_start(o, &pid, &err);

	rut_cli_record_opts_fini(o);
	/* Started already, by hand or before: that is what is wanted. */
	if (rc == -EEXIST)
		return 0;
	if (rc < 0)
		return fail(name, &err);
	note(name, "started");
	return 0;
}

static int start_one(struct service *s, const char *name)
{
	struct rut_record_opts o = {0};
	int rc = read_profile(s, name, &o);

	return rc ? rc : begin(name, &o);
}

static int stop_one(const char *name)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_session_destroy(name, &err);

	if (rc < 0 && rc != -ENOENT)
		return fail(name, &err);
	if (!rc)
		note(name, "stopped");
	return 0;
}

static int status_one(const char *name)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	bool dead, stopped;

	if (rut_session_open(&r, name, &err) < 0) {
		printf("%-20s not running\n", name);
		return 3;
	}
	stopped = !r->meta->running;
	/* One that drains the rings, or keeps what is not the kernel's. */
	dead = rut_output_drains(&r->meta->output) ? !rut_session_consumer_alive(r->meta)
						   : r->meta->holder && !rut_holder_alive(r->meta);
	printf("%-20s %s\n", name,
	       dead	 ? "its process has exited"
	       : stopped ? "stopped"
			 : "records");
	rut_recorder_free(r);
	return dead || stopped ? 3 : 0;
}

/* Every program passes the kernel's verifier; nothing is attached. */
static int check_one(struct service *s, const char *name)
{
	struct rut_record_opts o = {0};
	struct rut_err err = RUT_ERR_INIT;
	int rc = read_profile(s, name, &o);

	if (rc)
		return rc;
	o.conf.mode = o.flight ? RUT_RING_OVERWRITE : RUT_RING_DISCARD;
	rc = rut_recorder_check(&o.conf, &err);
	if (rc < 0)
		return fail(name, &err);
	printf("%-20s ok\n", name);
	return 0;
}

static int act(struct service *s, const char *name)
{
	if (!strcmp(s->action, "start"))
		return start_one(s, name);
	if (!strcmp(s->action, "stop"))
		return stop_one(name);
	if (!strcmp(s->action, "status"))
		return status_one(name);
	if (!strcmp(s->action, "check"))
		return check_one(s, name);
	stop_one(name);
	return start_one(s, name);
}

/* ---- Triggers ---- */

static int read_trigger(struct service *s, const char *name, struct rut_trigger *t)
{
	char path[RUT_PATH_MAX];
	struct rut_err err = RUT_ERR_INIT;
	_cleanup_file_ FILE *f = NULL;

	rut_trigger_init(t);
	snprintf(path, sizeof(path), "%s/%s" TRIGGER, s->dir, name);
	snprintf(t->name, sizeof(t->name), "%s", name);
	if (!rut_trigger_name_ok(name))
		return rut_cli_usage_error(s->cmd, "%s: invalid trigger name '%s'", path, name);
	rut_trigger_set(t, "output", RUT_LOG_DIR, &err);
	f = fopen(path, "re");
	if (!f)
		return rut_cli_usage_error(s->cmd, "cannot open '%s': %s", path, strerror(errno));
	if (rut_trigger_read(t, f, &err))
		return rut_cli_usage_error(s->cmd, "%s, %s", path, err.msg);
	if (!t->nactions)
		return rut_cli_usage_error(s->cmd, "%s: it does nothing: 'do = ...' is missing",
					   path);
	return 0;
}

static int start_trigger(struct service *s, const char *name)
{
	static struct rut_trigger t;
	struct rut_err err = RUT_ERR_INIT;
	int rc = read_trigger(s, name, &t);

	if (rc)
		return rc;
	rc = rut_cli_trigger_start(&t, s->cmd, &err);
	if (!rc)
		note(name, "watches");
	if (rc && !err.code)
		return RUT_EXIT_USAGE;
	return !rc || rc == -EEXIST ? 0 : fail(name, &err);
}

static int stop_trigger(const char *name)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_cli_trigger_end(name, &err);

	if (!rc)
		note(name, "stopped");
	return rc && rc != -ENOENT ? fail(name, &err) : 0;
}

static int act_on_trigger(struct service *s, const char *name)
{
	static struct rut_trigger t;
	struct rut_trigger_status status;
	struct rut_err err = RUT_ERR_INIT;
	int rc;

	if (!strcmp(s->action, "start"))
		return start_trigger(s, name);
	if (!strcmp(s->action, "stop"))
		return stop_trigger(name);
	if (!strcmp(s->action, "status")) {
		rc = rut_cli_trigger_ask(name, &status, &err);
		printf("%-20s %s\n", name,
		       rc == -ENOENT ? "not running"
		       : rc	     ? err.msg
				     : "watches");
		return rc ? 3 : 0;
	}
	if (!strcmp(s->action, "check")) {
		rc = read_trigger(s, name, &t);
		if (!rc)
			printf("%-20s ok\n", name);
		return rc;
	}
	rc = stop_trigger(name);
	return rc ? rc : start_trigger(s, name);
}

/* ---- Scripts ---- */

static int start_script(struct service *s, const char *name)
{
	struct rut_record_opts o;
	int rc = rut_cli_service_script_read(s->cmd, &o, s->scripts, name);

	if (rc)
		return rc;
	/* The directory of its snapshot when it is stopped. */
	if (o.flight)
		o.output.pattern[0] = '\0';
	return begin(name, &o);
}

static int stop_script(struct service *s, const char *name)
{
	struct rut_record_opts o;
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_cli_service_script_read(s->cmd, &o, s->scripts, name);

	/* What cannot be read any more can still be stopped. */
	if (!rc && o.flight && o.output.pattern[0]) {
		rc = rut_cli_service_script_keep(name, &o.output, &err);
		if (rc < 0 && rc != -ENOENT)
			fail(name, &err);
	}
	return stop_one(name);
}

static int check_script(struct service *s, const char *name)
{
	struct rut_record_opts o;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_script_session *script = NULL;
	int rc = rut_cli_service_script_read(s->cmd, &o, s->scripts, name);

	if (rc)
		return rc;
	rc = rut_cli_record_script_load(&script, o.script, o.flight, &o.script_targets, &err);
	rut_script_session_free(script);
	if (rc < 0)
		return fail(name, &err);
	printf("%-20s ok\n", name);
	return 0;
}

static int act_on_script(struct service *s, const char *name)
{
	int rc;

	if (!strcmp(s->action, "start"))
		return start_script(s, name);
	if (!strcmp(s->action, "stop"))
		return stop_script(s, name);
	if (!strcmp(s->action, "status"))
		return status_one(name);
	if (!strcmp(s->action, "check"))
		return check_script(s, name);
	rc = stop_script(s, name);
	return rc ? rc : start_script(s, name);
}

static int compile_script(struct service *s, const char *name)
{
	return rut_cli_service_script_compile(s->cmd, s->scripts, name);
}

/* ---- All of a directory ---- */

static int is_named(const struct dirent *e, const char *suffix)
{
	size_t len = strlen(e->d_name), n = strlen(suffix);

	return len > n && e->d_name[0] != '.' && !strcmp(e->d_name + len - n, suffix);
}

static int is_profile(const struct dirent *e)
{
	return is_named(e, PROFILE);
}

static int is_trigger(const struct dirent *e)
{
	return is_named(e, TRIGGER);
}

static int is_script(const struct dirent *e)
{
	return is_named(e, SCRIPT);
}

static int is_compiled(const struct dirent *e)
{
	return is_named(e, COMPILED);
}

static void for_each(struct service *s, const char *dir, int (*is_one)(const struct dirent *),
		     const char *suffix, int (*fn)(struct service *s, const char *name))
{
	struct dirent **list = NULL;
	int n = scandir(dir, &list, is_one, alphasort);

	for (int i = 0; i < n; i++) {
		int rc = 0;

		list[i]->d_name[strlen(list[i]->d_name) - strlen(suffix)] = '\0';
		if (!s->only || !strcmp(s->only, list[i]->d_name)) {
			rc = fn(s, list[i]->d_name);
			s->done++;
		}
		if (rc == RUT_EXIT_USAGE)
			note(list[i]->d_name, "has errors in its profile");
		if (rc > s->failed)
			s->failed = rc;
		free(list[i]);
	}
	free(list);
}

/* Those that are there as scripts, too, are these. */
static int act_on_compiled(struct service *s, const char *name)
{
	char path[RUT_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s" SCRIPT, s->scripts, name);
	return access(path, F_OK) ? act_on_script(s, name) : 0;
}

static int parse(struct service *s, int argc, char **argv)
{
	static const char *const actions[] = {"start",	"stop",	 "restart",
					      "status", "check", "compile"};
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, s->cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == OPT_DIR)
			s->dir = a.value;
		else if (id == OPT_SCRIPTS)
			s->scripts = a.value;
		else if (id == RUT_ARGS_POSITIONAL && !s->action)
			s->action = a.value;
		else if (id == RUT_ARGS_POSITIONAL && !s->only)
			s->only = a.value;
		else if (id != RUT_ARGS_DASHES)
			return id == RUT_ARGS_POSITIONAL
				       ? rut_cli_usage_error(s->cmd, "unexpected argument '%s'",
							     a.value)
				       : RUT_EXIT_USAGE;
	}
	if (!s->action)
		s->action = "";
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (!strcmp(s->action, actions[i]))
			return 0;
	return rut_cli_usage_error(s->cmd, "start, stop, restart, status, check or compile?");
}

static int compile_all(struct service *s)
{
	for_each(s, s->scripts, is_script, SCRIPT, compile_script);
	if (s->only && !s->done)
		return rut_cli_usage_error(s->cmd, "there is no '%s/%s" SCRIPT "'", s->scripts,
					   s->only);
	return s->failed;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct service s = {.cmd = cmd, .dir = SESSIONS_DIR, .scripts = SCRIPTS_DIR};
	int rc = parse(&s, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	if (!strcmp(s.action, "compile"))
		return compile_all(&s);
	open_service_log();
	/* Triggers are stopped before the sessions that they act on, and started after them. */
	if (!strcmp(s.action, "stop"))
		for_each(&s, s.dir, is_trigger, TRIGGER, act_on_trigger);
	for_each(&s, s.dir, is_profile, PROFILE, act);
	for_each(&s, s.scripts, is_script, SCRIPT, act_on_script);
	for_each(&s, s.scripts, is_compiled, COMPILED, act_on_compiled);
	if (strcmp(s.action, "stop") != 0)
		for_each(&s, s.dir, is_trigger, TRIGGER, act_on_trigger);
	if (s.only && !s.done)
		return rut_cli_usage_error(
			cmd, "there is no '%s/%s" PROFILE "' and no '%s/%s" SCRIPT "'", s.dir,
			s.only, s.scripts, s.only);
	return s.failed;
}

const struct rut_cmd cmd_service = {
	.name = "service",
	.group = "Record",
	.summary = "start, stop or check the machine's configured sessions",
	.usage = "start|stop|restart|status|check|compile [NAME]",
	.options = options,
	.run = run,
};
