/* SPDX-License-Identifier: MIT */
#include "cli/method_explain.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/self.h"
#include "cli/wake.h"

/* More than a recording of two seconds and its analysis take on a busy machine. */
enum { WAIT_MS = 60000, STEP_MS = 50, OUTPUT_MAX = 256 << 10 };

/* How often it is asked to end before it is killed: five seconds. */
enum { KILL_STEPS = 100 };

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Until it ends; Ctrl+C ends it, at the latest after five seconds. Returns its exit status, -1 when
 * it was killed. */
static int finish(pid_t pid, const struct rut_method_idle *idle)
{
	const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
	int status, left = WAIT_MS / STEP_MS;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		nanosleep(&step, NULL);
		rut_cli_wake_drain();
		if ((rut_cli_wake_stopped() || (idle && !idle->fn(idle->arg))) && left > 0)
			left = 0;
		if (--left < 0)
			kill(pid, left < -KILL_STEPS ? SIGKILL : SIGINT);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void add_output(int fd, struct rut_buf *out)
{
	_cleanup_free_ char *text = malloc(OUTPUT_MAX);
	ssize_t n = text ? pread(fd, text, OUTPUT_MAX, 0) : 0;

	if (n > 0)
		rut_buf_add(out, text, (size_t)n);
}

/* Runs it. `shown`: what it writes is appended; otherwise only when it fails. */
static int run(const char *const *argv, bool shown, const struct rut_method_idle *idle,
	       struct rut_buf *out, struct rut_err *err)
{
	_cleanup_close_ int fd = memfd_create("rutile-output", MFD_CLOEXEC);
	pid_t pid = 0;
	int rc = fd < 0 ? -errno : rut_cli_self_start(argv, fd, fd, &pid);

	if (rc)
		return rut_err_errno(err, -rc, "cannot start 'rutile %s'", argv[1]);
	rc = finish(pid, idle);
	if (rc || shown)
		add_output(fd, out);
	return rc ? rut_err_set(err, ECANCELED, "'rutile %s' failed", argv[1]) : 0;
}

int rut_cli_method_trace(pid_t pid, const char *method, const struct rut_method_idle *idle,
			 struct rut_buf *out, struct rut_err *err)
{
	char target[64];

	snprintf(target, sizeof(target), "%d", (int)pid);
	return run((const char *const[]){"rutile", "trace", "--args", "--returns", "--duration",
					 "1s", "--method", method, "all", target, NULL},
		   true, idle, out, err);
}

/* Removes the tables before the slowest ones: the screen shows such already, and they are wide. */
static void keep_slowest(struct rut_buf *out, size_t begin)
{
	const char *at =
		out->failed || !out->data ? NULL : strstr(out->data + begin, "Slowest requests\n");
	size_t left;

	if (!at)
		return;
	left = out->len - (size_t)(at - out->data);
	memmove(out->data + begin, at, left + 1);
	out->len = begin + left;
}

/* Which requests: `select` is the option that says so. Of all there is a list, of one the reason.
 */
static int explain(pid_t pid, const char *events, const char *select, const char *value, bool all,
		   const struct rut_method_idle *idle, struct rut_buf *out, struct rut_err *err)
{
	const char *top = getenv("TMPDIR");
	char dir[256], trace[272], target[80];
	size_t begin = out->len;
	int rc;

	snprintf(dir, sizeof(dir), "%s/rutile-explain.XXXXXX", top && *top ? top : "/tmp");
	if (!mkdtemp(dir))
		return rut_err_errno(err, errno, "cannot create '%s'", dir);
	snprintf(trace, sizeof(trace), "%s/trace", dir);
	snprintf(target, sizeof(target), "%d%s", (int)pid, events);
	rc = run((const char *const[]){"rutile", "record", "-o", trace, "--duration", "2s", "-e",
				       "sched,irq,block,net,signal,syscall", "--buffer", "64M",
				       "--ruby", target, NULL},
		 false, idle, out, err);
	if (!rc)
		rc = run((const char *const[]){"rutile", "requests", "--skip-validation",
					       "--no-progress", select, value, "--slowest",
					       all ? "10" : "1", all ? trace : "--explain",
					       all ? NULL : trace, NULL},
			 true, idle, out, err);
	nftw(dir, remove_one, 16, FTW_PHYS | FTW_DEPTH);
	if (!rc)
		keep_slowest(out, begin);
	return rc;
}

int rut_cli_method_explain(pid_t pid, const char *method, const struct rut_method_idle *idle,
			   struct rut_buf *out, struct rut_err *err)
{
	return explain(pid, "", "--request", method, false, idle, out, err);
}

int rut_cli_route_explain(pid_t pid, const char *route, bool all,
			  const struct rut_method_idle *idle, struct rut_buf *out,
			  struct rut_err *err)
{
	return explain(pid, ":requests,gvl,gc", "--route", route, all, idle, out, err);
}
