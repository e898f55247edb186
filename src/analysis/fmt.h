/* SPDX-License-Identifier: MIT */
/*
 * How the reports write numbers, times and graphs: the layout of lttng-analyses, to the byte.
 * Everything is appended to a buffer.
 */
#ifndef RUT_ANALYSIS_FMT_H
#define RUT_ANALYSIS_FMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_buf;
struct rut_cell;

/* "12:34:56.000000001", with `date` "2018-03-19 12:34:56.000000001". At least 64 bytes. */
void rut_an_fmt_time(char *out, size_t size, int64_t ns, bool date, bool gmt);

/* "[BEGIN, END]" */
void rut_an_fmt_range(char *out, size_t size, int64_t begin_ns, int64_t end_ns, bool date,
		      bool gmt);

/* "1.00 KiB"; bytes have no fraction. */
void rut_an_fmt_size(char *out, size_t size, double bytes);

/* Nanoseconds as microseconds: "%0.03f". */
void rut_an_fmt_us(char *out, size_t size, double ns);

/* In decimal. `out` has room for 21 bytes. Returns how many were written, without the NUL. */
size_t rut_an_fmt_u64(char *out, uint64_t v);

/* The same of a cell; "?" when it is unknown. */
void rut_an_fmt_us_cell(char *out, size_t size, const struct rut_cell *c);

/* A process and its thread: "ruby (42)"; "Unknown (N/A)" for an empty cell. */
void rut_an_fmt_process(char *out, size_t size, const struct rut_cell *c);

/* "ruby (42)"; of a group of threads (a TID below 0) the name alone. */
void rut_an_fmt_thread(char *out, size_t size, const char *name, int64_t tid);

/* Appends `s` padded to `width` characters (not bytes), on the left when `right`. */
void rut_an_fmt_pad(struct rut_buf *b, const char *s, int width, bool right);

/*
 * Appends fields of a fixed layout: "<25" pads right, ">12" pads left, other text is copied. Each
 * "{...}" takes the next string. As Python's format() does.
 */
void rut_an_fmt_line(struct rut_buf *b, const char *layout, ...);

struct rut_graph_row {
	double value;
	double lower; /* frequency graphs: the lower bound */
	char text[48];
	char *label; /* owned */
};

struct rut_graph {
	struct rut_graph_row *rows; /* owned */
	size_t n, cap;
};

/*
 * Graphs fit into lines of so many columns, from now on, those of a terminal. 0, as at the start:
 * the bars are 80 wide, as lttng-analyses has them. Call it before anything is reported.
 */
void rut_an_graph_set_columns(size_t columns);

/* A zeroed graph is empty. The label may be NULL; it is copied. */
void rut_an_graph_add(struct rut_graph *g, double value, const char *text, double lower,
		      const char *label);
/* Prints nothing when there are no rows. Empties the graph. */
void rut_an_graph_bars(struct rut_graph *g, struct rut_buf *out, const char *title,
		       const char *label_header);
void rut_an_graph_frequencies(struct rut_graph *g, struct rut_buf *out, const char *title,
			      const char *unit);
void rut_an_graph_fini(struct rut_graph *g);

/* What Python's str() says of a value of a bar: "3", "2.50"; then a space and the unit, if any. */
void rut_an_fmt_bar_value(char *out, size_t size, double v, bool is_float, const char *unit);

#endif
