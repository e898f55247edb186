/* SPDX-License-Identifier: MIT */
/*
 * An agent that does nothing but show that it came: it counts itself in a variable of the
 * environment block's size class, uses malloc, vector registers and errno, and starts a thread
 * when DUMMY_THREAD is defined, as the real one does.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Found by the tests in /proc/PID/maps and in the memory of the target. */
__attribute__((used, visibility("default"))) volatile int dummy_agent_count;

static void *thread_main(void *arg)
{
	dummy_agent_count++;
	return arg;
}

__attribute__((constructor)) static void dummy_init(void)
{
	volatile double x = 1.5;
	pthread_t thread;
	char *p = malloc(1000);

	if (p)
		memset(p, 'x', 1000);
	x = x * 3.25 + (double)getpid();
	snprintf(p, 1000, "%f", x);
	free(p);
	close(-1); /* errno */
	if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
		pthread_join(thread, NULL);
}
