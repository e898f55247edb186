/* SPDX-License-Identifier: MIT */
#include "script/session_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "script/load.h"
#include "script/ruby.h"
#include "script/ruby_attach.h"
#include "script/ruby_probe.h"

enum {
	LOOK_MS = 1000, /* for processes that have come */
	SETTLE_MS = 2000
};

/* Attaches to the processes that there are; to those that it is attached to nothing happens. */
static int attach_rubies(struct rut_script_session *s, struct rut_err *err)
{
	struct rut_err first = RUT_ERR_INIT;
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, attached = 0;
	int rc = s->find(s->find_arg, &pids, &n, err);

	s->looked_ms = rut_now_ms();
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct rut_err why = RUT_ERR_INIT;

		if (!rut_script_tracer_attach(s->tracer, pids[i], &why))
			attached++;
		else if (!first.code)
			first = why;
	}
	if (attached || !n)
		return 0;
	*err = first;
	return -first.code;
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

void rut_script_session_rubies_end(struct rut_script_session *s)
{
	struct rut_err err = RUT_ERR_INIT;

	if (s->tracer && rut_script_tracer_take(s->tracer, &err))
		rut_warn("%s", err.msg);
	rut_script_tracer_free(s->tracer);
	rut_script_links_free(s->links);
	s->tracer = NULL;
	s->links = NULL;
}

/* Processes that are not there yet are waited for. */
int rut_script_session_rubies_begin(struct rut_script_session *s, struct rut_err *err)
{
	const struct rut_script_tracer_opts opts = {.stop_fd = -1};
	int rc;

	if (!s->find || !rut_script_needs_agent(s->p) || s->tracer)
		return 0;
	s->links = rut_script_links_new();
	if (!s->links)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_script_tracer_new(&s->tracer, s->p, s->links, &opts, err);
	if (!rc)
		rc = attach_rubies(s, err);
	if (!rc)
		rc = settle_rubies(s, err);
	if (!rc)
		return 0;
	if (s->tracer && (rc == -ESRCH || rc == -ENOENT)) {
		*err = (struct rut_err)RUT_ERR_INIT;
		return 0;
	}
	rut_script_session_rubies_end(s);
	return rc;
}

int rut_script_session_rubies_follow(struct rut_script_session *s, struct rut_err *err)
{
	struct rut_err ignored = RUT_ERR_INIT;
	int rc = 0;

	if (s->p->ruby && !s->paused)
		rut_script_ruby_round(s->p->ruby);
	if (s->tracer)
		rc = rut_script_tracer_round(s->tracer, err);
	if (s->tracer && rut_now_ms() - s->looked_ms >= LOOK_MS)
		attach_rubies(s, &ignored);
	return rc < 0 ? rc : 0;
}

void rut_script_session_rubies_pause(struct rut_script_session *s, bool pause)
{
	struct rut_err err = RUT_ERR_INIT;

	if (pause)
		rut_script_session_rubies_end(s);
	else if (rut_script_session_rubies_begin(s, &err))
		rut_warn("%s", err.msg);
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

	return s->tracer ? rut_script_tracer_take(s->tracer, err) : 0;
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
