/* SPDX-License-Identifier: MIT */
/*
 * rutile under the name foreman-tracer: its positional arguments, its columns, its habits - a table
 * every second, counters that are reset every five minutes, C methods always included.
 */
#include "cli/foreman_tracer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cmd_trace.h"
#include "cli/ruby_live.h"
#include "output/text.h"
#include "ruby/proc.h"

static const char usage[] =
	"usage: foreman-tracer [rails|foreman|proxy|PID] [MODE] [app|all] [ENTRIES]\n"
	"\n"
	"Trace the Ruby methods and objects of Foreman, of its smart proxy, or of any Ruby "
	"process.\n"
	"\n"
	"  rails, foreman   the Foreman application (the default)\n"
	"  proxy            the Foreman smart proxy\n"
	"  PID              any Ruby process, with its children\n"
	"\n"
	"  MODE             trace (the default), calls, time, strings, arrays, objects,\n"
	"                   objects-total\n"
	"  app, all         the application's own files (the default), or all files\n"
	"  ENTRIES          rows of a table (25)\n"
	"\n"
	"This is rutile, which can do more: see 'rutile help' and foreman-tracer(1).\n";

/* What a table of foreman-tracer has; `%80s %6s %30s %6s` and so on. */
enum { TEXT_PATH, TEXT_LINE, TEXT_METHOD, TEXT_OBJECT, TEXT_AMOUNT, TEXT_END };

static const struct {
	const char *title; /* of the last column */
	struct {
		int what;
		unsigned width;
	} columns[5];
} layouts[] = {
	[RUT_RUBY_CALLS] = {"CALLS",
			    {{TEXT_PATH, 80},
			     {TEXT_LINE, 6},
			     {TEXT_METHOD, 30},
			     {TEXT_AMOUNT, 6},
			     {TEXT_END, 0}}},
	[RUT_RUBY_TIME] = {"TIME",
			   {{TEXT_PATH, 80},
			    {TEXT_LINE, 6},
			    {TEXT_METHOD, 30},
			    {TEXT_AMOUNT, 6},
			    {TEXT_END, 0}}},
	[RUT_RUBY_STRINGS] = {"COUNT",
			      {{TEXT_PATH, 90}, {TEXT_LINE, 6}, {TEXT_AMOUNT, 6}, {TEXT_END, 0}}},
	[RUT_RUBY_ARRAYS] = {"COUNT",
			     {{TEXT_PATH, 90}, {TEXT_LINE, 6}, {TEXT_AMOUNT, 6}, {TEXT_END, 0}}},
	[RUT_RUBY_OBJECTS] = {"COUNT",
			      {{TEXT_PATH, 70},
			       {TEXT_LINE, 6},
			       {TEXT_OBJECT, 40},
			       {TEXT_AMOUNT, 6},
			       {TEXT_END, 0}}},
	[RUT_RUBY_OBJECTS_TOTAL] = {"COUNT", {{TEXT_OBJECT, 110}, {TEXT_AMOUNT, 8}, {TEXT_END, 0}}},
};

static const char *title_of(enum rut_ruby_mode mode, int what)
{
	static const char *const titles[] = {
		[TEXT_PATH] = "FILENAME",
		[TEXT_LINE] = "LINE",
		[TEXT_METHOD] = "METHOD",
		[TEXT_OBJECT] = "OBJECT",
	};

	return what == TEXT_AMOUNT ? layouts[mode].title : titles[what];
}

static uint64_t amount(enum rut_ruby_mode mode, const struct rut_ruby_row *r)
{
	return mode == RUT_RUBY_CALLS  ? r->calls
	       : mode == RUT_RUBY_TIME ? r->total_ns / 1000
				       : r->count;
}

static const char *text_of(enum rut_ruby_mode mode, int what, const struct rut_ruby_row *r,
			   char number[24])
{
	const char *text = "";

	switch (what) {
	case TEXT_PATH:
		text = r->path;
		break;
	case TEXT_METHOD:
		text = r->method_name;
		break;
	case TEXT_OBJECT:
		text = r->class_name;
		break;
	case TEXT_LINE:
		snprintf(number, 24, "%" PRIu32, r->line);
		return number;
	case TEXT_AMOUNT:
		snprintf(number, 24, "%" PRIu64, amount(mode, r));
		return number;
	}
	return text ? text : "";
}

/* `r` NULL: the titles. A number is never cut, text keeps its right end. */
static void add_line(struct rut_buf *out, enum rut_ruby_mode mode, const struct rut_ruby_row *r)
{
	char number[24];

	for (size_t i = 0; layouts[mode].columns[i].what != TEXT_END; i++) {
		int what = layouts[mode].columns[i].what;
		size_t width = layouts[mode].columns[i].width;
		const char *text = r ? text_of(mode, what, r, number) : title_of(mode, what);

		if (i)
			rut_buf_putc(out, ' ');
		if ((what == TEXT_AMOUNT || what == TEXT_LINE) && strlen(text) > width)
			width = strlen(text);
		rut_text_fit(out, text, width, RUT_TEXT_RIGHT | RUT_TEXT_KEEP_RIGHT);
	}
	rut_buf_putc(out, '\n');
}

/* Its rows are by file, line and method: rows that differ by class only are added up. */
static bool same_row(enum rut_ruby_mode mode, const struct rut_ruby_row *a,
		     const struct rut_ruby_row *b)
{
	for (size_t i = 0; layouts[mode].columns[i].what != TEXT_END; i++) {
		int what = layouts[mode].columns[i].what;
		char x[24], y[24];

		if (what != TEXT_AMOUNT &&
		    strcmp(text_of(mode, what, a, x), text_of(mode, what, b, y)) != 0)
			return false;
	}
	return true;
}

static int by_columns(const void *pa, const void *pb, void *arg)
{
	const struct rut_ruby_row *a = pa, *b = pb;
	enum rut_ruby_mode mode = *(enum rut_ruby_mode *)arg;

	for (size_t i = 0; layouts[mode].columns[i].what != TEXT_END; i++) {
		int what = layouts[mode].columns[i].what, c;
		char x[24], y[24];

		if (what == TEXT_AMOUNT)
			continue;
		c = strcmp(text_of(mode, what, a, x), text_of(mode, what, b, y));
		if (c)
			return c;
	}
	return 0;
}

static int by_amount(const void *pa, const void *pb, void *arg)
{
	enum rut_ruby_mode mode = *(enum rut_ruby_mode *)arg;
	uint64_t a = amount(mode, pa), b = amount(mode, pb);

	return a != b ? (a < b) - (a > b) : by_columns(pa, pb, arg);
}

int rut_cli_foreman_table(struct rut_buf *out, enum rut_ruby_mode mode, const struct rut_rows *rows,
			  uint64_t limit)
{
	_cleanup_free_ struct rut_ruby_row *merged = calloc(rows->count + 1, sizeof(*merged));
	size_t n = 0;

	if (!merged)
		return -ENOMEM;
	for (size_t i = 0; i < rows->count; i++)
		merged[i] = rows->order[i]->r;
	qsort_r(merged, rows->count, sizeof(*merged), by_columns, &mode);
	for (size_t i = 0; i < rows->count; i++) {
		if (!n || !same_row(mode, &merged[n - 1], &merged[i])) {
			merged[n++] = merged[i];
			continue;
		}
		merged[n - 1].calls += merged[i].calls;
		merged[n - 1].total_ns += merged[i].total_ns;
		merged[n - 1].count += merged[i].count;
	}
	qsort_r(merged, n, sizeof(*merged), by_amount, &mode);
	add_line(out, mode, NULL);
	for (size_t i = 0; i < n && i < limit; i++)
		add_line(out, mode, &merged[i]);
	return out->failed ? -ENOMEM : 0;
}

static int show(struct rut_live *l, bool final)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	int rc;

	/* On a terminal each table takes the place of the one before. */
	if (isatty(l->fd))
		rut_buf_puts(&out, "\033[1;1H\033[J");
	else if (l->intervals)
		rut_buf_putc(&out, '\n');
	rc = rut_cli_foreman_table(&out, l->mode, &l->rows, l->limit);
	l->intervals++;
	return rc < 0 ? rc : rut_cli_write_all(l->fd, &out);
}

static const struct rut_live_view view = {.show = show};

/* Arguments may come in any order; their form decides which one each is. */
struct words {
	const char *target;
	const char *mode;
	bool all;
	uint64_t entries;
};

static int parse(const struct rut_cmd *cmd, int argc, char **argv, struct words *w)
{
	*w = (struct words){.target = "rails", .mode = "trace", .entries = 25};
	if (argc > 1 && argv[1][0] && strcmp(argv[1], "foreman") != 0)
		w->target = argv[1];
	if (argc > 2 && argv[2][0])
		w->mode = argv[2];
	if (argc > 3 && argv[3][0]) {
		if (strcmp(argv[3], "app") != 0 && strcmp(argv[3], "all") != 0)
			return rut_cli_usage_error(cmd, "'%s' is neither 'app' nor 'all'", argv[3]);
		w->all = !strcmp(argv[3], "all");
	}
	if (argc > 4 && (rut_parse_u64(argv[4], &w->entries) < 0 || !w->entries))
		return rut_cli_usage_error(cmd, "'%s' is not a number of entries", argv[4]);
	if (argc > 5)
		return rut_cli_usage_error(cmd, "unexpected argument '%s'", argv[5]);
	return -1;
}

static int set_opts(struct rut_ruby_opts *o, const struct words *w)
{
	o->c_calls = true;
	o->all = w->all;
	return rut_cli_words_add(&o->targets, w->target);
}

static int run_trace(const struct rut_cmd *cmd, const struct words *w)
{
	struct rut_trace t = {.cmd = cmd};
	int rc = set_opts(&t.opts, w);

	rc = rc < 0 ? RUT_EXIT_FAIL : rut_cli_trace_run(&t);
	rut_cli_trace_fini(&t);
	return rc;
}

static int run_live(const struct rut_cmd *cmd, const struct words *w, enum rut_ruby_mode mode)
{
	struct rut_live l;
	int rc;

	rut_cli_live_init(&l, cmd, mode);
	rc = set_opts(&l.opts, w);
	l.all = w->all;
	l.limit = w->entries;
	l.view = &view;
	rc = rc < 0 ? RUT_EXIT_FAIL : rut_cli_live_run(&l);
	rut_cli_live_fini(&l);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct words w;
	int rc;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return RUT_EXIT_OK;
		}
		if (argv[i][0] == '-')
			return rut_cli_usage_error(cmd, "unknown option '%s'", argv[i]);
	}
	rc = parse(cmd, argc, argv, &w);
	if (rc >= 0)
		return rc;
	if (!strcmp(w.mode, "trace"))
		return run_trace(cmd, &w);
	for (enum rut_ruby_mode m = RUT_RUBY_CALLS; m < RUT_RUBY_TRACE; m++)
		if (!strcmp(w.mode, rut_cli_mode_name(m)))
			return run_live(cmd, &w, m);
	return rut_cli_usage_error(cmd, "unknown mode '%s'", w.mode);
}

const struct rut_cmd cmd_foreman_tracer = {
	.name = "foreman-tracer",
	.group = "Ruby, live",
	.summary = "trace Foreman with foreman-tracer's arguments and columns",
	.usage = "[rails|foreman|proxy|PID] [MODE] [app|all] [ENTRIES]",
	.run = run,
};
