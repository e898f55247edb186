/* SPDX-License-Identifier: MIT */
/*
 * reuse FILE SECONDS: opens FILE, again and again, as the descriptor that is free: for a tracer
 * that comes late and finds the application's file where the stub's memfd was. Prints "ready".
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	time_t end;

	if (argc < 3)
		return 2;
	end = time(NULL) + atoi(argv[2]);
	puts("ready");
	fflush(stdout);
	while (time(NULL) < end) {
		int fd;

		poll(NULL, 0, 20); /* the one safe place: it is open elsewhere only */
		fd = open(argv[1], O_RDWR);
		if (fd < 0)
			return 1;
		for (volatile int i = 0; i < 20000000; i++)
			;
		close(fd);
	}
	return 0;
}
