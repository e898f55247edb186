/* SPDX-License-Identifier: MIT */
/* What the reports share: frequency distributions, percentiles, lists of priorities. */
#ifndef RUT_ANALYSIS_FREQ_H
#define RUT_ANALYSIS_FREQ_H

#include "analysis/engine.h"
#include "analysis/stats.h"

/* Priorities of a thread: which, and how often it changed to each. */
struct rut_prio_count {
	bool has_prio;
	int32_t prio;
	uint64_t count;
};

struct rut_prios {
	struct rut_prio_count first; /* most threads have no other; count 0: none yet */
	struct rut_prio_count *more; /* owned */
	size_t n_more;
};

void rut_an_prios_add(struct rut_prios *p, bool has_prio, int32_t prio);
void rut_an_prios_fini(struct rut_prios *p);
/* "[20, 120 (3 times)]" */
const char *rut_an_prios_str(const struct rut_prios *p, struct rut_result *t);

/*
 * How a distribution is cut into buckets, in units of value / ratio (microseconds of nanoseconds).
 */
struct rut_freq {
	double min, max, step;
	double ratio;
	int64_t resolution;
	bool clamp; /* beyond the last bucket counts as in it; else only the maximum does */
	bool log_scale;
};

/* The bounds of these values, or of the options --min and --max. */
struct rut_freq rut_an_freq_bounds(const struct rut_conf *c, double min, double max, double ratio);
/* Bounds that widen with every call: for --freq-uniform. */
struct rut_freq rut_an_freq_uniform(struct rut_run *run, int category, bool any, double min,
				    double max, double ratio);
/* Appends a row (lower, upper, count) for each bucket; none when all values are the same. */
void rut_an_freq_fill(const struct rut_freq *f, const struct rut_stat *s, struct rut_result *t);
void rut_an_freq_fill_floats(const struct rut_freq *f, const double *v, size_t n,
			     struct rut_result *t);
/* The graph of such a table. Nothing for an empty one. */
void rut_an_freq_print(const struct rut_result *t, struct rut_buf *out, const char *title,
		       const char *unit);
/* One table of many, a column for each, called by their subtitles. NULL: nothing to show. */
struct rut_result *rut_an_freq_series(struct rut_result *const *tables, size_t n, const char *title,
				      const char *unit);

/* Appends four durations: least, mean, most, standard deviation (unknown for fewer than two). */
void rut_an_stat_cells(struct rut_result *t, const struct rut_stat *s);

/* What a stat must keep for the options given. */
unsigned rut_an_stat_keep(const struct rut_conf *c);

/* --percentiles: a table of its own beside the others. */
extern const struct rut_lami_class rut_an_class_percentiles;
void rut_an_percentiles_add(struct rut_result *t, const char *what, const struct rut_stat *s);
void rut_an_percentiles_print(const struct rut_result *t, struct rut_buf *out);
/* Prints or keeps the table, as the options ask; takes it. */
void rut_an_percentiles_finish(struct rut_run *run, struct rut_result *t);

#endif
