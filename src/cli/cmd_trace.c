/* SPDX-License-Identifier: MIT */
/*
 * `rutile trace`: every call, exception or slow call as a line.
 *
 * Events are formatted into one buffer, which is written when it is large or when no event waits.
 * While a reader of our pipe is slow we are blocked in write(2), the rings fill up, and what does
 * not fit is counted there and said here: the target itself never waits.
 */
#include "cli/cmd_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ruby_live.h"
#include "cli/ruby_why.h"
#include "cli/trace_print.h"
#include "cli/trace_slow.h"
#include "cli/wake.h"

enum {
	OPT_TREE = RUT_OPT_OWN,
	OPT_TIME,
	OPT_RETURNS,
	OPT_THREAD,
	OPT_ARGS,
	OPT_BACKTRACE,
	OPT_SLOW,
	OPT_INSIDE,
	OPT_ALL_CLASSES,
	OPT_RING,
};

static const struct rut_opt options[] = {
	{"tree", NULL, "indent by depth, with durations", OPT_TREE},
	{"time", NULL, "print the time of day before each line", OPT_TIME},
	{"returns", NULL, "a line for each return, with the return value and the duration",
	 OPT_RETURNS},
	{"thread", NULL, "process and thread before each line", OPT_THREAD},
	{"args", NULL, "the values of the arguments", OPT_ARGS},
	{"backtrace", NULL, "print the Ruby stack below each call and exception", OPT_BACKTRACE},
	{"slow", "TIME",
	 "only calls slower than TIME (10ms), with their callers or (--tree) their tree", OPT_SLOW},
	{"inside", "METHOD", "only what happens below 'Class#name' or 'Class.name'", OPT_INSIDE},
	{"all-classes", NULL, "include String, Array, Kernel and similar classes", OPT_ALL_CLASSES},
	{"ring", "SIZE", "buffer of each process: 4M, 16M", OPT_RING},
	RUT_RUBY_OPTIONS,
	{0},
};

/* What foreman-tracer leaves out of a trace: much noise, little news. */
static const char *const quiet_classes[] = {
	"!Foreman::Logging*",
	"!Foreman::Gettext*",
	"!Foreman::ThreadSession*",
	"!Proxy::Log*",
	"!Kernel",
	"!String",
	"!Symbol",
	"!NilClass",
	"!Time",
	"!Array",
	"!Hash",
	"!Enumerable",
	"!Fixnum",
	"!Integer",
	"!Rational",
	"!Numeric",
	"!Float",
	"!Regexp",
	"!Module",
	"!Class",
	"!Thread",
	"!Mutex",
	"!Thread::Mutex",
	"!IO",
};

/* Enough that a write is cheap per line, and that a reader of the pipe has something to do. */
static const size_t write_bytes = 64 << 10;

/* When nothing has come until then, it is asked what else there is. */
static const uint64_t look_around_ns = 700 * UINT64_C(1000000);

struct sink {
	struct rut_trace_print print;
	struct rut_trace_slow slow; /* with --slow and --tree */
	bool by_tree;
	struct rut_why why; /* ... nothing comes */
	int fd;
	int error; /* of the last write */
};

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	struct sink *s = arg;

	if (s->error)
		return;
	if (s->by_tree)
		rut_cli_trace_slow_event(&s->slow, ev);
	else
		rut_cli_trace_print_event(ev, &s->print);
	if (s->print.out.len >= write_bytes)
		s->error = rut_cli_write_all(s->fd, &s->print.out);
}

static int begin(struct rut_trace *t, struct rut_tracer *tracer, pid_t *ret_child,
		 struct rut_err *err)
{
	int rc;

	if (!t->opts.command)
		return rut_cli_targets_attach(&t->targets, tracer, t->cmd, err);
	rc = rut_tracer_spawn(tracer, t->opts.command, err);
	if (rc < 0)
		return rc;
	*ret_child = rc;
	return 0;
}

/* Until the targets end, the time is over, a signal comes, or the reader closes. */
static int follow(struct rut_trace *t, struct rut_tracer *tracer, struct sink *s, pid_t child,
		  int *ret_code, struct rut_err *err)
{
	uint64_t begin_ns = rut_now_ns();
	uint64_t end = t->opts.duration_ns ? begin_ns + t->opts.duration_ns : UINT64_MAX;
	bool ended = false;
	uint64_t seen = 0;

	while (!rut_cli_wake_stopped() && !s->error) {
		uint64_t now = rut_now_ns();
		int n;

		if (now >= end)
			break;
		n = rut_tracer_poll(tracer,
				    end - now < 200000000 ? (int)((end - now) / 1000000) + 1 : 200,
				    err);
		if (n < 0)
			return n;
		rut_cli_wake_drain();
		if (s->print.events == seen)
			rut_cli_trace_print_flush(&s->print);
		seen = s->print.events;
		if (!s->error && s->print.out.len)
			s->error = rut_cli_write_all(s->fd, &s->print.out);
		if (child && !ended)
			ended = rut_cli_child_ended(child, ret_code);
		if (!n && (!child || ended))
			break;
		if (!s->print.events && !t->slow_ns && now - begin_ns >= look_around_ns &&
		    rut_tracer_settled(tracer))
			rut_cli_why_measure(&s->why, &t->targets, child,
					    rut_cli_why_name(&t->opts, t->inside));
	}
	return 0;
}

static void say_why(const struct rut_trace *t, struct rut_tracer *tracer, struct sink *s)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char ignored[512];

	if (t->slow_ns || rut_tracer_untraced(tracer, ignored, sizeof(ignored)))
		return;
	if (!s->why.near.best.count)
		rut_cli_why_look_for(&s->why, rut_cli_why_name(&t->opts, t->inside), tracer);
	if (t->inside) {
		rut_buf_printf(&text, "no call of --inside '%s'", t->inside);
		rut_cli_near_say(&s->why.near, &text);
		rut_buf_putc(&text, '\n');
	} else {
		rut_cli_why_say(&s->why, &t->targets, &t->opts, t->opts.all, tracer, &text);
	}
	if (text.len)
		rut_cli_notice(t->cmd, "%.*s", (int)text.len - 1, text.data);
}

static int run_traced(struct rut_trace *t, struct rut_tracer *tracer, struct sink *s, int *ret_code,
		      struct rut_err *err)
{
	pid_t child = 0;
	int rc;

	rut_tracer_on_event(tracer, on_event, s);
	rut_tracer_watch(tracer, t->wake_fd);
	rc = begin(t, tracer, &child, err);
	if (rc < 0)
		return rc;
	rut_cli_trace_print_started(&s->print, time(NULL));
	s->error = rut_cli_write_all(s->fd, &s->print.out);
	rc = follow(t, tracer, s, child, ret_code, err);
	if (rc < 0)
		return rc;
	/* What happened until now and is still in the rings; what comes later, while the tracer
	 * goes, is not told. */
	if (!s->error && rut_tracer_poll(tracer, 0, err) < 0)
		return -err->code;
	rut_tracer_on_event(tracer, NULL, NULL);
	rut_cli_trace_print_ended(&s->print, time(NULL));
	if (!s->error || s->error == -EINTR)
		s->error = rut_cli_write_all(s->fd, &s->print.out);
	if (s->print.lost)
		rut_cli_notice(t->cmd,
			       "%" PRIu64
			       " events were lost: trace less (--path, --class, --method), "
			       "write to a file, or enlarge --ring",
			       s->print.lost);
	rut_cli_notice_gaps(t->cmd, tracer);
	rut_cli_notice_untraced(t->cmd, tracer);
	if (!s->print.events)
		say_why(t, tracer, s);
	if (s->error && s->error != -EPIPE && s->error != -EINTR)
		return rut_err_errno(err, -s->error, "cannot write");
	return 0;
}

static int add_quiet_classes(struct rut_trace *t)
{
	int rc = 0;

	for (size_t i = 0; i < t->opts.classes.count; i++)
		if (t->opts.classes.v[i][0] != '!')
			return 0; /* --class given: show classes */
	t->opts.quiet_classes = sizeof(quiet_classes) / sizeof(*quiet_classes);
	for (size_t i = 0; i < t->opts.quiet_classes && !rc; i++)
		rc = rut_cli_words_add(&t->opts.classes, quiet_classes[i]);
	return rc;
}

static int set_up(struct rut_trace *t, struct rut_tracer **ret_tracer, struct sink *s,
		  struct rut_err *err)
{
	struct rut_tracer_config config = {
		.mode = RUT_RUBY_TRACE,
		.returns = t->style.returns || t->style.tree,
		.args = t->style.args,
		.values = t->style.returns,
		.backtraces = t->style.backtrace,
		.exceptions = !t->slow_ns || t->style.tree,
		.slow_ns = t->style.tree ? 0 : t->slow_ns,
		.inside = t->inside,
		.ring_bytes = t->ring_bytes,
	};
	int rc = rut_cli_targets_find(&t->targets, &t->opts, err);

	if (rc < 0)
		return rc;
	if (!t->all_classes && add_quiet_classes(t) < 0)
		return rut_err_set(err, ENOMEM, "out of memory");
	rut_cli_targets_filter(&t->targets, &t->opts, t->opts.all, &config.filter);
	rc = s->fd = rut_cli_ruby_opts_open(&t->opts, err);
	if (rc >= 0)
		rc = t->wake_fd = rut_cli_wake_init(false, err);
	if (rc >= 0)
		rc = rut_tracer_new(ret_tracer, &config, err);
	return rc;
}

int rut_cli_trace_run(struct rut_trace *t)
{
	struct rut_tracer *tracer = NULL;
	struct rut_err err = RUT_ERR_INIT;
	struct sink s = {.fd = -1};
	int rc, code = RUT_EXIT_OK;

	s.by_tree = t->slow_ns && t->style.tree;
	t->style.slow = t->slow_ns && !s.by_tree;
	t->style.inside = t->inside && !s.by_tree;
	t->style.json = t->opts.json;
	t->style.clock_offset_ns = rut_clock_offset_ns();
	rut_cli_trace_print_init(&s.print, &t->style);
	rut_cli_trace_slow_init(&s.slow, &s.print, t->slow_ns);
	rc = set_up(t, &tracer, &s, &err);
	if (rc >= 0)
		rc = run_traced(t, tracer, &s, &code, &err);
	rut_tracer_free(tracer);
	rut_cli_trace_slow_fini(&s.slow);
	rut_cli_trace_print_fini(&s.print);
	return rc < 0 ? rut_cli_fail(t->cmd, &err) : code;
}

void rut_cli_trace_fini(struct rut_trace *t)
{
	rut_cli_targets_fini(&t->targets);
	rut_cli_ruby_opts_fini(&t->opts);
}

static int take_own(struct rut_trace *t, struct rut_args *a, int id)
{
	switch (id) {
	case OPT_TREE:
		t->style.tree = true;
		return -1;
	case OPT_TIME:
		t->style.time = true;
		return -1;
	case OPT_RETURNS:
		t->style.returns = true;
		return -1;
	case OPT_THREAD:
		t->style.thread = true;
		return -1;
	case OPT_ARGS:
		t->style.args = true;
		return -1;
	case OPT_BACKTRACE:
		t->style.backtrace = true;
		return -1;
	case OPT_SLOW:
		id = rut_cli_take_duration(a, "slow", &t->slow_ns);
		if (id < 0 && !t->slow_ns)
			return rut_cli_usage_error(t->cmd, "--slow: the time must be more than 0");
		return id;
	case OPT_INSIDE:
		t->inside = a->value;
		return -1;
	case OPT_ALL_CLASSES:
		t->all_classes = true;
		return -1;
	case OPT_RING:
		if (rut_parse_size(a->value, &t->ring_bytes) < 0)
			return rut_cli_usage_error(t->cmd, "--ring: '%s' is not a size such as 4M",
						   a->value);
		return -1;
	default:
		return RUT_EXIT_USAGE;
	}
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_trace t = {.cmd = cmd};
	struct rut_args a;
	int id, rc = -1;

	rut_cli_args_init(&a, cmd, argc, argv);
	while (rc < 0 && (id = rut_cli_args_next(&a)) != RUT_ARGS_END)
		if (!rut_cli_ruby_opts_take(&t.opts, &a, id, &rc))
			rc = take_own(&t, &a, id);
	if (rc < 0)
		rc = rut_cli_ruby_opts_check(&t.opts, cmd);
	if (rc < 0 && t.slow_ns && t.style.returns && !t.style.tree)
		rc = rut_cli_usage_error(cmd, "--slow shows returned values with --tree only");
	if (rc < 0 && t.style.backtrace && (t.slow_ns || t.style.tree))
		rc = rut_cli_usage_error(cmd,
					 "--backtrace is for plain lines: --slow and --tree show "
					 "callers themselves");
	if (rc < 0)
		rc = rut_cli_trace_run(&t);
	rut_cli_trace_fini(&t);
	return rc;
}

const struct rut_cmd cmd_trace = {
	.name = "trace",
	.group = "Ruby, live",
	.summary = "print a Ruby application's calls and exceptions as they happen",
	.usage = "[OPTIONS] [app|all] TARGET... | -- COMMAND [ARGS]",
	.options = options,
	.run = run,
};
