/* SPDX-License-Identifier: MIT */
/*
 * `rutile heap`: what lives in a Ruby application. One look shows classes; with a time between two
 * looks the lines that made what came to stay.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/heap_retained.h"
#include "cli/heap_rows.h"
#include "cli/ruby_live.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "cli/wake.h"
#include "output/screen.h"
#include "output/text.h"
#include "ruby/heap.h"
#include "ruby/retained.h"
#include "ruby/tracer.h"

enum {
	OPT_DIFF = RUT_OPT_OWN,
	OPT_INTERVAL,
	OPT_BY,
	OPT_SORT,
	OPT_GC,
	OPT_RETAINED,
	OPT_WATCH,
};

static const struct rut_opt options[] = {
	{"diff", "TIME", "look twice, TIME apart, and show what grew, by line", OPT_DIFF},
	{"interval", "TIME", "the same again and again: growth since the first look", OPT_INTERVAL},
	{"duration", "TIME", "with --interval: stop after TIME (for example 10m)",
	 RUT_OPT_DURATION},
	{"gc", NULL, "collect all garbage before each look: a pause, but exact", OPT_GC},
	{"retained", NULL, "show what would be freed with an object, a class or a line",
	 OPT_RETAINED},
	{"watch", "TIME", "with --retained: note for TIME which lines allocate, first", OPT_WATCH},
	{"by", "class|line|object",
	 "rows (default class; with --diff and --interval line; with --retained object)", OPT_BY},
	{"sort", "COLUMN", "growth, bytes, count, old, gens (default growth, else bytes)",
	 OPT_SORT},
	{"limit", "N", "rows of a table, 0 for all (default 25; JSON: all)", 'n'},
	{"json", NULL, "JSON Lines, one object a row", RUT_OPT_JSON},
	{"try-newer", NULL, "inspect a Ruby that is not released, too: it may crash",
	 RUT_OPT_TRY_NEWER},
	{"output", "FILE", "write to a file", 'o'},
	{0},
};

#define MS UINT64_C(1000000)

/* Workers are found within that. */
static const uint64_t workers_ns = 100 * MS;
/* Give up a process when its threads do not return to Ruby for this long; at the end sooner. */
static const uint64_t answer_ns = 60000 * MS;
static const uint64_t last_answer_ns = 5000 * MS;

struct heap {
	const struct rut_cmd *cmd;
	struct rut_ruby_opts opts;
	struct rut_targets targets;
	struct rut_tracer *tracer; /* owned */
	uint64_t interval_ns;	   /* 0: one look */
	bool repeat, full_gc, by_line, limit_given, sort_given, retained;
	enum rut_heap_by by;
	uint64_t watch_ns; /* of --retained */
	enum rut_heap_sort sort;
	uint64_t limit;
	struct rut_heap_look first;
	uint64_t first_ns, begin_ns, looks;
	int fd;
	pid_t child; /* the command; 0: there is none */
	bool child_ended;
	int child_status;
};

/* Until the time is over, or Ctrl+C. Returns the number of processes, or -errno. */
static int wait_until(struct heap *h, uint64_t until_ns, struct rut_err *err)
{
	uint64_t now;
	int n;

	do {
		now = rut_now_ns();
		n = rut_tracer_poll(h->tracer,
				    now < until_ns ? (int)((until_ns - now) / MS) + 1 : 0, err);
		rut_cli_wake_drain();
		if (h->child && !h->child_ended)
			h->child_ended = rut_cli_child_ended(h->child, &h->child_status);
		/* A command may not be a Ruby process yet. */
	} while ((n > 0 || (n == 0 && h->child && !h->child_ended)) && now < until_ns &&
		 !rut_cli_wake_stopped());
	return n;
}

/* Until the command can be asked: its first line has not run then, or not much of it. */
static int wait_for_command(struct heap *h, struct rut_err *err)
{
	uint64_t end = rut_now_ns() + answer_ns;
	int rc = 0;

	while (rc >= 0 && !rut_tracer_heap_ask(h->tracer) && !h->child_ended &&
	       !rut_cli_wake_stopped() && rut_now_ns() < end)
		rc = wait_until(h, rut_now_ns() + 20 * MS, err);
	if (rc >= 0 && h->child_ended)
		return rut_err_set(err, ESRCH, "the command has ended, or is not Ruby");
	return rc;
}

/* All processes, or those that answer in time. */
static int look(struct heap *h, struct rut_heap_look *ret, unsigned *ret_flags, struct rut_err *err)
{
	uint64_t begin = rut_now_ns();
	bool stopped = rut_cli_wake_stopped();
	size_t asked = rut_tracer_heap_ask(h->tracer), missing;
	int n;

	if (!asked)
		return rut_err_set(err, ESRCH, "the process has ended");
	while ((missing = rut_tracer_heap_missing(h->tracer)) &&
	       rut_now_ns() - begin < (stopped ? last_answer_ns : answer_ns)) {
		if (rut_cli_wake_stopped() && !stopped)
			return -EINTR;
		n = rut_tracer_poll(h->tracer, 5, err);
		rut_cli_wake_drain();
		if (n < 0)
			return n;
	}
	if (missing == asked)
		return rut_err_set(err, ETIME,
				   "no answer: no thread of the application came back to Ruby");
	if (missing)
		rut_cli_notice(
			h->cmd,
			"%zu of %zu processes did not answer: none of their threads came back "
			"to Ruby",
			missing, asked);
	n = rut_tracer_heap_rows(h->tracer, &ret->rows, &ret->count, ret_flags, err);
	if (n || ret->count)
		return n;
	if (*ret_flags & RUT_RUBY_HEAP_RACTORS)
		return rut_err_set(err, ENOTSUP,
				   "it runs several ractors, which change the heap "
				   "while it is read: nothing is counted");
	return rut_err_set(err, ESRCH, "the process has ended");
}

static void notice_flags(const struct heap *h, unsigned flags)
{
	if (h->interval_ns && flags & RUT_RUBY_HEAP_NO_ORIGINS)
		rut_cli_notice(h->cmd,
			       "the heap was compacted, or ractors began: lines are known of "
			       "objects made since then, or of none");
	if (flags & RUT_RUBY_HEAP_ORIGINS_LOST)
		rut_cli_notice(h->cmd,
			       "the heap is too large to note where each object is made: some "
			       "have no line");
	if (flags & RUT_RUBY_HEAP_RACTORS)
		rut_cli_notice(h->cmd,
			       "processes with several ractors are left out: they change the "
			       "heap while it is read");
}

static void print_heading(const struct heap *h, const struct rut_heap_table *t, struct rut_buf *out)
{
	char time[RUT_TEXT_DURATION_SIZE];

	rut_buf_printf(out, "%sheap: %" PRIu64 " objects, %" PRIu64 " bytes", h->looks ? "\n" : "",
		       t->now.count, t->now.bytes);
	if (t->differs)
		rut_buf_printf(out, "; in %s %+" PRId64 " objects, %+" PRId64 " bytes",
			       rut_text_duration(time, rut_now_ns() - h->first_ns),
			       (int64_t)(t->now.count - t->before.count),
			       (int64_t)(t->now.bytes - t->before.bytes));
	if (t->processes > 1)
		rut_buf_printf(out, ", %zu processes", t->processes);
	if (t->left_out)
		rut_buf_printf(out, " (%zu in one look only: not counted)", t->left_out);
	rut_buf_putc(out, '\n');
}

static int show(struct heap *h, const struct rut_heap_look *before, const struct rut_heap_look *now,
		struct rut_err *err)
{
	struct rut_heap_table t = {.by_line = h->by_line, .sort = h->sort};
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	int rc = rut_cli_heap_table_build(&t, before, now);

	if (!rc && h->opts.json) {
		rut_cli_heap_table_json(&t, &out, h->limit_given ? h->limit : 0, h->looks + 1);
	} else if (!rc) {
		print_heading(h, &t, &out);
		rut_cli_heap_table_print(&t, &out, rut_screen_width(h->fd), h->limit);
	}
	rut_cli_heap_table_fini(&t);
	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	h->looks++;
	rc = rut_cli_write_all(h->fd, &out);
	return rc < 0 ? rut_err_errno(err, -rc, "cannot write") : 0;
}

/* One look, and what it says. */
static int look_and_show(struct heap *h, const struct rut_heap_look *before, struct rut_err *err)
{
	struct rut_heap_look now = {0};
	unsigned flags = 0;
	int rc = look(h, &now, &flags, err);

	if (!rc)
		rc = show(h, before, &now, err);
	if (!rc)
		notice_flags(h, flags);
	free(now.rows);
	return rc;
}

static bool over(const struct heap *h)
{
	return !h->repeat || rut_cli_wake_stopped() ||
	       (h->opts.duration_ns && rut_now_ns() - h->begin_ns >= h->opts.duration_ns);
}

static int retained(struct heap *h, struct rut_err *err)
{
	const struct rut_heap_retained r = {
		.cmd = h->cmd,
		.tracer = h->tracer,
		.by = h->by,
		.json = h->opts.json,
		.lines = h->watch_ns,
		.limit = h->limit,
		.fd = h->fd,
	};
	int rc = wait_until(h, rut_now_ns() + h->watch_ns, err);

	return rc < 0 ? rc : rut_cli_heap_retained(&r, err);
}

static int looks(struct heap *h, struct rut_err *err)
{
	unsigned flags;
	int rc = h->child ? wait_for_command(h, err) : wait_until(h, h->begin_ns + workers_ns, err);

	if (rc >= 0 && h->retained)
		return retained(h, err);
	if (rc >= 0 && !h->interval_ns)
		return look_and_show(h, NULL, err);
	if (rc >= 0)
		rc = look(h, &h->first, &flags, err);
	h->first_ns = rut_now_ns();
	for (uint64_t next = h->first_ns; rc >= 0;) {
		next += h->interval_ns;
		rc = wait_until(h, next, err);
		if (rc >= 0)
			rc = look_and_show(h, &h->first, err);
		if (rc == -ESRCH && h->looks)
			return 0; /* the target has ended */
		if (over(h))
			break;
	}
	return rc;
}

static int run_heap(struct heap *h)
{
	struct rut_tracer_config config = {
		.mode = RUT_RUBY_HEAP,
		.origins = h->interval_ns || h->watch_ns,
		.full_gc = h->full_gc,
		.graph = h->retained,
	};
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_cli_targets_find(&h->targets, &h->opts, &err), wake_fd = -1;

	config.filter.try_newer = h->opts.try_newer;
	if (rc >= 0)
		rc = h->fd = rut_cli_ruby_opts_open(&h->opts, &err);
	if (rc >= 0)
		rc = wake_fd = rut_cli_wake_init(false, &err);
	if (rc >= 0)
		rc = rut_tracer_new(&h->tracer, &config, &err);
	if (rc >= 0) {
		rut_tracer_watch(h->tracer, wake_fd);
		rc = h->opts.command ? rut_tracer_spawn(h->tracer, h->opts.command, &err)
				     : rut_cli_targets_attach(&h->targets, h->tracer, h->cmd, &err);
	}
	if (rc > 0 && h->opts.command)
		h->child = rc;
	h->begin_ns = rut_now_ns();
	if (rc >= 0)
		rc = looks(h, &err);
	if (rc >= 0)
		rut_cli_notice_gaps(h->cmd, h->tracer);
	rut_tracer_free(h->tracer);
	free(h->first.rows);
	if (rc == -EINTR)
		return RUT_EXIT_OK;
	if (rc < 0)
		return rut_cli_fail(h->cmd, &err);
	return h->child_ended ? h->child_status : RUT_EXIT_OK;
}

static int take_by(struct heap *h, const char *value)
{
	if (strcmp(value, "class") == 0)
		h->by = RUT_HEAP_BY_CLASS;
	else if (strcmp(value, "line") == 0)
		h->by = RUT_HEAP_BY_LINE;
	else if (strcmp(value, "object") == 0)
		h->by = RUT_HEAP_BY_OBJECT;
	else
		return rut_cli_usage_error(h->cmd, "--by: '%s' is not 'class', 'line' or 'object'",
					   value);
	return -1;
}

static int take_own(struct heap *h, struct rut_args *a, int id)
{
	int sort;

	switch (id) {
	case OPT_DIFF:
	case OPT_INTERVAL:
		h->repeat = id == OPT_INTERVAL;
		return rut_cli_take_duration(a, id == OPT_DIFF ? "diff" : "interval",
					     &h->interval_ns);
	case OPT_GC:
		h->full_gc = true;
		return -1;
	case OPT_RETAINED:
		h->retained = true;
		return -1;
	case OPT_WATCH:
		return rut_cli_take_duration(a, "watch", &h->watch_ns);
	case OPT_BY:
		return take_by(h, a->value);
	case OPT_SORT:
		sort = rut_cli_heap_sort_find(a->value);
		if (sort < 0)
			return rut_cli_usage_error(
				h->cmd, "--sort: no column '%s': growth, bytes, count, old, gens",
				a->value);
		h->sort = (enum rut_heap_sort)sort;
		h->sort_given = true;
		return -1;
	case 'n':
		h->limit_given = true;
		return rut_cli_take_limit(a, &h->limit);
	default:
		return RUT_EXIT_USAGE;
	}
}

/* Do the options go together? < 0, or the exit code. */
static int check_own(struct heap *h)
{
	if (h->opts.command && !h->interval_ns && !h->watch_ns)
		return rut_cli_usage_error(h->cmd,
					   "a command has no heap yet when it begins: --diff TIME "
					   "or --interval TIME says when to look again, --watch "
					   "TIME when to look with --retained");
	if (h->opts.duration_ns && !h->repeat)
		return rut_cli_usage_error(h->cmd, "--duration is for --interval");
	if (!h->retained && (h->watch_ns || h->by == RUT_HEAP_BY_OBJECT))
		return rut_cli_usage_error(h->cmd, "--watch and --by object are for --retained");
	if (h->retained && (h->interval_ns || h->sort_given))
		return rut_cli_usage_error(h->cmd,
					   "--retained goes without --diff, --interval and --sort");
	if (h->retained && h->by == RUT_HEAP_BY_LINE && !h->watch_ns)
		return rut_cli_usage_error(h->cmd,
					   "--retained --by line needs --watch TIME: lines are "
					   "known of objects that are allocated meanwhile");
	if (h->retained && !h->by)
		h->by = RUT_HEAP_BY_OBJECT;
	if (h->retained && (!h->limit || h->limit > RUT_HOLDERS_MAX))
		return rut_cli_usage_error(h->cmd, "--retained needs a --limit from 1 to %d",
					   RUT_HOLDERS_MAX);
	h->by_line = h->by ? h->by == RUT_HEAP_BY_LINE : h->interval_ns;
	return -1;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct heap h = {.cmd = cmd, .limit = 25, .fd = -1};
	struct rut_args a;
	int id, rc = -1;

	rut_text_init();
	rut_cli_args_init(&a, cmd, argc, argv);
	while (rc < 0 && (id = rut_cli_args_next(&a)) != RUT_ARGS_END)
		if (!rut_cli_ruby_opts_take(&h.opts, &a, id, &rc))
			rc = take_own(&h, &a, id);
	if (rc < 0)
		rc = rut_cli_ruby_opts_check(&h.opts, cmd);
	if (rc < 0)
		rc = check_own(&h);
	if (rc < 0)
		rc = run_heap(&h);
	rut_cli_targets_fini(&h.targets);
	rut_cli_ruby_opts_fini(&h.opts);
	return rc;
}

const struct rut_cmd cmd_heap = {
	.name = "heap",
	.group = "Ruby, live",
	.summary = "show which objects of a Ruby application live, and which lines made those that "
		   "stay",
	.usage = "[OPTIONS] TARGET... | -- COMMAND [ARGS]",
	.options = options,
	.run = run,
};
