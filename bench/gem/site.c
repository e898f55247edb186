/* SPDX-License-Identifier: MIT */
/*
 * What a traced probe costs in C: librutile-usdt's 5-byte nop beside the 1-byte nop of <sys/sdt.h>,
 * which is a trap when traced, as the probes of libstapsdt and the old gem are.
 *
 * Prints its provider's path, waits for a line, then prints nanoseconds a probe: ours, theirs.
 */
#include <stdio.h>
#include <sys/sdt.h>
#include <time.h>

#include "rutile/usdt.h"

enum { ROUNDS = 20000 };

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static double time_ours(struct rutile_usdt_probe *probe)
{
	double begin = now_ns();

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t args[2] = {i, i};

		if (rutile_usdt_enabled(probe))
			rutile_usdt_fire(probe, args);
	}
	return (now_ns() - begin) / ROUNDS;
}

static double time_theirs(void)
{
	double begin = now_ns();

	for (uint64_t i = 0; i < ROUNDS; i++)
		DTRACE_PROBE2(bench, theirs, i, i);
	return (now_ns() - begin) / ROUNDS;
}

int main(void)
{
	const enum rutile_usdt_type types[] = {RUTILE_USDT_S64, RUTILE_USDT_S64};
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	char path[64];
	int rounds = 0;

	if (rutile_usdt_provider_new("bench", &p) ||
	    rutile_usdt_probe_add(p, "ours", types, 2, &probe) || rutile_usdt_provider_load(p) ||
	    rutile_usdt_provider_path(p, 0, path, sizeof(path)))
		return 1;
	do {
		double ours = 1e9, theirs = 1e9;

		/* The least of several: what disturbs only adds. */
		for (int i = 0; i < 40; i++) {
			double a = time_ours(probe), b = time_theirs();

			ours = a < ours ? a : ours;
			theirs = b < theirs ? b : theirs;
		}
		printf("%s %.2f %.2f\n", path, ours, theirs);
		fflush(stdout);
	} while (getchar() != EOF && ++rounds < 20);
	rutile_usdt_provider_free(p);
	return 0;
}
