/* SPDX-License-Identifier: MIT */
/*
 * Sites: from what a hook sees (addresses of a class and of a path, a method's id, a line) to the
 * row that counts it.
 *
 * Addresses are good only as long as no GC has freed or moved what is there. So an entry holds for
 * one epoch, which every GC ends; at its first use in a new epoch it is compared with the names
 * that it stands for. That keeps nothing of the application alive.
 */
#ifndef RUT_AGENT_SITE_H
#define RUT_AGENT_SITE_H

#include "rb.h"

struct rut_session;
struct rut_variant;
struct rut_rec;

struct rut_site {
	VALUE klass;
	ID mid; /* 0: an allocation */
	const char *path;
	uint32_t line;
	uint32_t epoch;	       /* 0: free */
	struct rut_variant *v; /* its row is NULL: the filter leaves it out */
};

struct rut_sites {
	struct rut_site *slots; /* owned */
	uint32_t mask, count;
	uint32_t epoch;
};

/* The same for code (global.c). */
struct rut_code {
	VALUE iseq;
	uint32_t epoch;
	struct rut_rec *rec; /* NULL: the filter leaves it out */
};

struct rut_codes {
	struct rut_code *slots; /* owned */
	uint32_t mask, count;
};

/* Sizes of slots by page of the heap (Ruby >= 3.2: several sizes). */
struct rut_slots {
	uint64_t *pages; /* owned; page address | log-free size in the low 16 bits */
	uint32_t mask, count;
	bool stale; /* a page was not there: look again */
};

/*
 * The row of class `klass`, method `mid` at this place; NULL when it is not wanted. `path` may be
 * NULL. Allocates nothing of Ruby's. With the GVL.
 */
struct rut_variant *rut_site(struct rut_session *s, VALUE klass, ID mid, const char *path,
			     int line);
void rut_sites_fini(struct rut_session *s);

#endif
