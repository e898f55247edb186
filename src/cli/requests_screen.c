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

static void bottom(const struct rut_requests_screen *s, const struct rut_live_requests *r, size_t y,
		   size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (s->pager.typing) {
		rut_buf_printf(&text, " filter: %s_", s->pager.filter);
	} else {
		rut_buf_puts(&text, " q quit  p pause  s sort  r reset  / filter  h help   ");
		rut_live_requests_print_legend(r, &text);
	}
	if (!text.failed)
		rut_pager_bar(y, text.data, columns);
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
	rut_pager_bar(0, status, columns);
	if (s->pager.help) {
		rut_pager_lines(help_text, 1, height - 1, columns, false);
		bottom(s, r, height - 1, columns);
		rut_screen_show();
		return;
	}
	/* What runs, in a third of the screen at most. */
	rut_live_requests_print_running(r, now_ns, height / 3, columns, &text);
	if (text.len) {
		y = rut_pager_lines(text.data, y, height - 1, columns, true) + 1;
		rut_buf_clear(&text);
	}
	s->table.filter = s->pager.filter;
	s->table.skip = s->pager.skip;
	s->table.width = columns;
	s->table.limit = height > y + 2 ? height - y - 2 : 1;
	rows = rut_live_requests_print_routes(r, &s->table, &text);
	rut_pager_bound(&s->pager, rows, s->table.limit);
	if (s->table.skip != s->pager.skip) {
		s->table.skip = s->pager.skip;
		rut_buf_clear(&text);
		rut_live_requests_print_routes(r, &s->table, &text);
	}
	y = rut_pager_lines(text.data, y, height - 1, columns, true);
	if (!rows && y + 1 < height)
		rut_pager_lines(r->nroutes ? "\n  No route has this text."
					   : "\n  No request has ended yet.",
				y, height - 1, columns, false);
	bottom(s, r, height - 1, columns);
	rut_screen_show();
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
	default:
		rut_pager_key(&s->pager, key, s->table.limit > 1 ? s->table.limit - 1 : 1);
	}
}

void rut_requests_screen_keys(struct rut_requests_screen *s)
{
	int key;

	while (!s->quit && (key = rut_screen_key()) != RUT_KEY_NONE) {
		s->dirty = true;
		if (!rut_pager_takes(&s->pager, key))
			command_key(s, key);
	}
}
