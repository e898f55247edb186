/* SPDX-License-Identifier: MIT */
/*
 * The methods that exist: a look through the heap that ends with a list of code that needs hooks
 * (s->todo, in the order of files), all of it in slices.
 */
#ifndef RUT_AGENT_SCAN_H
#define RUT_AGENT_SCAN_H

#include "heap.h"

struct rut_session;

/* What was found: what it is good for, by what it is sorted, and where in the walk it is. */
struct rut_scan_key {
	VALUE kind, a, b;
	long pos;
};

struct rut_scan {
	enum {
		RUT_SCAN_OFF,
		RUT_SCAN_WALK, /* the heap */
		RUT_SCAN_KEYS, /* what is wanted of what was found, and its place */
		RUT_SCAN_SORT, /* by the helper thread: rut_scan_sort() */
		RUT_SCAN_LIST, /* s->todo is filled */
	} phase;
	bool again; /* some of it may have its hook already */
	bool by_name;
	struct rut_walk walk;
	long pos;
	struct rut_scan_key *keys; /* owned */
	size_t count, cap, next;
	size_t codes;		 /* pieces of code among them */
	struct rut_list named;	 /* method entries, when they are chosen by name; sorted by code */
	struct rut_list done;	 /* code that has its hook; sorted */
	struct rut_list unknown; /* code of which its name does not say whether it is wanted */
	VALUE path;		 /* the last one asked for, and the answer */
	bool wanted;
};

void rut_scan_begin(struct rut_session *s, bool again);
/* A slice. Returns true while more is left. With the GVL. */
bool rut_scan_work(struct rut_session *s, uint64_t deadline_ns);
/* The part that needs no GVL, in the phase SORT; no fork meanwhile. */
void rut_scan_sort(struct rut_session *s);
void rut_scan_end(struct rut_session *s);

#endif
