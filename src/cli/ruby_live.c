/* SPDX-License-Identifier: MIT */
#include "cli/ruby_live.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/wake.h"
#include "output/screen.h"
#include "output/text.h"

enum {
	OPT_INTERVAL = RUT_OPT_OWN,
	OPT_RESET,
	OPT_SORT,
	OPT_PER_PROCESS,
	OPT_LAST,
	OPT_PERCENTILES,
	OPT_BY,
};

/* clang-format off */
#define LIVE_OPTIONS \
	{"limit", "N", "rows of a table, 0 for all (default 25; JSON: all)", 'n'}, \
	{"interval", "TIME", "refresh interval (default 1s)", OPT_INTERVAL}, \
	{"reset", "TIME", "reset the counts at this interval, 0 for never (default 5m)", OPT_RESET}, \
	{"sort", "COLUMN", "sort by this column: file, line, method, class, calls ...", OPT_SORT}, \
	{"per-process", NULL, "a row for each process instead of their sum", OPT_PER_PROCESS}, \
	{"last", NULL, "print only the last table, at the end", OPT_LAST}
/* clang-format on */

const struct rut_opt rut_cli_live_options[] = {
	LIVE_OPTIONS,
	RUT_RUBY_OPTIONS,
	{0},
};

const struct rut_opt rut_cli_calls_options[] = {
	{"by", "caller", "count methods by the line that calls them", OPT_BY},
	LIVE_OPTIONS,
	RUT_RUBY_OPTIONS,
	{0},
};

const struct rut_opt rut_cli_time_options[] = {
	{"percentiles", NULL, "show P50, P90 and P99, and a histogram of the durations",
	 OPT_PERCENTILES},
	LIVE_OPTIONS,
	RUT_RUBY_OPTIONS,
	{0},
};

/* An empty screen is shown after the first; the first rows are looked for until the second. */
static const uint64_t first_table_ns = 100 * UINT64_C(1000000);
static const uint64_t first_rows_ns = 5 * UINT64_C(1000000000);

/* When nothing was counted until then, it is asked what else there is. */
static const uint64_t look_around_ns = 700 * UINT64_C(1000000);

/* Rates over less than that say little. */
static const uint64_t rate_min_ns = 50 * UINT64_C(1000000);

void rut_cli_notice_gaps(const struct rut_cmd *cmd, const struct rut_tracer *t)
{
	enum rut_ruby_ractors ractors = rut_tracer_ractors(t);

	if (ractors == RUT_RUBY_RACTORS_UNSEEN)
		rut_cli_notice(
			cmd,
			"it runs ractors: what Ruby reports to the main one only (calls of C "
			"methods; allocations until 3.4; all calls from 4.0 on) is not counted "
			"in the others");
	if (ractors == RUT_RUBY_RACTORS_ENDED_IT)
		rut_cli_notice(cmd,
			       "counted until it began a ractor: until 3.2 Ruby crashes when one "
			       "begins while allocations are counted");
	if (rut_tracer_rows_folded(t))
		rut_cli_notice(cmd,
			       "there are more methods than the table has room for: what was seen "
			       "last is counted together as '(other)'; count less (--path, "
			       "--class, --method)");
}

const char *rut_cli_mode_name(enum rut_ruby_mode mode)
{
	static const char *const names[] = {
		[RUT_RUBY_CALLS] = "calls",
		[RUT_RUBY_TIME] = "time",
		[RUT_RUBY_OBJECTS_TOTAL] = "objects-total",
		[RUT_RUBY_OBJECTS] = "objects",
		[RUT_RUBY_ARRAYS] = "arrays",
		[RUT_RUBY_STRINGS] = "strings",
		[RUT_RUBY_TRACE] = "trace",
		[RUT_RUBY_RAISES] = "exceptions",
	};

	return names[mode];
}

int rut_cli_write_all(int fd, struct rut_buf *b)
{
	size_t at = 0;

	if (b->failed)
		return -ENOMEM;
	while (at < b->len) {
		ssize_t n = write(fd, b->data + at, b->len - at);

		if (n < 0 && errno == EINTR && !rut_cli_wake_stopped())
			continue;
		if (n < 0) {
			int rc = -errno;

			/* What was written is not written again when the caller continues. */
			memmove(b->data, b->data + at, b->len - at + 1);
			b->len -= at;
			return rc;
		}
		at += (size_t)n;
	}
	rut_buf_clear(b);
	return 0;
}

bool rut_cli_child_ended(pid_t child, int *ret_code)
{
	int status = 0;
	pid_t pid = waitpid(child, &status, WNOHANG);

	if (pid < 0 && errno == ECHILD)
		status = RUT_EXIT_FAIL << 8; /* how it ended is not known any more */
	else if (pid != child)
		return false;
	*ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

void rut_cli_live_init(struct rut_live *l, const struct rut_cmd *cmd, enum rut_ruby_mode mode)
{
	*l = (struct rut_live){
		.cmd = cmd,
		.mode = mode,
		.limit = 25,
		.interval_ns = 1000000000,
		.reset_ns = 300 * UINT64_C(1000000000),
		.begin_ns = rut_now_ns(),
		.fd = -1,
		.wake_fd = -1,
	};
}

void rut_cli_live_fini(struct rut_live *l)
{
	rut_tracer_free(l->tracer);
	rut_cli_rows_fini(&l->rows);
	rut_cli_targets_fini(&l->targets);
	rut_cli_ruby_opts_fini(&l->opts);
}

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	struct rut_live *l = arg;

	if (ev->type == RUT_RUBY_EVENT_LOST)
		l->lost += ev->lost;
}

unsigned rut_cli_live_what(const struct rut_live *l)
{
	return (l->per_process ? RUT_ROWS_PER_PROCESS : 0u) |
	       (l->percentiles && l->mode == RUT_RUBY_TIME ? RUT_ROWS_PERCENTILES : 0u);
}

static int open_tracer(struct rut_live *l, struct rut_err *err)
{
	struct rut_tracer_config config = {
		.mode = l->mode, .percentiles = rut_cli_live_what(l) & RUT_ROWS_PERCENTILES};
	int rc;

	config.by_caller = l->by_caller && l->mode == RUT_RUBY_CALLS;
	rut_cli_targets_filter(&l->targets, &l->opts, l->all, &config.filter);
	rc = rut_tracer_new(&l->tracer, &config, err);
	if (rc < 0)
		return rc;
	rut_tracer_on_event(l->tracer, on_event, l);
	rut_tracer_watch(l->tracer, l->wake_fd);
	return 0;
}

static void start_counting(struct rut_live *l)
{
	enum rut_row_column sort;

	rut_cli_rows_fini(&l->rows);
	rut_cli_rows_init(&l->rows, l->mode, rut_cli_live_what(l));
	sort = l->sort ? rut_cli_rows_find_column(l->mode, rut_cli_live_what(l), l->sort)
		       : RUT_COL_NONE;
	if (sort != RUT_COL_NONE)
		l->rows.sort = sort;
	l->count_ns = l->updated_ns = l->rated_ns = rut_now_ns();
	l->next_reset_ns = l->reset_ns ? l->count_ns + l->reset_ns : UINT64_MAX;
	l->next_ns = l->count_ns + l->interval_ns;
}

static int start(struct rut_live *l, struct rut_err *err)
{
	int rc = open_tracer(l, err);

	if (rc < 0)
		return rc;
	start_counting(l);
	if (!l->opts.command)
		return rut_cli_targets_attach(&l->targets, l->tracer,
					      l->view == &rut_cli_screen_view ? NULL : l->cmd, err);
	if (l->view == &rut_cli_screen_view)
		rut_cli_ruby_screen_hide(l);
	rc = rut_tracer_spawn(l->tracer, l->opts.command, err);
	if (l->view == &rut_cli_screen_view)
		rut_cli_ruby_screen_unhide(l);
	if (rc < 0)
		return rc;
	l->child = rc;
	return 0;
}

int rut_cli_live_restart(struct rut_live *l, struct rut_err *err)
{
	int rc;

	rut_cli_rows_fini(&l->rows);
	l->rows = (struct rut_rows){0};
	rut_tracer_free(l->tracer);
	l->tracer = NULL;
	rc = open_tracer(l, err);
	if (rc < 0)
		return rc;
	start_counting(l);
	if (l->child) {
		rut_tracer_take_command(l->tracer);
		return 0;
	}
	return rut_cli_targets_attach(&l->targets, l->tracer, NULL, err); /* not on the screen */
}

int rut_cli_live_update(struct rut_live *l, struct rut_err *err)
{
	const struct rut_ruby_row *rows = NULL;
	uint64_t now = rut_now_ns();
	uint64_t since = now - l->rated_ns;
	bool rate = since >= rate_min_ns;
	size_t count = 0;
	int rc = rut_tracer_rows(l->tracer, &rows, &count, err);

	if (rc < 0)
		return rc;
	if (rut_cli_rows_update(&l->rows, rows, count, rate ? (double)since / 1e9 : 0) < 0)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (rate)
		l->rated_ns = now;
	l->updated_ns = now;
	return 0;
}

void rut_cli_live_reset(struct rut_live *l)
{
	rut_tracer_reset(l->tracer);
	rut_cli_rows_reset(&l->rows);
	l->count_ns = l->updated_ns = l->rated_ns = rut_now_ns();
	l->next_reset_ns = l->reset_ns ? l->count_ns + l->reset_ns : UINT64_MAX;
}

static const char *word(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

static const char *what_is_counted(enum rut_ruby_mode mode, uint64_t n)
{
	return mode <= RUT_RUBY_TIME	 ? word(n, "call", "calls")
	       : mode == RUT_RUBY_RAISES ? word(n, "exception", "exceptions")
					 : word(n, "allocation", "allocations");
}

static void print_heading(struct rut_live *l, struct rut_buf *out, bool final)
{
	char time[RUT_TEXT_DURATION_SIZE];
	bool calls = l->mode <= RUT_RUBY_TIME;
	uint64_t sum = calls ? l->rows.sum_calls : l->rows.sum_count;
	size_t rows = l->rows.count;

	rut_buf_printf(out, "%s%s after %s: %" PRIu64 " %s, %zu %s", l->intervals ? "\n" : "",
		       rut_cli_mode_name(l->mode),
		       rut_text_duration(time, l->updated_ns - l->count_ns), sum,
		       what_is_counted(l->mode, sum), rows,
		       calls				   ? word(rows, "method", "methods")
		       : l->mode == RUT_RUBY_OBJECTS_TOTAL ? word(rows, "class", "classes")
							   : word(rows, "place", "places"));
	if (l->processes > 1)
		rut_buf_printf(out, ", %d processes", l->processes);
	if (l->lost)
		rut_buf_printf(out, ", %" PRIu64 " LOST", l->lost);
	if (!rut_tracer_settled(l->tracer))
		rut_buf_puts(out, ", not all code yet");
	rut_buf_puts(out, final ? " (last table)\n" : "\n");
}

/* As wide as it is, or as the terminal where that is narrower: columns give way as on the screen.
 */
static void print_table(struct rut_live *l, struct rut_buf *out)
{
	size_t heading = out->len, width = rut_screen_width(l->fd);

	rut_cli_rows_print(&l->rows, out, 0, 0, l->limit, NULL);
	/* All lines are as long as the titles, which are ASCII. */
	if (!width || out->failed || strcspn(out->data + heading, "\n") <= width)
		return;
	out->len = heading;
	rut_cli_rows_print(&l->rows, out, width, 0, l->limit, NULL);
}

void rut_cli_live_say_why(const struct rut_live *l, struct rut_buf *out)
{
	char text[512];

	if (l->mode <= RUT_RUBY_TIME && !l->rows.count && l->tracer &&
	    !rut_tracer_untraced(l->tracer, text, sizeof(text)))
		rut_cli_why_say(&l->why, &l->targets, &l->opts, l->all, l->tracer, out);
}

static int show_text(struct rut_live *l, bool final)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	if (l->last_only && !final)
		return 0;
	if (l->opts.json) {
		_cleanup_buf_ struct rut_buf why = RUT_BUF_INIT;

		rut_cli_rows_json(&l->rows, &out, l->limit_given ? l->limit : 0, l->intervals + 1,
				  final);
		if (final)
			rut_cli_live_say_why(l, &why);
		if (why.len)
			rut_cli_notice(l->cmd, "%.*s", (int)why.len - 1, why.data);
	} else {
		print_heading(l, &out, final);
		print_table(l, &out);
		if (final || l->why.measured)
			rut_cli_live_say_why(l, &out);
	}
	l->intervals++;
	return rut_cli_write_all(l->fd, &out);
}

static const struct rut_live_view text_view = {.show = show_text};

static int timeout_ms(const struct rut_live *l)
{
	uint64_t now = rut_now_ns(), until = l->next_ns;
	uint64_t end = l->opts.duration_ns ? l->begin_ns + l->opts.duration_ns : UINT64_MAX;

	if (l->next_reset_ns < until)
		until = l->next_reset_ns;
	if (end < until)
		until = end;
	if (until <= now)
		return 0;
	until = (until - now + 999999) / 1000000;
	return until > 3600000 ? 3600000 : (int)until;
}

/* Sleeps at most until something is due. Returns > 0 to go on, 0 at the end, or -errno. */
static int wait_a_bit(struct rut_live *l, int ms, struct rut_err *err)
{
	int n = rut_tracer_poll(l->tracer, ms, err);

	if (n < 0)
		return n;
	if (n)
		l->processes = n;
	l->ended = !n;
	rut_cli_wake_drain();
	if (l->view == &rut_cli_screen_view)
		rut_cli_ruby_screen_keys(l);
	if (l->child && !l->child_ended)
		l->child_ended = rut_cli_child_ended(l->child, &l->child_status);
	if (rut_cli_wake_stopped() || l->quit)
		return 0;
	if (l->opts.duration_ns && rut_now_ns() - l->begin_ns >= l->opts.duration_ns)
		return 0;
	/* A command may have started nothing yet, or be a shell that starts Ruby later. */
	return n || (l->child && !l->child_ended);
}

/* Late by more than an interval (stopped by a signal): continue from now. */
static bool interval_over(struct rut_live *l, uint64_t now)
{
	if (now < l->next_ns)
		return false;
	l->next_ns += l->interval_ns;
	if (l->next_ns <= now)
		l->next_ns = now + l->interval_ns;
	return true;
}

/*
 * The first table comes as soon as something was counted. In a very large application that is when
 * the first hooks are set; until then there are empty ones, or an empty screen.
 */
static int show_first(struct rut_live *l, struct rut_err *err)
{
	uint64_t quick = l->begin_ns + first_table_ns, until = l->begin_ns + first_rows_ns, now;
	bool shown = l->view != &rut_cli_screen_view;
	int rc;

	do {
		now = rut_now_ns();
		rc = wait_a_bit(l, now < quick ? 5 : 25, err);
		if (rc > 0)
			rc = rut_cli_live_update(l, err) < 0 ? -err->code : 1;
		if (rc <= 0)
			return rc;
		if (l->rows.count)
			break;
		if (l->mode <= RUT_RUBY_TIME && now >= l->begin_ns + look_around_ns &&
		    rut_tracer_settled(l->tracer))
			rut_cli_why_measure(&l->why, &l->targets, l->child,
					    rut_cli_why_name(&l->opts, NULL));
		if (interval_over(l, now) || (now >= quick && !shown)) {
			shown = true;
			rc = l->view->show(l, false);
		}
	} while (rc >= 0 && now < until);
	if (rc >= 0)
		rc = l->view->show(l, false);
	return rc < 0 ? rc : 1;
}

static int loop(struct rut_live *l, struct rut_err *err)
{
	int rc = show_first(l, err);

	while (rc > 0) {
		uint64_t now;

		rc = wait_a_bit(l, timeout_ms(l), err);
		if (rc <= 0)
			break;
		now = rut_now_ns();
		if (now >= l->next_reset_ns)
			rut_cli_live_reset(l);
		if (!interval_over(l, now) || l->paused)
			continue;
		rc = rut_cli_live_update(l, err);
		if (!rc)
			rc = l->view->show(l, false);
		rc = rc < 0 ? rc : 1;
	}
	return rc;
}

/* Did the reader close, or did the user end it? */
static bool ends_quietly(int rc)
{
	return rc == -EPIPE || rc == -EINTR;
}

static int finish(struct rut_live *l, int rc, struct rut_err *err)
{
	if (l->view == &rut_cli_screen_view) {
		rut_cli_ruby_screen_close(l);
		l->view = &text_view;
		l->intervals = 0;
		if (!rc && l->ended && !l->failure.code)
			rut_cli_notice(l->cmd, "%s has ended",
				       l->targets.title ? l->targets.title : "the process");
	}
	if (l->failure.code) {
		*err = l->failure;
		return -err->code;
	}
	if (!rc)
		rc = rut_cli_live_update(l, err);
	if (!rc && !l->rows.count && !l->why.near.best.count)
		rut_cli_why_look_for(&l->why, rut_cli_why_name(&l->opts, NULL), l->tracer);
	if (!rc)
		rc = l->view->show(l, true);
	rut_cli_notice_gaps(l->cmd, l->tracer);
	rut_cli_notice_untraced(l->cmd, l->tracer);
	if (ends_quietly(rc))
		return 0;
	if (rc < 0 && !err->code)
		rut_err_errno(err, -rc, "cannot write");
	return rc;
}

static bool wants_screen(const struct rut_live *l)
{
	return !l->view && !l->opts.json && !l->last_only && !l->opts.output &&
	       isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
}

int rut_cli_live_run(struct rut_live *l)
{
	struct rut_err err = RUT_ERR_INIT;
	bool screen = wants_screen(l);
	int rc;

	if (!l->view)
		l->view = &text_view;
	rc = rut_cli_targets_find(&l->targets, &l->opts, &err);
	if (!rc)
		rc = l->fd = rut_cli_ruby_opts_open(&l->opts, &err);
	if (rc >= 0)
		rc = l->wake_fd = rut_cli_wake_init(screen, &err);
	if (rc >= 0 && screen) {
		rc = rut_cli_ruby_screen_open(l, &err);
		if (rc < 0) {
			rut_cli_notice(l->cmd, "%s: tables instead of a screen", err.msg);
			err.code = 0;
			rc = 0;
		}
	}
	if (rc >= 0)
		rc = start(l, &err);
	if (rc >= 0)
		rc = finish(l, loop(l, &err), &err);
	if (l->view == &rut_cli_screen_view)
		rut_cli_ruby_screen_close(l);
	if (rc < 0)
		return rut_cli_fail(l->cmd, &err);
	if (l->child && !l->child_ended)
		l->child_ended = rut_cli_child_ended(l->child, &l->child_status);
	return l->child_ended ? l->child_status : RUT_EXIT_OK;
}

static int take_own(struct rut_live *l, struct rut_args *a, int id)
{
	switch (id) {
	case 'n':
		l->limit_given = true;
		return rut_cli_take_limit(a, &l->limit);
	case OPT_INTERVAL:
		return rut_cli_take_interval(a, &l->interval_ns);
	case OPT_RESET:
		return rut_cli_take_duration(a, "reset", &l->reset_ns);
	case OPT_SORT:
		l->sort = a->value;
		return -1;
	case OPT_PER_PROCESS:
		l->per_process = true;
		return -1;
	case OPT_BY:
		if (strcmp(a->value, "caller") != 0)
			return rut_cli_usage_error(l->cmd, "--by: '%s' is not 'caller'", a->value);
		l->by_caller = true;
		return -1;
	case OPT_PERCENTILES:
		l->percentiles = true;
		return -1;
	case OPT_LAST:
		l->last_only = true;
		return -1;
	default:
		return RUT_EXIT_USAGE;
	}
}

static int check_sort(const struct rut_live *l)
{
	const enum rut_row_column *c = rut_cli_rows_columns(l->mode, rut_cli_live_what(l));
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;

	if (!l->sort ||
	    rut_cli_rows_find_column(l->mode, rut_cli_live_what(l), l->sort) != RUT_COL_NONE)
		return -1;
	for (; *c != RUT_COL_NONE; c++)
		rut_buf_printf(&names, "%s%s", names.len ? ", " : "", rut_cli_rows_column_name(*c));
	return rut_cli_usage_error(l->cmd, "--sort: no column '%s' here: %s", l->sort, names.data);
}

int rut_cli_live_main(const struct rut_cmd *cmd, int argc, char **argv, enum rut_ruby_mode mode)
{
	struct rut_live l;
	struct rut_args a;
	int id, rc = -1;

	rut_cli_live_init(&l, cmd, mode);
	rut_cli_args_init(&a, cmd, argc, argv);
	while (rc < 0 && (id = rut_cli_args_next(&a)) != RUT_ARGS_END)
		if (!rut_cli_ruby_opts_take(&l.opts, &a, id, &rc))
			rc = take_own(&l, &a, id);
	if (rc < 0)
		rc = rut_cli_ruby_opts_check(&l.opts, cmd);
	if (rc < 0)
		rc = check_sort(&l);
	l.all = l.opts.all;
	if (rc < 0)
		rc = rut_cli_live_run(&l);
	rut_cli_live_fini(&l);
	return rc;
}
