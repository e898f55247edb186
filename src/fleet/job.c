/* SPDX-License-Identifier: MIT */
#include "fleet/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/signals.h"

#define TIMED_OUT 124

/* In the child. */
static void run(const char *program, char *const *words, int out, int err)
{
	char name[] = "rutile", *argv[80] = {name};
	size_t n = 1;
	int null = open("/dev/null", O_RDONLY);

	for (; words[n - 1] && n < sizeof(argv) / sizeof(argv[0]) - 1; n++)
		argv[n] = words[n - 1];
	setpgid(0, 0);
	rut_signals_inherit();
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(127);
	execv(program, argv);
	_exit(127);
}

int rut_fleet_job_start(struct rut_fleet_job *j, const char *program, char *const *words,
			uint64_t timeout_ns, struct rut_err *err)
{
	int out[2] = {-1, -1}, errs[2] = {-1, -1}, rc = 0;
	pid_t pid = -1;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
		rc = rut_err_errno(err, errno, "cannot make a pipe");
	if (!rc)
		pid = fork();
	if (!pid)
		run(program, words, out[1], errs[1]);
	rut_closep(&out[1]);
	rut_closep(&errs[1]);
	if (!rc && pid < 0)
		rc = rut_err_errno(err, errno, "cannot start a process");
	if (rc) {
		rut_closep(&out[0]);
		rut_closep(&errs[0]);
		return rc;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(errs[0], F_SETFL, O_NONBLOCK);
	j->pid = pid;
	j->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	j->out_fd = out[0];
	j->err_fd = errs[0];
	j->deadline_ns = rut_now_ns() + timeout_ns;
	return 0;
}

bool rut_fleet_job_read(int *fd, struct rut_buf *b, size_t max)
{
	while (*fd >= 0 && b->len < max) {
		char chunk[16384];
		size_t room = max - b->len < sizeof(chunk) ? max - b->len : sizeof(chunk);
		ssize_t n = read(*fd, chunk, room);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0) {
			rut_closep(fd);
			*fd = -1;
			return false;
		}
		rut_buf_add(b, chunk, (size_t)n);
	}
	return *fd >= 0;
}

void rut_fleet_job_check(struct rut_fleet_job *j, uint64_t now_ns)
{
	if (j->pid && !j->killed && now_ns > j->deadline_ns) {
		kill(-j->pid, SIGKILL);
		j->killed = true;
	}
}

bool rut_fleet_job_ended(struct rut_fleet_job *j, int *ret_code)
{
	int status;

	if (!j->pid || waitpid(j->pid, &status, WNOHANG) != j->pid)
		return false;
	j->pid = 0;
	*ret_code = j->killed		? TIMED_OUT
		    : WIFEXITED(status) ? WEXITSTATUS(status)
					: 128 + WTERMSIG(status);
	return true;
}

void rut_fleet_job_fini(struct rut_fleet_job *j)
{
	if (j->pid) {
		kill(-j->pid, SIGKILL);
		waitpid(j->pid, NULL, 0);
		j->pid = 0;
	}
	rut_closep(&j->pid_fd);
	rut_closep(&j->out_fd);
	rut_closep(&j->err_fd);
	j->pid_fd = j->out_fd = j->err_fd = -1;
}
