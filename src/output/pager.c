/* SPDX-License-Identifier: MIT */
#include "output/pager.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "output/screen.h"
#include "output/text.h"

void rut_pager_bar(size_t y, const char *text, size_t columns)
{
	_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;

	if (!text)
		return;
	rut_text_fit(&line, text, columns, 0);
	if (!line.failed)
		rut_screen_line(y, RUT_SCREEN_BAR, line.data, line.len);
}

size_t rut_pager_lines(const char *text, size_t first, size_t last, size_t columns, bool heading)
{
	_cleanup_buf_ struct rut_buf cut = RUT_BUF_INIT;
	size_t y = first;

	for (; text && *text && y < last; y++) {
		const char *end = strchrnul(text, '\n');
		_cleanup_free_ char *line = strndup(text, (size_t)(end - text));

		/* What is wider than the screen would go on in the line below. */
		rut_buf_clear(&cut);
		if (line)
			rut_text_fit(&cut, line, columns, 0);
		rut_screen_line(y, heading && y == first ? RUT_SCREEN_BOLD : RUT_SCREEN_PLAIN,
				cut.data ? cut.data : "", cut.len);
		text = *end ? end + 1 : end;
	}
	return y;
}

void rut_pager_bound(struct rut_pager *p, size_t rows, size_t page)
{
	size_t most = rows > page ? rows - page : 0;

	if (p->skip > most)
		p->skip = most;
}

static void type(struct rut_pager *p, int key)
{
	size_t len = strlen(p->filter);

	p->skip = 0;
	if (key == RUT_KEY_ENTER) {
		p->typing = false;
	} else if (key == RUT_KEY_ESCAPE) {
		p->typing = false;
		p->filter[0] = '\0';
	} else if (key == RUT_KEY_BACKSPACE) {
		while (len && ((unsigned char)p->filter[len - 1] >> 6) == 2)
			len--;
		p->filter[len ? len - 1 : 0] = '\0';
	} else if (key >= ' ' && key < RUT_KEY_UP && len + 5 < sizeof(p->filter)) {
		/* wctomb() knows the locale, which is UTF-8. */
		int n = wctomb(p->filter + len, (wchar_t)key);

		p->filter[n > 0 ? len + (size_t)n : len] = '\0';
	}
}

void rut_pager_bound_cursor(struct rut_pager *p, size_t rows, size_t page)
{
	if (p->cursor >= rows)
		p->cursor = rows ? rows - 1 : 0;
	if (p->cursor < p->skip)
		p->skip = p->cursor;
	if (p->cursor >= p->skip + page)
		p->skip = p->cursor - page + 1;
	rut_pager_bound(p, rows, page);
}

static const char *next_line(const char *text)
{
	text += strcspn(text, "\n");
	return text + (*text == '\n');
}

void rut_pager_cursor(const char *text, size_t line, size_t y, size_t columns)
{
	_cleanup_free_ char *copy = NULL;

	for (; line && *text; line--)
		text = next_line(text);
	copy = strndup(text, strcspn(text, "\n"));
	if (copy && *copy)
		rut_pager_bar(y, copy, columns);
}

void rut_pager_page(struct rut_pager *p, const char *text, size_t height, size_t columns)
{
	_cleanup_buf_ struct rut_buf wrapped = RUT_BUF_INIT;

	rut_text_wrap(&wrapped, text, columns);
	if (wrapped.failed)
		return;
	text = wrapped.data ? wrapped.data : "";
	p->shown = height > 2 ? height - 2 : 1;
	p->lines = 0;
	for (const char *c = text; *c; c++)
		p->lines += *c == '\n';
	rut_pager_bound(p, p->lines, p->shown);
	for (size_t skip = p->skip; skip && *text; skip--)
		text = next_line(text);
	rut_pager_lines(text, 1, height - 1, columns, !p->skip);
}

void rut_pager_position(const struct rut_pager *p, struct rut_buf *out)
{
	size_t last = p->skip + p->shown;

	if (p->lines > p->shown)
		rut_buf_printf(out, "  arrows scroll (%zu-%zu of %zu)", p->skip + 1,
			       last < p->lines ? last : p->lines, p->lines);
}

/* The next drawing keeps the cursor within the table. */
bool rut_pager_cursor_key(struct rut_pager *p, int key, size_t page)
{
	size_t up = key == RUT_KEY_PAGE_UP ? page : 1;

	switch (key) {
	case RUT_KEY_UP:
	case 'k':
	case RUT_KEY_PAGE_UP:
		p->cursor = up > p->cursor ? 0 : p->cursor - up;
		return true;
	case RUT_KEY_DOWN:
	case 'j':
		p->cursor++;
		return true;
	case RUT_KEY_PAGE_DOWN:
		p->cursor += page;
		return true;
	case RUT_KEY_HOME:
		p->cursor = 0;
		return true;
	case RUT_KEY_END:
		p->cursor = SIZE_MAX / 2;
		return true;
	default:
		return false;
	}
}

bool rut_pager_takes(struct rut_pager *p, int key)
{
	if (p->help) {
		p->help = false;
		return true;
	}
	if (!p->typing)
		return false;
	type(p, key);
	return true;
}

bool rut_pager_scroll(struct rut_pager *p, int key, size_t page)
{
	switch (key) {
	case RUT_KEY_DOWN:
	case 'j':
		p->skip++; /* rut_pager_bound() keeps it in bounds */
		return true;
	case RUT_KEY_UP:
	case 'k':
		p->skip -= p->skip > 0;
		return true;
	case RUT_KEY_PAGE_DOWN:
		p->skip += page;
		return true;
	case RUT_KEY_PAGE_UP:
		p->skip -= p->skip < page ? p->skip : page;
		return true;
	case RUT_KEY_HOME:
		p->skip = 0;
		return true;
	case RUT_KEY_END:
		p->skip = SIZE_MAX / 2;
		return true;
	default:
		return false;
	}
}

bool rut_pager_key(struct rut_pager *p, int key, size_t page)
{
	switch (key) {
	case '/':
		p->typing = true;
		return true;
	case RUT_KEY_ESCAPE:
		p->filter[0] = '\0';
		return true;
	case 'h':
	case '?':
		p->help = true;
		return true;
	default:
		return rut_pager_scroll(p, key, page);
	}
}
