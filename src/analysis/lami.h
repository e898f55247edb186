/* SPDX-License-Identifier: MIT */
/*
 * Result tables: what an analysis found, typed.
 *
 * A report fills tables; the text for people and the LAMI 1.0 JSON that Trace Compass reads both
 * come from them. A table belongs to a class, which names and types its columns; cells are small
 * values, their strings belong to the table.
 */
#ifndef RUT_ANALYSIS_LAMI_H
#define RUT_ANALYSIS_LAMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_buf;

/* The data classes of LAMI 1.0. */
enum rut_lami_type {
	RUT_LAMI_EMPTY,
	RUT_LAMI_UNKNOWN,
	RUT_LAMI_BOOL,
	RUT_LAMI_NUMBER,
	RUT_LAMI_STRING,
	RUT_LAMI_RATIO,
	RUT_LAMI_TIMESTAMP,
	RUT_LAMI_DURATION,
	RUT_LAMI_SIZE,
	RUT_LAMI_TIME_RANGE,
	RUT_LAMI_SYSCALL,
	RUT_LAMI_PROCESS,
	RUT_LAMI_PATH,
	RUT_LAMI_FD,
	RUT_LAMI_IRQ,
	RUT_LAMI_CPU,
	RUT_LAMI_DISK,
	RUT_LAMI_NETIF,
};

#define RUT_LAMI_NONE INT64_MIN /* a process without pid or tid, a number without value */

struct rut_cell {
	uint8_t type;  /* enum rut_lami_type */
	bool is_float; /* the number is in f */
	bool hard;     /* IRQ; the value of a BOOL */
	union {
		int64_t i; /* number, begin of a range, pid, number of an irq or fd */
		double f;
	};
	int64_t j;	 /* end of a range, tid; a BOOL that is neither: 1 */
	const char *str; /* owned by the table; NULL: none */
};

struct rut_lami_column {
	const char *key; /* short name, for us */
	const char *title;
	enum rut_lami_type type;
	const char *unit; /* or NULL */
};

struct rut_lami_class {
	const char *name; /* NULL: the class is given in full with each table */
	const char *title;
	const struct rut_lami_column *columns;
	size_t n_columns;
};

#define RUT_LAMI_CLASS(name_, title_, columns_)                                                    \
	{                                                                                          \
		.name = name_, .title = title_, .columns = columns_,                               \
		.n_columns = sizeof(columns_) / sizeof(*(columns_))                                \
	}

struct rut_table_arena; /* strings of a table */

struct rut_result {
	const struct rut_lami_class *cls; /* borrowed, or owned_cls */
	struct rut_lami_class *owned_cls;
	int64_t begin_ns, end_ns;
	char *subtitle; /* owned; NULL: none */
	struct rut_cell *cells;
	size_t n_cells, cap;
	struct rut_table_arena *arena;
	bool failed; /* out of memory: not complete */
};

/* Returns NULL when out of memory. `subtitle` is copied. */
struct rut_result *rut_an_result_new(const struct rut_lami_class *cls, int64_t begin_ns,
				     int64_t end_ns, const char *subtitle);
void rut_an_result_free(struct rut_result *t);

/* Copies a string into the table; NULL gives NULL. */
const char *rut_an_result_str(struct rut_result *t, const char *s);
const char *rut_an_result_strf(struct rut_result *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Appends the next cell of the row. */
void rut_an_result_add(struct rut_result *t, struct rut_cell c);
/* As rut_an_result_add(), with a cell of another table: its string is copied. */
void rut_an_result_copy(struct rut_result *t, const struct rut_cell *c);
void rut_an_result_int(struct rut_result *t, enum rut_lami_type type, int64_t v);
void rut_an_result_float(struct rut_result *t, enum rut_lami_type type, double v);
/* Strings and names; copied. */
void rut_an_result_text(struct rut_result *t, enum rut_lami_type type, const char *s);
/* pid or tid RUT_LAMI_NONE: not there. name NULL: not there. */
void rut_an_result_process(struct rut_result *t, const char *name, int64_t pid, int64_t tid);
void rut_an_result_range(struct rut_result *t, int64_t begin_ns, int64_t end_ns);
void rut_an_result_irq(struct rut_result *t, bool hard, int64_t nr, const char *name);
void rut_an_result_bool(struct rut_result *t, bool v);
void rut_an_result_empty(struct rut_result *t);
void rut_an_result_unknown(struct rut_result *t);

static inline size_t rut_result_rows(const struct rut_result *t)
{
	return t ? t->n_cells / t->cls->n_columns : 0;
}

static inline const struct rut_cell *rut_result_row(const struct rut_result *t, size_t row)
{
	return t->cells + row * t->cls->n_columns;
}

/* The number in a cell, as a float. */
double rut_an_cell_value(const struct rut_cell *c);

/* The tables of one run, by class in order of first appearance. A zeroed struct is empty. */
struct rut_results {
	struct rut_result **tables; /* owned */
	size_t n, cap;
	bool failed;
};

void rut_an_results_fini(struct rut_results *r);
void rut_an_results_clear(struct rut_results *r);
/* Takes the table; one without rows is dropped. */
void rut_an_results_take(struct rut_results *r, struct rut_result *t);

/*
 * Replaces all tables by one: each row of those of class `from` behind its time range.
 * `summary` has the columns of `from` after one for that.
 */
void rut_an_results_summarise(struct rut_results *r, const struct rut_lami_class *from,
			      const struct rut_lami_class *summary);

/*
 * {"results": [...]}. A long text comes in parts: `flush` takes what there is in `out`. Each table
 * is freed as soon as it is written; `r` is empty afterwards.
 */
void rut_an_results_json(struct rut_results *r, struct rut_buf *out,
			 void (*flush)(struct rut_buf *out, void *arg), void *arg);

struct rut_lami_info {
	const char *title, *description;
	const char *const *tags;		     /* ends with NULL */
	const struct rut_lami_class *const *classes; /* ends with NULL */
};

/* What --metadata prints. */
void rut_an_lami_metadata(const struct rut_lami_info *info, const char *version,
			  struct rut_buf *out);

/* A quoted JSON string; other than ASCII is escaped, bytes that are not UTF-8 as \udcXX. */
void rut_an_json_str(struct rut_buf *out, const char *s);
/* The shortest decimal that reads back as the same float, with ".0" when it is whole. */
void rut_an_json_float(struct rut_buf *out, double v);

#endif
