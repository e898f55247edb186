/* SPDX-License-Identifier: MIT */
/*
 * Counters as contexts, "perf:cpu:NAME" with LTTng's names: what a CPU has counted so far stands in
 * each of its records. Counters of the processor need its PMU, those of the kernel nothing.
 */
#ifndef RUT_SESSION_PERF_H
#define RUT_SESSION_PERF_H

struct rut_buf;
struct rut_err;
struct rut_recorder;

/* Whether a counter such as "cpu:cycles" is known, on whatever machine. 0 or -EINVAL. */
int rut_perf_check(const char *name, struct rut_err *err);

/*
 * Opens the session's counters on each CPU. One that this machine lacks is named in a warning and
 * removed from the session; with conf.strict it is an error. Returns 0 or -errno.
 */
int rut_perf_open(struct rut_recorder *r, struct rut_err *err);

/* Appends the name that LTTng's traces have for the counter: "perf_cpu_cycles". */
void rut_perf_field(struct rut_buf *out, const char *name);

/* Has this machine counters of the processor? */
int rut_perf_has_pmu(void);

#endif
