/* SPDX-License-Identifier: MIT */
/*
 * Why a snapshot was taken, as a trace beside it: one event `rutile_trigger` at the time of the
 * firing, on the clock of all rutile traces, so that every reader shows it among the others.
 */
#ifndef RUT_TRIGGER_CAUSE_H
#define RUT_TRIGGER_CAUSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rut_trigger_cause {
	uint64_t ns; /* of the monotonic clock */
	const char *id, *name, *when;
	const char *what; /* the event as JSON, or the values that were given */
	const char *host; /* where it fired */
	/*
	 * By how much this machine's time of day was ahead of that host's, and by how much that may
	 * be wrong, -1: it is not known. The trace's clock is corrected by it.
	 */
	int64_t clock_offset_ns, clock_error_ns;
};

/*
 * What another machine says of a firing: "ID,NAME,HOST,OFFSET,ERROR,TIME", see fleet/fire.h. Its
 * pieces are in `text`, of `size` bytes. Returns 0 or -EINVAL.
 */
int rut_trigger_cause_parse(struct rut_trigger_cause *ret, const char *s, char *text, size_t size,
			    struct rut_err *err);

/* Makes `dir`/rutile_trigger; `dir` exists. Returns 0 or -errno. */
int rut_trigger_cause_write(const struct rut_trigger_cause *c, const char *dir,
			    struct rut_err *err);

#endif
