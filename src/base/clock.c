/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

#define MEASURED_TO_NS 10000 /* on a machine that is busy, too */

int64_t rut_clock_offset_ns(void)
{
	int64_t best = 0, least = INT64_MAX;

	/* The narrowest of a few brackets. */
	for (int i = 0; i < 20; i++) {
		int64_t before = (int64_t)rut_now_ns();
		int64_t real = (int64_t)rut_clock_ns(CLOCK_REALTIME);
		int64_t after = (int64_t)rut_now_ns();

		if (after - before < least) {
			least = after - before;
			best = real - (before + after) / 2;
		}
	}
	return best;
}

int64_t rut_clock_offset_near_ns(int64_t known_ns)
{
	int64_t offset = rut_clock_offset_ns();

	return llabs(offset - known_ns) <= MEASURED_TO_NS ? known_ns : offset;
}
