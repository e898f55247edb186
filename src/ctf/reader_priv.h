/* SPDX-License-Identifier: MIT */
/* What reader.c and ahead.c share. */
#ifndef RUT_CTF_READER_PRIV_H
#define RUT_CTF_READER_PRIV_H

#include "ctf/cursor.h"
#include "ctf/reader.h"

struct rut_ahead;

/*
 * What one thread writes for each event must not share a cache line with what another reads for
 * each event: CPUs fetch two lines of 64 bytes at once.
 */
#define RUT_OWN_LINES _Alignas(128)

/* A cursor that stands at an event, and the event's time. */
struct rut_merge_node {
	int64_t ts_ns;
	struct rut_cursor *c;
};

struct rut_ctf_reader {
	struct rut_ctf_run *run; /* first; the root's, or: */
	struct rut_ctf_run own;	 /* of no events, or of ahead.c */
	struct rut_ctf_set *set; /* borrowed */
	struct rut_ctf_reader_opts opts;
	struct rut_ahead *ahead; /* owned; while it is there, the rest belongs to its thread */

	RUT_OWN_LINES struct rut_ctf_counts counts;
	struct rut_cursor **cursors; /* owned */
	size_t n_cursors;
	struct rut_merge_node *heap; /* owned; behind its last node are others at no time */
	size_t n_heap;
	/* The earliest time of the heap's other cursors: below it the root stays the root. */
	int64_t rival_ns;
	struct rut_flat **flats; /* owned, one for each stream class */
	size_t n_flats;
	uint8_t *wanted; /* owned; NULL: all */
	bool started;
	bool fresh;	      /* the heap's root was not given out yet */
	int64_t watermark_ns; /* follow: events after it wait */
	uint64_t opened_ns;   /* follow: when the reader was made */
	uint64_t grown_ns;    /* follow: when the trace grew last, in CLOCK_MONOTONIC */
	bool quiet;	      /* follow: it has not grown for a while, and nothing waits */
	int64_t mark_ns;
};

/* Whether the root's next event was found already and comes before those of the others. */
static inline bool rut_reader_has_run(const struct rut_ctf_reader *r, const struct rut_cursor *c)
{
	return c->run.next < c->run.end && c->run.next->ts_ns < r->rival_ns;
}

/* The cursor that stands at the next event, valid until the next call; NULL at the end. */
struct rut_cursor *rut_reader_step(struct rut_ctf_reader *r);
/* Of the cursors themselves, whether a thread reads ahead or not. */
void rut_reader_set_mark(struct rut_ctf_reader *r, int64_t ts_ns);
int64_t rut_reader_last_ns(const struct rut_ctf_reader *r);

#endif
