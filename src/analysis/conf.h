/* SPDX-License-Identifier: MIT */
/* What the user asked of the analyses: the options that several of them have. */
#ifndef RUT_ANALYSIS_CONF_H
#define RUT_ANALYSIS_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "expr/expr.h"
#include "expr/period.h"

struct rut_state;
struct rut_thread;

struct rut_conf {
	bool has_begin, has_end;
	int64_t begin_ns, end_ns;
	int64_t refresh_ns; /* 0: none */
	bool gmt;
	bool multi_day; /* times are printed with their date */
	bool mi;	/* JSON instead of text */

	/* Filters; empty: all. Arrays are borrowed. */
	const int64_t *cpus, *tids, *pids;
	size_t n_cpus, n_tids, n_pids;
	const char *const *procnames;
	size_t n_procnames;
	struct rut_expr *filter; /* borrowed; NULL: none */

	bool has_min, has_max; /* durations */
	double min_ns, max_ns;

	bool stats, log, top, freq, usage; /* which reports */
	bool brief; /* `limit` also where all are listed otherwise: for the report of all */
	int64_t limit;
	int64_t resolution; /* of frequency distributions: buckets */
	bool uniform, series;
	bool log_scale;	  /* buckets grow by a constant factor */
	bool percentiles; /* p50 p90 p99 p99.9 beside the averages */

	struct rut_period_set *periods; /* borrowed */

	const char *by; /* process, cgroup; series also: cpu, disk, peer; NULL: each thread */

	/* What the options of the analysis itself have set (struct rut_analysis, `option`);
	 * borrowed; NULL: none was given. */
	void *own;

	/* requests */
	const char *request; /* calls of methods that match this are requests; NULL: none */
	bool of_periods;     /* periods of this name are, and no period is reported by itself */
	const char *route;   /* only those whose route is this, or matches it; NULL: all */
	int64_t slowest;     /* so many requests one by one */
	bool explain, json;
};

bool rut_an_conf_has_cpu(const struct rut_conf *c, int cpu);
bool rut_an_conf_has_thread(const struct rut_conf *c, const struct rut_thread *t);

/* Whether the filters let it pass; most often there are none. */
static inline bool rut_an_conf_cpu(const struct rut_conf *c, int cpu)
{
	return __builtin_expect(!c->n_cpus, 1) || rut_an_conf_has_cpu(c, cpu);
}

/* NULL matches anything. */
static inline bool rut_an_conf_thread(const struct rut_conf *c, const struct rut_thread *t)
{
	return __builtin_expect(!(c->n_tids | c->n_pids | c->n_procnames), 1) ||
	       rut_an_conf_has_thread(c, t);
}
/* Whether the words of `list`, separated by commas, have this one; a list without words has all. */
bool rut_an_conf_lists(const char *list, const char *word);

#endif
