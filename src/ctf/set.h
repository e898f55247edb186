/* SPDX-License-Identifier: MIT */
/* Between set.c (opening), index.c (packets without their events), cursor.c and reader.c. */
#ifndef RUT_CTF_SET_H
#define RUT_CTF_SET_H

#include "ctf/file.h"
#include "ctf/packet.h"

struct rut_set_file {
	char *path; /* owned */
	struct rut_ctf_file map;
	bool has_begin;
	int64_t begin_ns; /* of the first packet */
	uint64_t *skips;  /* owned, sorted: offsets of packets that another file has too */
	size_t n_skips;
};

/*
 * Every stride-th packet of a stream. The stride doubles when the table is full, so that its size
 * does not grow with the trace.
 */
struct rut_set_mark {
	uint32_t file;
	uint64_t offset;
	int64_t begin_ns;
};

enum { RUT_SET_MAX_MARKS = 4096 };

struct rut_set_stream {
	struct rut_ctf_stream pub; /* first */
	const struct rut_meta *meta;
	struct rut_set_stream *older; /* borrowed: of the same trace, or NULL */
	struct rut_set_file *files;   /* owned; in the order of time */
	size_t n_files;
	bool has_instance;
	uint64_t instance;
	uint32_t rank;		    /* which stream is first at equal times */
	struct rut_set_mark *marks; /* owned */
	size_t n_marks;
	uint64_t mark_stride, mark_skip;
	uint64_t grown_ns; /* when its file was found to have grown, CLOCK_MONOTONIC; 0: never */
};

struct rut_ctf_set {
	struct rut_ctf_set_opts opts;
	struct rut_meta **traces; /* owned */
	size_t n_traces;
	struct rut_set_stream **newest;	 /* owned array, borrowed elements: each trace's last */
	struct rut_set_stream **streams; /* owned */
	size_t n_streams;
	const struct rut_ctf_event_class **classes; /* owned array, borrowed elements */
	size_t n_classes;
	uint64_t bytes, errors;
	uint64_t twins; /* packets that are passed over because they are there twice */
	bool scanned;
};

/*
 * Maps what files have grown by, opens new ones, adds what metadata has grown by. Returns the
 * number of files that grew or came, or -errno.
 */
int rut_set_refresh(struct rut_ctf_set *set, struct rut_err *err);
/* Of it the metadata only. */
int rut_set_refresh_metadata(struct rut_ctf_set *set, struct rut_err *err);

/* Sets the ranks of all streams (rank.c). Returns 0 or -ENOMEM. */
int rut_set_rank_streams(struct rut_ctf_set *set);

/* Finds packets that are in several files (twins.c). Returns 0 or -ENOMEM. */
int rut_set_find_twins(struct rut_ctf_set *set);
static inline bool rut_set_is_twin(const struct rut_set_file *f, uint64_t offset)
{
	size_t lo = 0, hi = f->n_skips;

	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (f->skips[middle] < offset)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < f->n_skips && f->skips[lo] == offset;
}

/* Reports a problem that does not end everything: rut_log, and the count. */
void rut_set_complain(struct rut_ctf_set *set, const struct rut_err *err);

#endif
