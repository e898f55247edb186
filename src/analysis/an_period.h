/* SPDX-License-Identifier: MIT */
/* What the files of the analysis of periods share. */
#ifndef RUT_ANALYSIS_AN_PERIOD_H
#define RUT_ANALYSIS_AN_PERIOD_H

#include "analysis/engine.h"
#include "analysis/freq.h"
#include "base/commas.h"

/* Its options. */
struct rut_period_own {
	bool has_min, has_max;
	double min_us, max_us;
	const char *aggregate_by;	    /* borrowed; NULL: not given */
	struct rut_commas select, group_by; /* owned; group_by: "period.capture" */
	bool by_hierarchy;
};

const struct rut_period_own *rut_an_period_own(const struct rut_conf *c);

/* A period that was complete, with those of its children that were. */
struct rut_pev {
	const struct rut_period_def *def;
	struct rut_pev *parent; /* borrowed; NULL: a root */
	int64_t begin_ns, end_ns;
	bool complete;
	struct rut_expr_val *captures; /* owned: begin captures, then end captures */
	struct rut_pev **children;     /* owned array; in the order in which they ended */
	size_t n_children;
	size_t index; /* of the list while it is open */
};

/* Values of one kind, for deviation and distribution. */
struct rut_series {
	double *v; /* owned */
	size_t n, cap;
	double min, max, total;
};

/* What one kind of child was to one kind of parent. */
struct rut_pchild {
	struct rut_series duration, count, percent;
};

/* A definition as a parent of others. */
struct rut_pstats {
	const struct rut_period_def *def;
	size_t periods;
	struct rut_pchild *children; /* owned; by index of the definition */
};

/* The definitions that were seen, in that order. */
struct rut_pset {
	struct rut_pstats **list; /* owned */
	size_t n;
};

/* A group of --group-by: periods with these captured values. */
struct rut_pgroup {
	char *key; /* owned: "a.x = 1, b.y = 2" */
	struct rut_pset parents;
	/* Durations of the periods themselves, by definition; in order of first sight. */
	struct rut_series *own; /* owned; by index of the definition */
	size_t *order, n_order; /* owned */
	struct rut_map active;	/* struct rut_pev * -> struct active of an_period_group.c */
};

struct rut_pgroups {
	struct rut_pgroup **list; /* owned */
	size_t n;
};

struct rut_pdata {
	struct rut_pev **list; /* owned; in order of begin */
	size_t n, cap;
	size_t holes; /* incomplete ones that left a NULL */
	/* Filled by rut_an_period_aggregate(): */
	struct rut_pset parents;
	struct rut_pgroups groups;
	struct rut_pev **hierarchy; /* owned array */
	size_t n_hierarchy;
	bool failed;
};

static inline int64_t rut_pev_duration(const struct rut_pev *e)
{
	return e->end_ns - e->begin_ns;
}

static inline const char *rut_pev_name(const struct rut_pev *e)
{
	return e->def->name ? e->def->name : "";
}

void rut_an_series_add(struct rut_series *s, double v);
void rut_an_series_fini(struct rut_series *s);
/* Unknown when fewer than `least`. */
double rut_an_series_stdev(const struct rut_series *s);

bool rut_an_period_passes(const struct rut_conf *c, double duration_ns);
/* --select names it, or none. */
bool rut_an_period_selects(const struct rut_conf *c, const char *name);
/* Is `def` below `parent`? */
bool rut_an_period_below(const struct rut_period_def *def, const struct rut_period_def *parent);

/* Which periods contained which, how often and how long; by group where asked for. */
void rut_an_period_aggregate(struct rut_run *run);
struct rut_pstats *rut_an_pset_get(struct rut_pset *s, const struct rut_period_def *def,
				   size_t n_defs);
void rut_an_pset_fini(struct rut_pset *s, size_t n_defs);
void rut_an_pstats_finish(struct rut_pstats *s, int64_t duration_ns, size_t child, size_t count,
			  double total);

/* Captured values: "{'x': 1}" as Python prints a dictionary. */
void rut_an_captures_dict(const struct rut_captures *c, const struct rut_expr_val *v,
			  struct rut_buf *out);
/* A value as Python's str() does. */
void rut_an_capture_str(const struct rut_expr_val *v, struct rut_buf *out);

void rut_an_period_report_aggregated(struct rut_run *run, int64_t first_ns, int64_t last_ns);
void rut_an_period_report_stats(struct rut_run *run, int64_t first_ns, int64_t last_ns);
void rut_an_period_report_freq(struct rut_run *run, int64_t first_ns, int64_t last_ns);

extern const struct rut_lami_class rut_an_period_log_class, rut_an_period_top_class,
	rut_an_period_stats_class, rut_an_period_parent_class, rut_an_period_count_class,
	rut_an_period_percent_class, rut_an_period_freq_class, rut_an_period_freq_count_class,
	rut_an_period_freq_percent_class, rut_an_period_aggregated_class;

#endif
