/* SPDX-License-Identifier: MIT */
/* `rutile view`: the events of traces as text, in babeltrace2's layout, or as JSON. */
#include "cli/cmd.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/glob.h"
#include "cli/live_source.h"
#include "cli/nats_source.h"
#include "cli/trace_open.h"
#include "cli/view_print.h"
#include "stream/nats_url.h"

enum {
	OPT_EVENT = 256,
	OPT_FILTER,
	OPT_JSON,
	OPT_CYCLES,
	OPT_DATE,
	OPT_SECONDS,
	OPT_OFFSET,
	OPT_OFFSET_NS,
	OPT_NO_OFFSET,
	OPT_NO_DELTA,
	OPT_COUNT,
	OPT_THREADS,
	OPT_STACKS,
	OPT_FOLDED,
	OPT_FOLLOW,
	OPT_ROOT,
	OPT_LIVE,
};

static const struct rut_opt options[] = {
	RUT_TRACE_OPT_RANGE,
	{"event", "GLOB", "only events of this name; may be given several times", OPT_EVENT},
	{"filter", "EXPR", "only events for which EXPR holds: 'fd == 3 && $procname =* \"ruby*\"'",
	 OPT_FILTER},
	{"fields", "LIST", "only fields with these names (globs), or trace:hostname and the like",
	 'f'},
	{"names", "LIST", "names to print: payload, context, header, scope, all, none", 'n'},
	{"json", NULL, "one JSON object a line", OPT_JSON},
	{"count", NULL, "print the number of events only", OPT_COUNT},
	{"clock-cycles", NULL, "times as the tracer's clock shows them", OPT_CYCLES},
	{"clock-date", NULL, "times with their date", OPT_DATE},
	RUT_TRACE_OPT_ZONE,
	{"clock-seconds", NULL, "times in seconds since the epoch", OPT_SECONDS},
	{"clock-offset", "SECONDS", "add this to every time", OPT_OFFSET},
	{"clock-offset-ns", "NS", "add this to every time", OPT_OFFSET_NS},
	{"no-clock-offset", NULL, "ignore the clocks' offsets: times count from 0", OPT_NO_OFFSET},
	{"no-delta", NULL, "do not print the time since the previous event", OPT_NO_DELTA},
	{"stacks", NULL, "print the stacks of events, with names of functions", OPT_STACKS},
	{"follow", NULL, "wait for more events at the end of the trace, until interrupted",
	 OPT_FOLLOW},
	{"live", NULL, "print what a session records, or what a process does, until interrupted",
	 OPT_LIVE},
	{"record", "EVENTS", "with --live and a process: what to record", 'e'},
	{"folded", NULL,
	 "print each different stack once, and how often it occurred: for flame graphs",
	 OPT_FOLDED},
	{"root", "DIRS",
	 "with --stacks: look for programs and libraries below these directories first", OPT_ROOT},
	{"threads", "N", "number of formatting threads (default: one per CPU)", OPT_THREADS},
	{0},
};

enum { MAX_WORDS = 64 };

struct view {
	const struct rut_cmd *cmd;
	struct rut_trace_args args;
	struct rut_ctf_text_opts text;
	struct rut_expr *filter; /* owned */
	const char *events[MAX_WORDS];
	size_t n_events;
	const char *fields[MAX_WORDS]; /* owned */
	size_t n_fields;
	bool count_only, stacks, folded, follow, live;
	const char *roots, *record;
	struct rut_live_source source; /* with `live` */
	unsigned int threads;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

static void view_fini(struct view *v)
{
	rut_cli_trace_args_fini(&v->args);
	rut_expr_free(v->filter);
	for (size_t i = 0; i < v->n_fields; i++)
		free((char *)v->fields[i]);
}

static bool field_wanted(const char *name, void *arg)
{
	const struct view *v = arg;

	for (size_t i = 0; i < v->n_fields; i++)
		if (rut_glob_string(v->fields[i], name))
			return true;
	return false;
}

struct word {
	const char *name;
	unsigned int bits;
};

static const struct word name_words[] = {
	{"payload", RUT_CTF_NAME_PAYLOAD},
	{"args", RUT_CTF_NAME_PAYLOAD},
	{"arg", RUT_CTF_NAME_PAYLOAD},
	{"context", RUT_CTF_NAME_CONTEXT},
	{"ctx", RUT_CTF_NAME_CONTEXT},
	{"header", RUT_CTF_NAME_HEADER},
	{"scope", RUT_CTF_NAME_SCOPE},
	{"all", 15},
	{"none", 0},
	{0},
};

static const struct word show_words[] = {
	{"trace", RUT_CTF_SHOW_TRACE},
	{"trace:hostname", RUT_CTF_SHOW_HOSTNAME},
	{"trace:domain", RUT_CTF_SHOW_DOMAIN},
	{"trace:procname", RUT_CTF_SHOW_PROCNAME},
	{"trace:vpid", RUT_CTF_SHOW_VPID},
	{"loglevel", RUT_CTF_SHOW_LOGLEVEL},
	{"emf", RUT_CTF_SHOW_EMF},
	{"all", RUT_CTF_SHOW_ALL},
	{"none", 0},
	{0},
};

static const struct word *find_word(const struct word *words, const char *s, size_t len)
{
	for (; words->name; words++)
		if (strlen(words->name) == len && !strncmp(words->name, s, len))
			return words;
	return NULL;
}

/* "--names payload,context" */
static int parse_names(struct view *v, const char *list)
{
	v->text.names = 0;
	while (*list) {
		size_t len = strcspn(list, ",");
		const struct word *w = find_word(name_words, list, len);

		if (!w)
			return rut_cli_usage_error(v->cmd, "invalid kind of names '%.*s'", (int)len,
						   list);
		v->text.names |= w->bits;
		list += len + (list[len] == ',');
	}
	return 0;
}

/* "--fields trace:hostname,prev_*": babeltrace's words, and names of fields. */
static int parse_fields(struct view *v, const char *list)
{
	bool shown = false;
	unsigned int bits = 0;

	while (*list) {
		size_t len = strcspn(list, ",");
		const struct word *w = find_word(show_words, list, len);

		if (w) {
			bits |= w->bits;
			shown = true;
		} else if (v->n_fields == MAX_WORDS) {
			return rut_cli_usage_error(v->cmd, "more than %d names of fields",
						   MAX_WORDS);
		} else {
			v->fields[v->n_fields++] = strndup(list, len);
			v->text.field_wanted = field_wanted;
			v->text.arg = v;
		}
		list += len + (list[len] == ',');
	}
	if (shown)
		v->text.show = bits;
	return 0;
}

static int parse_filter(struct view *v, const char *text)
{
	struct rut_err err = RUT_ERR_INIT;

	rut_expr_free(v->filter);
	v->filter = NULL;
	if (rut_expr_parse(text, strlen(text), RUT_EXPR_FILTER, &v->filter, NULL, &err) < 0)
		return rut_cli_usage_error(v->cmd, "--filter: %s", err.msg);
	return 0;
}

static int parse_threads(struct view *v, const char *text)
{
	uint64_t n;

	if (rut_parse_u64(text, &n) < 0 || !n || n > 1024)
		return rut_cli_usage_error(v->cmd, "invalid thread count '%s'", text);
	v->threads = (unsigned int)n;
	return 0;
}

static int add_event(struct view *v, const char *value)
{
	if (v->n_events == MAX_WORDS)
		return rut_cli_usage_error(v->cmd, "more than %d names of events", MAX_WORDS);
	v->events[v->n_events++] = value;
	return 0;
}

static int add_offset(struct view *v, int id, const char *value)
{
	const char *unit = id == OPT_OFFSET ? "seconds" : "nanoseconds";
	bool bad;
	int64_t ns;
	char *end;

	if (id == OPT_OFFSET) {
		bad = rut_parse_seconds(value, &ns) < 0;
	} else {
		errno = 0;
		ns = strtoll(value, &end, 10);
		bad = errno || *end || end == value;
	}
	if (bad)
		return rut_cli_usage_error(v->cmd, "invalid number of %s '%s'", unit, value);
	v->args.set.clock_offset_ns += ns;
	return 0;
}

static int take_option(void *arg, int id, const char *value)
{
	struct view *v = arg;

	switch (id) {
	case OPT_EVENT:
		return add_event(v, value);
	case OPT_FILTER:
		return parse_filter(v, value);
	case OPT_THREADS:
		return parse_threads(v, value);
	case 'f':
		return parse_fields(v, value);
	case 'n':
		return parse_names(v, value);
	case OPT_JSON:
		v->text.json = true;
		return 0;
	case OPT_STACKS:
		v->stacks = true;
		return 0;
	case OPT_FOLLOW:
		v->follow = true;
		return 0;
	case OPT_LIVE:
		v->live = v->follow = true;
		return 0;
	case 'e':
		v->record = value;
		return 0;
	case OPT_FOLDED:
		v->stacks = v->folded = true;
		return 0;
	case OPT_ROOT:
		v->roots = value;
		return 0;
	case OPT_COUNT:
		v->count_only = true;
		return 0;
	case OPT_CYCLES:
		v->text.clock = RUT_CTF_CLOCK_CYCLES;
		return 0;
	case OPT_DATE:
		v->text.clock = RUT_CTF_CLOCK_DATE;
		return 0;
	case OPT_SECONDS:
		v->text.clock = RUT_CTF_CLOCK_SECONDS;
		return 0;
	case OPT_OFFSET:
	case OPT_OFFSET_NS:
		return add_offset(v, id, value);
	case OPT_NO_OFFSET:
		v->args.set.no_clock_offset = true;
		return 0;
	default:
		v->text.no_delta = true;
		return 0;
	}
}

static int view_set(struct view *v, struct rut_ctf_set *set, bool *ret_bad, struct rut_err *err)
{
	struct rut_view view = {
		.set = set,
		.reader = {.prefault = true, .follow = v->follow},
		.stop = &stop,
		.feed = v->live ? rut_cli_live_source_step : NULL,
		.feed_arg = &v->source,
		.text = v->text,
		.events = v->events,
		.n_events = v->n_events,
		.filter = v->filter,
		.count_only = v->count_only,
		.folded = v->folded,
		.threads = v->threads,
	};
	int rc = rut_cli_trace_range(&v->args, set, &view.reader, err);

	if (!rc && v->stacks)
		rc = rut_an_callstacks_load(&view.stacks, set, v->roots ? v->roots : "", err);
	if (!rc)
		rc = rut_cli_view_print(&view, ret_bad, err);
	rut_an_callstacks_free(view.stacks);
	*ret_bad |= rut_ctf_set_errors(set) > 0;
	return rc;
}

static int check(const struct view *v)
{
	if (v->follow && v->stacks)
		return rut_cli_usage_error(v->cmd, "--%s cannot be used with --stacks or --folded",
					   v->live ? "live" : "follow");
	if (v->follow && rut_nats_url_is(v->args.paths[0]))
		return rut_cli_usage_error(v->cmd,
					   "--%s does not follow a stream of NATS: it "
					   "reads what is stored there",
					   v->live ? "live" : "follow");
	if (v->record && !v->live)
		return rut_cli_usage_error(v->cmd, "--record needs --live");
	if (v->live && v->args.n_paths != 1)
		return rut_cli_usage_error(v->cmd, "--live follows one session or process");
	if (v->live && (v->args.begin || v->args.end))
		return rut_cli_usage_error(v->cmd, "--live begins now: no --begin, no --end");
	return -1;
}

static int view(struct view *v, bool *ret_bad, struct rut_err *err)
{
	struct rut_nats_source stored = {.alive = -1, .janitor = -1};
	struct rut_ctf_set *set = NULL;
	const char *path;
	int rc = 0;

	if (v->live) {
		rc = rut_cli_live_source_open(&v->source, v->cmd, v->args.paths[0], v->record,
					      false, &stop, err);
		v->args.set.consume = true;
		if (!rc)
			path = rut_cli_live_source_path(&v->source);
	} else {
		rc = rut_cli_nats_source_take(&stored, v->args.paths, v->args.n_paths, err);
	}
	if (!rc)
		rc = rut_ctf_set_open(&set, v->live ? &path : v->args.paths, v->args.n_paths,
				      &v->args.set, err);
	if (!rc)
		rc = view_set(v, set, ret_bad, err);
	rut_ctf_set_free(set);
	rut_cli_live_source_fini(&v->source);
	rut_cli_nats_source_fini(&stored);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct view v = {.cmd = cmd,
			 .text = {.names = RUT_CTF_NAME_PAYLOAD | RUT_CTF_NAME_CONTEXT,
				  .show = RUT_CTF_SHOW_DEFAULT}};
	struct rut_err err = RUT_ERR_INIT;
	bool bad = false;
	int rc = rut_cli_trace_args_parse(&v.args, cmd, argc, argv, take_option, &v);

	if (rc < 0)
		rc = check(&v);
	if (rc >= 0) {
		view_fini(&v);
		return rc;
	}
	v.text.gmt = v.args.gmt;
	signal(SIGPIPE, SIG_IGN);
	if (v.follow) {
		signal(SIGINT, on_signal);
		signal(SIGTERM, on_signal);
	}
	rc = view(&v, &bad, &err);
	view_fini(&v);
	if (rc < 0)
		return err.code ? rut_cli_fail(cmd, &err) : RUT_EXIT_USAGE;
	return bad ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

const struct rut_cmd cmd_view = {
	.name = "view",
	.group = "Reading traces",
	.summary = "print the events of traces, as babeltrace2 does or as JSON",
	.usage = "[OPTIONS] TRACE... | nats://SERVER/STREAM[/HOST[/SESSION]] | --live "
		 "SESSION|PID|NAME|relay://HOST/SESSION",
	.options = options,
	.run = run,
};
