/* SPDX-License-Identifier: MIT */
/* Points of time as users write them. */
#ifndef RUT_CTF_WHEN_H
#define RUT_CTF_WHEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Understands, in local time or with `gmt` in UTC, each with an optional fraction of 1 to 9 digits:
 *
 *	YYYY-MM-DD HH:MM:SS    (or with a T between)
 *	HH:MM:SS               on the day of day_ns (ns since the epoch), the trace's begin
 *	SECONDS                since the epoch, may be negative
 *	NANOSECONDS            since the epoch: a number of 16 digits or more, without a fraction
 *
 * Sets *ret_ns, ns since the epoch. Returns 0 or -EINVAL.
 */
int rut_ctf_parse_when(const char *s, bool gmt, int64_t day_ns, int64_t *ret_ns,
		       struct rut_err *err);

/* Whether the text needs day_ns. */
bool rut_ctf_when_needs_day(const char *s);

#endif
