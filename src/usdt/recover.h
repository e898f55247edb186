/* SPDX-License-Identifier: MIT */
/*
 * Static tracepoints out of the core of their process: its ring is in its memory, and its control
 * page says what the events are. What the recorder has written already is there too, until its
 * place is used again.
 */
#ifndef RUT_USDT_RECOVER_H
#define RUT_USDT_RECOVER_H

#include <stdint.h>

#include "base/core.h"

struct rut_err;

struct rut_usdt_recovered {
	const char *path;
	uint64_t packets, events;
	uint64_t damaged; /* packets that were being written, or cannot be read to their end */
};

/*
 * Writes DIR/ruby_static-PID, a trace, for each ring in the core, and calls `fn` with it. Returns
 * the number of rings or -errno.
 */
int rut_usdt_recover(const struct rut_core *core, const char *dir,
		     void (*fn)(const struct rut_usdt_recovered *found, void *arg), void *arg,
		     struct rut_err *err);

#endif
