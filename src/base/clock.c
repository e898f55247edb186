/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <time.h>

int64_t rut_clock_offset_ns(void)
{
	int64_t best = 0, least = INT64_MAX;

	/* The narrowest of a few brackets. */
	for (int i = 0; i < 20; i++) {
		struct timespec a, r, b;
		int64_t before, after, real;

		clock_gettime(CLOCK_MONOTONIC, &a);
		clock_gettime(CLOCK_REALTIME, &r);
		clock_gettime(CLOCK_MONOTONIC, &b);
		before = a.tv_sec * 1000000000ll + a.tv_nsec;
		after = b.tv_sec * 1000000000ll + b.tv_nsec;
		real = r.tv_sec * 1000000000ll + r.tv_nsec;
		if (after - before < least) {
			least = after - before;
			best = real - (before + after) / 2;
		}
	}
	return best;
}
