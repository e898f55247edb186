/* SPDX-License-Identifier: MIT */
/*
 * Tables of text: columns are as wide as their cells, and give way where a width is asked for.
 * Cells are copied; they are made harmless (output/text.h) when the table is rendered.
 */
#ifndef RUT_OUTPUT_TABLE_H
#define RUT_OUTPUT_TABLE_H

#include "base/buf.h"

struct rut_table_column {
	const char *title;
	unsigned min_width; /* > 0: may shrink to it when the table is too wide */
	bool grow;	    /* takes the columns that are left over */
	bool left;	    /* aligned left */
	bool keep_right;    /* what does not fit loses its left end */
};

struct rut_table {
	const struct rut_table_column *columns; /* borrowed */
	size_t column_count;
	struct rut_buf cells;	/* NUL-terminated strings, row by row */
	struct rut_buf offsets; /* size_t, one a cell */
	size_t cell_count;
};

void rut_table_init(struct rut_table *t, const struct rut_table_column *columns, size_t count);
void rut_table_fini(struct rut_table *t);

/* The next cell, left to right, row by row. */
void rut_table_add(struct rut_table *t, const char *text);
void rut_table_addf(struct rut_table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Appends the line of titles and a line for every complete row. `width` is in columns; 0: as wide
 * as the cells are, where only what is wider than RUT_TABLE_CELL_MAX loses its middle: a name of
 * 4 KiB would widen its column in every line.
 */
#define RUT_TABLE_CELL_MAX 200
/* Columns that grow fill the screen up to this width: cells of a row stay near each other. */
#define RUT_TABLE_STRETCH 100
void rut_table_render(const struct rut_table *t, struct rut_buf *out, size_t width);

#endif
