/* SPDX-License-Identifier: MIT */
/*
 * Quantities over time, one track for each thing that has one: CPU time of a process, durations of
 * a system call of a process, requests of a disk ... What `changes` and `diff` compare.
 *
 * A track's names are its own, so tracks outlive the trace that they were made from. There are at
 * most RUT_TRACKS_MAX: what comes later is counted under "(others)".
 */
#ifndef RUT_ANALYSIS_TRACKS_H
#define RUT_ANALYSIS_TRACKS_H

#include "analysis/bins.h"
#include "analysis/ordered.h"
#include "analysis/sampler.h"

enum { RUT_TRACKS_MAX = 8192 };

enum rut_track_kind {
	RUT_TRACK_CPU,	   /* by process */
	RUT_TRACK_SYSCALL, /* by process and call */
	RUT_TRACK_CALLS,   /* all calls of a process */
	RUT_TRACK_ERRORS,  /* by process and call */
	RUT_TRACK_SCHED,   /* by process */
	RUT_TRACK_DISK,	   /* by disk and direction */
	RUT_TRACK_IRQ,	   /* by name */
	RUT_TRACK_SOFTIRQ,
	RUT_TRACK_READ, /* bytes, by process */
	RUT_TRACK_WRITTEN,
	RUT_TRACK_PAGES,    /* by process */
	RUT_TRACK_SWITCHES, /* of all */
	RUT_TRACK_KINDS,
};

/* What a track says. */
enum rut_measure {
	RUT_MEASURE_RATE,     /* values a second */
	RUT_MEASURE_LEVEL,    /* their sum a second; of times: how many at once */
	RUT_MEASURE_DURATION, /* how long each takes */
	RUT_MEASURES,
};

struct rut_track {
	enum rut_track_kind kind;
	char *who, *what; /* owned; NULL: of all, nothing more to say */
	struct rut_bins bins;
};

/* A track that was asked for lately, and by what; the names are compared as pointers. */
struct rut_track_recent {
	const char *who, *what;
	struct rut_track *track; /* NULL: none */
	enum rut_track_kind kind;
};

#define RUT_TRACKS_RECENT 256 /* a power of two */

struct rut_tracks {
	int64_t begin_ns,
		end_ns;		 /* set the begin before the first sample, the end after the last */
	struct rut_ordered list; /* of struct rut_track */
	struct rut_map names;	 /* pointer -> number: only while samples come */
	uint64_t n_names;
	struct rut_track_recent recent[RUT_TRACKS_RECENT];
	bool failed; /* no memory */
};

/* by_cgroup: by control group instead of process. */
void rut_an_tracks_sample(struct rut_tracks *t, struct rut_state *st, const struct rut_sample *x,
			  bool by_cgroup);
void rut_an_tracks_fini(struct rut_tracks *t);

/* Does a track of this kind have this measure? */
bool rut_an_track_has(enum rut_track_kind kind, enum rut_measure m);
/* "system call", "calls a second": for people. */
const char *rut_an_track_kind_name(enum rut_track_kind kind);
const char *rut_an_measure_name(enum rut_track_kind kind, enum rut_measure m);
/* Is a level one of times, 1e9 a second being 1? */
bool rut_an_track_is_time(enum rut_track_kind kind);

/* A width (as a shift) of which the time holds at least so many, and less than twice as many. */
unsigned int rut_an_tracks_shift(const struct rut_tracks *t, size_t parts);
/* How many whole bins of 1 << shift ns the time holds, at most RUT_BINS. */
size_t rut_an_tracks_parts(const struct rut_tracks *t, unsigned int shift);

/*
 * The values of a measure in bins of 1 << shift ns, widened to it, without the last one, of which
 * only a part is in the time. Durations: the logarithm of the typical one (geometric mean, base 2)
 * of each bin that has any; ret_at (or NULL) says which bin a value is of. Returns how many values;
 * there is room for RUT_BINS.
 */
size_t rut_an_track_values(const struct rut_tracks *t, struct rut_track *track, enum rut_measure m,
			   unsigned int shift, double *ret, size_t *ret_at);

#endif
