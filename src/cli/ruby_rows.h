/* SPDX-License-Identifier: MIT */
/*
 * The rows of the live tables: the counters of all processes added up by what a row stands for
 * (a method, a line and class, a class), their rates, their order, and how they are written.
 * Nothing here needs a process, so that the tests feed it rows of their own.
 */
#ifndef RUT_CLI_RUBY_ROWS_H
#define RUT_CLI_RUBY_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "output/table.h"
#include "ruby/tracer.h"

enum rut_row_column {
	RUT_COL_PID,
	RUT_COL_FILE,
	RUT_COL_LINE,
	RUT_COL_METHOD,
	RUT_COL_OBJECT,
	RUT_COL_CALLS,
	RUT_COL_RATE,
	RUT_COL_TOTAL,
	RUT_COL_SELF,
	RUT_COL_MEAN,
	RUT_COL_MAX,
	RUT_COL_P50,
	RUT_COL_P90,
	RUT_COL_P99,
	RUT_COL_SPREAD,
	RUT_COL_COUNT,
	RUT_COL_BYTES,
	RUT_COL_MESSAGE,
	RUT_COL_NONE,
};

/* What rows have, beside what their mode has: 0, or a sum of these. */
enum {
	RUT_ROWS_PER_PROCESS = 1,
	RUT_ROWS_PERCENTILES = 2, /* of time mode */
};

struct rut_row {
	struct rut_ruby_buckets *sum; /* owned; r.buckets is this; NULL: there were none */
	struct rut_ruby_row r;	      /* the sum; pid is 0 when it is of several processes */
	double rate;		      /* calls or allocations per second since the update before */
	uint64_t before, stamp;
};

struct rut_rows {
	enum rut_ruby_mode mode;
	unsigned what; /* RUT_ROWS_* */
	struct rut_strtab keys;
	struct rut_row *rows;	/* owned; by id of the key */
	struct rut_row **order; /* owned; those that have counted something, as sorted */
	size_t count, cap;	/* of order; of rows and order */
	uint64_t stamp;
	uint64_t sum_calls, sum_count; /* over all rows */
	enum rut_row_column sort;
	bool reverse;
};

void rut_cli_rows_init(struct rut_rows *rows, enum rut_ruby_mode mode, unsigned what);
void rut_cli_rows_fini(struct rut_rows *rows);

/*
 * Takes the counters as they now stand, `seconds` after those that rates were reckoned from (0: too
 * early for new rates), and sorts them. The strings stay borrowed. Returns 0 or -ENOMEM.
 */
int rut_cli_rows_update(struct rut_rows *rows, const struct rut_ruby_row *in, size_t count,
			double seconds);

/* The counters were set to zero. */
void rut_cli_rows_reset(struct rut_rows *rows);

/* Sorts again, by rows->sort (numbers descending, words ascending) and rows->reverse. */
void rut_cli_rows_sort(struct rut_rows *rows);

/* The columns of a mode, ending with RUT_COL_NONE, PID first when kept apart. */
const enum rut_row_column *rut_cli_rows_columns(enum rut_ruby_mode mode, unsigned what);
/* The column of that name (--sort) in this mode, or RUT_COL_NONE. */
enum rut_row_column rut_cli_rows_find_column(enum rut_ruby_mode mode, unsigned what,
					     const char *name);
/* The quantile `q` (0 to 1) of the durations of the calls, as precise as the buckets are. */
uint64_t rut_cli_row_percentile(const struct rut_ruby_row *r, double part);
/* "calls": the name for --sort. */
const char *rut_cli_rows_column_name(enum rut_row_column c);
enum rut_row_column rut_cli_rows_default_sort(enum rut_ruby_mode mode);

/* "Foo#bar", "Foo.bar", or "bar" when the class is not known. */
void rut_cli_row_method(struct rut_buf *b, const struct rut_ruby_row *r);

/* Does the path, class or method of the row hold `text` (case as it is)? An empty text: yes. */
bool rut_cli_row_matches(const struct rut_ruby_row *r, const char *text);

/*
 * Appends the table as text: at most `limit` rows (0: all) that match `filter`, from number `skip`
 * on, `width` columns wide (0: as wide as needed).
 */
void rut_cli_rows_print(const struct rut_rows *rows, struct rut_buf *out, size_t width, size_t skip,
			size_t limit, const char *filter);

/* Appends one JSON object a row. */
void rut_cli_rows_json(const struct rut_rows *rows, struct rut_buf *out, size_t limit,
		       uint64_t interval, bool final);

#endif
