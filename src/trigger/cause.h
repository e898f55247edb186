/* SPDX-License-Identifier: MIT */
/*
 * Why a snapshot was taken, as a trace beside it: one event `rutile_trigger` at the time of the
 * firing, on the clock of all rutile traces, so that every reader shows it among the others.
 */
#ifndef RUT_TRIGGER_CAUSE_H
#define RUT_TRIGGER_CAUSE_H

#include <stdint.h>

#include "base/err.h"

struct rut_trigger_cause {
	uint64_t ns; /* of the monotonic clock */
	const char *id, *name, *when;
	const char *what; /* the event as JSON, or the values that were given */
};

/* Makes `dir`/rutile_trigger; `dir` exists. Returns 0 or -errno. */
int rut_trigger_cause_write(const struct rut_trigger_cause *c, const char *dir,
			    struct rut_err *err);

#endif
