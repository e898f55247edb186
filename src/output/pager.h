/* SPDX-License-Identifier: MIT */
/*
 * What the live screens have in common: bars across the screen, lines of text that scroll, a filter
 * that the user types, and help. Each screen draws what is its own between the two bars, and hands
 * the keys that it has no use for to the pager.
 */
#ifndef RUT_OUTPUT_PAGER_H
#define RUT_OUTPUT_PAGER_H

#include <stdbool.h>
#include <stddef.h>

struct rut_buf;

struct rut_pager {
	size_t skip;	  /* lines scrolled away */
	size_t cursor;	  /* the row that is chosen, of those that the filter shows */
	size_t lines;	  /* of the page that was drawn last, as wrapped */
	size_t shown;	  /* of these, on the screen at once */
	char filter[128]; /* UTF-8 */
	bool typing;	  /* the filter: keys are its text */
	bool help;	  /* until the next key */
};

/* A reversed line at `y`. The text is made harmless and cut; NULL draws nothing. */
void rut_pager_bar(size_t y, const char *text, size_t columns);

/*
 * Draws the lines of `text` from line `first` of the screen to the one before `last`, each cut at
 * `columns`; with `heading` the first of them bold. NULL is no line. Returns the line behind them.
 */
size_t rut_pager_lines(const char *text, size_t first, size_t last, size_t columns, bool heading);

/* Keeps `skip` within `rows` rows of which `page` are shown. */
void rut_pager_bound(struct rut_pager *p, size_t rows, size_t page);

/* The same, with the cursor on one of the rows and among those that are shown. */
void rut_pager_bound_cursor(struct rut_pager *p, size_t rows, size_t page);

/* Draws line `line` of `text` reversed at `y`: the cursor in a table that was drawn. */
void rut_pager_cursor(const char *text, size_t line, size_t y, size_t columns);

/*
 * Draws a page of text that scrolls between the bars of a screen of `height` lines. Lines that are
 * wider than the screen are broken at spaces; what follows is indented more than they are.
 */
void rut_pager_page(struct rut_pager *p, const char *text, size_t height, size_t columns);

/* Appends which lines of the page are shown, unless all are, and the keys that show the others. */
void rut_pager_position(const struct rut_pager *p, struct rut_buf *out);

/* Arrows, 'j', 'k', Home, End, Page Up and Page Down move the cursor. False: another key. */
bool rut_pager_cursor_key(struct rut_pager *p, int key, size_t page);

/* A key that belongs to the pager in any case: it closes the help or is text of the filter. */
bool rut_pager_takes(struct rut_pager *p, int key);

/* Arrows, 'j', 'k', Home and End; Page Up and Page Down scroll `page` lines. False: another key. */
bool rut_pager_scroll(struct rut_pager *p, int key, size_t page);

/* The same, and '/' (filter), Escape (no filter), 'h' and '?' (help). */
bool rut_pager_key(struct rut_pager *p, int key, size_t page);

#endif
