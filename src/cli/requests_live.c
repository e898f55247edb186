/* SPDX-License-Identifier: MIT */
/*
 * The loop of `rutile requests TARGET`: events are added up as they come, and shown once an
 * interval. While the screen is paused they are still counted.
 */
#include "cli/requests_live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/abi.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/method_explain.h"
#include "cli/requests_print.h"
#include "cli/requests_running.h"
#include "cli/requests_screen.h"
#include "cli/ruby_live.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "cli/wake.h"
#include "output/screen.h"
#include "output/text.h"
#include "ruby/layers.h"
#include "ruby/tracer.h"

enum {
	OPT_INTERVAL = RUT_OPT_OWN,
	OPT_LAST,
	OPT_SORT,
	OPT_SQL_VALUES,
	OPT_RUNNING,
	OPT_EXPLAIN,
	OPT_REQUEST,
};

const struct rut_opt rut_cli_requests_live_options[] = {
	{"interval", "TIME", "live: refresh interval (default 1s)", OPT_INTERVAL},
	{"duration", "TIME", "live: stop after TIME (for example 10s, 2m)", RUT_OPT_DURATION},
	{"sort", "COLUMN", "live: time (default), count, errors, p50, p95, p99, max, rate, route",
	 OPT_SORT},
	{"last", NULL, "live: print only the last table, at the end", OPT_LAST},
	{"sql-values", NULL, "live: show SQL with its values", OPT_SQL_VALUES},
	{"json", NULL, "live: JSON Lines, an object for each route and running request",
	 RUT_OPT_JSON},
	{"output", "FILE", "live: write to a file", 'o'},
	{"limit", "N", "at most N rows (live: default 25, 0 for all)", 'n'},
	{"running", NULL, "print the running requests, and exit", OPT_RUNNING},
	{"explain", NULL, "with --running: what each of them waits for", OPT_EXPLAIN},
	{"request", "METHOD", "with --running: 'Class#method' (a glob) is a request", OPT_REQUEST},
	{0},
};

struct live {
	const struct rut_cmd *cmd;
	struct rut_ruby_opts opts;
	struct rut_targets targets;
	struct rut_tracer *tracer; /* owned */
	struct rut_live_requests requests;
	struct rut_requests_screen screen;
	bool on_screen, last_only, sql_values, running, explain;
	const char *request; /* of --running */
	uint64_t limit, interval_ns, begin_ns, next_ns, tables;
	int fd, wake_fd, processes;
	pid_t child;
	bool child_ended;
	int child_status;
};

static void on_request(const struct rut_ruby_request *ev, void *arg)
{
	struct live *l = arg;

	rut_cli_live_requests_add(&l->requests, ev);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void status(const struct live *l, uint64_t now_ns, struct rut_buf *out)
{
	const struct rut_live_requests *r = &l->requests;
	char time[RUT_TEXT_DURATION_SIZE];

	rut_buf_printf(out,
		       "%srequests after %s: %" PRIu64 " request%s, %.1f/s, %" PRIu64
		       " error%s, %" PRIu64 " running, %d process%s",
		       l->screen.paused ? "PAUSED  " : "",
		       rut_text_duration(time, now_ns - r->begin_ns), r->count, plural(r->count),
		       r->per_second, r->errors, plural(r->errors), r->nrunning, l->processes,
		       l->processes == 1 ? "" : "es");
	if (r->lost)
		rut_buf_printf(out, ", %" PRIu64 " LOST", r->lost);
	if (!rut_tracer_settled(l->tracer))
		rut_buf_puts(out, ", not all code yet");
	if (l->on_screen)
		rut_buf_printf(out, "  by %s%s  %s",
			       rut_cli_live_requests_sort_name(l->screen.table.sort),
			       l->screen.table.reverse ? " reversed" : "",
			       l->targets.title ? l->targets.title : "");
}

static void print_text(struct live *l, uint64_t now_ns, bool final, struct rut_buf *out)
{
	size_t width = rut_screen_width(l->fd);

	if (l->tables)
		rut_buf_putc(out, '\n');
	status(l, now_ns, out);
	rut_buf_puts(out, final ? " (last table)\n" : "\n");
	l->screen.table.limit = l->limit;
	l->screen.table.width = width;
	if (l->requests.nroutes)
		rut_cli_live_requests_print_routes(&l->requests, &l->screen.table, out);
	if (l->requests.nlayers) {
		rut_cli_live_requests_print_legend(&l->requests, out);
		rut_buf_putc(out, '\n');
	}
	if (l->requests.nrunning) {
		rut_buf_putc(out, '\n');
		rut_cli_live_requests_print_running(&l->requests, now_ns, 20, width, out);
	}
}

static int show(struct live *l, bool final)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	uint64_t now = rut_now_ns();

	if (l->on_screen) {
		_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;

		rut_buf_putc(&line, ' ');
		status(l, now, &line);
		if (!line.failed)
			rut_cli_requests_screen_draw(&l->screen, &l->requests, line.data, now);
		return 0;
	}
	if (l->last_only && !final)
		return 0;
	if (l->opts.json) {
		l->screen.table.limit = l->limit;
		rut_cli_live_requests_json(&l->requests, &l->screen.table, now, l->tables + 1,
					   final, &out);
	} else {
		print_text(l, now, final, &out);
	}
	l->tables++;
	return rut_cli_write_all(l->fd, &out);
}

/* Until something is due. Returns > 0 to go on, 0 at the end, or -errno. */
static int wait_a_bit(struct live *l, struct rut_err *err)
{
	uint64_t now = rut_now_ns(), until = l->next_ns;
	uint64_t end = l->opts.duration_ns ? l->begin_ns + l->opts.duration_ns : UINT64_MAX;
	int n;

	until = end < until ? end : until;
	n = rut_tracer_poll(l->tracer, until > now ? (int)((until - now + 999999) / 1000000) : 0,
			    err);
	if (n < 0)
		return n;
	if (n)
		l->processes = n;
	rut_cli_wake_drain();
	if (l->on_screen)
		rut_cli_requests_screen_keys(&l->screen);
	if (l->child && !l->child_ended)
		l->child_ended = rut_cli_child_ended(l->child, &l->child_status);
	if (rut_cli_wake_stopped() || l->screen.quit || rut_now_ns() >= end)
		return 0;
	return n || (l->child && !l->child_ended);
}

/* Requests are counted meanwhile. */
static bool step_on(void *arg)
{
	struct live *l = arg;
	struct rut_err err = RUT_ERR_INIT;

	return rut_tracer_poll(l->tracer, 0, &err) >= 0;
}

/* Blocks for seconds. */
static void answer(struct live *l)
{
	const struct rut_method_idle idle = {step_on, l};
	struct rut_requests_screen *s = &l->screen;
	const char *route = s->open[0] ? s->open : s->chosen;
	_cleanup_buf_ struct rut_buf page = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	bool trace = s->ask == 't';
	size_t len;

	s->ask = 0;
	if (!trace && l->requests.nrunning) {
		rut_cli_hangs_page(&l->targets, l->opts.try_newer, &page);
		rut_buf_putc(&page, '\n');
	}
	len = page.len;
	if (*route && l->targets.count) {
		rut_cli_requests_screen_wait(trace ? " recording two seconds ..."
						   : " recording, and explaining ...");
		if (rut_cli_route_explain(l->targets.pids[0], route, trace, &idle, &page, &err) < 0)
			rut_buf_printf(&page, "\n%s\n", err.msg);
		else if (page.len == len)
			rut_buf_printf(&page, "No request of '%s' has ended in two seconds.\n",
				       route);
	} else if (!page.len) {
		rut_buf_puts(&page, "No request runs, and none has ended yet.\n");
	}
	rut_buf_clear(&s->page);
	rut_buf_puts(&s->page, page.failed ? "out of memory" : page.data);
	s->pager.skip = 0;
	s->dirty = true;
}

static int loop(struct live *l, struct rut_err *err)
{
	int rc;

	l->next_ns = l->begin_ns + l->interval_ns;
	while ((rc = wait_a_bit(l, err)) > 0) {
		uint64_t now = rut_now_ns();
		bool due = now >= l->next_ns;

		if (l->screen.reset)
			rut_cli_live_requests_reset(&l->requests, now);
		l->screen.reset = false;
		if (l->screen.ask)
			answer(l);
		if (!due && !l->screen.dirty)
			continue;
		if (due) {
			l->next_ns = now + l->interval_ns;
			if (!l->screen.paused)
				rut_cli_live_requests_rate(&l->requests, now, false);
		}
		if (l->screen.paused && !l->screen.dirty)
			continue;
		l->screen.dirty = false;
		rc = show(l, false);
		if (rc < 0)
			return rc;
		if (l->requests.failed)
			return rut_err_set(err, ENOMEM, "out of memory");
	}
	return rc;
}

static int start(struct live *l, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf layers = RUT_BUF_INIT;
	struct rut_tracer_config config = {.mode = RUT_RUBY_RECORD,
					   .kinds = 1u << RUT_KIND_REQUEST,
					   .sql_values = l->sql_values};
	int rc = rut_layers_config(&layers, err);

	if (rc)
		return rc;
	config.layers = layers.data;
	config.layers_len = layers.len;
	rut_cli_targets_filter(&l->targets, &l->opts, false, &config.filter);
	rc = rut_tracer_new(&l->tracer, &config, err);
	if (rc)
		return rc;
	rut_tracer_on_request(l->tracer, on_request, l);
	rut_tracer_watch(l->tracer, l->wake_fd);
	if (!l->opts.command)
		return rut_cli_targets_attach(&l->targets, l->tracer, l->on_screen ? NULL : l->cmd,
					      err);
	rc = rut_tracer_spawn(l->tracer, l->opts.command, err);
	if (rc < 0)
		return rc;
	l->child = rc;
	return 0;
}

static int finish(struct live *l, int rc, struct rut_err *err)
{
	if (l->on_screen)
		rut_screen_close();
	l->on_screen = false;
	/* What has happened up to now and is still in the rings. */
	if (!rc && rut_tracer_poll(l->tracer, 0, err) < 0)
		rc = -err->code;
	rut_tracer_on_request(l->tracer, NULL, NULL);
	l->screen.table.filter = NULL;
	l->screen.table.skip = 0;
	l->screen.paused = false;
	rut_cli_live_requests_rate(&l->requests, rut_now_ns(), true);
	if (!rc)
		rc = show(l, true);
	rut_cli_notice_untraced(l->cmd, l->tracer);
	if (!rc && !l->requests.count && !l->requests.nrunning)
		rut_cli_notice(l->cmd,
			       "no request was seen: are its entry points in the layer files "
			       "(docs/requests.md)?");
	if (rc == -EPIPE || rc == -EINTR)
		return 0;
	if (rc < 0 && !err->code)
		rut_err_errno(err, -rc, "cannot write");
	return rc;
}

static bool wants_screen(const struct live *l)
{
	return !l->opts.json && !l->last_only && !l->opts.output && !l->opts.command &&
	       isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
}

static int run(struct live *l)
{
	struct rut_err err = RUT_ERR_INIT;
	bool screen = wants_screen(l);
	int rc = rut_cli_targets_find(&l->targets, &l->opts, &err);

	if (!rc)
		rc = l->fd = rut_cli_ruby_opts_open(&l->opts, &err);
	if (rc >= 0)
		rc = l->wake_fd = rut_cli_wake_init(screen, &err);
	if (rc >= 0 && screen) {
		l->on_screen = !rut_screen_open(&err);
		if (!l->on_screen)
			rut_cli_notice(l->cmd, "%s: tables instead of a screen", err.msg);
		err.code = 0;
	}
	l->begin_ns = rut_now_ns();
	rut_cli_live_requests_init(&l->requests, l->begin_ns);
	if (rc >= 0)
		rc = start(l, &err);
	if (rc >= 0)
		rc = finish(l, loop(l, &err), &err);
	if (l->on_screen)
		rut_screen_close();
	if (rc < 0)
		return rut_cli_fail(l->cmd, &err);
	return l->child_ended ? l->child_status : RUT_EXIT_OK;
}

static int take_sort(struct live *l, const char *name)
{
	for (unsigned i = 0; i < RUT_LIVE_REQUESTS_SORTS; i++) {
		l->screen.table.sort = (enum rut_live_requests_sort)i;
		if (strcmp(rut_cli_live_requests_sort_name(l->screen.table.sort), name) == 0)
			return -1;
	}
	return rut_cli_usage_error(
		l->cmd,
		"--sort: no column '%s' here: time, count, errors, p50, p95, p99, "
		"max, rate, route",
		name);
}

static int take_own(struct live *l, struct rut_args *a, int id)
{
	switch (id) {
	case 'n':
		return rut_cli_take_limit(a, &l->limit);
	case OPT_INTERVAL:
		return rut_cli_take_interval(a, &l->interval_ns);
	case OPT_SORT:
		return take_sort(l, a->value);
	case OPT_LAST:
		l->last_only = true;
		return -1;
	case OPT_SQL_VALUES:
		l->sql_values = true;
		return -1;
	case OPT_RUNNING:
		l->running = true;
		return -1;
	case OPT_EXPLAIN:
		l->explain = true;
		return -1;
	case OPT_REQUEST:
		l->request = a->value;
		return -1;
	default:
		return RUT_EXIT_USAGE;
	}
}

static int check_running(const struct live *l)
{
	if (!l->running && l->explain)
		return rut_cli_usage_error(l->cmd, "--explain is for --running, or for a trace");
	if (!l->running && l->request)
		return rut_cli_usage_error(l->cmd, "--request is for --running, or for a trace");
	if (l->running && l->opts.command)
		return rut_cli_usage_error(l->cmd, "--running: name a process that runs");
	if (l->running && (l->opts.json || l->opts.duration_ns))
		return rut_cli_usage_error(l->cmd,
					   "--running is text, and printed once: without --json "
					   "and --duration");
	return -1;
}

int rut_cli_requests_live(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_cmd own = *cmd;
	struct live l = {.cmd = cmd, .limit = 25, .interval_ns = 1000000000, .fd = -1};
	struct rut_args a;
	int id, rc = -1;

	own.options = rut_cli_requests_live_options;
	rut_cli_args_init(&a, &own, argc, argv);
	while (rc < 0 && (id = rut_cli_args_next(&a)) != RUT_ARGS_END)
		if (!rut_cli_ruby_opts_take(&l.opts, &a, id, &rc))
			rc = take_own(&l, &a, id);
	if (rc < 0)
		rc = rut_cli_ruby_opts_check(&l.opts, cmd);
	if (rc < 0)
		rc = check_running(&l);
	if (rc < 0)
		rc = l.running ? rut_cli_requests_show_running(cmd, &l.opts, l.request, l.explain)
			       : run(&l);
	rut_tracer_free(l.tracer);
	rut_cli_requests_screen_fini(&l.screen);
	rut_cli_live_requests_fini(&l.requests);
	rut_cli_targets_fini(&l.targets);
	rut_cli_ruby_opts_fini(&l.opts);
	return rc;
}
