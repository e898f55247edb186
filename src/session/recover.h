/* SPDX-License-Identifier: MIT */
/*
 * Finds the sessions in the memory dump of a crashed kernel, without its symbols: by the anchor
 * page of each (session/meta.h) and the lists of physical pages behind it.
 */
#ifndef RUT_SESSION_RECOVER_H
#define RUT_SESSION_RECOVER_H

#include <stdint.h>

#include "base/core.h"

struct rut_err;

/* One session that was found and written. */
struct rut_recovered {
	const char *name;
	const char *path;
	uint64_t packets;
	uint64_t bytes;
	uint64_t stacks;  /* that records may refer to */
	uint64_t damaged; /* packets that are not in the dump, or were being written */
};

/*
 * Reads a dump (ELF or kdump-compressed, as libkdumpfile knows them) and writes DIR/NAME, a trace,
 * for each session in it, and calls fn. Returns the number of sessions or -errno.
 */
int rut_recover(const char *dump, const char *dir,
		void (*fn)(const struct rut_recovered *found, void *arg), void *arg,
		struct rut_err *err);

/* The same with what the core of a recorder's process holds; 0: nothing. */
int rut_recover_core(const struct rut_core *core, const char *dir,
		     void (*fn)(const struct rut_recovered *found, void *arg), void *arg,
		     struct rut_err *err);

#endif
