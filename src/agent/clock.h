/* SPDX-License-Identifier: MIT */
/*
 * Ticks: the time stamp counter where the kernel trusts it (base/tsc.h), nanoseconds elsewhere. The
 * tracer, which reads the agent's times, uses this too.
 */
#ifndef RUT_AGENT_CLOCK_H
#define RUT_AGENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

extern bool rut_agent_clock_is_tsc __attribute__((visibility("hidden")));

/* Decides by what this process sees. */
void rut_agent_clock_init(void);
/* The tracer sees that it is the counter. While nothing has ticks yet. */
void rut_agent_clock_learn(void);

static inline uint64_t rut_mono_ns(void)
{
	return rut_now_ns();
}

/* What this thread has spent: not the time in which others had the CPU. */
static inline uint64_t rut_cpu_ns(void)
{
	return rut_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t rut_real_ns(void)
{
	return rut_clock_ns(CLOCK_REALTIME);
}

static inline uint64_t rut_ticks_of(bool is_tsc)
{
	return __builtin_expect(is_tsc, 1) ? __builtin_ia32_rdtsc() : rut_mono_ns();
}

static inline uint64_t rut_ticks(void)
{
	return rut_ticks_of(rut_agent_clock_is_tsc);
}

/* Both clocks at one moment: the closest of some tries, for a thread can be kept waiting anywhere.
 */
static inline void rut_clock_pair(bool is_tsc, uint64_t *ret_ticks, uint64_t *ret_mono_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 8; i++) {
		uint64_t before = rut_ticks_of(is_tsc), ns = rut_mono_ns(),
			 after = rut_ticks_of(is_tsc);

		if (after - before < best) {
			best = after - before;
			*ret_ticks = before + best / 2;
			*ret_mono_ns = ns;
		}
	}
}

#endif
