/* SPDX-License-Identifier: MIT */
/* Triggers on events: recorded in memory, filtered in the kernel. */
#include "cli/trigger_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "cli/record_opts.h"
#include "cli/trigger_period.h"
#include "ctf/reader.h"
#include "ctf/text.h"
#include "session/live.h"
#include "session/programs.h"
#include "session/recorder.h"
#include "trigger/window.h"

#define LAG_NS	   20000000
#define CHECK_NS   1000000000 /* how often threads are looked for whose calls were reported */
#define BUFFER	   (8ull << 20)
#define ENTRY	   "syscall_entry_"
#define EXIT	   "syscall_exit_"
#define TIMES_MAX  65536 /* events within the window of a rate */
#define THREAD_MAX 65536

/* A call that has begun and not ended. */
struct call {
	int64_t begin_ns;
	int32_t tid; /* 0: the slot is free */
	bool told;
	char *text; /* owned */
};

struct events {
	struct rut_trigger_source source;
	const struct rut_trigger_when *when;
	struct rut_recorder *r;	       /* owned */
	struct rut_session_live *live; /* owned */
	struct rut_ctf_set *set;       /* owned */
	struct rut_ctf_reader *reader; /* owned */
	struct rut_ctf_text *text;     /* owned */
	struct rut_buf line;
	/* RATE: the times of the last `count` events, a circle; owned. */
	int64_t *times;
	uint64_t ntimes, next;
	/* SLOW */
	struct call *calls; /* owned */
	size_t ncalls;
	int64_t checked_ns;		   /* when its threads were looked for */
	struct rut_trigger_window window;  /* with a percentile */
	struct rut_trigger_period *period; /* PERIOD; owned */
};

/* ---- Recording ---- */

/* "openat,fsync" -> "syscall_entry_openat,syscall_exit_openat,..." */
static int syscall_events(const char *names, char *to, size_t size, struct rut_err *err)
{
	size_t at = 0;

	while (*names) {
		int len = (int)strcspn(names, ", ");
		int n = !len ? 0
			     : snprintf(to + at, size - at, "%s" ENTRY "%.*s," EXIT "%.*s",
					at ? "," : "", len, names, len, names);

		if (n < 0 || (size_t)n >= size - at)
			return rut_err_set(err, EINVAL, "too many system calls");
		at += (size_t)n;
		names += len + (names[len] != 0);
	}
	return at ? 0 : rut_err_set(err, EINVAL, "no system call is named");
}

/* What is to be recorded. */
static int names_of_events(const struct events *e, struct rut_buf *names, struct rut_err *err)
{
	char calls[4096];
	int rc = 0;

	if (e->period)
		return rut_cli_trigger_period_events(e->period, names, err);
	if (e->when->kind == RUT_TRIGGER_SLOW)
		rc = syscall_events(e->when->events, calls, sizeof(calls), err);
	if (!rc)
		rut_buf_puts(names, e->when->kind == RUT_TRIGGER_SLOW ? calls : e->when->events);
	return rc;
}

static int configure(struct rut_record_opts *o, const struct rut_cmd *cmd, const struct events *e,
		     struct rut_err *err)
{
	const struct rut_trigger_when *w = e->when;
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
	int rc = names_of_events(e, &names, err);

	if (rc)
		return rc;
	if (names.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_cli_record_option(cmd, o, 'e', names.data);
	if (!rc)
		rc = rut_cli_record_option(cmd, o, RUT_OPT_CONTEXT, "pid,tid,procname");
	if (!rc && w->filter[0] && !e->period)
		rc = rut_cli_record_option(cmd, o, RUT_OPT_FILTER, w->filter);
	if (rc)
		return -EINVAL;
	rut_cli_record_defaults(o);
	o->conf.mode = RUT_RING_OVERWRITE;
	o->conf.buffer_bytes = BUFFER;
	snprintf(o->conf.name, sizeof(o->conf.name), "trigger");
	return 0;
}

static int record(struct events *e, const struct rut_cmd *cmd, struct rut_err *err)
{
	_cleanup_free_ struct rut_record_opts *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = configure(o, cmd, e, err);
	if (!rc)
		rc = rut_recorder_new(&e->r, &o->conf, err);
	if (!rc)
		rc = rut_programs_attach(e->r, err);
	if (!rc)
		rc = rut_live_open(&e->live, e->r, false, err);
	return rc;
}

static int open_reader(struct events *e, struct rut_err *err)
{
	const struct rut_ctf_set_opts set = {.consume = true};
	const struct rut_ctf_reader_opts reader = {.follow = true, .follow_lag_ns = LAG_NS};
	const struct rut_ctf_text_opts text = {.json = true,
					       .gmt = true,
					       .clock = RUT_CTF_CLOCK_DATE,
					       .names =
						       RUT_CTF_NAME_PAYLOAD | RUT_CTF_NAME_CONTEXT};
	const char *path = rut_live_path(e->live);
	int rc = rut_ctf_set_open(&e->set, &path, 1, &set, err);

	if (!rc)
		rc = rut_ctf_reader_new(&e->reader, e->set, &reader, err);
	if (!rc)
		rc = rut_ctf_text_new(&e->text, e->set, &text, err);
	if (!rc && e->period)
		rc = rut_cli_trigger_period_bind(e->period, e->set, err);
	return rc;
}

/* ---- Looking ---- */

/* Until the next event. */
static const char *as_text(struct events *e, const struct rut_ctf_event *ev)
{
	rut_buf_clear(&e->line);
	rut_ctf_text_event(e->text, ev, &e->line);
	while (e->line.len && e->line.data[e->line.len - 1] == '\n')
		e->line.len--;
	rut_buf_putc(&e->line, 0);
	return e->line.failed ? "{}" : e->line.data;
}

/* More than `count` within the window: the event `count` before this one is not older than it. */
static bool is_too_often(struct events *e, int64_t now_ns)
{
	int64_t oldest;

	e->times[e->next] = now_ns;
	e->next = (e->next + 1) % e->ntimes;
	oldest = e->times[e->next];
	if (!oldest || now_ns - oldest > (int64_t)e->when->ns)
		return false;
	/* Reset: one burst is one firing. */
	memset(e->times, 0, e->ntimes * sizeof(*e->times));
	return true;
}

/* Linear probing; a slot that was used stays in the chain, so a removed one is moved over. */
static struct call *find_call(struct events *e, int32_t tid, bool make)
{
	size_t i = rut_hash_u64((uint64_t)tid) % THREAD_MAX;

	for (; e->calls[i].tid; i = (i + 1) % THREAD_MAX)
		if (e->calls[i].tid == tid)
			return &e->calls[i];
	if (!make || e->ncalls >= THREAD_MAX / 2)
		return NULL;
	e->ncalls++;
	e->calls[i].tid = tid;
	return &e->calls[i];
}

static void remove_call(struct events *e, struct call *c)
{
	size_t hole = (size_t)(c - e->calls);

	free(c->text);
	*c = (struct call){0};
	e->ncalls--;
	for (size_t i = (hole + 1) % THREAD_MAX; e->calls[i].tid; i = (i + 1) % THREAD_MAX) {
		size_t home = rut_hash_u64((uint64_t)e->calls[i].tid) % THREAD_MAX;

		/* It may stay when its home slot is after the hole. */
		if ((i - home) % THREAD_MAX < (i - hole) % THREAD_MAX)
			continue;
		e->calls[hole] = e->calls[i];
		e->calls[i] = (struct call){0};
		hole = i;
	}
}

static void tell_slow(struct events *e, struct call *c, int64_t ns, bool over,
		      rut_trigger_seen_fn seen, void *arg)
{
	rut_buf_clear(&e->line);
	rut_buf_printf(&e->line, "{\"%s_ns\":%" PRId64 ",\"call\":%s}", over ? "lasted" : "lasts",
		       ns, c->text ? c->text : "{}");
	rut_buf_putc(&e->line, 0);
	c->told = true;
	seen(arg, e->line.failed ? "{}" : e->line.data);
}

static void take_call(struct events *e, const struct rut_ctf_event *ev, rut_trigger_seen_fn seen,
		      void *arg)
{
	struct rut_ctf_ref tid;
	struct call *c;
	bool slow;

	/* The context's, not that of a call about threads. */
	if (!rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_STREAM_CONTEXT, "tid", &tid) &&
	    !rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_EVENT_CONTEXT, "tid", &tid))
		return;
	c = find_call(e, (int32_t)rut_ctf_u64(ev, &tid),
		      !strncmp(ev->cls->name, ENTRY, strlen(ENTRY)));
	if (!c)
		return;
	if (!strncmp(ev->cls->name, ENTRY, strlen(ENTRY))) {
		free(c->text);
		c->text = strdup(as_text(e, ev));
		c->begin_ns = ev->ts_ns;
		c->told = false;
		return;
	}
	slow = ev->ts_ns - c->begin_ns >= (int64_t)e->when->ns;
	if (e->when->percent > 0 ? rut_trigger_window_add(&e->window, (uint64_t)ev->ts_ns, slow,
							  e->when->percent, e->when->window_ns)
				 : slow && !c->told)
		tell_slow(e, c, ev->ts_ns - c->begin_ns, true, seen, arg);
	remove_call(e, c);
}

/* Calls that still last; those of threads that were killed in them are forgotten. */
static void look_at_calls(struct events *e, rut_trigger_seen_fn seen, void *arg)
{
	int64_t now_ns = (int64_t)rut_clock_ns(CLOCK_REALTIME);
	bool all = now_ns < e->checked_ns || now_ns - e->checked_ns >= CHECK_NS;

	if (all)
		e->checked_ns = now_ns;
	for (size_t i = 0; e->ncalls && i < THREAD_MAX; i++) {
		struct call *c = &e->calls[i];
		char path[32];

		if (!c->tid || now_ns - c->begin_ns < (int64_t)e->when->ns ||
		    ((c->told || e->when->percent > 0) && !all))
			continue;
		snprintf(path, sizeof(path), "/proc/%d", c->tid);
		if (access(path, F_OK) < 0)
			remove_call(e, c);
		else if (!c->told && !(e->when->percent > 0))
			tell_slow(e, c, now_ns - c->begin_ns, false, seen, arg);
	}
}

static void take(struct events *e, const struct rut_ctf_event *ev, rut_trigger_seen_fn seen,
		 void *arg)
{
	switch (e->when->kind) {
	case RUT_TRIGGER_EVENT:
		seen(arg, as_text(e, ev));
		break;
	case RUT_TRIGGER_RATE:
		if (is_too_often(e, ev->ts_ns))
			seen(arg, as_text(e, ev));
		break;
	case RUT_TRIGGER_SLOW:
		take_call(e, ev, seen, arg);
		break;
	case RUT_TRIGGER_PERIOD:
		rut_cli_trigger_period_event(e->period, ev, e->text, seen, arg);
		break;
	default:
		break;
	}
}

static int step(struct rut_trigger_source *s, rut_trigger_seen_fn seen, void *arg,
		struct rut_err *err)
{
	struct events *e = (struct events *)s;
	int rc = rut_live_step(e->live, err);

	if (rc)
		return rc;
	do {
		const struct rut_ctf_event *ev;

		while ((ev = rut_ctf_reader_next(e->reader)))
			take(e, ev, seen, arg);
		rc = rut_ctf_reader_poll(e->reader, err);
		if (rc > 0 && (rut_ctf_text_grow(e->text, err) < 0 ||
			       (e->period && rut_cli_trigger_period_bind(e->period, e->set, err))))
			return -err->code;
	} while (rc > 0);
	if (rc < 0)
		return rc;
	if (e->when->kind == RUT_TRIGGER_SLOW)
		look_at_calls(e, seen, arg);
	else if (e->period)
		rut_cli_trigger_period_look(e->period, (int64_t)rut_clock_ns(CLOCK_REALTIME), seen,
					    arg);
	return 0;
}

/* ---- Begin and end ---- */

static void free_events(struct rut_trigger_source *s)
{
	struct events *e = (struct events *)s;

	for (size_t i = 0; e->calls && i < THREAD_MAX; i++)
		free(e->calls[i].text);
	rut_cli_trigger_period_free(e->period);
	rut_ctf_text_free(e->text);
	rut_ctf_reader_free(e->reader);
	rut_ctf_set_free(e->set);
	rut_live_free(e->live);
	rut_recorder_free(e->r);
	rut_buf_fini(&e->line);
	rut_trigger_window_fini(&e->window);
	free(e->times);
	free(e->calls);
	free(e);
}

/* What the kind needs to count with. */
static int prepare(struct events *e, struct rut_err *err)
{
	const struct rut_trigger_when *w = e->when;

	if (w->kind == RUT_TRIGGER_PERIOD)
		return rut_cli_trigger_period_new(&e->period, w, err);
	e->ntimes = w->count + 1;
	if (w->kind == RUT_TRIGGER_RATE)
		e->times = calloc(e->ntimes, sizeof(*e->times));
	if (w->kind == RUT_TRIGGER_SLOW)
		e->calls = calloc(THREAD_MAX, sizeof(*e->calls));
	if ((w->kind != RUT_TRIGGER_EVENT && !e->times && !e->calls) ||
	    (w->percent > 0 && rut_trigger_window_init(&e->window)))
		return rut_err_set(err, ENOMEM, "out of memory");
	return 0;
}

int rut_cli_trigger_events_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
				const struct rut_trigger_when *w, struct rut_err *err)
{
	struct events *e;
	int rc;

	if (w->kind == RUT_TRIGGER_RATE && w->count >= TIMES_MAX)
		return rut_err_set(err, EINVAL, "the rate exceeds %d events", TIMES_MAX - 1);
	e = calloc(1, sizeof(*e));
	if (!e)
		return rut_err_set(err, ENOMEM, "out of memory");
	e->source = (struct rut_trigger_source){step, free_events};
	e->when = w;
	rc = prepare(e, err);
	if (!rc)
		rc = record(e, cmd, err);
	if (!rc)
		rc = open_reader(e, err);
	if (rc) {
		free_events(&e->source);
		return rc;
	}
	*ret = &e->source;
	return 0;
}
