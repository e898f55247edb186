/* SPDX-License-Identifier: MIT */
#include "cli/profile_screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "output/screen.h"

static const char help_text[] =
	"\n"
	"  q        quit, and print the table\n"
	"  Enter    open a row: what calls it, and the tree of what it calls\n"
	"  t        trace a method for a second: its calls with their arguments\n"
	"  x        record two seconds with the kernel's events, explain the slowest call\n"
	"  Backspace, Esc     go back to the table\n"
	"  /        show only rows with this text (Enter; Esc shows all)\n"
	"  arrows, Page Up, Page Down, Home, End     choose a row, scroll\n"
	"  h, ?     this help\n"
	"\n"
	"  Any key goes back.\n";

static void draw_table(struct rut_profile_screen *s, const struct rut_profile *p,
		       struct rut_profile_show show, size_t height, size_t columns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	size_t n = 0, at;
	_cleanup_free_ const char **names = rut_cli_profile_names(p, s->pager.filter, &n);

	s->rows_shown = height > 4 ? height - 4 : 1;
	rut_pager_bound_cursor(&s->pager, n, s->rows_shown);
	snprintf(s->chosen, sizeof(s->chosen), "%s", names && n ? names[s->pager.cursor] : "");
	show.filter = s->pager.filter;
	show.skip = s->pager.skip;
	show.limit = s->rows_shown;
	rut_cli_profile_summary(p, &show, &text);
	rut_cli_profile_table(p, &show, columns, &text);
	if (text.failed)
		return;
	rut_pager_lines(text.data, 1, height - 1, columns, true);
	at = s->pager.cursor - s->pager.skip + 2;
	if (n && at + 1 < height)
		rut_pager_cursor(text.data, at, at + 1, columns);
}

static void open_tree(struct rut_profile_screen *s, const struct rut_profile *p,
		      const struct rut_profile_show *show, size_t columns)
{
	if (s->open_tree) {
		rut_buf_clear(&s->page);
		rut_cli_profile_tree(p, show, s->chosen, columns, &s->page);
		s->opened_skip = s->pager.skip;
		s->pager.skip = 0;
	}
	s->open_tree = false;
}

void rut_cli_profile_screen_draw(struct rut_profile_screen *s, const struct rut_profile *p,
				 const struct rut_profile_show *show, const char *title)
{
	_cleanup_buf_ struct rut_buf bottom = RUT_BUF_INIT;
	size_t height, columns;

	rut_screen_size(&height, &columns);
	open_tree(s, p, show, columns);
	rut_screen_clear();
	rut_pager_bar(0, title, columns);
	if (s->pager.help)
		rut_pager_lines(help_text, 1, height - 1, columns, false);
	else if (s->page.len)
		rut_pager_page(&s->pager, s->page.data, height, columns);
	else
		draw_table(s, p, *show, height, columns);
	if (s->pager.typing) {
		rut_buf_printf(&bottom, " filter: %s_", s->pager.filter);
	} else if (s->page.len) {
		rut_buf_puts(&bottom, " Backspace goes back");
		rut_pager_position(&s->pager, &bottom);
		rut_buf_puts(&bottom, "  q quit  h help");
	} else {
		rut_buf_puts(&bottom, " q quit  h help  Enter opens  t trace  x explain  / filter");
	}
	rut_pager_bar(height - 1, bottom.failed ? NULL : bottom.data, columns);
	rut_screen_show();
}

void rut_cli_profile_screen_wait(const char *text)
{
	size_t height, columns;

	rut_screen_size(&height, &columns);
	rut_pager_bar(height ? height - 1 : 0, text, columns);
	rut_screen_show();
}

static void command_key(struct rut_profile_screen *s, int key)
{
	if (key == 'q' || key == 'Q') {
		s->quit = true;
	} else if (s->page.len && (key == RUT_KEY_BACKSPACE || key == RUT_KEY_ESCAPE)) {
		rut_buf_clear(&s->page);
		s->pager.skip = s->opened_skip;
	} else if (s->page.len || key == '/' || key == 'h' || key == '?') {
		rut_pager_key(&s->pager, key, s->rows_shown);
	} else if (!rut_pager_cursor_key(&s->pager, key, s->rows_shown)) {
		s->open_tree = key == RUT_KEY_ENTER && s->chosen[0];
		s->ask = (key == 't' || key == 'x') && s->chosen[0] ? (char)key : 0;
		if (key == RUT_KEY_ESCAPE)
			rut_pager_key(&s->pager, key, s->rows_shown);
	}
}

void rut_cli_profile_screen_keys(struct rut_profile_screen *s)
{
	int key;

	/* A question is answered before the next key. */
	while (!s->quit && !s->ask && !s->open_tree && (key = rut_screen_key()) != RUT_KEY_NONE) {
		s->dirty = true;
		if (!rut_pager_takes(&s->pager, key))
			command_key(s, key);
	}
}

void rut_cli_profile_screen_fini(struct rut_profile_screen *s)
{
	rut_buf_fini(&s->page);
}
