/* SPDX-License-Identifier: MIT */
/*
 * Maps of scripts as OpenMetrics, which Prometheus and its like read: @name becomes the family
 * rutile_script_name (@ alone rutile_script_map), the keys become labels, key or key0, key1 ...,
 * those of records by their names.
 *
 *	count()                     counter
 *	sum() of unsigned numbers   counter
 *	avg(), stats()              summary: _count and _sum
 *	hist(), lhist()             histogram: le is the largest value of each slot
 *	text and other values       info, with the label "value"
 *	all other numbers           gauge; of tseries() the latest value
 */
#ifndef RUT_SCRIPT_METRICS_H
#define RUT_SCRIPT_METRICS_H

#include <stddef.h>

struct rut_buf;
struct rut_err;
struct rut_script_map;
struct rut_script_metrics;
struct rut_script_rows;
struct rut_script_style;

/* Appends one family. */
void rut_script_metrics_map(const struct rut_script_style *s, const struct rut_script_map *m,
			    const struct rut_script_rows *rows, struct rut_buf *out);

/*
 * Appends all maps, read now, and the line that ends an exposition. Of a map that cannot be read
 * nothing is shown. 0 or -ENOMEM.
 */
int rut_script_metrics_text(const struct rut_script_style *s, const struct rut_script_map *maps,
			    size_t nmaps, struct rut_buf *out);

/*
 * Serves the maps, in a thread of its own: `where` is a port (of 127.0.0.1), ADDRESS:PORT,
 * [ADDRESS]:PORT, or a path, of a file that is replaced every second. `maps` and `style` must live
 * until rut_script_metrics_stop(), which for a file writes it once more. 0 or -errno with a
 * message.
 */
int rut_script_metrics_start(struct rut_script_metrics **ret, const char *where,
			     const struct rut_script_style *style,
			     const struct rut_script_map *maps, size_t nmaps, struct rut_err *err);

/* The same of any text: `fn` is called in the thread, and returns 0, or -1 when out of memory. */
int rut_script_metrics_start_text(struct rut_script_metrics **ret, const char *where,
				  int (*fn)(void *arg, struct rut_buf *out), void *arg,
				  struct rut_err *err);
void rut_script_metrics_stop(struct rut_script_metrics *m);

/* For the tests: the port that is served, for port 0 the one that the kernel chose; 0: a file. */
unsigned rut_script_metrics_port(const struct rut_script_metrics *m);

#endif
