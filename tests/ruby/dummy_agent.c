/* SPDX-License-Identifier: MIT */
/*
 * An agent that only shows that it came, doing what the real one does: malloc, vector registers,
 * errno, a thread. It must load into older C libraries than the one it was linked with.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");

static void *thread_main(void *arg)
{
	return arg;
}

__attribute__((constructor)) static void dummy_init(void)
{
	volatile double x = 1.5;
	pthread_t thread;
	char *p = malloc(1000);

	if (!p)
		return;
	memset(p, 'x', 1000);
	x = x * 3.25 + (double)getpid();
	snprintf(p, 1000, "%f", x);
	free(p);
	close(-1); /* changes errno */
	if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
		pthread_join(thread, NULL);
}
