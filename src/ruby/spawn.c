/* SPDX-License-Identifier: MIT */
/*
 * Starting a program with the agent in it from the first line on.
 *
 * Ruby loads the agent itself (RUBYOPT=-r), which then waits in its Init function until this tracer
 * has set its hooks. The file is only needed until then.
 */
#include "ruby/internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct agent_file {
	char dir[256], path[300];
};

static void agent_file_remove(struct agent_file *f)
{
	if (f->path[0])
		unlink(f->path);
	if (f->dir[0])
		rmdir(f->dir);
}

/* The name must be librutile_agent.so: Ruby calls the Init function of that name. */
static int agent_file_make(struct agent_file *f, struct rut_err *err)
{
	const char *p = (const char *)rut_agent_image, *tmp = getenv("TMPDIR");
	size_t left = (uintptr_t)rut_agent_image_end - (uintptr_t)rut_agent_image;
	_cleanup_close_ int fd = -1;

	snprintf(f->dir, sizeof(f->dir), "%s/rutile.XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	if (!mkdtemp(f->dir)) {
		f->dir[0] = 0;
		return rut_err_errno(err, errno, "cannot make a folder for the agent");
	}
	snprintf(f->path, sizeof(f->path), "%s/librutile_agent.so", f->dir);
	fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0)
		return rut_err_errno(err, errno, "cannot create '%s'", f->path);
	while (left) {
		ssize_t n = write(fd, p, left);

		if (n <= 0)
			return rut_err_errno(err, errno, "cannot write '%s'", f->path);
		p += n;
		left -= (size_t)n;
	}
	return 0;
}

static void child_main(struct rut_tracer *t, const struct agent_file *f, char *const argv[],
		       pid_t tracer, int error_fd)
{
	const char *old = getenv("RUBYOPT");
	char opt[4096], session[64];
	sigset_t none;
	int code;

	snprintf(opt, sizeof(opt), "-r%s%s%s", f->path, old && *old ? " " : "", old ? old : "");
	snprintf(session, sizeof(session), "%llx:%d", (unsigned long long)t->session_id,
		 (int)tracer);
	setenv("RUBYOPT", opt, 1);
	setenv("RUTILE_SESSION", session, 1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	code = errno;
	if (write(error_fd, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

static bool ended(pid_t pid)
{
	siginfo_t si = {0};

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == pid;
}

/* The agent is there when the program waits for us; one that is not Ruby never does. */
static void wait_for_agent(struct rut_tracer *t, pid_t pid)
{
	struct timespec ts = {.tv_nsec = 1000000};

	for (int i = 0; i < 5000 && !ended(pid); i++) {
		struct rut_tracee *p;
		struct rut_err ignored = RUT_ERR_INIT;

		if (rut_tracee_open(&p, t, pid, false, &ignored) == 0) {
			p->tree = true;
			if (rut_tracer_add(t, p, &ignored) == 0)
				return;
			rut_tracee_detach(p, true);
			rut_tracee_free(p);
		}
		nanosleep(&ts, NULL);
	}
}

pid_t rut_tracer_spawn(struct rut_tracer *t, char *const argv[], struct rut_err *err)
{
	struct agent_file f = {0};
	pid_t tracer = getpid(), pid;
	int fds[2], code = 0, r;

	r = agent_file_make(&f, err);
	if (r < 0) {
		agent_file_remove(&f);
		return r;
	}
	if (pipe2(fds, O_CLOEXEC) < 0) {
		agent_file_remove(&f);
		return rut_err_errno(err, errno, "cannot make a pipe");
	}
	pid = fork();
	if (pid == 0)
		child_main(t, &f, argv, tracer, fds[1]);
	close(fds[1]);
	if (pid < 0) {
		r = rut_err_errno(err, errno, "cannot start a process");
	} else if (read(fds[0], &code, sizeof(code)) == sizeof(code)) {
		waitpid(pid, NULL, 0);
		r = rut_err_errno(err, code, "cannot run '%s'", argv[0]);
	} else {
		wait_for_agent(t, pid);
	}
	close(fds[0]);
	agent_file_remove(&f);
	return r < 0 ? r : pid;
}
