/* SPDX-License-Identifier: MIT */
/*
 * A loop of system calls.
 *
 *	syscall_loop CALLS               as fast as it goes: prints the ns of one, the best of 5
 *rounds syscall_loop CALLS PER_SECOND    paced, in bursts of a millisecond
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

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000000;
	double best = 1e18;

	if (argc > 2) {
		paced(calls, atol(argv[2]));
		return 0;
	}
	for (int round = 0; round < 5; round++) {
		double begin = now_ns(), each;

		for (long i = 0; i < calls; i++)
			syscall(SYS_getppid);
		each = (now_ns() - begin) / (double)calls;
		best = each < best ? each : best;
	}
	printf("%.1f\n", best);
	return 0;
}
