/* SPDX-License-Identifier: MIT */
/*
 * Periods as they happen: which are open, which an event closes, which it opens.
 *
 * For each event periods are closed first, the deepest first; then opened, parents before their
 * children. A parent that closes takes its open children with it: these are not complete.
 *
 * Each definition's expressions are bound to each class of events once. A class that no
 * expression can be true for costs one load.
 */
#ifndef RUT_ANALYSIS_PERIODS_H
#define RUT_ANALYSIS_PERIODS_H

#include "base/hash.h"
#include "ctf/reader.h"
#include "expr/period.h"

struct rut_period {
	const struct rut_period_def *def;
	struct rut_period *parent;
	int64_t begin_ns, end_ns;
	bool complete;
	struct rut_expr_frame frame;
	struct rut_expr_val *slots;    /* owned; strings interned */
	struct rut_expr_val *captures; /* owned: begin captures, then end captures */
	void *user;
	struct rut_period *prev, *next; /* open ones of the same definition; or free ones */
	uint64_t serial;
	size_t children;  /* how many are open */
	void **instances; /* of the engine: one for each analysis */
};

struct rut_periods_class; /* programs of one class of events */

struct rut_periods {
	const struct rut_period_set *set;  /* borrowed */
	struct rut_period **first, **last; /* open ones, by definition */
	struct rut_period **free;
	size_t *order; /* definitions, the deepest first */
	struct rut_periods_class *classes;
	size_t n_classes;
	struct rut_strtab strings;
	uint64_t serial;
	void (*begin)(struct rut_period *p, void *arg);
	void (*end)(struct rut_period *p, void *arg); /* p->complete says how */
	void *arg;
	bool failed;
};

/* The reading of fields of CTF events by expressions. */
extern const struct rut_expr_ops rut_an_periods_expr_ops;

/* `set` is linked, and may be NULL or empty. */
int rut_an_periods_init(struct rut_periods *p, const struct rut_period_set *set);
void rut_an_periods_fini(struct rut_periods *p);
int rut_an_periods_bind(struct rut_periods *p, const struct rut_ctf_set *ctf);

/*
 * A capture that is always None, although events of the trace begin (or end) its period: these have
 * no such field. NULL: there is none, or no more after `last`, which is NULL at first.
 */
const struct rut_capture *rut_an_periods_empty_capture(const struct rut_periods *p,
						       const struct rut_capture *last,
						       const struct rut_period_def **ret_def);

/* Can events of this class begin or end a period? */
bool rut_an_periods_wants(const struct rut_periods *p, const struct rut_ctf_event_class *cls);
void rut_an_periods_event(struct rut_periods *p, const struct rut_ctf_event *ev);
/* Discards what is open. */
void rut_an_periods_abandon(struct rut_periods *p, int64_t ts_ns);

#endif
