/* SPDX-License-Identifier: MIT */
/*
 * An event of a program, fired in a loop: prints the ns of one, the tenth percentile of many short
 * rounds. `probed` begins with the 5-byte nop that Linux since 6.18 replaces by a call; with
 * -DLTTNG it is LTTng-UST's tracepoint of the same two integers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef LTTNG
#define TRACEPOINT_DEFINE
#define TRACEPOINT_CREATE_PROBES
#include "probed_tp.h"
#define FIRE(a, b) tracepoint(rutile_bench, probed, a, b)
#else
#define FIRE(a, b) probed(a, b)
#endif

#define ROUNDS 400
#define EACH   2000

void probed(long a, long b);

__attribute__((noinline)) void probed(long a, long b)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00" ::"r"(a), "r"(b));
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static double each[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		double begin = now_ns();

		for (long i = 0; i < EACH; i++)
			FIRE(i, r);
		each[r] = (now_ns() - begin) / EACH;
	}
	qsort(each, ROUNDS, sizeof(*each), compare);
	printf("%.1f\n", each[ROUNDS / 10]);
	return 0;
}
