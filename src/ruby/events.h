/* SPDX-License-Identifier: MIT */
/* Reading the events of trace mode: see events.c. */
#ifndef RUT_RUBY_EVENTS_H
#define RUT_RUBY_EVENTS_H

#include "ruby/internal.h"

int rut_events_open(struct rut_tracee *p, struct rut_err *err);
/* The ring is there in the file. */
int rut_events_open_at(struct rut_tracee *p, int fd, uint64_t off, uint64_t bytes,
		       struct rut_err *err);
/* Has everything been reported that was taken out of its ring? */
bool rut_events_told(const struct rut_tracee *p);
void rut_events_close(struct rut_tracee *p);
/* Reports that many events as lost. */
void rut_events_lost(struct rut_tracer *t, struct rut_tracee *p, uint64_t lost, uint64_t time_ns);
/*
 * Reports as lost what an exited process has left in its ring after the last round: it was killed
 * while it wrote a record, and the packet of that is never finished. At least so many.
 */
void rut_events_left(struct rut_tracer *t, struct rut_tracee *p);
/* Reports what has come, in order of time. Returns 0 or -errno. */
int rut_events_round(struct rut_tracer *t, struct rut_err *err);
/* Reports all that a ring holds, in a copy of another process's memory; p->table is set. */
int rut_events_tell_memory(struct rut_tracer *t, struct rut_tracee *p, struct rut_ring_ctl *ctl,
			   unsigned char *data, size_t bytes, struct rut_err *err);
/* The ring of a process with events. */
const struct rut_ring *rut_events_ring(const struct rut_tracee *p);
/* Do events come fast? Then look again soon. */
bool rut_events_busy(const struct rut_tracer *t);

#endif
