/* SPDX-License-Identifier: MIT */
/*
 * How time is spent, by stacks: samples of what runs (rutile_sample), and the time between a switch
 * away from a thread and the switch back to it (sched_switch), split at its wake-up
 * (sched_waking). Ruby, native and kernel frames of a stack make one.
 *
 * May be given one trace after the other: a thread that is switched out at the end of one is
 * waiting still at the begin of the next.
 */
#ifndef RUT_ANALYSIS_PROFILE_H
#define RUT_ANALYSIS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/off.h"
#include "base/buf.h"
#include "base/hash.h"

struct rut_ctf_set;
struct rut_err;

enum rut_profile_by {
	RUT_PROFILE_METHOD,
	RUT_PROFILE_LINE,
	RUT_PROFILE_FILE,
	RUT_PROFILE_CLASS, /* of allocations: what is allocated */
};

/* A method, line or file. */
struct rut_profile_row {
	uint64_t self_ns, total_ns;
	uint64_t seen; /* number of the stack that counted it last */
};

struct rut_profile {
	enum rut_profile_by by;
	uint64_t sample_ns; /* of one sample; 0: samples do not count */
	struct rut_strtab names;
	struct rut_profile_row *rows; /* by name; owned */
	size_t n_rows;
	struct rut_strtab stacks;
	uint64_t *stack_ns; /* by stack; owned */
	size_t n_stacks;
	uint64_t wait_ns[RUT_OFFS], total_ns, samples;
	uint64_t stacks_read, unordered; /* unordered: where native frames belong is not known */
	uint64_t stamp;
	struct rut_map pending; /* by thread: struct pending, owned */
	/* Of the part of the trace that was read last, for the symbols; owned. */
	struct rut_callstacks *stacks_before;
	uint64_t last_ns;
	/* Allocations: exact, while the rows are estimated from samples; times are objects or
	 * bytes. */
	uint64_t objects, object_bytes, internal;
};

/* Adds what a trace has. 0 or -errno. */
int rut_an_profile_add(struct rut_profile *p, struct rut_ctf_set *set, struct rut_err *err);

/*
 * Adds the samples of allocations (ruby:alloc_sample). What they stand for is corrected by the
 * exact totals of each process, so that the sum is exact: objects, or bytes with `bytes`, which
 * must be what the samples were taken by. 0 or -errno.
 */
int rut_an_profile_add_allocs(struct rut_profile *p, struct rut_ctf_set *set, bool bytes,
			      struct rut_err *err);

/* Those that wait still have waited until the last event. */
int rut_an_profile_end(struct rut_profile *p);

/* "process;outer;inner N" lines, the most expensive first; N in units: 1000 for microseconds. */
void rut_an_profile_folded(const struct rut_profile *p, uint64_t unit, struct rut_buf *out);

void rut_an_profile_fini(struct rut_profile *p);

#endif
