/* SPDX-License-Identifier: MIT */
#include "cli/wake.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/signals.h"

static int pipe_fds[2] = {-1, -1};
static volatile sig_atomic_t stopped, resized;

static void on_signal(int sig)
{
	int saved = errno;

	if (sig == SIGWINCH)
		resized = 1;
	else if (sig != SIGPIPE && sig != SIGCHLD)
		stopped = 1;
	/* A full pipe wakes as well as one more byte. */
	if (write(pipe_fds[1], "", 1) < 0)
		errno = saved;
	errno = saved;
}

static int watch(int epoll, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int rut_cli_wake_init(bool keyboard, struct rut_err *err)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGPIPE, SIGCHLD};
	int epoll, rc;

	if (pipe_fds[0] < 0 && pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		return rut_err_errno(err, errno, "cannot wait for signals");
	rc = watch(epoll, pipe_fds[0]);
	if (!rc && keyboard)
		rc = watch(epoll, STDIN_FILENO);
	if (rc < 0) {
		close(epoll);
		return rut_err_errno(err, -rc, "cannot wait for keys");
	}
	/* Without SA_RESTART: sleeps end. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		rut_signals_catch(signals[i], on_signal, 0);
	return epoll;
}

void rut_cli_wake_drain(void)
{
	char junk[64];

	while (read(pipe_fds[0], junk, sizeof(junk)) > 0)
		;
}

bool rut_cli_wake_stopped(void)
{
	return stopped;
}

bool rut_cli_wake_resized(void)
{
	bool was = resized;

	resized = 0;
	return was;
}
