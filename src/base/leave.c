/* SPDX-License-Identifier: MIT */
#include "base/leave.h"

#include <errno.h>
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

/* Closes all but these, which are sorted, and `last`, unless that is -1. */
static void close_others(const int *fds, size_t n, int last)
{
	unsigned next = 0;

	for (size_t i = 0; i < n || last >= 0;) {
		int kept;

		if (last >= 0 && (i == n || last < fds[i])) {
			kept = last;
			last = -1;
		} else {
			kept = fds[i++];
		}
		if ((unsigned)kept > next)
			syscall(SYS_close_range, next, kept - 1, 0);
		next = (unsigned)kept + 1;
	}
	syscall(SYS_close_range, next, ~0u, 0);
}

static _Noreturn void be_left_behind(int *fds, size_t n, int last)
{
	prctl(PR_SET_NAME, "rutile:detach");
	setsid();
	if (chdir("/"))
		_exit(1);
	close_others(fds, n, last);
	/* Whoever closes a descriptor last waits for the kernel: the caller has closed them by
	 * then. */
	poll(NULL, 0, CALLER_MS);
	/* One by one: the kernel closes those of a process that exits in an order of its own. */
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	if (last >= 0)
		close(last);
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
