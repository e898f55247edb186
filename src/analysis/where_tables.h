/* SPDX-License-Identifier: MIT */
/* What where.c knows of threads, CPUs and processes; for where.c only. */
#ifndef RUT_ANALYSIS_WHERE_TABLES_H
#define RUT_ANALYSIS_WHERE_TABLES_H

#include "analysis/where.h"

struct rut_where_cpu {
	int64_t idle_ns; /* since when it is idle; RUT_NO_TIME: it is not */
};

/* A process: how long at least one of its threads was on a CPU, or waited for one. */
struct rut_where_process {
	int64_t busy_ns, since_ns;
	int busy;
};

/* Made at first sight; never NULL: without memory w->failed is set, and it is one that nobody
 * reads. */
struct rut_where_cpu *rut_an_where_cpu(struct rut_where *w, int cpu);
struct rut_where_process *rut_an_where_process(struct rut_where *w, const struct rut_thread *t);

#endif
