/* SPDX-License-Identifier: MIT */
#include "cli/requests_screen.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/wake.h"
#include "output/screen.h"
#include "output/text.h"

static const char help_text[] =
	"\n"
	"  q        quit                     space, p  pause and go on\n"
	"  s, S     sort by the next column, the one before\n"
	"  i        the other way round      r         reset: count from zero\n"
	"  /        show only routes with this text (Enter; Esc shows all)\n"
	"  arrows, Page Up, Page Down, Home, End     scroll\n"
	"  h, ?     this help\n"
	"\n"
	"  SPENT IN has a letter for each twentieth of a route's time in a layer.\n"
	"\n"
	"  Any key goes back.\n";

/* Draws lines of `text` from line `y` up to `last`; returns the next line. */
static size_t lines(const char *text, size_t y, size_t last, size_t columns, bool heading)
{
	_cleanup_buf_ struct rut_buf cut = RUT_BUF_INIT;

	for (bool first = heading; text && *text && y < last; y++, first = false) {
		const char *end = strchrnul(text, '\n');
		_cleanup_free_ char *line = strndup(text, (size_t)(end - text));

		rut_buf_clear(&cut);
		if (line)
			rut_text_fit(&cut, line, columns, 0);
		rut_screen_line(y, first ? RUT_SCREEN_BOLD : RUT_SCREEN_PLAIN,
				cut.data ? cut.data : "", cut.len);
		text = *end ? end + 1 : end;
	}
	return y;
}

static void bar(size_t y, const char *text, size_t columns)
{
	_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;

	rut_text_fit(&line, text, columns, 0);
	if (!line.failed)
		rut_screen_line(y, RUT_SCREEN_BAR, line.data, line.len);
}

static void bottom(const struct rut_requests_screen *s, const struct rut_live_requests *r, size_t y,
		   size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (s->typing) {
		rut_buf_printf(&text, " filter: %s_", s->filter);
	} else {
		rut_buf_puts(&text, " q quit  p pause  s sort  r reset  / filter  h help   ");
		rut_live_requests_print_legend(r, &text);
	}
	if (!text.failed)
		bar(y, text.data, columns);
}

void rut_requests_screen_draw(struct rut_requests_screen *s, const struct rut_live_requests *r,
			      const char *status, uint64_t now_ns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	size_t height, columns, y = 1, rows;

	if (rut_wake_resized())
		rut_screen_resize();
	rut_screen_size(&height, &columns);
	rut_screen_clear();
	bar(0, status, columns);
	if (s->help) {
		lines(help_text, 1, height - 1, columns, false);
		bottom(s, r, height - 1, columns);
		rut_screen_show();
		return;
	}
	/* What runs, in a third of the screen at most. */
	rut_live_requests_print_running(r, now_ns, height / 3, columns, &text);
	if (text.len) {
		y = lines(text.data, y, height - 1, columns, true) + 1;
		rut_buf_clear(&text);
	}
	s->table.filter = s->filter;
	s->table.width = columns;
	s->table.limit = height > y + 2 ? height - y - 2 : 1;
	rows = rut_live_requests_print_routes(r, &s->table, &text);
	if (s->table.skip && s->table.skip + s->table.limit > rows) {
		s->table.skip = rows > s->table.limit ? rows - s->table.limit : 0;
		rut_buf_clear(&text);
		rut_live_requests_print_routes(r, &s->table, &text);
	}
	y = lines(text.data, y, height - 1, columns, true);
	if (!rows && y + 1 < height)
		lines(r->nroutes ? "\n  No route has this text." : "\n  No request has ended yet.",
		      y, height - 1, columns, false);
	bottom(s, r, height - 1, columns);
	rut_screen_show();
}

/* While the filter is typed, keys are its text. */
static void type_key(struct rut_requests_screen *s, int key)
{
	size_t len = strlen(s->filter);

	s->table.skip = 0;
	if (key == RUT_KEY_ENTER) {
		s->typing = false;
	} else if (key == RUT_KEY_ESCAPE) {
		s->typing = false;
		s->filter[0] = '\0';
	} else if (key == RUT_KEY_BACKSPACE) {
		while (len && ((unsigned char)s->filter[len - 1] >> 6) == 2)
			len--;
		s->filter[len ? len - 1 : 0] = '\0';
	} else if (key >= ' ' && key < RUT_KEY_UP && len + 5 < sizeof(s->filter)) {
		int n = wctomb(s->filter + len, (wchar_t)key);

		s->filter[n > 0 ? len + (size_t)n : len] = '\0';
	}
}

static void scroll_key(struct rut_requests_screen *s, int key)
{
	size_t page = s->table.limit > 1 ? s->table.limit - 1 : 1;

	switch (key) {
	case RUT_KEY_DOWN:
	case 'j':
		s->table.skip++; /* drawing keeps it in bounds */
		break;
	case RUT_KEY_UP:
	case 'k':
		s->table.skip -= s->table.skip > 0;
		break;
	case RUT_KEY_PAGE_DOWN:
		s->table.skip += page;
		break;
	case RUT_KEY_PAGE_UP:
		s->table.skip -= s->table.skip < page ? s->table.skip : page;
		break;
	case RUT_KEY_HOME:
		s->table.skip = 0;
		break;
	case RUT_KEY_END:
		s->table.skip = RUT_LIVE_REQUESTS_ROUTES;
		break;
	}
}

static void command_key(struct rut_requests_screen *s, int key)
{
	unsigned sort = s->table.sort;

	switch (key) {
	case 'q':
	case 'Q':
		s->quit = true;
		break;
	case ' ':
	case 'p':
		s->paused = !s->paused;
		break;
	case 's':
		s->table.sort = (enum rut_live_requests_sort)((sort + 1) % RUT_LIVE_REQUESTS_SORTS);
		break;
	case 'S':
		s->table.sort = (enum rut_live_requests_sort)((sort + RUT_LIVE_REQUESTS_SORTS - 1) %
							      RUT_LIVE_REQUESTS_SORTS);
		break;
	case 'i':
		s->table.reverse = !s->table.reverse;
		break;
	case 'r':
		s->reset = true;
		break;
	case '/':
		s->typing = true;
		break;
	case RUT_KEY_ESCAPE:
		s->filter[0] = '\0';
		break;
	case 'h':
	case '?':
		s->help = true;
		break;
	default:
		scroll_key(s, key);
	}
}

void rut_requests_screen_keys(struct rut_requests_screen *s)
{
	int key;

	while (!s->quit && (key = rut_screen_key()) != RUT_KEY_NONE) {
		s->dirty = true;
		if (s->help)
			s->help = false;
		else if (s->typing)
			type_key(s, key);
		else
			command_key(s, key);
	}
}
