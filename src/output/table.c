/* SPDX-License-Identifier: MIT */
#include "output/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "output/text.h"

void rut_table_init(struct rut_table *t, const struct rut_table_column *columns, size_t count)
{
	*t = (struct rut_table){.columns = columns, .column_count = count};
}

void rut_table_fini(struct rut_table *t)
{
	rut_buf_fini(&t->cells);
	rut_buf_fini(&t->offsets);
}

void rut_table_add(struct rut_table *t, const char *text)
{
	size_t at = t->cells.len;

	rut_buf_add(&t->offsets, &at, sizeof(at));
	rut_buf_add(&t->cells, text, strlen(text) + 1);
	if (!t->offsets.failed && !t->cells.failed)
		t->cell_count++;
}

void rut_table_addf(struct rut_table *t, const char *fmt, ...)
{
	size_t at = t->cells.len;
	va_list ap;

	rut_buf_add(&t->offsets, &at, sizeof(at));
	va_start(ap, fmt);
	rut_buf_vprintf(&t->cells, fmt, ap);
	va_end(ap);
	rut_buf_putc(&t->cells, '\0');
	if (!t->offsets.failed && !t->cells.failed)
		t->cell_count++;
}

static const char *cell(const struct rut_table *t, size_t row, size_t column)
{
	size_t at;

	memcpy(&at, t->offsets.data + (row * t->column_count + column) * sizeof(at), sizeof(at));
	return t->cells.data + at;
}

/* Takes columns from the widest that may shrink, one by one, so that they end up alike. */
static void shrink(const struct rut_table *t, size_t *widths, size_t excess)
{
	for (; excess; excess--) {
		size_t widest = t->column_count;

		for (size_t c = 0; c < t->column_count; c++) {
			unsigned min = t->columns[c].min_width;

			if (min && widths[c] > min &&
			    (widest == t->column_count || widths[c] > widths[widest]))
				widest = c;
		}
		if (widest == t->column_count)
			return;
		widths[widest]--;
	}
}

static void lay_out(const struct rut_table *t, size_t *widths, size_t rows, size_t width)
{
	size_t total = t->column_count - 1;

	for (size_t c = 0; c < t->column_count; c++) {
		widths[c] = rut_text_width(t->columns[c].title);
		for (size_t r = 0; r < rows; r++) {
			size_t w = rut_text_width(cell(t, r, c));

			if (!width && w > RUT_TABLE_CELL_MAX)
				w = RUT_TABLE_CELL_MAX;
			widths[c] = w > widths[c] ? w : widths[c];
		}
		total += widths[c];
	}
	if (!width)
		return;
	if (total > width)
		shrink(t, widths, total - width);
	if (width > RUT_TABLE_STRETCH)
		width = RUT_TABLE_STRETCH;
	for (size_t c = 0; c < t->column_count && total < width; c++) {
		if (t->columns[c].grow) {
			widths[c] += width - total;
			total = width;
		}
	}
}

void rut_table_render(const struct rut_table *t, struct rut_buf *out, size_t width)
{
	size_t rows = t->cell_count / t->column_count;
	_cleanup_free_ size_t *widths = calloc(t->column_count, sizeof(*widths));

	if (!widths) {
		out->failed = true;
		return;
	}
	lay_out(t, widths, rows, width);
	for (size_t r = 0; r <= rows; r++) {
		for (size_t c = 0; c < t->column_count; c++) {
			const struct rut_table_column *col = &t->columns[c];

			if (c)
				rut_buf_putc(out, ' ');
			rut_text_fit(out, r ? cell(t, r - 1, c) : col->title, widths[c],
				     (col->left ? 0 : RUT_TEXT_RIGHT) |
					     (width ? 0 : RUT_TEXT_KEEP_BOTH) |
					     (col->keep_right ? RUT_TEXT_KEEP_RIGHT : 0));
		}
		rut_buf_putc(out, '\n');
	}
}
