/* SPDX-License-Identifier: MIT */
/* Ticks: the time stamp counter where the kernel trusts it, nanoseconds elsewhere. */
#ifndef RUT_AGENT_CLOCK_H
#define RUT_AGENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

extern bool rut_clock_is_tsc;

/* Decides, once. */
void rut_clock_init(void);

static inline uint64_t rut_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t rut_real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t rut_ticks(void)
{
	if (__builtin_expect(rut_clock_is_tsc, 1))
		return __builtin_ia32_rdtsc();
	return rut_mono_ns();
}

#endif
