/* SPDX-License-Identifier: MIT */
/*
 * Writing the events of record mode (RUT_RUBY_RECORD) into a trace: a CTF trace for each process,
 * DIR/ruby-PID, beside the kernel's and on the same clock. Packets are written as they stand in
 * the rings; names go into a stream of their own (`ruby:method`) and, as an enumeration, into the
 * metadata, so that every reader shows them.
 */
#ifndef RUT_RUBY_RECORD_H
#define RUT_RUBY_RECORD_H

#include <stdint.h>

struct rut_err;
struct rut_trace_clock;
struct rut_tracer;

/*
 * From now on the events of every traced process go into directories under `dir`, which exists.
 * `clock` is that of the whole trace: every stream begins when it does, for readers that use
 * the time in which all streams record. Called again: the directories that were written until now
 * end at clock->begin_ns. Returns 0 or -errno; events stay in the rings then.
 */
int rut_tracer_record_to(struct rut_tracer *t, const char *dir, const struct rut_trace_clock *clock,
			 struct rut_err *err);

/* Writes what is left and ends every stream at `end_ns`. Returns 0 or -errno. */
int rut_tracer_record_end(struct rut_tracer *t, uint64_t end_ns, struct rut_err *err);

/*
 * A flight recorder (config.overwrite): copies what the rings hold into directories under `dir`.
 * Continues recording. `clock` as above. Returns 0 or -errno.
 */
int rut_tracer_record_snapshot(struct rut_tracer *t, const char *dir,
			       const struct rut_trace_clock *clock, uint64_t end_ns,
			       struct rut_err *err);

/* What a process has allocated, with samples of allocations; as it stands in the trace. */
struct rut_record_allocs {
	uint64_t objects, bytes; /* that a program can see, and their slots */
	uint64_t internal;	 /* objects of Ruby's own */
};

/* What the names of the directories of processes begin with. */
#define RUT_RECORD_DIR "ruby-"

/* Removes the directory `name` of a process from a trace in the directory `parent`. */
void rut_record_remove(int parent, const char *name);

/*
 * Where the metadata grows (config.grows): all records before that are in the files of the traced
 * processes; UINT64_MAX: no process is traced.
 */
uint64_t rut_tracer_record_complete(const struct rut_tracer *t);

struct rut_record_totals {
	uint64_t events, bytes, packets; /* written */
	uint64_t lost;			 /* events that did not fit into a ring */
	uint32_t processes;		 /* that were recorded */
};

/* Since rut_tracer_new(). */
void rut_tracer_record_totals(const struct rut_tracer *t, struct rut_record_totals *ret);

#endif
