/* SPDX-License-Identifier: MIT */
#include "session/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "session/budget.h"
#include "session/daemon.h"
#include "session/dynamic.h"
#include "session/kernel.h"
#include "session/programs.h"

#define CLEAR_MS 10000

/* A session with a killed daemon records into rings that are not drained. */
static bool is_stale(const struct rut_session_meta *m)
{
	return rut_output_drains(&m->output) && m->consumer > 0 && !rut_session_consumer_alive(m);
}

static int make_way(const char *name, struct rut_err *err)
{
	struct rut_recorder *r = NULL;
	struct rut_err ignored = RUT_ERR_INIT;
	int rc = rut_session_open(&r, name, &ignored);
	bool stale;

	if (rc == -ENOENT) {
		/* Half-made pins of a start that was killed: we have the lock. */
		return rut_session_unpin(name, err);
	}
	if (rc < 0)
		return rut_err_set(err, ignored.code, "%s", ignored.msg);
	stale = is_stale(r->meta);
	rut_recorder_free(r);
	if (!stale)
		return rut_err_set(err, EEXIST,
				   "a session '%s' exists: see 'rutile status %s', end it with "
				   "'rutile destroy %s'",
				   name, name, name);
	rut_info("removed the leftovers of session '%s': its process was killed", name);
	return rut_session_unpin(name, err);
}

static int check_free(const char *name, struct rut_err *err)
{
	int lock = rut_session_lock(err), rc = lock < 0 ? lock : make_way(name, err);

	rut_session_unlock(lock);
	return rc;
}

/* Pins the session, and gives it its process. */
static int publish(const struct rut_start *start, struct rut_recorder *r, struct rut_consumer *c,
		   pid_t *ret_pid, struct rut_err *err)
{
	int lock = rut_session_lock(err), rc;

	if (lock < 0)
		return lock;
	/* Until its own process runs, the session lives and dies with this one. */
	r->meta->consumer_start = rut_process_start_time(getpid());
	r->meta->consumer = rut_output_drains(&start->output) ? getpid() : 0;
	/* Another start may have been quicker. */
	rc = make_way(r->conf.name, err);
	if (!rc)
		rc = rut_session_pin(r, &start->guest, err);
	if (!rc)
		rut_budget_calibrate(r);
	if (!rc && rut_output_drains(&start->output)) {
		rc = rut_daemon_start(c, lock, ret_pid, err);
		if (rc)
			rut_session_unpin(r->conf.name, NULL);
	}
	if (!rc && !rut_output_drains(&start->output) &&
	    (start->ncompanions || r->conf.budget_ppm)) {
		rc = rut_holder_start(r, start->companions, start->ncompanions, lock, err);
		if (rc)
			rut_session_unpin(r->conf.name, NULL);
	}
	rut_session_unlock(lock);
	return rc;
}

static int start_recorder(const struct rut_start *start, struct rut_recorder *r,
			  struct rut_consumer *c, pid_t *ret_pid, struct rut_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < start->npids && !rc; i++)
		rc = rut_recorder_trace_family(r, start->pids[i]);
	if (rc)
		return rut_err_errno(err, -rc, "cannot set the filter");
	r->meta->output = start->output;
	if (rut_output_drains(&start->output))
		rc = rut_consumer_open(c, r, &start->output, err);
	for (size_t i = 0; i < start->ncompanions && rut_output_drains(&start->output) && !rc; i++)
		rc = rut_consumer_accompany(c, &start->companions[i], err);
	if (!rc)
		rc = rut_programs_attach(r, err);
	for (size_t i = 0; i < start->npids && !rc; i++)
		rc = rut_recorder_trace_family(r, start->pids[i]);
	return rc ? rc : publish(start, r, c, ret_pid, err);
}

int rut_session_start(const struct rut_start *start, pid_t *ret_pid, struct rut_err *err)
{
	struct rut_consumer c = {.writer = {.dir_fd = -1}};
	struct rut_recorder *r = NULL;
	int rc = rut_session_check_name(start->conf.name, err);

	*ret_pid = 0;
	if (!rc)
		rc = check_free(start->conf.name, err);
	if (!rc)
		rc = rut_recorder_new(&r, &start->conf, err);
	if (!rc)
		rc = start_recorder(start, r, &c, ret_pid, err);
	if (rc)
		rut_consumer_discard(&c);
	rut_consumer_abandon(&c);
	rut_recorder_free(r);
	return rc;
}

/* How far the consumer has got, in all rings. */
static uint64_t consumed(const struct rut_recorder *r)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		sum += r->rings[cpu].ctl->consumed;
	return sum;
}

static bool is_drained(const struct rut_recorder *r)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		if (r->rings[cpu].ctl->consumed < r->rings[cpu].ctl->pos)
			return false;
	return true;
}

/* Programs write nothing into frozen rings. */
static void freeze(struct rut_recorder *r, bool frozen)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		struct rut_ring_ctl *ctl = r->rings[cpu].ctl;

		__atomic_store_n(&ctl->frozen, frozen, __ATOMIC_RELEASE);
		if (frozen)
			__atomic_store_n(&ctl->opened_ns, RUT_RING_FROZEN_NS, __ATOMIC_RELEASE);
	}
}

static int stop(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;

	if (!m->running && !m->resuming)
		return rut_err_set(err, EALREADY, "session '%s' is stopped already", r->conf.name);
	m->running = 0;
	/* What was hit up to now is counted, and nothing more after it. */
	if (m->ncompanions)
		rut_daemon_sync(m);
	rut_session_unpin_links(r, NULL);
	/* What a killed start has left. */
	if (m->resuming) {
		freeze(r, false);
		__atomic_store_n(&m->resuming, 0, __ATOMIC_SEQ_CST);
	}
	rut_recorder_flush(r);
	for (int i = 0; i < 200 && rut_session_consumer_alive(m) && !is_drained(r); i++)
		poll(NULL, 0, 10);
	return 0;
}

int rut_session_stop(struct rut_recorder *r, struct rut_err *err)
{
	_cleanup_close_ int lock = rut_session_lock_one(r->conf.name, err);

	return lock < 0 ? lock : stop(r, err);
}

/*
 * Pins each program by itself: killed meanwhile, this leaves some. They record nothing, as the
 * rings are frozen and the guest is held until all are there, and the next resume removes them.
 */
static int attach_all(struct rut_recorder *r, const struct rut_guest *guest, struct rut_err *err)
{
	char dir[128];
	int rc;

	freeze(r, true);
	if (guest)
		rut_guest_hold(r->conf.name, true);
	/* What was removed before the stop stays so. */
	r->conf.selection = r->meta->active;
	rc = rut_programs_load(r, &r->meta->active, err);

	if (!rc)
		rc = rut_dynamic_resume(r, err);
	if (!rc)
		rc = rut_programs_attach(r, err);
	if (!rc)
		rc = rut_session_pin_links(r, err);
	rut_session_dir(dir, sizeof(dir), r->conf.name);
	if (!rc && guest)
		rc = guest->resume(guest->arg, dir, err);
	if (rc && r->meta->running)
		stop(r, NULL);
	freeze(r, false);
	return rc;
}

static int resume(struct rut_recorder *r, const struct rut_guest *guest, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;
	int rc;

	if (m->running && !m->resuming)
		return rut_err_set(err, EALREADY, "session '%s' runs already", r->conf.name);
	/* Under the lock: the process that has set it was killed. */
	if (m->running)
		stop(r, NULL);
	__atomic_store_n(&m->resuming, 1, __ATOMIC_SEQ_CST);
	rc = attach_all(r, guest, err);
	__atomic_store_n(&m->resuming, 0, __ATOMIC_SEQ_CST);
	return rc;
}

/* Under the lock, once the kernel has detached what the last stop has left to it. */
static int lock_idle(const char *name, struct rut_err *err)
{
	for (;;) {
		int rc = rut_guest_wait(name, err);
		int lock = rc ? rc : rut_session_lock_one(name, err);

		if (lock < 0 || rut_guest_is_gone(name))
			return lock;
		close(lock);
	}
}

int rut_session_resume(struct rut_recorder *r, const struct rut_guest *guest, struct rut_err *err)
{
	_cleanup_close_ int lock = lock_idle(r->conf.name, err);
	sigset_t ends, before;
	int rc;

	if (lock < 0)
		return lock;
	/* Else it would run with a part of its programs. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, &before);
	rc = resume(r, guest, err);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

int rut_session_rotate(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;
	char before[RUT_PATH_MAX];
	uint32_t wanted;

	if (!rut_session_consumer_alive(m))
		return rut_err_set(err, ESRCH,
				   "session '%s' writes no files: take a snapshot instead",
				   r->conf.name);
	memcpy(before, m->current, sizeof(before));
	wanted = __atomic_add_fetch(&m->rotate_wanted, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; i < RUT_SESSION_WAIT_MS; i++) {
		if (rut_session_reached(&m->rotate_done, wanted))
			return strcmp(before, m->current) != 0
				       ? 0
				       : rut_err_set(err, EIO,
						     "the next directory cannot be made, session "
						     "'%s' continues in '%s': the system's log has "
						     "the reason",
						     r->conf.name, m->current);
		poll(NULL, 0, 1);
	}
	return rut_err_set(err, ETIMEDOUT, "the process %d of session '%s' does not answer",
			   m->consumer, r->conf.name);
}

static void clear_rings(struct rut_recorder *r)
{
	rut_recorder_flush(r);
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		const struct rut_ring *ring = &r->rings[cpu];
		uint64_t pos = ring->ctl->pos & ~(ring->subbuf_size - 1);

		RUT_CTL_USER(ring->ctl)->cleared = pos;
	}
}

static int process_ended(const char *name, struct rut_err *err)
{
	return rut_err_set(err, ESRCH, "the process of session '%s' has ended", name);
}

static int clear_collector(struct rut_session_meta *m, const char *name, struct rut_err *err)
{
	uint32_t wanted = __atomic_add_fetch(&m->clear_wanted, 1, __ATOMIC_ACQ_REL);

	for (int i = 0; i < CLEAR_MS; i++) {
		/* It may answer and end: so this comes first. */
		const bool alive = rut_session_consumer_alive(m);

		if (rut_session_reached(&m->clear_done, wanted))
			return m->clear_rc ? rut_err_set(err, -m->clear_rc, "session '%s': %s",
							 name, m->clear_error)
					   : 0;
		if (!alive)
			return process_ended(name, err);
		poll(NULL, 0, 1);
	}
	return rut_err_set(
		err, ETIMEDOUT,
		"the collector of session '%s' has not answered for %d s: what it has is "
		"deleted when it does",
		name, CLEAR_MS / 1000);
}

int rut_session_clear(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;

	if (r->conf.mode == RUT_RING_OVERWRITE) {
		clear_rings(r);
		return 0;
	}
	if (!m->output.to[0])
		return rut_err_set(err, EINVAL,
				   "session '%s' writes files: nothing stays in its buffers",
				   r->conf.name);
	if (!rut_session_consumer_alive(m))
		return process_ended(r->conf.name, err);
	return clear_collector(m, r->conf.name, err);
}

int rut_session_destroy(const char *name, struct rut_err *err)
{
	_cleanup_close_ int lock = -1;
	struct rut_recorder *r = NULL;
	pid_t pid;
	int rc = rut_session_open(&r, name, err);

	if (!rc) {
		lock = rut_session_lock_one(name, err);
		if (lock < 0) {
			rut_recorder_free(r);
			return lock;
		}
	}
	/* What cannot be read can still be removed. */
	if (rc == -EPROTO || rc == -EINVAL)
		return rut_session_check_name(name, err) ? rc : rut_session_unpin(name, err);
	if (rc < 0)
		return rc;
	if (r->meta->running)
		stop(r, NULL);
	pid = rut_session_consumer_alive(r->meta) ? r->meta->consumer : 0;
	if (pid)
		kill(pid, SIGTERM);
	/* As long as it writes what is in memory: on a slow disk that may take a while. */
	for (int i = 0; pid && i < RUT_SESSION_WAIT_MS / 10 && rut_session_consumer_alive(r->meta);
	     i++) {
		uint64_t before = consumed(r);

		poll(NULL, 0, 10);
		if (consumed(r) != before)
			i = 0;
	}
	if (pid && rut_session_consumer_alive(r->meta)) {
		const char *to = r->meta->output.to;

		rut_warn("the process %d of session '%s' does not end: its last events may not be "
			 "%s '%s' yet",
			 pid, name, to[0] ? "at" : "in", to[0] ? to : r->meta->current);
	}
	rut_holder_end(r->meta);
	/* Freed memory keeps its bytes: `recover` must not take it for a session. */
	r->meta->anchor.magic = 0;
	rut_recorder_free(r);
	return rut_session_unpin(name, err);
}

struct clean {
	void (*fn)(const char *name, void *arg);
	void *arg;
};

static void clean_one(const char *name, void *arg)
{
	const struct clean *c = arg;
	struct rut_recorder *r = NULL;
	int rc = rut_session_open(&r, name, NULL);
	/* Under the lock what is incomplete was left by a start that was killed. */
	bool stale = rc == -ENOENT;

	if (rc < 0 && !stale)
		return;
	if (!rc)
		stale = is_stale(r->meta);
	rut_recorder_free(r);
	if (!stale || rut_session_unpin(name, NULL) < 0)
		return;
	if (c->fn)
		c->fn(name, c->arg);
}

int rut_session_clean(void (*fn)(const char *name, void *arg), void *arg, struct rut_err *err)
{
	struct clean c = {fn, arg};
	int lock, rc;

	if (access(RUT_PIN_ROOT, F_OK) < 0)
		return 0;
	lock = rut_session_lock(err);
	if (lock < 0)
		return lock;
	rc = rut_session_each(clean_one, &c, err);
	rut_session_unlock(lock);
	return rc;
}
