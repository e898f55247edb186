/* SPDX-License-Identifier: MIT */
/*
 * Deferred probes of Ruby. A hit that the kernel is told of takes a trap, which is most of what the
 * probe costs. A body that only adds to maps, by what it knows of the call, its thread and its
 * time, gives the same result later and in any order: the agent writes such hits into its ring
 * (agent/hit.h), and this process runs the program on many of them at once. A body that prints
 * gives the same output later if hits and what other programs send are taken in order of time
 * (sequence.h). When the ring is full hits trap as those of other probes do.
 *
 * The same body is compiled twice: for the place of the probe, and to be run for an array of hits.
 */
#ifndef RUT_SCRIPT_DEFER_H
#define RUT_SCRIPT_DEFER_H

#include "script/check.h"

struct rut_err;
struct rut_ruby_event;
struct rut_script_hits;

/* A probe that was resolved; all of a script. */
struct rut_resolved {
	struct rut_probe *probe;
	struct rut_probe_ctx *ctx;
};

/* May the hits of this one be deferred? When all are checked. */
bool rut_script_may_defer(const struct rut_script_program *p, const struct rut_resolved *list,
			  size_t n, size_t i);
/* Does it use the thread or the time of the hit? */
bool rut_script_is_local(const struct rut_probe *probe);

/* Hits that are collected for the programs. Returns 0 or -ENOMEM. */
int rut_script_hits_new(struct rut_script_hits **ret, const struct rut_script_program *p);
void rut_script_hits_free(struct rut_script_hits *h);
/* Before hits are taken. */
void rut_script_hits_begin(struct rut_script_hits *h);
/* A rut_ruby_event_fn. */
void rut_script_hits_event(const struct rut_ruby_event *ev, void *hits);
/* Do some of them print? Their programs are run by this, in order of time. */
bool rut_script_hits_print(const struct rut_script_hits *h);
/*
 * Runs those that print, up to that time. `served` is called whenever the programs may have written
 * `room_bytes` into the ring, to empty it. Returns 0 or -errno.
 */
int rut_script_hits_run_until(struct rut_script_hits *h, uint64_t until_ns, uint32_t room_bytes,
			      void (*served)(void *arg), void *arg, struct rut_err *err);
/* Runs the programs of the others for what was collected. Returns 0 or -errno, also of a run
 * before. */
int rut_script_hits_run(struct rut_script_hits *h, struct rut_err *err);
/* How many could not be read, at least. */
uint64_t rut_script_hits_lost(const struct rut_script_hits *h);

#endif
