/* SPDX-License-Identifier: MIT */
/*
 * Where the probes that a user names are: USDT probes and functions, by shell patterns, in a file
 * or in all files of a process. One probe can have several sites (it was inlined, or several files
 * have it), and one pattern can match several probes, of which each becomes an event of its own.
 */
#ifndef RUT_SESSION_SITES_H
#define RUT_SESSION_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "probe/binary.h"

struct rut_err;

struct rut_site {
	char path[512];
	char provider[RUT_PROBE_NAME_MAX]; /* "" for a function */
	char name[RUT_PROBE_NAME_MAX];
	char args[RUT_PROBE_ARGS_MAX]; /* of a USDT note */
	uint64_t offset;	       /* in the file */
	uint64_t address;	       /* as the file is linked */
	uint64_t semaphore;	       /* in the file; 0: none */
	size_t order;
};

/* Sorted by provider and name, the sites of a probe in the order in which they were found. */
struct rut_sites {
	struct rut_site *list; /* owned */
	size_t count;
};

/* A process id in place of a binary, or 0. */
int rut_sites_pid(const char *binary);

/*
 * USDT probes that match both patterns. -ENOENT: there is none; -E2BIG: one has more sites than
 * RUT_PROBE_SITES.
 */
int rut_sites_usdt(struct rut_sites *ret, const char *binary, const char *provider,
		   const char *name, struct rut_err *err);

/*
 * Functions that match the pattern. Of several names of one address, one is taken, unless it was
 * asked for without a pattern. In a process the first file that has a name counts, as for the
 * dynamic linker. Errors as above.
 */
int rut_sites_functions(struct rut_sites *ret, const char *binary, const char *pattern,
			struct rut_err *err);

/* The end of the probe with sites from `from` on. */
size_t rut_sites_end(const struct rut_sites *s, size_t from);

/* How many different probes there are. */
size_t rut_sites_probes(const struct rut_sites *s);

void rut_sites_fini(struct rut_sites *s);

#endif
