/* SPDX-License-Identifier: MIT */
/*
 * Sites: from what a hook sees (the address of a class, a method's id, the place in the program) to
 * the row that counts it. The place is the address of an instruction, which is at hand, where Ruby
 * code runs; otherwise a path and a line, which Ruby has to look up. Entries hold for a time
 * (life.h).
 */
#ifndef RUT_AGENT_SITE_H
#define RUT_AGENT_SITE_H

#include "life.h"
#include "rb.h"

struct rut_session;
struct rut_variant;
struct rut_rec;
struct rut_agent_row;

/* One line of the cache. */
struct rut_site {
	VALUE klass;
	const void *place; /* of an instruction; or of a path's bytes, and the line */
	ID mid;		   /* 0: an allocation */
	uint32_t line;
	struct rut_life life;
	struct rut_agent_row *row; /* NULL: the filter leaves it out */
	struct rut_variant *v;
} __attribute__((aligned(64)));

struct rut_sites {
	struct rut_site *slots; /* owned */
	uint32_t mask, count;
};

/*
 * The same for code (code.c). The first words say what its last call was, and answer for the next
 * one when its receiver has the same class (hot.h).
 */
struct rut_code {
	VALUE iseq;
	VALUE klass;		   /* 0: not known, or the call is not wanted */
	struct rut_life call_life; /* as long as it holds, `v` and its row are right for `klass` */
	struct rut_variant *v;
	struct rut_agent_row *row;
	struct rut_life life; /* of `rec` */
	struct rut_rec *rec;  /* NULL: the filter leaves it out */
} __attribute__((aligned(64)));

struct rut_codes {
	struct rut_code *slots; /* owned, unless mask is 0: then it is one that is free */
	uint32_t mask, count;
};

/* Records of code with shared hooks, one for each place in the program. */
struct rut_recs {
	struct rut_rec **slots; /* owned; the records are the session's */
	uint32_t mask, count;
};

/* Sizes of slots by page of the heap (Ruby >= 3.2: several sizes). */
struct rut_slots {
	uint64_t *pages; /* owned; page address | log-free size in the low 16 bits */
	uint32_t mask, count;
	bool stale; /* a page was not there: look again */
};

struct rut_trace_arg;

/*
 * The site of class `klass`, method `mid` (0: an allocation) where the program is now; NULL when it
 * is not wanted. Its row is there. With `placed` false it is the same for all places. Allocates
 * nothing of Ruby's. With the GVL.
 */
const struct rut_site *rut_site(struct rut_session *s, const struct rut_trace_arg *ta, VALUE klass,
				ID mid, bool placed);
void rut_sites_fini(struct rut_session *s);

/* Does the filter want what is in this file? `iseq`: the code that runs there, when it is known. */
bool rut_place_wanted(struct rut_session *s, const char *path, VALUE iseq);

#endif
