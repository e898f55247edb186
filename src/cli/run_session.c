/* SPDX-License-Identifier: MIT */
#include "cli/run_session.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cmd.h"
#include "cli/self.h"
#include "cli/session_verb.h"
#include "cli/snapshot.h"
#include "session/pin.h"

int rut_cli_run_session_check(const struct rut_run_session *s, struct rut_err *err)
{
	struct rut_recorder *r = NULL;
	int rc = s->name ? rut_session_open(&r, s->name, err) : 0;

	rut_recorder_free(r);
	return rc;
}

/* Standard output is the script's. */
static void spawn(struct rut_run_session *s, const char *const *argv)
{
	int rc = rut_cli_self_start(argv, STDERR_FILENO, STDERR_FILENO, &s->running);

	if (rc) {
		fprintf(stderr, "rutile run: cannot start 'rutile %s': %s\n", argv[1],
			strerror(-rc));
		s->running = 0;
	}
}

/*
 * In a child of this process, which is faster than another start of rutile: what led to the
 * condition is overwritten meanwhile. Standard output is the script's.
 */
static void take_snapshot(struct rut_run_session *s, const char *path)
{
	struct rut_session_verb v = {.name = s->name, .output = path};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_recorder *r = NULL;
	sigset_t none;
	int rc;

	/* What is in the buffers is the parent's. */
	fflush(NULL);
	s->running = fork();
	if (s->running < 0)
		fprintf(stderr, "rutile run: cannot start 'rutile snapshot': %s\n",
			strerror(errno));
	if (s->running)
		return;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	rc = rut_session_open(&r, s->name, &err);
	if (!rc)
		rc = rut_cli_snapshot(r, &v, &err);
	if (rc)
		fprintf(stderr, "rutile snapshot: %s\n", err.msg);
	fflush(NULL);
	_exit(rc ? RUT_EXIT_FAIL : RUT_EXIT_OK);
}

static void collect(struct rut_run_session *s, int flags)
{
	if (s->running > 0 && waitpid(s->running, NULL, flags) == s->running)
		s->running = 0;
}

void rut_cli_run_session_act(void *arg, const char *snapshot)
{
	struct rut_run_session *s = arg;
	char stamp[32], path[512];
	time_t now = time(NULL);
	struct tm tm;

	if (!snapshot) {
		/* What was recorded before is in a snapshot that was asked for before. */
		collect(s, 0);
		spawn(s, (const char *const[]){"rutile", "stop", s->name, NULL});
		return;
	}
	collect(s, WNOHANG);
	if (s->running > 0) {
		s->skipped++;
		return;
	}
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	snprintf(path, sizeof(path), "%s-%s-%u", snapshot, stamp, ++s->count);
	take_snapshot(s, path);
}

void rut_cli_run_session_end(struct rut_run_session *s)
{
	collect(s, 0);
	if (s->skipped)
		fprintf(stderr,
			"rutile run: %" PRIu64 " snapshots were left out: one was being written\n",
			s->skipped);
}
