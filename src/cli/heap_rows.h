/* SPDX-License-Identifier: MIT */
/*
 * The tables of `rutile heap`: rows of one look, or of two subtracted, added up over processes.
 * Nothing here needs a process.
 */
#ifndef RUT_CLI_HEAP_ROWS_H
#define RUT_CLI_HEAP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "ruby/heap.h"

/* Rows of one look, as read. */
struct rut_heap_look {
	struct rut_ruby_heap_row *rows; /* owned; the names are the tracer's */
	size_t count;
};

struct rut_heap_sums {
	uint64_t count, bytes, old, old_bytes;
};

struct rut_heap_entry {
	struct rut_ruby_heap_row r; /* all processes; what `now` and `before` have is not set */
	struct rut_heap_sums now, before;
};

enum rut_heap_sort {
	RUT_HEAP_SORT_GROWTH, /* what survived collections first; without an earlier count: bytes */
	RUT_HEAP_SORT_BYTES,
	RUT_HEAP_SORT_COUNT,
	RUT_HEAP_SORT_OLD,
	RUT_HEAP_SORT_GENERATIONS,
};

struct rut_heap_table {
	bool by_line; /* rows are lines and classes; otherwise classes */
	bool differs; /* from an earlier count */
	enum rut_heap_sort sort;
	struct rut_strtab keys;
	struct rut_heap_entry *entries; /* owned; sorted once built */
	size_t count, cap;
	struct rut_heap_sums now, before;
	size_t processes, left_out; /* in both counts; in one only: these rows are left out */
};

/*
 * Fills a table with `by_line` and `sort` set and all else 0; `before` may be NULL. Returns
 * 0 or -ENOMEM; rut_cli_heap_table_fini() in either case.
 */
int rut_cli_heap_table_build(struct rut_heap_table *t, const struct rut_heap_look *before,
			     const struct rut_heap_look *now);
void rut_cli_heap_table_fini(struct rut_heap_table *t);

/* -1: no such name. */
int rut_cli_heap_sort_find(const char *name);

/* The table as text: at most `limit` rows (0: all), `width` columns (0: as wide as needed). */
void rut_cli_heap_table_print(const struct rut_heap_table *t, struct rut_buf *out, size_t width,
			      size_t limit);
/* An object a row. */
void rut_cli_heap_table_json(const struct rut_heap_table *t, struct rut_buf *out, size_t limit,
			     uint64_t look);

#endif
