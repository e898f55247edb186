/* SPDX-License-Identifier: MIT */
#include "cli/live_source.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/proc.h"
#include "cli/record_opts.h"
#include "session/programs.h"
#include "stream/conn.h"

#define STEP_NS 100000000ull

static bool is_number(const char *word)
{
	return *word && strspn(word, "0123456789") == strlen(word);
}

/* Does any process have this name? */
static bool has_process(const char *name)
{
	DIR *d = opendir("/proc");
	bool found = false;

	for (struct dirent *e; d && !found && (e = readdir(d));) {
		_cleanup_file_ FILE *f = NULL;
		char path[300], comm[32] = "";

		if (!is_number(e->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f)) {
			comm[strcspn(comm, "\n")] = '\0';
			found = !strcmp(comm, name);
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* A recorder for one process with its children, or for those of a name. */
static int record(struct rut_live_source *s, const struct rut_cmd *cmd, const char *word,
		  const char *events, struct rut_err *err)
{
	_cleanup_free_ struct rut_record_opts *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (is_number(word) ? kill((pid_t)atoi(word), 0) < 0 && errno == ESRCH : !has_process(word))
		/* cppcheck-suppress memleak ; the same */
		return rut_err_set(err, ESRCH, "no session and no process is called '%s'", word);
	rc = rut_cli_record_option(cmd, o, is_number(word) ? 'p' : RUT_OPT_PROCNAME, word);
	if (!rc && events)
		rc = rut_cli_record_option(cmd, o, 'e', events);
	if (rc)
		return -EINVAL;
	rut_cli_record_defaults(o);
	/* When we are behind, what is newest counts. */
	o->conf.mode = RUT_RING_OVERWRITE;
	snprintf(o->conf.name, sizeof(o->conf.name), "live");
	s->pid = o->npids ? o->pids[0] : -1;
	rc = rut_recorder_new(&s->r, &o->conf, err);
	if (!rc && o->npids)
		rc = rut_recorder_trace_family(s->r, o->pids[0]);
	if (!rc)
		rc = rut_programs_attach(s->r, err);
	/* What it forked meanwhile. */
	if (!rc && o->npids)
		rc = rut_recorder_trace_family(s->r, o->pids[0]);
	return rc;
}

static int open_viewer(struct rut_live_source *s, const char *word, const char *events,
		       const volatile sig_atomic_t *stop, struct rut_err *err)
{
	struct rut_live_url url;
	int rc;

	if (events)
		return rut_err_set(err, EINVAL,
				   "the events of a remote session are chosen where it records");
	rc = rut_live_url_parse(word, &url, err);
	return rc ? rc : rut_viewer_open(&s->viewer, &url, stop, err);
}

int rut_cli_live_source_open(struct rut_live_source *s, const struct rut_cmd *cmd, const char *word,
			     const char *events, bool state, const volatile sig_atomic_t *stop,
			     struct rut_err *err)
{
	int rc;

	s->name = word;
	if (rut_live_url_is(word))
		return open_viewer(s, word, events, stop, err);
	rc = rut_session_open(&s->r, word, err);
	if (!rc && events)
		return rut_err_set(err, EINVAL,
				   "session '%s' exists: its events are chosen by "
				   "'rutile add' and 'rutile remove'",
				   word);
	if (rc == -ENOENT || rc == -EINVAL) {
		*err = (struct rut_err)RUT_ERR_INIT;
		rc = record(s, cmd, word, events, err);
	}
	return rc ? rc : rut_live_open(&s->live, s->r, state, err);
}

const char *rut_cli_live_source_path(const struct rut_live_source *s)
{
	return s->viewer ? rut_viewer_path(s->viewer) : rut_live_path(s->live);
}

/* Has it been destroyed, or has the process that is recorded for us ended? */
static bool has_ended(const struct rut_live_source *s)
{
	char path[128];

	if (s->pid)
		return s->pid > 0 && kill(s->pid, 0) < 0 && errno == ESRCH;
	snprintf(path, sizeof(path), "%s/%s", RUT_PIN_ROOT, s->name);
	return __atomic_load_n(&s->r->meta->anchor.magic, __ATOMIC_ACQUIRE) != RUT_META_MAGIC ||
	       access(path, F_OK) < 0;
}

static void pause_between(const struct rut_live_source *s)
{
	uint64_t now = rut_ring_clock(), next = s->stepped_ns + STEP_NS;

	if (now < next)
		nanosleep(&(struct timespec){.tv_nsec = (long)(next - now)}, NULL);
}

int rut_cli_live_source_step(void *source, struct rut_err *err)
{
	struct rut_live_source *s = source;
	int rc;

	if (s->ended && !s->said) {
		s->said = true;
		fprintf(stderr,
			s->pid ? "rutile: process %s has ended\n"
			       : "rutile: session '%s' has ended\n",
			s->name);
	}
	if (s->said)
		return 1;
	pause_between(s);
	if (s->viewer) {
		rc = rut_viewer_step(s->viewer, err);
		s->ended = rc > 0;
		s->stepped_ns = rut_ring_clock();
		/* The thread that set `stop` checks it. */
		return rc < 0 && rc != -EINTR ? rc : 0;
	}
	/* Asked first: what it did last is taken after it. */
	s->ended = has_ended(s);
	/* Times are taken up to a moment ago. */
	if (s->ended)
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	rc = rut_live_step(s->live, err);
	s->stepped_ns = rut_ring_clock();
	return rc;
}

void rut_cli_live_source_fini(struct rut_live_source *s)
{
	rut_viewer_free(s->viewer);
	rut_live_free(s->live);
	rut_recorder_free(s->r);
}
