/* SPDX-License-Identifier: MIT */
/*
 * `rutile top`: the tables of the analyses over what is being recorded, redrawn every second. On
 * a terminal they fill the screen; else they follow each other.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/analysis_opts.h"
#include "cli/analysis_run.h"
#include "cli/live_source.h"
#include "cli/report.h"
#include "cli/trace_open.h"
#include "output/pager.h"
#include "output/screen.h"

enum { OPT_COUNT = 1024, ANALYSES_MAX = 16 };

static const struct rut_opt options[] = {
	{"refresh", "TIME", "refresh interval (default 1s): N[s|ms]", 'r'},
	{"count", "N", "stop after N tables", OPT_COUNT},
	{"limit", "N", "rows in a list of the largest (default 5)", OPT_LIMIT},
	{"record", "EVENTS", "for a process: what to record", 'e'},
	{"cpu", "LIST", "only these CPUs", OPT_CPU},
	{"tid", "LIST", "only these threads", OPT_TID},
	{"pid", "LIST", "only these processes", OPT_PID},
	{"procname", "LIST", "only processes with these names", OPT_PROCNAME},
	{"filter", "EXPR", "count only events for which EXPR holds", OPT_FILTER},
	{"percentiles", NULL, "p50, p90, p99 and p99.9 of durations", OPT_PERCENTILES},
	{"gmt", NULL, "times in UTC, not in the local zone", OPT_GMT},
	{0},
};

struct top {
	struct rut_live_source source;
	const char *name, *record;
	uint64_t count, shown; /* tables; count 0: no end */
	bool screen, held, quit;
	struct rut_buf text; /* what is on the screen */
	struct rut_pager pager;
	size_t width;
	int write_rc;
};

/* ---- The screen ---- */

static size_t count_lines(const struct top *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->text.len; i++)
		n += t->text.data[i] == '\n';
	return n;
}

static void draw(struct top *t)
{
	_cleanup_buf_ struct rut_buf bar = RUT_BUF_INIT;
	const char *p = t->text.data;
	size_t lines, columns, y = 1;

	rut_screen_size(&lines, &columns);
	t->width = columns;
	rut_pager_bound(&t->pager, count_lines(t), lines - 1);
	rut_screen_clear();
	rut_buf_printf(&bar, "rutile top: %s%s   q quits, space pauses, arrows scroll", t->name,
		       t->held ? " (held)" : "");
	if (!bar.failed)
		rut_pager_bar(0, bar.data, columns);
	for (size_t i = 0; p && *p && y < lines; i++) {
		size_t len = strcspn(p, "\n");

		if (i >= t->pager.skip)
			rut_screen_line(y++,
					!strncmp(p, "== ", 3) ? RUT_SCREEN_BOLD : RUT_SCREEN_PLAIN,
					p, len);
		p += len + (p[len] == '\n');
	}
	rut_screen_show();
}

/* Takes the keys that wait; false: it is over. */
static bool on_idle(void *arg)
{
	struct top *t = arg;
	size_t lines, columns;
	bool changed = false;
	int key;

	if (!t->screen)
		return !t->quit;
	if (rut_screen_width(STDOUT_FILENO) != t->width) {
		rut_screen_resize();
		changed = true;
	}
	rut_screen_size(&lines, &columns);
	while ((key = rut_screen_key()) != RUT_KEY_NONE) {
		changed = true;
		if (key == 'q' || key == 'Q')
			t->quit = true;
		else if (key == ' ')
			t->held = !t->held;
		else
			rut_pager_scroll(&t->pager, key, lines > 2 ? lines - 2 : 1);
	}
	if (changed)
		draw(t);
	return !t->quit;
}

/* The tables of an interval. */
static void on_tables(struct rut_buf *text, void *arg)
{
	struct top *t = arg;

	if (t->quit || text->failed)
		return;
	t->shown++;
	if (!t->screen) {
		if (t->shown > 1)
			rut_buf_putc(text, '\n');
		if (rut_cli_write_out(text) < 0)
			t->quit = true;
	} else if (!t->held) {
		rut_buf_clear(&t->text);
		rut_buf_add(&t->text, text->data, text->len);
		draw(t);
	}
	t->quit |= t->count && t->shown >= t->count;
}

static int feed(void *arg, struct rut_err *err)
{
	return rut_cli_live_source_step(&((struct top *)arg)->source, err);
}

/* ---- The command line ---- */

static int take(void *arg, int id, const char *value)
{
	struct top *t = arg;

	if (id == 'e') {
		t->record = value;
		return -1;
	}
	if (id != OPT_COUNT)
		return -ENOENT;
	return !rut_parse_u64(value, &t->count) && t->count ? -1 : RUT_EXIT_USAGE;
}

/* Words behind the first are names of analyses. */
static int find_analyses(const struct rut_analysis_args *a, const struct rut_analysis **ret,
			 size_t *ret_n)
{
	*ret_n = 0;
	for (size_t i = 1; i < a->n_paths; i++) {
		const struct rut_analysis *found = rut_cli_report_find(a->paths[i]);

		if (!found) {
			_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;

			rut_cli_report_names(&names);
			return rut_cli_usage_error(a->cmd, "no analysis '%s': %s", a->paths[i],
						   names.data);
		}
		if (*ret_n == ANALYSES_MAX)
			return rut_cli_usage_error(a->cmd, "more than %d analyses", ANALYSES_MAX);
		ret[(*ret_n)++] = found;
	}
	return -1;
}

static int follow(struct rut_analysis_args *a, struct top *t,
		  const struct rut_analysis *const *analyses, size_t n)
{
	const struct rut_analysis_live live = {
		.feed = feed, .tables = on_tables, .idle = on_idle, .arg = t};
	static const volatile sig_atomic_t never; /* signals end us while we wait */
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_cli_live_source_open(&t->source, a->cmd, t->name, t->record, true, &never,
					  &err);

	if (rc < 0)
		return err.code ? rut_cli_fail(a->cmd, &err) : RUT_EXIT_USAGE;
	a->live = &live;
	a->follow = true;
	a->paths[0] = rut_cli_live_source_path(&t->source);
	a->n_paths = 1;
	if (!n)
		a->choose = rut_cli_report_choose;
	t->screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !rut_screen_open(&err);
	if (t->screen)
		draw(t);
	rc = rut_cli_analysis_run(a, analyses, n);
	if (t->screen)
		rut_screen_close();
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	const struct rut_analysis *analyses[ANALYSES_MAX];
	struct top t = {.text = RUT_BUF_INIT};
	struct rut_analysis_args a = {.extra = take, .extra_arg = &t};
	size_t n = 0;
	int rc;

	a.conf.stats = a.conf.usage = a.conf.brief = true;
	a.conf.refresh_ns = 1000000000;
	a.skip_validation = a.no_progress = true;
	rc = rut_cli_analysis_args_parse(&a, cmd, argc, argv);
	if (rc < 0 && !a.n_paths)
		rc = rut_cli_usage_error(cmd, "which session? See 'rutile list'");
	if (rc < 0)
		rc = find_analyses(&a, analyses, &n);
	if (rc < 0) {
		t.name = a.paths[0];
		rc = follow(&a, &t, analyses, n);
	}
	rut_cli_live_source_fini(&t.source);
	rut_buf_fini(&t.text);
	rut_cli_analysis_args_fini(&a);
	return rc;
}

const struct rut_cmd cmd_top = {
	.name = "top",
	.group = "Record",
	.summary = "show the tables of analyses every second, live",
	.usage = "[OPTIONS] SESSION|PID|NAME|relay://HOST/SESSION [ANALYSIS]...",
	.options = options,
	.run = run,
};
