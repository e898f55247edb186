/* SPDX-License-Identifier: MIT */
/* What the two files of the scheduling analysis share. */
#ifndef RUT_ANALYSIS_AN_SCHED_H
#define RUT_ANALYSIS_AN_SCHED_H

#include "analysis/engine.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

struct rut_sched_row {
	int64_t wakeup_ns, switch_ns;
	struct rut_thread *wakee, *waker; /* waker NULL: unknown */
	bool has_prio;
	int32_t prio;
	int cpu;
};

struct rut_sched_tid {
	int64_t tid;
	const char *comm;
	bool is_init;
	struct rut_prios prios;
	struct rut_stat latency;
};

struct rut_sched_prio {
	bool has_prio, is_init;
	int32_t prio;
	struct rut_stat latency;
};

struct rut_an_sched {
	struct rut_instance base;
	struct rut_ordered tids, prios;
	struct rut_stat total;
	struct rut_sched_row *rows; /* owned: the log, or the longest */
	size_t n_rows, cap_rows;
	int64_t least_ns; /* of the longest, when there are as many as asked for */
};

/* Its options: which tables. */
struct rut_sched_own {
	bool total, per_tid, per_prio;
};

/* What was asked for; by default all threads together in the report of all analyses, else each. */
struct rut_sched_own rut_an_sched_shows(const struct rut_conf *c);

extern const struct rut_lami_class rut_an_sched_log_class, rut_an_sched_top_class,
	rut_an_sched_total_class, rut_an_sched_tid_class, rut_an_sched_prio_class,
	rut_an_sched_freq_class;

void rut_an_sched_report(struct rut_instance *inst, int64_t end_ns);
/* Longest first, the earlier of equals before. Keeps the first `limit`. */
void rut_an_sched_sort_rows(struct rut_an_sched *s, int64_t limit);

#endif
