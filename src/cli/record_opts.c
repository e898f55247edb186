/* SPDX-License-Identifier: MIT */
#include "cli/record_opts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/record_script.h"
#include "script/session.h"
#include "session/dynamic.h"
#include "session/pin.h"
#include "stream/conn.h"
#include "stream/sender.h"

/* Of a session with a script and no events. */
enum { SCRIPT_BUFFER_BYTES = 1 << 20 };

static int bad_value(const struct rut_cmd *cmd, const char *what, const char *value)
{
	return rut_cli_usage_error(cmd, "bad %s '%s'", what, value);
}

static int add_event(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	char *events = o->conf.events;
	size_t len = strlen(events), room = sizeof(o->conf.events) - len;

	/* The message says what to do: the options' help does not list events. */
	if (rut_conf_add_events(&o->conf, value, &err) < 0) {
		rut_cli_fail(cmd, &err);
		return RUT_EXIT_USAGE;
	}
	if ((size_t)snprintf(events + len, room, "%s%s", len ? "," : "", value) >= room)
		return rut_cli_usage_error(cmd, "too many --event: use globs");
	o->events_given = true;
	return 0;
}

/* Then all events have one, also when some say so themselves (EVENT:ruby-stack). */
static bool names_ruby_stack(const char *contexts)
{
	char ignored[RUT_PERF_MAX][RUT_PERF_NAME];
	uint64_t bits = 0;

	return !rut_context_parse(contexts, &bits, ignored, NULL) && bits & RUT_CTX_RSTACK;
}

bool rut_cli_record_is_hz(const char *value)
{
	return *value && strspn(value, "0123456789") == strlen(value);
}

static int add_samples(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	char event[64];

	if (!rut_cli_record_is_hz(value) || strlen(value) > 5 || !atoi(value) ||
	    atoi(value) > 10000)
		return rut_cli_usage_error(cmd, "--profile: 1 to 10000 samples a second, not '%s'",
					   value);
	snprintf(event, sizeof(event), "profile:%s", value);
	return add_event(cmd, o, event);
}

static int add_pid(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	uint64_t n;

	if (rut_parse_u64(value, &n) < 0 || !n || n > INT32_MAX)
		return bad_value(cmd, "process", value);
	if (o->npids == RUT_PIDS_MAX)
		return rut_cli_usage_error(cmd, "more than %d --pid", RUT_PIDS_MAX);
	o->pids[o->npids++] = (pid_t)n;
	o->conf.filters |= RUT_FILTER_PID | RUT_FILTER_FOLLOW;
	return 0;
}

static int add_procname(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	size_t len = strlen(value);

	if (!len || len > 15)
		return rut_cli_usage_error(cmd, "a process name has 1 to 15 bytes, not '%s'",
					   value);
	for (size_t i = 0; i < 8; i++) {
		if (o->conf.comms[i][0])
			continue;
		memcpy(o->conf.comms[i], value, len);
		o->conf.filters |= RUT_FILTER_COMM;
		return 0;
	}
	return rut_cli_usage_error(cmd, "more than 8 --procname");
}

int rut_cli_record_session_name(const struct rut_cmd *cmd, struct rut_record_opts *o,
				const char *name)
{
	struct rut_err err = RUT_ERR_INIT;

	/* Before it is copied, which would cut it. */
	if (rut_session_check_name(name, &err) < 0)
		return rut_cli_usage_error(cmd, "%s", err.msg);
	snprintf(o->conf.name, sizeof(o->conf.name), "%s", name);
	return 0;
}

/* 0.1 to 100 percent; a '%' behind it may stand. */
static int set_budget(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	char *end;
	double percent = strtod(value, &end);

	end += *end == '%';
	if (end == value || *end || !(percent >= 0.1 && percent <= 100))
		return rut_cli_usage_error(cmd, "0.1 to 100 percent of a CPU, not '%s'", value);
	o->conf.budget_ppm = (uint32_t)(percent * 1e4);
	return 0;
}

const char *rut_cli_spool_dir(void)
{
	const char *dir = getenv("RUTILE_SPOOL_DIR");

	return dir && dir[0] == '/' ? dir : RUT_SPOOL_DIR;
}

static int set_collector(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_url url;

	if (rut_url_parse(value, &url, &err) < 0)
		return rut_cli_usage_error(cmd, "%s", err.msg);
	if (strlen(value) >= sizeof(o->output.to))
		return bad_value(cmd, "collector", value);
	snprintf(o->output.to, sizeof(o->output.to), "%s", value);
	o->ruby.grows = !url.nats;
	return 0;
}

static int set_loss(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	o->output.drop_oldest = o->ruby.counts = !strcmp(value, "oldest");
	return o->output.drop_oldest || !strcmp(value, "newest")
		       ? 0
		       : rut_cli_usage_error(cmd, "--loss: oldest or newest, not '%s'", value);
}

static int set_number(const struct rut_cmd *cmd, struct rut_record_opts *o, int id,
		      const char *value)
{
	uint64_t n;

	switch (id) {
	case RUT_OPT_BUFFER:
		return rut_parse_size(value, &o->conf.buffer_bytes) < 0
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_SUBBUF:
		return rut_parse_size(value, &o->conf.subbuf_bytes) < 0
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_SPOOL:
		snprintf(o->output.spool, sizeof(o->output.spool), "%s", rut_cli_spool_dir());
		if (rut_parse_size(value, &o->output.spool_bytes) < 0)
			return bad_value(cmd, "size", value);
		return o->output.spool_bytes >= RUT_SENDER_MIN_LIMIT
			       ? 0
			       : rut_cli_usage_error(cmd, "--spool: at least 256K, not '%s'",
						     value);
	case RUT_OPT_STRING_LIMIT:
		if (rut_parse_size(value, &n) < 0 || n < RUT_STR_MIN || n > RUT_STR_MAX)
			return rut_cli_usage_error(cmd, "%d to %d bytes of a string, not '%s'",
						   RUT_STR_MIN, RUT_STR_MAX, value);
		o->conf.string_bytes = (uint32_t)n;
		return 0;
	case RUT_OPT_SIZE:
		return rut_parse_size(value, &o->output.size_bytes) < 0 || !o->output.size_bytes
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_EVERY:
		return rut_parse_duration(value, &o->output.every_ns) < 0 || !o->output.every_ns
			       ? bad_value(cmd, "time", value)
			       : 0;
	case RUT_OPT_LOG_SIZE:
		return rut_parse_size(value, &o->output.log_bytes) < 0 || o->output.log_bytes < 1024
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_LOG_KEEP:
		if (rut_parse_u64(value, &n) < 0 || !n || n > 1000)
			return bad_value(cmd, "number", value);
		o->output.log_keep = (uint32_t)n;
		return 0;
	case 'm':
		return set_budget(cmd, o, value);
	default:
		if (rut_parse_u64(value, &n) < 0 || !n || n > 1000000)
			return bad_value(cmd, "number", value);
		o->output.keep = (uint32_t)n;
		return 0;
	}
}

const struct rut_opt rut_cli_start_options[] = {
	{"output", "PATTERN", "write trace directories; the name may hold strftime(3) sequences",
	 'o'},
	{"flight", NULL, "record into memory only; a process stays only for Ruby and -m",
	 RUT_OPT_FLIGHT},
	{"profile", "FILE|HZ",
	 "take the options from a file (see 'rutile save'); a number: sample stacks at HZ",
	 RUT_OPT_PROFILE},
	{"script", "FILE|NAME", "run this script in the session (see 'rutile run')",
	 RUT_OPT_SCRIPT},
	{"script-target", "TARGET",
	 "Ruby processes of its ruby: probes, with those to come: PID, name or role; may be "
	 "repeated",
	 RUT_OPT_SCRIPT_TARGET},
	{"log-size", "SIZE", "begin a new log file at this size (default 1M)", RUT_OPT_LOG_SIZE},
	{"log-keep", "N", "old log files that are kept (default 4)", RUT_OPT_LOG_KEEP},
	RUT_RECORD_OPTIONS,
	{0},
};

int rut_cli_record_dir(const struct rut_cmd *cmd, char *to, size_t size, const char *value)
{
	size_t len = 0;

	/* The daemon changes its directory: the path must not depend on the current one. */
	if (value[0] != '/') {
		if (!getcwd(to, size - 1))
			return rut_cli_usage_error(cmd, "the current directory has no name");
		len = strlen(to);
		to[len++] = '/';
	}
	if (!*value || (size_t)snprintf(to + len, size - len, "%s", value) >= size - len)
		return rut_cli_usage_error(cmd, "bad directory '%s'", value);
	return 0;
}

int rut_cli_record_output(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	return rut_cli_record_dir(cmd, o->output.pattern, sizeof(o->output.pattern), value);
}

static int add_ruby(const struct rut_cmd *cmd, struct rut_record_opts *o, int id, const char *value)
{
	const struct rut_opt *opt = rut_cli_start_options;
	size_t len = strlen(o->conf.ruby), room = sizeof(o->conf.ruby) - len;
	int rc = 0;

	while (opt->id != id)
		opt++;
	if ((size_t)snprintf(o->conf.ruby + len, room, "%s = %s\n", opt->name, value) >= room)
		return rut_cli_usage_error(cmd, "too many options of Ruby events: use globs");
	o->ruby.try_newer = o->ruby.try_newer || id == RUT_OPT_RUBY_TRY_NEWER;
	if (id == RUT_OPT_RUBY_TRY_NEWER)
		return 0;
	if (id == RUT_OPT_RUBY)
		return rut_cli_record_ruby_add(cmd, &o->ruby, value);
	if (id == RUT_OPT_RUBY_SLOW)
		return rut_parse_duration(value, &o->ruby.slow_ns) < 0 || !o->ruby.slow_ns
			       ? bad_value(cmd, "time", value)
			       : 0;
	rc = rut_cli_record_ruby_filter(&o->ruby, opt->name, value);
	return rc ? RUT_EXIT_FAIL : 0;
}

static int set_cgroup(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	if (strlen(value) >= sizeof(o->conf.cgroup))
		return bad_value(cmd, "control group", value);
	snprintf(o->conf.cgroup, sizeof(o->conf.cgroup), "%s", value);
	o->conf.filters |= RUT_FILTER_CGROUP;
	return 0;
}

static int add_contexts(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;

	if (rut_context_parse(value, &o->conf.contexts, o->conf.perf, &err) < 0)
		return rut_cli_usage_error(cmd, "%s", err.msg);
	o->conf.rstack_all |= names_ruby_stack(value);
	return 0;
}

int rut_cli_record_option(const struct rut_cmd *cmd, struct rut_record_opts *o, int id,
			  const char *value)
{
	switch (id) {
	case 'e':
		return add_event(cmd, o, value);
	case RUT_OPT_PROFILE:
		return add_samples(cmd, o, value);
	case 'p':
		return add_pid(cmd, o, value);
	case RUT_OPT_PROCNAME:
		return add_procname(cmd, o, value);
	case RUT_OPT_CGROUP:
		return set_cgroup(cmd, o, value);
	case RUT_OPT_CONTEXT:
		return add_contexts(cmd, o, value);
	case RUT_OPT_STRICT:
		o->conf.strict = true;
		return 0;
	case RUT_OPT_INCLUDE_SELF:
		o->conf.include_self = true;
		return 0;
	case RUT_OPT_FILTER:
		if (strlen(value) >= sizeof(o->conf.filter))
			return rut_cli_usage_error(cmd, "the filter is too long");
		snprintf(o->conf.filter, sizeof(o->conf.filter), "%s", value);
		return 0;
	case RUT_OPT_FLIGHT:
		o->flight = true;
		return 0;
	case RUT_OPT_SCRIPT:
		return rut_cli_record_script_set(cmd, o->script, sizeof(o->script), value);
	case RUT_OPT_SCRIPT_TARGET:
		return rut_cli_record_script_target(&o->script_targets, value);
	case RUT_OPT_RUBY:
	case RUT_OPT_RUBY_CLASS:
	case RUT_OPT_RUBY_METHOD:
	case RUT_OPT_RUBY_PATH:
	case RUT_OPT_RUBY_SLOW:
		return add_ruby(cmd, o, id, value);
	case RUT_OPT_RUBY_TRY_NEWER:
		return add_ruby(cmd, o, id, "yes");
	case RUT_OPT_BUFFER:
	case RUT_OPT_SUBBUF:
	case RUT_OPT_STRING_LIMIT:
	case RUT_OPT_SIZE:
	case RUT_OPT_EVERY:
	case RUT_OPT_KEEP:
	case 'm':
	case RUT_OPT_LOG_SIZE:
	case RUT_OPT_LOG_KEEP:
	case RUT_OPT_SPOOL:
		return set_number(cmd, o, id, value);
	case RUT_OPT_LOSS:
		return set_loss(cmd, o, value);
	case RUT_OPT_TO:
		return set_collector(cmd, o, value);
	case RUT_OPT_TLS:
		return rut_cli_record_dir(cmd, o->output.tls, sizeof(o->output.tls), value);
	default:
		return -ENOENT;
	}
}

int rut_cli_record_check_loss(const struct rut_cmd *cmd, const struct rut_record_opts *o)
{
	if (o->output.drop_oldest && !o->output.to[0])
		return rut_cli_usage_error(cmd, "--loss is for what is sent to a collector (--to)");
	if (o->output.drop_oldest && o->output.pattern[0])
		return rut_cli_usage_error(cmd,
					   "--loss oldest and --output exclude each other: the "
					   "directory keeps everything");
	return 0;
}

void rut_cli_record_defaults(struct rut_record_opts *o)
{
	if (o->events_given)
		return;
	if (o->script[0]) {
		/* The script is what is recorded; the rings are for nothing but a statedump. */
		if (!o->conf.buffer_bytes)
			o->conf.buffer_bytes = SCRIPT_BUFFER_BYTES;
		return;
	}
	rut_selection_add(&o->conf.selection, rut_selection_default, NULL);
	snprintf(o->conf.events, sizeof(o->conf.events), "%s", rut_selection_default);
}

/*
 * A '#' behind white space, outside "quotes", begins a comment; backslashes before it make it a
 * part of the value. Returns where the '#' or those backslashes are, or NULL.
 */
static char *find_mark(char *text, char *value)
{
	bool quoted = false;

	for (char *p = value; p < text; p++)
		quoted ^= *p == '"' && (p == value || p[-1] != '\\');
	for (char *p = text; *p; p++) {
		char before = p > value ? p[-1] : ' ';

		if (*p == '"' && before != '\\')
			quoted = !quoted;
		if (!quoted && (before == ' ' || before == '\t') && p[strspn(p, "\\")] == '#')
			return p;
	}
	return NULL;
}

/* Removes the comment, one backslash of each "\#", and white space at the end. */
static void trim_value(char *value)
{
	char *p = value, *end;

	while ((p = find_mark(p, value)) && *p == '\\') {
		memmove(p, p + 1, strlen(p));
		p += strspn(p, "\\") + 1;
	}
	end = p ? p : value + strlen(value);
	while (end > value && strchr(" \t", end[-1]))
		end--;
	*end = '\0';
}

/* "yes" and "no" for flags. Returns 0, 1 for "no", RUT_EXIT_USAGE. */
static int flag_value(const struct rut_cmd *cmd, const char *value)
{
	if (!strcmp(value, "yes") || !strcmp(value, "no"))
		return value[0] == 'n';
	return rut_cli_usage_error(cmd, "yes or no, not '%s'", value);
}

/* Counts the line in `ret_options` when it holds an option. */
static int apply_line(const struct rut_cmd *cmd, char *line, struct rut_record_opts *o,
		      int *ret_options)
{
	char *key = line + strspn(line, " \t"), *value, *end;
	const struct rut_opt *opt = rut_cli_start_options;
	int rc;

	if (!*key || *key == '#')
		return 0;
	value = strchr(key, '=');
	if (!value)
		return rut_cli_usage_error(cmd, "no '='");
	for (end = value; end > key && strchr(" \t", end[-1]); end--)
		;
	*end = '\0';
	value += 1 + strspn(value + 1, " \t");
	trim_value(value);
	while (opt->name && (strcmp(opt->name, key) != 0 || opt->id == RUT_OPT_PROFILE))
		opt++;
	if (!opt->name)
		return rut_cli_usage_error(cmd, "unknown option '%s'", key);
	++*ret_options;
	if (!opt->arg) {
		rc = flag_value(cmd, value);
		return rc == 1 ? 0 : rc ? rc : rut_cli_record_option(cmd, o, opt->id, "");
	}
	return opt->id == 'o' ? rut_cli_record_output(cmd, o, value)
			      : rut_cli_record_option(cmd, o, opt->id, value);
}

int rut_cli_profile_read(const struct rut_cmd *cmd, const char *path, struct rut_record_opts *o)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	struct rut_cmd there = *cmd;
	size_t size = 0;
	ssize_t len;
	int number = 0, options = 0;
	char where[RUT_PATH_MAX];

	if (!f)
		return rut_cli_usage_error(cmd, "cannot open '%s': %s", path, strerror(errno));
	there.where = where;
	while (errno = 0, (len = getline(&line, &size, f)) >= 0) {
		int rc;

		snprintf(where, sizeof(where), "%.900s, line %d: ", path, ++number);
		if (strlen(line) != (size_t)len)
			return rut_cli_usage_error(&there, "a NUL byte: this is not a text file");
		line[strcspn(line, "\n")] = '\0';
		rc = apply_line(&there, line, o, &options);
		if (rc)
			return rc;
	}
	if (!feof(f))
		return rut_cli_usage_error(cmd, "cannot read '%s': %s", path, strerror(errno));
	if (!options)
		return rut_cli_usage_error(cmd, "no options in the profile '%s'", path);
	return 0;
}

/* A line that trim_value() reads back as it was. */
static void write_value(FILE *out, const char *name, const char *value)
{
	_cleanup_free_ char *copy = strdup(value);
	char *at = copy, *mark;

	fprintf(out, "%s = ", name);
	while (at && (mark = find_mark(at, copy))) {
		size_t len = strspn(mark, "\\") + 1;

		fprintf(out, "%.*s\\%.*s", (int)(mark - at), at, (int)len, mark);
		at = mark + len;
	}
	fprintf(out, "%s\n", at ? at : value);
}

/* The options of Ruby events are kept as lines "NAME = VALUE". */
static void write_ruby(FILE *out, const char *lines)
{
	char name[32], value[sizeof(((struct rut_record_conf *)0)->ruby)];

	while (*lines) {
		size_t len = strcspn(lines, " ");

		snprintf(name, sizeof(name), "%.*s", (int)len, lines);
		lines += len + 3;
		len = strcspn(lines, "\n");
		snprintf(value, sizeof(value), "%.*s", (int)len, lines);
		lines += len + 1;
		write_value(out, name, value);
	}
}

void rut_cli_profile_write(FILE *out, const struct rut_record_conf *conf,
			   const struct rut_output_conf *output)
{
	fprintf(out, "# rutile start %s --profile THIS_FILE\n", conf->name);
	if (output->pattern[0])
		write_value(out, "output", output->pattern);
	else if (!output->to[0])
		fprintf(out, "flight = yes\n");
	if (output->to[0])
		write_value(out, "to", output->to);
	if (output->tls[0])
		write_value(out, "tls", output->tls);
	if (output->spool_bytes)
		fprintf(out, "spool = %llu\n", (unsigned long long)output->spool_bytes);
	if (output->drop_oldest)
		fprintf(out, "loss = oldest\n");
	if (conf->events[0])
		write_value(out, "event", conf->events);
	write_ruby(out, conf->ruby);
	for (size_t i = 0; i < RUT_CTX_COUNT; i++)
		if (conf->contexts & rut_contexts[i].bit && rut_context_perf(i) >= 0)
			fprintf(out, "context = perf:%s\n", conf->perf[rut_context_perf(i)]);
		else if (conf->contexts & rut_contexts[i].bit &&
			 (rut_contexts[i].bit != RUT_CTX_RSTACK || conf->rstack_all))
			fprintf(out, "context = %s\n", rut_contexts[i].name);
	for (size_t i = 0; i < 8 && conf->comms[i][0]; i++)
		write_value(out, "procname", conf->comms[i]);
	if (conf->filter[0])
		write_value(out, "filter", conf->filter);
	if (conf->cgroup[0])
		write_value(out, "cgroup", conf->cgroup);
	if (conf->buffer_bytes)
		fprintf(out, "buffer = %llu\n", (unsigned long long)conf->buffer_bytes);
	if (conf->subbuf_bytes)
		fprintf(out, "subbuf = %llu\n", (unsigned long long)conf->subbuf_bytes);
	if (conf->string_bytes)
		fprintf(out, "string-limit = %u\n", conf->string_bytes);
	if (output->size_bytes)
		fprintf(out, "size = %llu\n", (unsigned long long)output->size_bytes);
	if (output->every_ns)
		fprintf(out, "every = %lluns\n", (unsigned long long)output->every_ns);
	if (output->keep)
		fprintf(out, "keep = %u\n", output->keep);
	if (output->log_bytes)
		fprintf(out, "log-size = %llu\n", (unsigned long long)output->log_bytes);
	if (output->log_keep)
		fprintf(out, "log-keep = %u\n", output->log_keep);
	if (conf->budget_ppm)
		fprintf(out, "max-overhead = %g\n", conf->budget_ppm / 1e4);
	if (conf->include_self)
		fprintf(out, "include-self = yes\n");
	if (conf->strict)
		fprintf(out, "strict = yes\n");
}

const char *rut_cli_log_dir(void)
{
	const char *dir = getenv("RUTILE_LOG_DIR");

	return dir && dir[0] == '/' ? dir : RUT_LOG_DIR;
}

int rut_cli_record_start(struct rut_record_opts *o, pid_t *ret_pid, struct rut_err *err)
{
	struct rut_companion companions[2];
	struct rut_script_session *script = NULL;
	struct rut_start start = {
		.conf = o->conf,
		.output = o->output,
		.pids = o->pids,
		.npids = o->npids,
		.companions = companions,
	};
	int rc = o->script[0] ? rut_cli_record_script_load(&script, o->script, o->flight,
							   &o->script_targets, err)
			      : 0;

	if (rc)
		return rc;
	/* 'rutile add' may bring Ruby events later. */
	if (o->ruby.count || rut_output_drains(&o->output))
		companions[start.ncompanions++] = rut_cli_record_ruby_companion(&o->ruby);
	if (script)
		start.guest = rut_script_session_guest(script);
	/* A flight recorder needs no process for it, but for Ruby. */
	if (script && rut_output_drains(&o->output))
		companions[start.ncompanions++] = rut_script_session_companion(script);
	else if (script && rut_script_session_needs_process(script))
		companions[start.ncompanions++] = rut_script_session_holder(script);

	snprintf(start.output.log_dir, sizeof(start.output.log_dir), "%s", rut_cli_log_dir());
	start.conf.mode = o->flight ? RUT_RING_OVERWRITE : RUT_RING_DISCARD;
	o->ruby.flight = o->flight;
	o->ruby.wait = true;
	rc = rut_cli_record_ruby_start(&o->ruby, err);
	if (!rc)
		rc = rut_session_start(&start, ret_pid, err);
	/* They are the session's now: what its process holds must not be taken back here. */
	if (!rc)
		rut_cli_record_ruby_leave(&o->ruby);
	if (!rc && script)
		rut_script_session_leave(script);
	rut_script_session_free(script);
	return rc;
}

void rut_cli_record_opts_fini(struct rut_record_opts *o)
{
	rut_cli_record_ruby_fini(&o->ruby);
	rut_cli_record_script_fini(&o->script_targets);
}
