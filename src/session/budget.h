/* SPDX-License-Identifier: MIT */
/*
 * --max-overhead: what the programs (bpf/budget.bpf.h) do not know, and what has to be done about
 * what they decide.
 */
#ifndef RUT_SESSION_BUDGET_H
#define RUT_SESSION_BUDGET_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/budget.h"
#include "session/recorder.h"

/* Names and costs of the classes of a new session. */
void rut_budget_init(struct rut_recorder *r);

/* The name and cost of an event added by name; `spec`, what it was added by, says of which kind. */
void rut_budget_name(struct rut_recorder *r, uint32_t id, const char *name, const char *spec);

/*
 * Lets the kernel measure the attached programs for a short time, and takes their typical times for
 * costs. Without it (not allowed, nothing ran) the costs stay what was measured elsewhere.
 */
void rut_budget_calibrate(struct rut_recorder *r);

/* What a program ran in a part of that time. */
struct rut_budget_slice {
	uint64_t runs, ns;
};

/*
 * The time of a run in the middle one of all runs' slices; 0: there were too few runs. The mean
 * would not do: one run in which the machine's CPU was taken away counts as thousands. Sorts.
 */
uint32_t rut_budget_typical_ns(struct rut_budget_slice *slices, size_t n);

/* What a process of the session remembers between two looks. */
struct rut_budget_follower {
	bool foreground; /* the links are held by this process, not pinned */
	bool shed[RUT_BUDGET_CLASSES];
	uint64_t looked_ns, limit;
	uint64_t until_ns;		       /* programs are detached until then; 0: none is */
	struct rut_selection detached;	       /* what they record */
	uint32_t probes[RUT_META_DYNAMIC_MAX]; /* ids of events added by name that are detached */
	uint32_t nprobes;
};

/*
 * Says what was shed and restored. When even the programs of what is shed cost too much they are
 * detached, which a flight recorder cannot do, and attached again when the pause is over.
 */
void rut_budget_follow(struct rut_budget_follower *f, struct rut_recorder *r);

/* Is the class shed now? With `ret_left_ns` for how long yet. */
bool rut_budget_is_shed(const struct rut_recorder *r, uint32_t class, uint64_t *ret_left_ns);

#endif
