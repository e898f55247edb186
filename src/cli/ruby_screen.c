/* SPDX-License-Identifier: MIT */
/*
 * The live tables as a screen: a bar that says what is shown, the table, a bar of keys. Drawing
 * reads what the loop has counted; keys change what is shown, and for another mode or filter start
 * the tracing.
 */
#include "cli/ruby_live.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/ruby_method.h"
#include "cli/wake.h"
#include "output/pager.h"
#include "output/screen.h"
#include "output/text.h"

struct screen {
	struct rut_buf table; /* as last drawn */
	struct rut_buf page;  /* a method that was opened; empty: the table is shown */
	struct rut_pager pager;
	size_t opened_skip; /* of the table, while a method is shown */
	int child_out;	    /* what the command that we started writes; -1: none */
	int saved[3];
};

static const char help_text[] =
	"\n"
	"  q        quit                     space, p  pause and go on\n"
	"  s, S     sort by the next column, the one before\n"
	"  i        reverse the order        r         reset: count from zero\n"
	"  /        show only rows with this text (Enter; Esc shows all)\n"
	"  arrows, Page Up, Page Down, Home, End     choose a row, scroll\n"
	"  Enter    open a method: its callers, and what it calls, as a tree with times\n"
	"  t        trace it for a second: calls with their arguments; Backspace returns\n"
	"  x        record two seconds with the kernel's events, explain the slowest call\n"
	"  m, M     next mode, the one before\n"
	"  1 ... 6  calls, time, objects-total, objects, arrays, strings\n"
	"  a        the application only, or all files\n"
	"  c        methods written in C too, or not\n"
	"  P        a row for each process, or all added up\n"
	"  h, ?     this help\n"
	"\n"
	"  Any key returns.\n";

/* The command's output would spoil the screen: it is kept, and shown when the screen is closed. */
void rut_cli_ruby_screen_hide(struct rut_live *l)
{
	struct screen *s = l->view_data;
	_cleanup_close_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	s->child_out = memfd_create("rutile-output", MFD_CLOEXEC);
	for (int fd = 0; fd < 3; fd++) {
		s->saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (s->saved[fd] >= 0)
			dup2(fd ? s->child_out : null, fd);
	}
}

void rut_cli_ruby_screen_unhide(struct rut_live *l)
{
	struct screen *s = l->view_data;

	for (int fd = 0; fd < 3; fd++) {
		if (s->saved[fd] < 0)
			continue;
		dup2(s->saved[fd], fd);
		close(s->saved[fd]);
	}
}

int rut_cli_ruby_screen_open(struct rut_live *l, struct rut_err *err)
{
	struct screen *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_screen_open(err);
	if (rc < 0) {
		free(s);
		return rc;
	}
	s->child_out = -1;
	l->view_data = s;
	l->view = &rut_cli_screen_view;
	return 0;
}

/* The end of what the command wrote, that much and no more. */
enum { CHILD_OUTPUT_MAX = 64 << 10 };

static void show_child_output(struct screen *s)
{
	off_t size = s->child_out < 0 ? 0 : lseek(s->child_out, 0, SEEK_END);
	off_t from = size > CHILD_OUTPUT_MAX ? size - CHILD_OUTPUT_MAX : 0;
	_cleanup_free_ char *text = size > 0 ? malloc(CHILD_OUTPUT_MAX) : NULL;
	ssize_t n = text ? pread(s->child_out, text, CHILD_OUTPUT_MAX, from) : 0;

	if (from)
		printf("(the last %d KiB of the command's output)\n", CHILD_OUTPUT_MAX >> 10);
	if (n > 0)
		fwrite(text, 1, (size_t)n, stdout);
	fflush(stdout);
}

void rut_cli_ruby_screen_close(struct rut_live *l)
{
	struct screen *s = l->view_data;

	if (!s)
		return;
	rut_screen_close();
	show_child_output(s);
	rut_closep(&s->child_out);
	rut_buf_fini(&s->table);
	rut_buf_fini(&s->page);
	free(s);
	l->view_data = NULL;
}

/* "1s", "90s", "250ms": what the user asked for, without decimals that he did not. */
static void add_interval(struct rut_buf *b, uint64_t ns)
{
	char text[RUT_TEXT_DURATION_SIZE];

	if (ns && ns % 1000000000 == 0)
		rut_buf_printf(b, "%" PRIu64 "s", ns / 1000000000);
	else
		rut_buf_puts(b, rut_text_duration(text, ns));
}

/* What changes comes first; the title, which may be long, at the end. */
static void draw_status(struct rut_live *l, size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	bool calls = l->mode <= RUT_RUBY_TIME;

	rut_buf_printf(&text, " %s%s%s  %" PRIu64 " %s in %" PRIu64 "s  every ",
		       l->paused ? "PAUSED  " : "",
		       rut_tracer_settled(l->tracer) ? "" : "NOT ALL CODE YET  ",
		       rut_cli_mode_name(l->mode), calls ? l->rows.sum_calls : l->rows.sum_count,
		       calls			    ? "calls"
		       : l->mode == RUT_RUBY_RAISES ? "exceptions"
						    : "allocations",
		       (l->updated_ns - l->count_ns) / 1000000000);
	add_interval(&text, l->interval_ns);
	rut_buf_printf(&text, "  %s%s  by %s%s  lost %" PRIu64 "  %d process%s  %s",
		       l->all ? "all" : "app", l->opts.c_calls ? "+C" : "",
		       rut_cli_rows_column_name(l->rows.sort), l->rows.reverse ? " reversed" : "",
		       l->lost, l->processes, l->processes == 1 ? "" : "es",
		       l->targets.title ? l->targets.title : "");
	if (l->targets.count > 1)
		rut_buf_printf(&text, " and %zu more", l->targets.count - 1);
	if (!text.failed)
		rut_pager_bar(0, text.data, columns);
}

static void show_page_keys(const struct rut_pager *p, struct rut_buf *out)
{
	rut_buf_puts(out, " Backspace goes back");
	rut_pager_position(p, out);
	rut_buf_puts(out, "  q quit  h help");
}

static void draw_bottom(const struct screen *s, size_t y, size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	const struct rut_pager *p = &s->pager;

	if (s->page.len)
		show_page_keys(&s->pager, &text);
	else if (p->typing)
		rut_buf_printf(&text, " filter: %s_", p->filter);
	else if (p->filter[0])
		rut_buf_printf(&text, " rows with '%s'   /filter  q quit  h help", p->filter);
	else
		rut_buf_puts(&text,
			     " q quit  h help  Enter opens  t trace  x explain  s sort  / filter  "
			     "p pause  m mode  r reset  a app/all");
	if (!text.failed)
		rut_pager_bar(y, text.data, columns);
}

static size_t matching_rows(const struct rut_live *l, const struct screen *s)
{
	size_t n = 0;

	for (size_t i = 0; i < l->rows.count; i++)
		n += rut_cli_row_matches(&l->rows.order[i]->r, s->pager.filter);
	return n;
}

/* The row that the cursor is on; NULL: there is none, or it is not a method's. */
static const struct rut_ruby_row *chosen(const struct rut_live *l, const struct screen *s)
{
	size_t n = 0;

	for (size_t i = 0; i < l->rows.count; i++) {
		const struct rut_ruby_row *r = &l->rows.order[i]->r;

		if (rut_cli_row_matches(r, s->pager.filter) && n++ == s->pager.cursor)
			return r->method_name ? r : NULL;
	}
	return NULL;
}

static void draw_table(struct rut_live *l, struct screen *s, size_t lines, size_t columns,
		       size_t rows)
{
	size_t page = lines > 3 ? lines - 3 : 1, at;

	rut_pager_bound_cursor(&s->pager, rows, page);
	rut_buf_clear(&s->table);
	rut_cli_rows_print(&l->rows, &s->table, columns, s->pager.skip, page, s->pager.filter);
	rut_pager_lines(s->table.data, 1, lines - 1, columns, true);
	at = s->pager.cursor - s->pager.skip + 1;
	if (rows && s->table.data && at + 1 < lines)
		rut_pager_cursor(s->table.data, at, at + 1, columns);
}

static void draw(struct rut_live *l)
{
	struct screen *s = l->view_data;
	size_t lines, columns, rows = matching_rows(l, s);

	rut_screen_size(&lines, &columns);
	rut_screen_clear();
	draw_status(l, columns);
	if (s->pager.help) {
		rut_pager_lines(help_text, 1, lines - 1, columns, false);
	} else if (s->page.len) {
		rut_pager_page(&s->pager, s->page.data, lines, columns);
	} else {
		draw_table(l, s, lines, columns, rows);
	}
	if (!rows && !s->pager.help && !s->page.len) {
		const char *empty =
			l->rows.count ? "  No row has this text." : "  Nothing counted yet.";
		_cleanup_buf_ struct rut_buf why = RUT_BUF_INIT;

		rut_screen_line(3, RUT_SCREEN_PLAIN, empty, strlen(empty));
		if (l->why.measured)
			rut_cli_live_say_why(l, &why);
		if (why.len)
			rut_pager_lines(why.data, 5, lines - 1, columns, false);
	}
	if (lines > 1)
		draw_bottom(s, lines - 1, columns);
	rut_screen_show();
}

static int show(struct rut_live *l, bool final)
{
	if (rut_cli_wake_resized())
		rut_screen_resize();
	draw(l);
	l->intervals++;
	(void) final;
	return 0;
}

const struct rut_live_view rut_cli_screen_view = {.show = show};

static void sort_by_next(struct rut_live *l, int step)
{
	const enum rut_row_column *c = rut_cli_rows_columns(l->mode, rut_cli_live_what(l));
	int n = 0, at = 0;

	for (; c[n] != RUT_COL_NONE; n++)
		if (c[n] == l->rows.sort)
			at = n;
	if (!n)
		return;
	l->rows.sort = c[(at + step + n) % n];
	rut_cli_rows_sort(&l->rows);
}

static void restart(struct rut_live *l, struct screen *s)
{
	struct rut_err err = RUT_ERR_INIT;

	s->pager.skip = s->pager.cursor = 0;
	rut_buf_clear(&s->page);
	l->paused = false;
	if (rut_cli_live_restart(l, &err) < 0) {
		/* Without a tracer there is nothing to wait for. */
		l->failure = err;
		l->quit = true;
		return;
	}
	rut_cli_live_update(l, &err);
}

static void switch_mode(struct rut_live *l, struct screen *s, int mode)
{
	if ((enum rut_ruby_mode)mode == l->mode)
		return;
	l->mode = (enum rut_ruby_mode)mode;
	restart(l, s);
}

static void toggle_pause(struct rut_live *l)
{
	l->paused = !l->paused;
	l->next_ns = rut_now_ns() + (l->paused ? l->interval_ns : 0);
}

/* Blocks for the seconds that it takes; counting continues meanwhile. */
static void open_method(struct rut_live *l, struct screen *s, enum rut_method_look look)
{
	const struct rut_ruby_row *row = chosen(l, s);
	struct rut_err err = RUT_ERR_INIT;
	size_t height, columns;

	if (!row)
		return;
	rut_screen_size(&height, &columns);
	rut_pager_bar(height ? height - 1 : 0,
		      look == RUT_METHOD_EXPLAIN ? " recording, and explaining ..."
						 : " tracing for a second ...",
		      columns);
	rut_screen_show();
	s->opened_skip = s->pager.skip;
	s->pager.skip = 0;
	rut_buf_clear(&s->page);
	if (rut_cli_ruby_method(l, row, look, columns, &s->page, &err) < 0)
		rut_buf_printf(&s->page, "\n%s\n", err.msg);
}

/* True while a method is shown, and the key is for it. */
static bool page_key(struct screen *s, int key, size_t page)
{
	if (!s->page.len || key == 'q' || key == 'Q')
		return false;
	if (key != RUT_KEY_BACKSPACE && key != RUT_KEY_ESCAPE) {
		rut_pager_key(&s->pager, key, page);
		return true;
	}
	rut_buf_clear(&s->page);
	s->pager.skip = s->opened_skip;
	return true;
}

static void command_key(struct rut_live *l, struct screen *s, int key)
{
	size_t lines, columns, page;

	rut_screen_size(&lines, &columns);
	page = lines > 4 ? lines - 4 : 1;
	if (page_key(s, key, page) || rut_pager_cursor_key(&s->pager, key, page))
		return;
	switch (key) {
	case RUT_KEY_ENTER:
		open_method(l, s, RUT_METHOD_TREE);
		break;
	case 't':
		open_method(l, s, RUT_METHOD_LINES);
		break;
	case 'x':
		open_method(l, s, RUT_METHOD_EXPLAIN);
		break;
	case 'q':
	case 'Q':
		l->quit = true;
		break;
	case ' ':
	case 'p':
		toggle_pause(l);
		break;
	case 's':
	case 'S':
		sort_by_next(l, key == 's' ? 1 : -1);
		break;
	case 'i':
		l->rows.reverse = !l->rows.reverse;
		rut_cli_rows_sort(&l->rows);
		break;
	case 'r':
		rut_cli_live_reset(l);
		l->next_ns = rut_now_ns();
		break;
	case 'm':
		switch_mode(l, s, (l->mode + 1) % RUT_RUBY_TRACE);
		break;
	case 'M':
		switch_mode(l, s, (l->mode + RUT_RUBY_TRACE - 1) % RUT_RUBY_TRACE);
		break;
	case '1' ... '6':
		switch_mode(l, s, key - '1');
		break;
	case 'a':
		l->all = !l->all;
		restart(l, s);
		break;
	case 'c':
		l->opts.c_calls = !l->opts.c_calls;
		restart(l, s);
		break;
	case 'P':
		l->per_process = !l->per_process;
		restart(l, s);
		break;
	default:
		rut_pager_key(&s->pager, key, page);
	}
}

void rut_cli_ruby_screen_keys(struct rut_live *l)
{
	struct screen *s = l->view_data;
	bool changed = rut_cli_wake_resized();
	int key;

	if (changed)
		rut_screen_resize();
	while (!l->quit && (key = rut_screen_key()) != RUT_KEY_NONE) {
		changed = true;
		if (!rut_pager_takes(&s->pager, key))
			command_key(l, s, key);
	}
	if (changed && !l->quit && l->intervals)
		draw(l);
}
