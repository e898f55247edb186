/* SPDX-License-Identifier: MIT */
/*
 * What happened lately: what explains a request that has just ended.
 *
 * The history is of the whole machine: which thread was where between two switches, and which
 * requests the disks served. It is a ring, so memory does not grow with the trace; a request that
 * took longer than it reaches back is explained from what there is. The log is of one request:
 * its slices, calls and spans in order of time, up to a limit.
 */
#ifndef RUT_ANALYSIS_HISTORY_H
#define RUT_ANALYSIS_HISTORY_H

#include "analysis/ruby.h"
#include "analysis/state.h"
#include "analysis/where.h"
#include "base/hash.h"

#define RUT_HISTORY_SLICES  (1u << 17)
#define RUT_HISTORY_DISK    (1u << 15)
#define RUT_HISTORY_STOPS   64
#define RUT_HISTORY_RESENDS 4096

struct rut_disk_use {
	int64_t begin_ns, end_ns;
	int64_t tid;
	const char *disk; /* NULL: its name is not known */
	int64_t bytes;
	bool write;
};

/* A signal that stops: its sender and target. */
struct rut_stop {
	int64_t ts_ns, tid, by;
};

/* A segment of TCP that was sent again, as addresses with ports; interned. */
struct rut_resend {
	int64_t ts_ns;
	const char *from, *to;
};

struct rut_history {
	struct rut_slice *slices;  /* owned ring, in order of their ends */
	struct rut_disk_use *disk; /* owned ring, in order of their ends */
	struct rut_stop stops[RUT_HISTORY_STOPS];
	struct rut_resend resends[RUT_HISTORY_RESENDS];
	uint64_t n_slices, n_disk, n_stops, n_resends; /* ever added */
};

/* NULL: no memory. */
struct rut_history *rut_an_history_new(void);
void rut_an_history_free(struct rut_history *h);
void rut_an_history_slice(struct rut_history *h, const struct rut_slice *s);
void rut_an_history_disk(struct rut_history *h, const struct rut_hook_block *b);
void rut_an_history_stop(struct rut_history *h, int64_t ts_ns, int64_t tid, int64_t by);
void rut_an_history_resend(struct rut_history *h, const struct rut_resend *r);

/* How many segments from or to this peer were sent again between these times. */
uint64_t rut_an_history_resends(const struct rut_history *h, const char *peer, int64_t begin_ns,
				int64_t end_ns);
/* The i-th newest (0: the newest), or NULL. */
const struct rut_slice *rut_an_history_at(const struct rut_history *h, uint64_t i);
const struct rut_disk_use *rut_an_history_disk_at(const struct rut_history *h, uint64_t i);
/* The sender of the last signal that stopped this thread or its process before then; 0: not known.
 */
int64_t rut_an_history_stopped_by(const struct rut_history *h, int64_t tid, int64_t pid,
				  int64_t begin_ns, int64_t end_ns);

/* ---- One request ---- */

enum rut_log_type { RUT_LOG_SLICE, RUT_LOG_CALL, RUT_LOG_SPAN, RUT_LOG_END };

struct rut_log_entry {
	uint8_t type;
	uint8_t place; /* of a slice */
	int cpu;       /* of a slice */
	uint32_t nr;   /* of a slice: its system call; of CALL, SPAN and END: the depth */
	int64_t ts_ns;
	int64_t end_ns; /* of a slice */
	int64_t by;	/* of a slice */
	/* Interned by the state: a slice's system call and object, a call's method, a span's layer
	 * and method. */
	const char *name, *what;
	int64_t detail;			      /* of a span: its text among `texts`; -1: none */
	const struct rut_ruby_method *caller; /* of a span */
};

struct rut_log {
	struct rut_log_entry *entries; /* owned */
	size_t n, cap;
	uint64_t lost; /* that did not fit */
	struct rut_strtab texts;
};

void rut_an_log_free(struct rut_log *l);
/* Adds a copy; counts it as lost when the log is full. */
void rut_an_log_add(struct rut_log *l, const struct rut_log_entry *e);

#endif
