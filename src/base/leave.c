/* SPDX-License-Identifier: MIT */
#include "base/leave.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLER_MS = 20 };

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Closes all but these, which are sorted. */
static void close_others(const int *fds, size_t n)
{
	unsigned next = 0;

	for (size_t i = 0; i < n; i++) {
		if ((unsigned)fds[i] > next)
			syscall(SYS_close_range, next, fds[i] - 1, 0);
		next = (unsigned)fds[i] + 1;
	}
	syscall(SYS_close_range, next, ~0u, 0);
}

static _Noreturn void be_left_behind(int *fds, size_t n, int last)
{
	prctl(PR_SET_NAME, "rutile:detach");
	setsid();
	if (chdir("/"))
		_exit(1);
	/* Behind all others, so that it is the last of the sorted ones. */
	if (last >= 0)
		last = fcntl(last, F_DUPFD, fds[n - 1] + 1);
	if (last >= 0) {
		if (last > fds[n - 1] + 1)
			syscall(SYS_close_range, fds[n - 1] + 1, last - 1, 0);
		syscall(SYS_close_range, last + 1, ~0u, 0);
		for (size_t i = 0, next = 0; i < n; next = (size_t)fds[i++] + 1)
			if ((size_t)fds[i] > next)
				syscall(SYS_close_range, next, fds[i] - 1, 0);
	} else {
		close_others(fds, n);
	}
	/* Whoever closes a descriptor last waits for the kernel: the caller has closed them by
	 * then. */
	poll(NULL, 0, CALLER_MS);
	/* One by one: the kernel closes those of a process that exits in an order of its own. */
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	_exit(0);
}

void rut_leave_behind(int *fds, size_t n, int last)
{
	int status;
	pid_t pid;

	if (!n)
		return;
	qsort(fds, n, sizeof(*fds), by_number);
	/* The one in between ends at once, so that nobody has to wait for the other one. */
	pid = fork();
	if (!pid) {
		if (!fork())
			be_left_behind(fds, n, last);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}
