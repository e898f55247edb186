/* SPDX-License-Identifier: MIT */
/*
 * Reading ahead: a thread walks and merges the streams, while the caller works on what was found
 * before.
 *
 * The thread puts events into batches of short records (struct rut_found): time, class, and where
 * the body is. What the events of a packet have in common, its description above all, is in the
 * batch once; where segments begin and the values that other fields refer to are copied for the
 * classes that have several or some. The record itself stays in the file's mapping. The caller sees
 * the same events, losses and errors in the same order as without the thread, and the callbacks are
 * called in the caller's thread.
 *
 * A few batches are reused, so memory does not depend on which side is faster.
 */
#ifndef RUT_CTF_AHEAD_H
#define RUT_CTF_AHEAD_H

#include "ctf/reader.h"

struct rut_ahead;

/*
 * Starts the thread, which owns the reader's cursors until rut_ahead_free(). The reader's callbacks
 * are replaced meanwhile. Returns 0 or -errno (then nothing has changed).
 */
int rut_ahead_new(struct rut_ahead **ret, struct rut_ctf_reader *r);
void rut_ahead_free(struct rut_ahead *a);

/* The next event, and the run that it begins. At first *run is one of zeros. */
const struct rut_ctf_event *rut_ahead_next(struct rut_ahead *a, struct rut_ctf_run **run);
/* As rut_ctf_reader_mark(), _counts() and _last_ns(): what the caller has got to. */
void rut_ahead_mark(struct rut_ahead *a, int64_t ts_ns);
void rut_ahead_counts(const struct rut_ahead *a, struct rut_ctf_counts *ret);
int64_t rut_ahead_last_ns(const struct rut_ahead *a);

#endif
