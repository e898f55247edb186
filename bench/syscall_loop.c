/* SPDX-License-Identifier: MIT */
/*
 * A loop of system calls.
 *
 *	syscall_loop CALLS               as fast as it goes: prints the ns of one, the tenth
 *					 percentile of rounds so short that a busy machine leaves
 *					 most of them alone
 *	syscall_loop CALLS PER_SECOND    paced, in bursts of a millisecond
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void paced(long calls, long rate)
{
	double next = now_ns();

	for (long i = 0; i < calls; i++) {
		syscall(SYS_getppid);
		if (i % (rate / 1000) == 0) {
			next += 1e6;
			while (now_ns() < next)
				usleep(100);
		}
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

#define ROUND 2000

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000000, rounds;
	double *each;

	if (argc > 2) {
		paced(calls, atol(argv[2]));
		return 0;
	}
	rounds = calls / ROUND ? calls / ROUND : 1;
	each = calloc((size_t)rounds, sizeof(*each));
	if (!each)
		return 1;
	for (long round = 0; round < rounds; round++) {
		double begin = now_ns();

		for (long i = 0; i < ROUND; i++)
			syscall(SYS_getppid);
		each[round] = (now_ns() - begin) / ROUND;
	}
	qsort(each, (size_t)rounds, sizeof(*each), compare);
	printf("%.1f\n", each[rounds / 10]);
	free(each);
	return 0;
}
