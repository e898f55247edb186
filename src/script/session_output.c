/* SPDX-License-Identifier: MIT */
#include "script/session_priv.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "ring/write.h"
#include "script/load.h"
#include "script/quantile.h"
#include "script/ruby_attach.h"
#include "script/trace.h"

/* How long an interval probe waits for an attempt to attach to a Ruby process. */
static const uint64_t PUT_OFF_NS = 5000000000;

static int prepare_output(struct rut_script_session *s, FILE *out, bool json)
{
	struct rut_script_out_config config = {
		.out = out, .err = out, .json = json, .source = s->p->src.name, .style = s->style};

	if (s->trace)
		config.tap = rut_script_trace_tap(s->trace);
	rut_script_out_free(s->out);
	s->out = NULL;
	return rut_script_out_new(&s->out, &config);
}

static void put_event(void *arg, const struct rut_script_event *e, size_t size)
{
	struct rut_script_session *s = arg;
	const struct rut_script_action *a;

	if (e->action >= s->p->nactions || s->rc)
		return;
	a = &s->p->actions[e->action];
	if (a->kind == RUT_ACTION_EXIT || a->kind == RUT_ACTION_PRINT_KEY)
		return;
	if (!rut_script_event_is_whole(a, size)) {
		s->rc = rut_err_set(s->err, EBADMSG, "a record of the script is too short");
		return;
	}
	e = rut_script_quantiles_fill(a, s->p->maps, e, size, &s->filled);
	if (!e) {
		s->rc = -ENOMEM;
		return;
	}
	if (s->trace)
		rut_script_trace_event(s->trace, e, a);
	s->rc = rut_script_out_event(s->out, a, s->p->maps, s->p->nmaps, e->data, size - sizeof(*e),
				     s->err);
}

static int read_journal(struct rut_script_session *s, bool wait, struct rut_err *err)
{
	int rc;

	s->err = err;
	s->rc = 0;
	rut_script_journal_read(&s->journal, wait, put_event, s);
	rc = s->rc;
	s->err = NULL;
	return rc;
}

/*
 * All that is in the journal, and the maps, as they are at that time (0: now). With `wait`, what
 * comes from a record on that is being written is left to a later call.
 */
static int put_all(struct rut_script_session *s, uint64_t ns, bool wait, struct rut_err *err)
{
	int rc = read_journal(s, wait, err);

	if (s->trace)
		rut_script_trace_at(s->trace, ns);
	return rc ? rc : rut_script_out_end(s->out, s->p->maps, s->p->nmaps, err);
}

int rut_script_session_show(struct rut_script_session *s, FILE *out, bool json, struct rut_err *err)
{
	int rc;

	if (prepare_output(s, out, json))
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_script_journal_open(&s->journal, s->p, err);
	if (!rc)
		s->journal.pos = rut_script_journal_oldest(&s->journal);
	if (!rc)
		rc = put_all(s, 0, false, err);
	rut_script_journal_close(&s->journal);
	return rc;
}

/* ---- Traces ---- */

/* Since the script was started. */
static uint64_t lost_records(const struct rut_script_session *s)
{
	uint64_t lost = s->journal.lapped;

	for (size_t i = 0; i < s->p->nsites; i++)
		if (s->p->sites[i].kind == RUT_SITE_LOST)
			lost += s->journal.counters[RUT_COUNTER_SITES + i];
	return lost;
}

static int begin_trace(struct rut_script_session *s, const char *dir,
		       const struct rut_trace_clock *clock, struct rut_err *err)
{
	int rc = rut_script_trace_open(&s->trace, dir, s->p, &s->style, clock, err);

	if (rc)
		return rc;
	if (!s->nowhere)
		s->nowhere = fopen("/dev/null", "we");
	if (s->nowhere && !prepare_output(s, s->nowhere, false))
		return 0;
	rut_script_trace_close(s->trace, 0, 0, NULL);
	s->trace = NULL;
	return rut_err_set(err, ENOMEM, "out of memory");
}

/* There is none afterwards, also when it fails. `next`: another one follows. */
static int end_trace(struct rut_script_session *s, uint64_t end_ns, bool next, struct rut_err *err)
{
	uint64_t lost;
	int rc, closed;

	if (!s->trace)
		return 0;
	rc = put_all(s, end_ns, next, err);
	lost = lost_records(s);
	closed = rut_script_trace_close(s->trace, end_ns, lost - s->told, rc ? NULL : err);
	if (!closed)
		s->told = lost;
	s->trace = NULL;
	/* It would print into the trace. */
	rut_script_out_free(s->out);
	s->out = NULL;
	return rc ? rc : closed;
}

static int side_snapshot(void *arg, const char *dir, const struct rut_trace_clock *clock,
			 uint64_t end_ns, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = rut_script_journal_open(&s->journal, s->p, err);

	if (!rc)
		s->journal.pos = rut_script_journal_oldest(&s->journal);
	if (!rc)
		rc = begin_trace(s, dir, clock, err);
	if (!rc)
		rc = end_trace(s, end_ns, false, err);
	rut_script_journal_close(&s->journal);
	return rc;
}

/*
 * The next directory. The journal is read on from where it was; at first from its beginning, or
 * with `oldest` from what it still has.
 */
static int next_trace(struct rut_script_session *s, const char *dir,
		      const struct rut_trace_clock *clock, bool oldest, struct rut_err *err)
{
	struct rut_err why = RUT_ERR_INIT;
	int rc = 0;

	/* The previous directory may be removed, or its disk full. */
	if (end_trace(s, clock->begin_ns, true, &why))
		rut_warn("%s", why.msg);
	if (!s->journal.counters) {
		rc = rut_script_journal_open(&s->journal, s->p, err);
		if (!rc && oldest)
			s->journal.pos = rut_script_journal_oldest(&s->journal);
	}
	return rc ? rc : begin_trace(s, dir, clock, err);
}

static int side_open(void *arg, const char *dir, const struct rut_trace_clock *clock,
		     struct rut_err *err)
{
	return next_trace(arg, dir, clock, false, err);
}

/* Is one of them due? When it was; 0: none is. */
static uint64_t due_since_ns(const struct rut_script_session *s, uint64_t now)
{
	uint64_t ret = 0;

	for (size_t i = 0; s->next_ns && i < s->p->nprogs; i++)
		if (s->next_ns[i] && now >= s->next_ns[i] && (!ret || s->next_ns[i] < ret))
			ret = s->next_ns[i];
	return ret;
}

/*
 * Interval probes that are due, after the hits of Ruby probes up to then; missed ones are not
 * repeated. While an attempt to attach keeps the hits, they are put off: the rings are read
 * meanwhile.
 */
static int run_intervals(struct rut_script_session *s, struct rut_err *err)
{
	uint64_t now = rut_ring_clock(), since = due_since_ns(s, now);
	int taken;

	if (s->paused)
		return 0;
	taken = since ? rut_script_session_rubies_take(s, now - since > PUT_OFF_NS, err) : 0;
	if (taken)
		return taken == RUT_SCRIPT_RUBIES_BUSY ? 0 : taken;
	if (!s->next_ns)
		s->next_ns = calloc(s->p->nprogs + 1, sizeof(*s->next_ns));
	for (size_t i = 0; s->next_ns && i < s->p->nprogs; i++) {
		const struct rut_script_prog *prog = &s->p->progs[i];
		uint64_t period = prog->nattach ? prog->attach[0].period_ns : 0;
		int rc = 0;

		if (!period || prog->attach[0].kind != RUT_PROBE_INTERVAL)
			continue;
		if (s->next_ns[i] && now >= s->next_ns[i])
			rc = rut_script_run_prog(prog);
		if (rc)
			return rut_err_errno(err, -rc, "cannot run %s", prog->attach[0].name);
		if (!s->next_ns[i] || now >= s->next_ns[i])
			s->next_ns[i] = now - now % period + period;
	}
	return 0;
}

static int side_step(void *arg, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = rut_script_session_rubies_follow(s, err);

	if (!rc)
		rc = run_intervals(s, err);
	/* The journal keeps what comes until there is a trace again. */
	if (rc || !s->trace)
		return rc;
	rc = read_journal(s, true, err);
	return rc ? rc : rut_script_trace_flush(s->trace, err);
}

static int side_close(void *arg, uint64_t end_ns, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc, closed;

	rut_script_session_rubies_end(s);
	rc = rut_script_session_run_kind(s, RUT_PROBE_END, err);
	closed = end_trace(s, end_ns, false, rc ? NULL : err);
	return rc ? rc : closed;
}

/* Its links are the session's, and are removed with them; intervals have none. */
static void side_pause(void *arg, bool pause)
{
	struct rut_script_session *s = arg;

	s->paused = pause;
	free(s->next_ns);
	s->next_ns = NULL;
	rut_script_session_rubies_pause(s, pause);
}

/* ---- Beside the session ---- */

static int read_open(void *arg, const char *dir, const struct rut_trace_clock *clock,
		     struct rut_err *err)
{
	return next_trace(arg, dir, clock, true, err);
}

static int read_step(void *arg, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = s->trace ? read_journal(s, true, err) : 0;

	return rc || !s->trace ? rc : rut_script_trace_flush(s->trace, err);
}

static int read_close(void *arg, uint64_t end_ns, struct rut_err *err)
{
	return end_trace(arg, end_ns, false, err);
}

struct rut_companion rut_script_session_reader(struct rut_script_session *s)
{
	return (struct rut_companion){
		.open = read_open, .step = read_step, .close = read_close, .arg = s};
}

struct rut_companion rut_script_session_companion(struct rut_script_session *s)
{
	return (struct rut_companion){.open = side_open,
				      .step = side_step,
				      .close = side_close,
				      .snapshot = side_snapshot,
				      .pause = side_pause,
				      .arg = s};
}
