/* SPDX-License-Identifier: MIT */
#include "script/session_priv.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "script/load.h"
#include "script/ruby.h"
#include "script/ruby_attach.h"
#include "script/ruby_probe.h"

enum {
	LOOK_MS = 1000, /* for processes that have come */
	SETTLE_MS = 2000,
	SLOW_MS = 100,	  /* an attempt that was one */
	RETRY_MS = 60000, /* between attempts at most, after */
	LAST_WAITS = 6,	  /* doubled ones */
	ROUND_MS = 50,	  /* of the thread */
};

static struct rut_script_miss *find_miss(struct rut_script_session *s, pid_t pid)
{
	for (size_t i = 0; i < s->nmisses; i++)
		if (s->misses[i].pid == pid)
			return &s->misses[i];
	return NULL;
}

/* Those that have ended are forgotten: another process may have the number. */
static void forget_ended(struct rut_script_session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nmisses; i++)
		if (rut_proc_start(s->misses[i].pid) == s->misses[i].start)
			s->misses[n++] = s->misses[i];
	s->nmisses = n;
}

/* To wait does not help against it. */
static bool is_final(int rc)
{
	return rc == -ENOTSUP || rc == -EPERM || rc == -EPROTO;
}

/* Of attach_ruby(): nothing was tried. */
enum { HALTED = 1 };

/* Says it once of each process, if `tell`. */
static void note_miss(struct rut_script_session *s, pid_t pid, int rc, const struct rut_err *why,
		      bool tell)
{
	struct rut_script_miss *m = find_miss(s, pid), *more;
	bool fresh = false;

	if (!m) {
		more = reallocarray(s->misses, s->nmisses + 1, sizeof(*more));
		if (!more)
			return;
		s->misses = more;
		m = &more[s->nmisses++];
		*m = (struct rut_script_miss){.pid = pid, .start = rut_proc_start(pid)};
		fresh = true;
	}
	if (tell && (fresh || (is_final(rc) && !m->never)))
		rut_warn("cannot attach the script's Ruby probes to process %d%s: %s", pid,
			 is_final(rc) ? "" : " yet", why->msg);
	m->never = is_final(rc);
	/* That it is stopped is seen without waiting for it. */
	m->next_ms = rc == HALTED
			     ? 0
			     : rut_now_ms() + (m->fails < LAST_WAITS ? (uint64_t)LOOK_MS << m->fails
								     : RETRY_MS);
	m->fails += rc != HALTED;
}

static int attach_ruby(struct rut_script_session *s, pid_t pid, struct rut_err *err)
{
	/* The tracer would wait for it, and other processes for the tracer. */
	if (!rut_proc_is_halted(pid))
		return rut_script_tracer_attach(s->tracer, pid, err);
	rut_err_set(err, EBUSY, "process %d is stopped (kill -CONT %d) or its cgroup is frozen",
		    pid, pid);
	return HALTED;
}

/*
 * Attaches to the processes that there are; to those that it is attached to nothing happens. The
 * first time it fails when there are some and none can be attached to; later those are tried again,
 * ever more rarely, because hits of other processes are not read meanwhile.
 */
static int attach_rubies(struct rut_script_session *s, bool first, struct rut_err *err)
{
	struct rut_err failed = RUT_ERR_INIT;
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, attached = 0;
	int rc = s->find(s->find_arg, &pids, &n, err);

	s->looked_ms = rut_now_ms();
	forget_ended(s);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct rut_script_miss *m = find_miss(s, pids[i]);
		struct rut_err why = RUT_ERR_INIT;
		uint64_t begun = rut_now_ms();

		if (rut_script_tracer_has(s->tracer, pids[i])) {
			attached++;
			continue;
		}
		if (m && (m->never || begun < m->next_ms))
			continue;
		rc = attach_ruby(s, pids[i], &why);
		if (!rc) {
			attached++;
			if (m)
				*m = s->misses[--s->nmisses];
			continue;
		}
		note_miss(s, pids[i], rc, &why, !first || n > 1);
		if (!failed.code)
			failed = why;
		/* What is in the rings comes before the next one. */
		if (!first && rut_now_ms() - begun >= SLOW_MS)
			break;
	}
	if (!first || attached || !n)
		return 0;
	*err = failed;
	return -failed.code;
}

/* Finds the children that there are already, and waits a while until they have their hooks. */
static int settle_rubies(struct rut_script_session *s, struct rut_err *err)
{
	uint64_t deadline = rut_now_ms() + SETTLE_MS;
	int n;

	do {
		n = rut_script_tracer_round(s->tracer, err);
		if (n <= 0 || rut_script_tracer_settled(s->tracer))
			break;
		poll(NULL, 0, 10);
	} while (rut_now_ms() < deadline);
	return n < 0 ? n : 0;
}

static void let_go(struct rut_script_session *s)
{
	struct rut_err err = RUT_ERR_INIT;

	if (s->tracer && rut_script_tracer_take(s->tracer, &err))
		rut_warn("%s", err.msg);
	rut_script_tracer_free(s->tracer);
	rut_script_links_free(s->links);
	s->tracer = NULL;
	s->links = NULL;
}

/*
 * Processes that are not there yet are waited for. What fails after a stop is tried again, as
 * the session has begun long ago.
 */
static int begin(struct rut_script_session *s, bool first, struct rut_err *err)
{
	const struct rut_script_tracer_opts opts = {.stop_fd = -1};
	int rc;

	if (!s->find || !rut_script_needs_agent(s->p) || s->tracer)
		return 0;
	s->links = rut_script_links_new();
	if (!s->links)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_script_tracer_new(&s->tracer, s->p, s->links, &opts, err);
	if (rc) {
		let_go(s);
		return rc;
	}
	rc = attach_rubies(s, first, err);
	if (!rc)
		rc = settle_rubies(s, err);
	if (rc == -ESRCH || rc == -ENOENT) {
		*err = (struct rut_err)RUT_ERR_INIT;
		return 0;
	}
	if (rc && first)
		let_go(s);
	return rc;
}

int rut_script_session_rubies_begin(struct rut_script_session *s, struct rut_err *err)
{
	return begin(s, true, err);
}

/* ---- the thread ---- */

/*
 * What the session has of Ruby processes is the thread's, or under its lock another one's. It is
 * made by the first round, as the session's process is a child of the one that has begun it.
 */
struct rut_script_follower {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool paused, resumed, quit;
};

static int follow(struct rut_script_session *s, struct rut_err *err)
{
	struct rut_script_follower *f = s->follower;
	struct rut_err why = RUT_ERR_INIT;
	int rc = 0;

	if (f->resumed && begin(s, false, &why) && why.code != EPERM)
		rut_warn("%s", why.msg);
	f->resumed = false;
	if (s->p->ruby)
		rut_script_ruby_round(s->p->ruby);
	if (s->tracer)
		rc = rut_script_tracer_round(s->tracer, err);
	if (s->tracer && rc >= 0 && rut_now_ms() - s->looked_ms >= LOOK_MS)
		attach_rubies(s, false, &why);
	return rc < 0 ? rc : 0;
}

static void *follower_main(void *arg)
{
	struct rut_script_session *s = arg;
	struct rut_script_follower *f = s->follower;
	bool said = false;

	pthread_mutex_lock(&f->lock);
	while (!f->quit) {
		struct rut_err err = RUT_ERR_INIT;
		struct timespec until;
		int rc = f->paused ? 0 : follow(s, &err);

		if (rc && !said)
			rut_warn("%s", err.msg);
		said = rc;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += ROUND_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (!f->quit)
			pthread_cond_timedwait(&f->wake, &f->lock, &until);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* Signals are for the thread that waits for them. */
static int start_follower(struct rut_script_session *s, struct rut_err *err)
{
	struct rut_script_follower *f = calloc(1, sizeof(*f));
	pthread_condattr_t clock;
	sigset_t all, before;
	int rc;

	if (!f)
		return rut_err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&f->wake, &clock);
	pthread_condattr_destroy(&clock);
	s->follower = f;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&f->thread, NULL, follower_main, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		return 0;
	s->follower = NULL;
	free(f);
	return rut_err_errno(err, rc, "cannot make a thread for Ruby processes");
}

static void end_follower(struct rut_script_session *s)
{
	struct rut_script_follower *f = s->follower;

	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->quit = true;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	pthread_cond_destroy(&f->wake);
	pthread_mutex_destroy(&f->lock);
	s->follower = NULL;
	free(f);
}

int rut_script_session_rubies_follow(struct rut_script_session *s, struct rut_err *err)
{
	if (s->follower || !rut_script_session_needs_process(s))
		return 0;
	return start_follower(s, err);
}

int rut_script_session_rubies_take(struct rut_script_session *s, bool wait, struct rut_err *err)
{
	struct rut_script_follower *f = s->follower;
	int rc;

	if (!rut_script_needs_agent(s->p))
		return 0;
	if (f && !wait && pthread_mutex_trylock(&f->lock))
		return RUT_SCRIPT_RUBIES_BUSY;
	if (f && wait)
		pthread_mutex_lock(&f->lock);
	rc = s->tracer ? rut_script_tracer_take(s->tracer, err) : 0;
	if (f)
		pthread_mutex_unlock(&f->lock);
	return rc;
}

void rut_script_session_rubies_end(struct rut_script_session *s)
{
	end_follower(s);
	let_go(s);
}

void rut_script_session_rubies_pause(struct rut_script_session *s, bool pause)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_script_follower *f;

	if (rut_script_session_rubies_follow(s, &err))
		rut_warn("%s", err.msg);
	f = s->follower;
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->paused = pause;
	f->resumed = !pause;
	if (pause)
		let_go(s);
	/* Whoever resumes it expects an attempt. */
	for (size_t i = 0; i < s->nmisses && !pause; i++)
		s->misses[i].next_ms = 0;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
}

bool rut_script_session_needs_process(const struct rut_script_session *s)
{
	return s->p->needs_ruby || rut_script_needs_agent(s->p);
}

void rut_script_session_leave(struct rut_script_session *s)
{
	s->tracer = NULL;
	s->links = NULL;
}

static int hold_step(void *arg, struct rut_err *err)
{
	return rut_script_session_rubies_follow(arg, err);
}

/* Another process writes what is in the maps: what was hit up to now is to be there. */
static int hold_snapshot(void *arg, const char *dir, const struct rut_trace_clock *clock,
			 uint64_t end_ns, struct rut_err *err)
{
	struct rut_script_session *s = arg;

	return rut_script_session_rubies_take(s, true, err);
}

static void hold_pause(void *arg, bool pause)
{
	rut_script_session_rubies_pause(arg, pause);
}

struct rut_companion rut_script_session_holder(struct rut_script_session *s)
{
	return (struct rut_companion){
		.step = hold_step, .snapshot = hold_snapshot, .pause = hold_pause, .arg = s};
}
