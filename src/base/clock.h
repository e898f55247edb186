/* SPDX-License-Identifier: MIT */
/* Records carry CLOCK_MONOTONIC; people ask for the time of day. */
#ifndef RUT_BASE_CLOCK_H
#define RUT_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_REALTIME - CLOCK_MONOTONIC now, measured as closely as the clocks allow. */
int64_t rut_clock_offset_ns(void);

/*
 * When a trace begins (CLOCK_MONOTONIC), and how far the time of day is from its clock. All parts
 * of a trace have the same, or their events would not be in order.
 */
struct rut_trace_clock {
	uint64_t begin_ns;
	int64_t offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

#endif
