/* SPDX-License-Identifier: MIT */
#include "cli/record_ruby.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/abi.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cli/ruby_target.h"
#include "ring/write.h"
#include "ruby/layers.h"
#include "ruby/record.h"
#include "ruby/tracer.h"

#define LOOK_NS 1000000000ull

#define K(kind)	   (1u << RUT_KIND_##kind)
#define SQL_VALUES (1u << RUT_KINDS) /* no kind of event: what requests say of SQL */

static const struct {
	const char *name;
	uint32_t kinds;
} events[] = {
	{"call", K(CALL)},
	{"return", K(RETURN)},
	{"c_call", K(C_CALL)},
	{"c_return", K(C_RETURN)},
	{"raise", K(RAISE)},
	{"rescue", K(RESCUE)},
	{"alloc", K(ALLOC)},
	{"gc", K(GC)},
	{"thread", K(THREAD)},
	{"gvl", K(GVL)},
	{"line", K(LINE)},
	{"requests", K(REQUEST)},
	{"sql_values", K(REQUEST) | SQL_VALUES},
};

#define METHOD_KINDS (K(CALL) | K(RETURN) | K(C_CALL) | K(C_RETURN) | K(LINE))

#define DEFAULT_KINDS (K(CALL) | K(RETURN) | K(RAISE) | K(GC) | K(THREAD) | K(GVL))

const char *rut_cli_record_ruby_events(void)
{
	static char names[128];
	size_t len = 0;

	for (size_t i = 0; i < sizeof(events) / sizeof(*events) && !names[sizeof(names) - 1]; i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
					events[i].name);
	return names;
}

/* The kinds that a list of events means; 0: it is none. */
static uint32_t parse_events(const char *list)
{
	uint32_t kinds = 0;

	while (*list) {
		size_t len = strcspn(list, ","), i = 0, n = sizeof(events) / sizeof(*events);

		while (i < n &&
		       (strlen(events[i].name) != len || strncmp(events[i].name, list, len) != 0))
			i++;
		if (i == n)
			return 0;
		kinds |= events[i].kinds;
		list += len + (list[len] == ',');
	}
	return kinds;
}

/* TARGET[:EVENTS] as a source; its target is allocated. */
static int parse_source(struct rut_record_ruby_source *ret, const char *value, struct rut_err *err)
{
	const char *colon = strrchr(value, ':');
	/* A target may have a colon itself: "puma: cluster". */
	bool has_events = colon && colon[1] != ' ';
	size_t len = has_events ? (size_t)(colon - value) : strlen(value);

	*ret = (struct rut_record_ruby_source){.kinds = has_events ? parse_events(colon + 1)
								   : DEFAULT_KINDS};
	if (!ret->kinds)
		return rut_err_set(err, EINVAL, "unknown Ruby event in '%s'; there are %s", value,
				   rut_cli_record_ruby_events());
	if (ret->kinds & K(REQUEST) && ret->kinds & METHOD_KINDS)
		return rut_err_set(
			err, EINVAL,
			"'%s': requests and calls have hooks of their own; use --ruby twice",
			value);
	if (!strcmp(value, "--"))
		len = 0;
	ret->target = strndup(value, len);
	return ret->target ? 0 : rut_err_set(err, ENOMEM, "out of memory");
}

int rut_cli_record_ruby_parse(struct rut_record_ruby *r, const char *value, struct rut_err *err)
{
	int rc;

	if (r->count == RUT_RECORD_RUBY_MAX)
		return rut_err_set(err, E2BIG, "more than %d --ruby", RUT_RECORD_RUBY_MAX);
	rc = parse_source(&r->sources[r->count], value, err);
	r->count += !rc;
	return rc;
}

int rut_cli_record_ruby_add(const struct rut_cmd *cmd, struct rut_record_ruby *r, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;

	return rut_cli_record_ruby_parse(r, value, &err) ? rut_cli_usage_error(cmd, "%s", err.msg)
							 : 0;
}

static bool is_command(const struct rut_record_ruby_source *s)
{
	return !*s->target;
}

/* A PID means one process; a name also those that start later. */
static bool is_pid(const struct rut_record_ruby_source *s)
{
	return *s->target && !s->target[strspn(s->target, "0123456789")];
}

static struct rut_record_ruby_source *command_source(const struct rut_record_ruby *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (is_command(&r->sources[i]))
			return (struct rut_record_ruby_source *)&r->sources[i];
	return NULL;
}

int rut_cli_record_ruby_check(const struct rut_cmd *cmd, struct rut_record_ruby *r, char **command)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += is_command(&r->sources[i]);
	if (n && !command)
		return rut_cli_usage_error(cmd, "--ruby without a target means a command: "
						"'rutile record --ruby [:EVENTS] -- COMMAND'");
	if (n > 1)
		return rut_cli_usage_error(cmd, "a command has one --ruby only");
	r->command = command;
	return 0;
}

int rut_cli_record_ruby_filter(struct rut_record_ruby *r, const char *kind, const char *value)
{
	struct rut_words *to = *kind == 'c' ? &r->classes : *kind == 'm' ? &r->methods : &r->paths;
	char *word = strdup(value);

	if (!word || rut_cli_words_add(to, word) < 0) {
		free(word);
		return -ENOMEM;
	}
	return 0;
}

/* The filter refers to the first processes found: later ones are of the same application. */
static int source_find(const struct rut_record_ruby *r, const struct rut_record_ruby_source *s,
		       struct rut_targets *ret, struct rut_ruby_filter *ret_filter,
		       struct rut_err *err)
{
	const char *words[2] = {s->target, NULL};
	struct rut_ruby_opts opts = {
		.targets = {words, 1},
		.command = is_command(s) ? r->command : NULL,
		.paths = r->paths,
		.classes = r->classes,
		.methods = r->methods,
		.c_calls = s->kinds & (K(C_CALL) | K(C_RETURN)),
		.try_newer = r->try_newer,
	};
	int rc = rut_cli_targets_find(ret, &opts, err);

	rut_cli_targets_filter(ret, &opts, false, ret_filter);
	return rc;
}

static int check_slow(const struct rut_record_ruby *r, const struct rut_record_ruby_source *s,
		      struct rut_err *err)
{
	if (r->slow_ns && s->kinds & (K(C_CALL) | K(C_RETURN) | K(LINE) | K(REQUEST)))
		return rut_err_set(err, EINVAL,
				   "--slow is for calls of Ruby methods: not with c_call, "
				   "c_return, line or requests");
	return 0;
}

static int source_start(struct rut_record_ruby *r, struct rut_record_ruby_source *s,
			struct rut_err *err)
{
	struct rut_tracer_config config = {.mode = RUT_RUBY_RECORD,
					   .kinds = s->kinds & ~SQL_VALUES,
					   .sql_values = s->kinds & SQL_VALUES,
					   .slow_ns = s->kinds & (K(CALL) | K(RETURN)) ? r->slow_ns
										       : 0,
					   .overwrite = r->flight,
					   .grows = r->grows,
					   .counts = r->counts,
					   .ring_bytes = r->ring_bytes};
	struct rut_targets *targets = calloc(1, sizeof(*targets));
	_cleanup_buf_ struct rut_buf layers = RUT_BUF_INIT;
	int rc = check_slow(r, s, err);

	if (!rc && is_command(s) && !r->command)
		rc = rut_err_set(err, EINVAL,
				 "--ruby without a target means a command, which only 'rutile "
				 "record' starts");
	if (rc) {
		free(targets);
		return rc;
	}
	if (!targets)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = s->kinds & K(REQUEST) ? rut_layers_config(&layers, err) : 0;
	config.layers = layers.data;
	config.layers_len = layers.len;
	if (rc) {
		free(targets);
		return rc;
	}
	rc = source_find(r, s, targets, &config.filter, err);
	if (!rc)
		rc = rut_tracer_new(&s->tracer, &config, err);
	if (!rc)
		rc = is_command(s) ? rut_tracer_command_prepare(s->tracer, err)
				   : rut_cli_targets_attach(targets, s->tracer, NULL, err);
	s->targets = targets;
	if (rc) {
		rut_tracer_free(s->tracer);
		rut_cli_targets_fini(targets);
		free(targets);
		s->tracer = NULL;
		s->targets = NULL;
	}
	return rc;
}

int rut_cli_record_ruby_prepare(struct rut_record_ruby *r, struct rut_err *err)
{
	struct rut_record_ruby_source *s = command_source(r);

	return s && !s->tracer ? source_start(r, s, err) : 0;
}

int rut_cli_record_ruby_env(const struct rut_record_ruby *r, pid_t parent)
{
	const struct rut_record_ruby_source *s = command_source(r);

	return s ? rut_tracer_command_env(s->tracer, parent) : 0;
}

void rut_cli_record_ruby_started(struct rut_record_ruby *r, pid_t pid)
{
	struct rut_record_ruby_source *s = command_source(r);

	if (s)
		rut_tracer_command_started(s->tracer, pid);
}

int rut_cli_record_ruby_start(struct rut_record_ruby *r, struct rut_err *err)
{
	for (size_t i = 0; i < r->count; i++) {
		int rc = r->sources[i].tracer ? 0 : source_start(r, &r->sources[i], err);

		if (rc && !(r->wait && (rc == -ESRCH || rc == -ENOENT)))
			return rc;
		r->alive += !rc;
	}
	r->looked_ns = rut_ring_clock();
	return 0;
}

/* Processes that a name means and that have come since: attached to like those before. */
static void look_again(struct rut_record_ruby *r)
{
	uint64_t now = rut_ring_clock();

	if (r->paused || now - r->looked_ns < LOOK_NS)
		return;
	r->looked_ns = now;
	for (size_t i = 0; i < r->count; i++) {
		struct rut_record_ruby_source *s = &r->sources[i];
		struct rut_err ignored = RUT_ERR_INIT;
		struct rut_targets found;
		struct rut_ruby_filter filter;

		if (is_pid(s) || is_command(s))
			continue;
		if (!s->tracer) {
			if (!source_start(r, s, &ignored) && r->dir)
				rut_tracer_record_to(s->tracer, r->dir, &r->clock, &ignored);
			continue;
		}
		if (!source_find(r, s, &found, &filter, &ignored))
			rut_cli_targets_attach(&found, s->tracer, NULL, &ignored);
		rut_cli_targets_fini(&found);
	}
}

static int open_dir(void *arg, const char *dir, const struct rut_trace_clock *clock,
		    struct rut_err *err)
{
	struct rut_record_ruby *r = arg;
	char *copy = strdup(dir);
	int rc = 0;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	free(r->dir);
	r->dir = copy;
	r->clock = *clock;
	for (size_t i = 0; i < r->count; i++) {
		int one = r->sources[i].tracer
				  ? rut_tracer_record_to(r->sources[i].tracer, dir, clock, err)
				  : 0;

		rc = rc ? rc : one;
	}
	return rc;
}

/* A process's table of names is bounded: a session may run for months. */
static void say_folded(struct rut_record_ruby *r)
{
	for (size_t i = 0; i < r->count && !r->folded; i++) {
		const struct rut_tracer *t = r->sources[i].tracer;

		r->folded = t && rut_tracer_rows_folded(t);
		if (r->folded)
			rut_warn("'%s': more Ruby methods than the table of names has room for: "
				 "events "
				 "of those seen last are named '(other)'; record less (--path, "
				 "--class, --method)",
				 is_command(&r->sources[i]) ? r->command[0] : r->sources[i].target);
	}
}

static int step(void *arg, struct rut_err *err)
{
	struct rut_record_ruby *r = arg;
	int first = 0;

	look_again(r);
	say_folded(r);
	r->alive = 0;
	for (size_t i = 0; i < r->count; i++) {
		int n = r->sources[i].tracer ? rut_tracer_poll(r->sources[i].tracer, 0, err) : 0;

		/* What cannot be written now is kept: no reason to end. */
		r->alive += n > 0 ? (size_t)n : n < 0;
		first = first || n >= 0 ? first : n;
	}
	return first;
}

static int close_dir(void *arg, uint64_t end_ns, struct rut_err *err)
{
	struct rut_record_ruby *r = arg;
	int first = 0;

	for (size_t i = 0; i < r->count; i++) {
		struct rut_tracer *t = r->sources[i].tracer;
		int rc;

		if (!t)
			continue;
		/* Children that began and ended since the last round. */
		rut_tracer_poll(t, 0, err);
		say_folded(r);
		rc = rut_tracer_record_end(t, end_ns, err);
		first = first ? first : rc;
	}
	return first;
}

static int snapshot(void *arg, const char *dir, const struct rut_trace_clock *clock,
		    uint64_t end_ns, struct rut_err *err)
{
	struct rut_record_ruby *r = arg;
	int rc = 0;

	for (size_t i = 0; i < r->count && !rc; i++)
		if (r->sources[i].tracer)
			rc = rut_tracer_record_snapshot(r->sources[i].tracer, dir, clock, end_ns,
							err);
	return rc;
}

static void source_end(struct rut_record_ruby_source *s)
{
	rut_tracer_free(s->tracer);
	if (s->targets)
		rut_cli_targets_fini(s->targets);
	free(s->targets);
	s->tracer = NULL;
	s->targets = NULL;
}

static void pause_all(void *arg, bool pause)
{
	struct rut_record_ruby *r = arg;
	struct rut_err err = RUT_ERR_INIT;

	r->paused = pause;
	r->looked_ns = 0;
	for (size_t i = 0; i < r->count; i++) {
		struct rut_record_ruby_source *s = &r->sources[i];

		if (pause && s->tracer) {
			rut_tracer_record_end(s->tracer, rut_ring_clock(), &err);
			source_end(s);
		} else if (!pause && !s->tracer && !source_start(r, s, &err) && r->dir) {
			rut_tracer_record_to(s->tracer, r->dir, &r->clock, &err);
		}
	}
}

/* Attaches to what was added last; a name that means no process yet is waited for. */
static int add_source(struct rut_record_ruby *r, const char *what, struct rut_err *err)
{
	struct rut_record_ruby_source *s = &r->sources[r->count];
	int rc = rut_cli_record_ruby_parse(r, what, err);

	if (rc || r->paused)
		return rc;
	rc = source_start(r, s, err);
	if ((rc == -ESRCH || rc == -ENOENT) && !is_pid(s))
		return 0;
	if (!rc && r->dir)
		rc = rut_tracer_record_to(s->tracer, r->dir, &r->clock, err);
	if (rc) {
		source_end(s);
		free(s->target);
		r->count--;
	}
	return rc;
}

/* "TARGET:EVENTS" removes what was added so; "TARGET" all of that target. */
static int remove_sources(struct rut_record_ruby *r, const char *what, struct rut_err *err)
{
	struct rut_record_ruby_source like;
	struct rut_err ignored = RUT_ERR_INIT;
	size_t kept = 0;
	int rc = parse_source(&like, what, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < r->count; i++) {
		struct rut_record_ruby_source *s = &r->sources[i];

		if (strcmp(s->target, like.target) != 0 ||
		    (s->kinds != like.kinds && strcmp(like.target, what) != 0)) {
			r->sources[kept++] = *s;
			continue;
		}
		if (s->tracer)
			rut_tracer_record_end(s->tracer, rut_ring_clock(), &ignored);
		source_end(s);
		free(s->target);
	}
	free(like.target);
	if (kept == r->count)
		return rut_err_set(err, ENOENT, "the session does not record '%s'", what);
	r->count = kept;
	return 0;
}

static int change(void *arg, bool add, const char *what, struct rut_err *err)
{
	return add ? add_source(arg, what, err) : remove_sources(arg, what, err);
}

static uint64_t complete(void *arg)
{
	const struct rut_record_ruby *r = arg;
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < r->count; i++) {
		uint64_t ns = r->sources[i].tracer
				      ? rut_tracer_record_complete(r->sources[i].tracer)
				      : UINT64_MAX;

		least = ns < least ? ns : least;
	}
	return least;
}

struct rut_companion rut_cli_record_ruby_companion(struct rut_record_ruby *r)
{
	return (struct rut_companion){.open = open_dir,
				      .step = step,
				      .close = close_dir,
				      .snapshot = snapshot,
				      .pause = pause_all,
				      .change = change,
				      .complete = complete,
				      .arg = r};
}

bool rut_cli_record_ruby_over(const struct rut_record_ruby *r)
{
	return r->count && !r->alive && !r->wait && !command_source(r);
}

/* A path that is asked for, rather than left out, takes the place of the application's. */
static bool asks_for_paths(const struct rut_words *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		if (paths->v[i][0] != '!')
			return true;
	return false;
}

/* A class that exists, with methods that are called: it is not seen why nothing came. */
static void explain_nothing(const struct rut_record_ruby *r)
{
	if ((r->classes.count || r->methods.count) && !asks_for_paths(&r->paths))
		fprintf(stderr,
			"rutile record: --class and --method choose among the methods of the "
			"application's files (rutile(1), app); those of gems need --path '*', "
			"those of evaluated text without a file --path '(eval*'\n");
}

void rut_cli_record_ruby_report(const struct rut_record_ruby *r)
{
	const struct rut_record_ruby_source *command = command_source(r);
	struct rut_record_totals sum = {0};
	char why[512];

	if (command && command->tracer && rut_tracer_untraced(command->tracer, why, sizeof(why)))
		fprintf(stderr, "rutile record: %s\n", why);
	for (size_t i = 0; i < r->count; i++) {
		struct rut_record_totals one;

		if (!r->sources[i].tracer)
			continue;
		rut_tracer_record_totals(r->sources[i].tracer, &one);
		sum.events += one.events;
		sum.bytes += one.bytes;
		sum.packets += one.packets;
		sum.lost += one.lost;
		sum.processes += one.processes;
	}
	if (r->count)
		fprintf(stderr,
			"rutile record: Ruby: %" PRIu32 " process%s, %" PRIu64
			" events, %.1f MiB in %" PRIu64 " packets, %" PRIu64 " events lost\n",
			sum.processes, sum.processes == 1 ? "" : "es", sum.events,
			(double)sum.bytes / 1048576, sum.packets, sum.lost);
	if (sum.processes && !sum.events && !sum.lost)
		explain_nothing(r);
}

static void free_words(struct rut_words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free((char *)(uintptr_t)w->v[i]);
	rut_cli_words_fini(w);
}

void rut_cli_record_ruby_leave(struct rut_record_ruby *r)
{
	for (size_t i = 0; i < r->count; i++) {
		r->sources[i].tracer = NULL;
		r->sources[i].targets = NULL;
	}
}

void rut_cli_record_ruby_fini(struct rut_record_ruby *r)
{
	for (size_t i = 0; i < r->count; i++) {
		source_end(&r->sources[i]);
		free(r->sources[i].target);
	}
	r->count = 0;
	free(r->dir);
	r->dir = NULL;
	free_words(&r->paths);
	free_words(&r->classes);
	free_words(&r->methods);
}
