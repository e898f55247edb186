/* SPDX-License-Identifier: MIT */
#include "cli/requests_screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/requests_route.h"
#include "cli/wake.h"
#include "output/screen.h"
#include "output/text.h"

static const char help_text[] =
	"\n"
	"  q        quit                     space, p  pause and go on\n"
	"  s, S     sort by the next column, the one before\n"
	"  i        reverse the order        r         reset: count from zero\n"
	"  Enter    open a route: its layers, its queries, its slowest requests\n"
	"  t        record two seconds: requests of the route, slowest first, their parts\n"
	"  x        explain what runs now, and why the slowest of two seconds was slow\n"
	"  Backspace, Esc     go back to the routes\n"
	"  /        show only routes with this text (Enter; Esc shows all)\n"
	"  arrows, Page Up, Page Down, Home, End     choose a route, scroll\n"
	"  h, ?     this help\n"
	"\n"
	"  SPENT IN is the route's time: its letters are layers, as the last line says.\n"
	"\n"
	"  Any key returns.\n";

static void bottom(const struct rut_requests_screen *s, const struct rut_live_requests *r, size_t y,
		   size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (s->pager.typing) {
		rut_buf_printf(&text, " filter: %s_", s->pager.filter);
	} else {
		bool page = s->open[0] || s->page.len;

		rut_buf_puts(&text, page ? " Backspace goes back" : " q quit  h help  Enter opens");
		if (page)
			rut_pager_position(&s->pager, &text);
		rut_buf_puts(&text, "  t trace  x explain");
		if (page)
			rut_buf_puts(&text, "  q quit  h help");
		rut_buf_puts(&text, "   ");
		rut_cli_live_requests_print_legend(r, &text);
	}
	if (!text.failed)
		rut_pager_bar(y, text.data, columns);
}

static size_t choose(struct rut_requests_screen *s, const struct rut_live_requests *r)
{
	size_t n;
	_cleanup_free_ struct rut_live_route **list = rut_cli_live_requests_routes(
		r, s->table.sort, s->table.reverse, s->pager.filter, &n);

	rut_pager_bound_cursor(&s->pager, n, s->table.limit);
	s->chosen[0] = '\0';
	if (list && n)
		snprintf(s->chosen, sizeof(s->chosen), "%s", list[s->pager.cursor]->name);
	return n;
}

static void draw_routes(struct rut_requests_screen *s, const struct rut_live_requests *r, size_t y,
			size_t height, size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	size_t rows;

	s->table.filter = s->pager.filter;
	s->table.width = columns;
	s->table.limit = height > y + 2 ? height - y - 2 : 1;
	rows = choose(s, r);
	s->table.skip = s->pager.skip;
	rut_cli_live_requests_print_routes(r, &s->table, &text);
	if (rows && !text.failed) {
		rut_pager_lines(text.data, y, height - 1, columns, true);
		rut_pager_cursor(text.data, s->pager.cursor - s->pager.skip + 1,
				 y + s->pager.cursor - s->pager.skip + 1, columns);
		return;
	}
	if (y + 1 < height)
		rut_pager_lines(r->nroutes ? "\n  No route has this text."
					   : "\n  No request has ended yet.",
				y, height - 1, columns, false);
}

static void draw_all(struct rut_requests_screen *s, const struct rut_live_requests *r,
		     uint64_t now_ns, size_t height, size_t columns)
{
	const struct rut_live_route *route = rut_cli_live_route_find(r, s->open);
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	size_t y = 1;

	if (s->page.len) {
		rut_pager_page(&s->pager, s->page.data, height, columns);
		return;
	}
	if (s->open[0]) {
		if (route)
			rut_cli_live_route_print(r, route, columns, &text);
		else
			rut_buf_puts(&text,
				     "No request of this route has ended since the reset.\n");
		if (!text.failed)
			rut_pager_page(&s->pager, text.data, height, columns);
		return;
	}
	/* What runs, in a third of the screen at most. */
	rut_cli_live_requests_print_running(r, now_ns, height / 3, columns, &text);
	if (text.len)
		y = rut_pager_lines(text.data, y, height - 1, columns, true) + 1;
	draw_routes(s, r, y, height, columns);
}

void rut_cli_requests_screen_draw(struct rut_requests_screen *s, const struct rut_live_requests *r,
				  const char *status, uint64_t now_ns)
{
	size_t height, columns;

	if (rut_cli_wake_resized())
		rut_screen_resize();
	rut_screen_size(&height, &columns);
	rut_screen_clear();
	rut_pager_bar(0, status, columns);
	if (s->pager.help)
		rut_pager_lines(help_text, 1, height - 1, columns, false);
	else
		draw_all(s, r, now_ns, height, columns);
	bottom(s, r, height - 1, columns);
	rut_screen_show();
}

void rut_cli_requests_screen_wait(const char *text)
{
	size_t height, columns;

	rut_screen_size(&height, &columns);
	rut_pager_bar(height - 1, text, columns);
	rut_screen_show();
}

void rut_cli_requests_screen_fini(struct rut_requests_screen *s)
{
	rut_buf_fini(&s->page);
}

/* True while one route or the explanation is shown. */
static bool page_key(struct rut_requests_screen *s, int key)
{
	if (!s->page.len && !s->open[0])
		return false;
	if (key == RUT_KEY_BACKSPACE || key == RUT_KEY_ESCAPE) {
		if (!s->page.len)
			s->open[0] = '\0';
		rut_buf_clear(&s->page);
		s->pager.skip = 0;
		return true;
	}
	return key != 'q' && key != 'Q' && key != 'x' && key != 't' && key != 'p' && key != ' ' &&
	       rut_pager_key(&s->pager, key, s->table.limit > 1 ? s->table.limit - 1 : 1);
}

static bool cursor_key(struct rut_requests_screen *s, int key)
{
	if (key != RUT_KEY_ENTER)
		return rut_pager_cursor_key(&s->pager, key,
					    s->table.limit > 1 ? s->table.limit - 1 : 1);
	memcpy(s->open, s->chosen, sizeof(s->open));
	s->pager.skip = 0;
	return true;
}

static void command_key(struct rut_requests_screen *s, int key)
{
	unsigned sort = s->table.sort;

	if (page_key(s, key) || (!s->open[0] && !s->page.len && cursor_key(s, key)))
		return;
	switch (key) {
	case 't':
	case 'x':
		s->ask = (char)key;
		break;
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
	default:
		rut_pager_key(&s->pager, key, s->table.limit > 1 ? s->table.limit - 1 : 1);
	}
}

void rut_cli_requests_screen_keys(struct rut_requests_screen *s)
{
	int key;

	while (!s->quit && (key = rut_screen_key()) != RUT_KEY_NONE) {
		s->dirty = true;
		if (!rut_pager_takes(&s->pager, key))
			command_key(s, key);
	}
}
