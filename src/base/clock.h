/* SPDX-License-Identifier: MIT */
/*
 * Records carry CLOCK_MONOTONIC; people ask for the time of day. The functions that read one clock
 * are inline: the files that also run inside other programs link no other part of base.
 */
#ifndef RUT_BASE_CLOCK_H
#define RUT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t rut_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* CLOCK_MONOTONIC. */
static inline uint64_t rut_now_ns(void)
{
	return rut_clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t rut_now_ms(void)
{
	return rut_now_ns() / 1000000;
}

/* CLOCK_REALTIME - CLOCK_MONOTONIC now, measured as closely as the clocks allow. */
int64_t rut_clock_offset_ns(void);

/*
 * The same, but known_ns where that is no further away than a measurement may be: only setting the
 * time of day changes the difference (slewing moves both clocks), so what is written of one session
 * at several moments has the same times.
 */
int64_t rut_clock_offset_near_ns(int64_t known_ns);

/*
 * When a trace begins (CLOCK_MONOTONIC), and how far the time of day is from its clock. All parts
 * of a trace have the same, or their events would not be in order.
 */
struct rut_trace_clock {
	uint64_t begin_ns;
	int64_t offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

#endif
