/* SPDX-License-Identifier: MIT */
#include "request.h"

#include "names.h"
#include "record.h"
#include "request_caller.h"
#include "request_hit.h"
#include "watch_read.h"
#include "write_record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASKS_MAX  4096u
#define TASKS_KEPT 3072u /* when there are too many: those of the newest requests */

/* ---- tasks ---- */

static struct rut_task **bucket_of(struct rut_request_mode *m, const void *ec)
{
	return &m->tasks[((uintptr_t)ec >> 6 ^ (uintptr_t)ec >> 15) % RUT_TASK_BUCKETS];
}

/* A request or a span that is not recorded. */
static void lost(struct rut_session *s)
{
	if (s->events.ring.ctl)
		__atomic_fetch_add(&s->events.ring.ctl->lost, 1, __ATOMIC_RELAXED);
}

static void unlink_task(struct rut_request_mode *m, struct rut_task **link)
{
	struct rut_task *t = *link;

	*link = t->next;
	t->next = m->free;
	m->free = t;
	m->task_count--;
}

/*
 * Ruby does not report the end of a fiber that is abandoned in a request, so its task stays. When
 * there are too many, the oldest are freed. A request that does go on is then counted as lost at
 * its end. Other ractors could be using them: with several, nothing is freed.
 */
static void free_oldest(struct rut_request_mode *m)
{
	for (unsigned i = 0; i < RUT_TASK_BUCKETS; i++) {
		struct rut_task **link = &m->tasks[i];

		while (*link) {
			if ((*link)->number + TASKS_KEPT >= m->made) {
				link = &(*link)->next;
				continue;
			}
			m->freed_active += (*link)->active;
			unlink_task(m, link);
		}
	}
}

static void clear(struct rut_task *t)
{
	t->vm_stack = *(void *const *)t->ec;
	t->active = false;
	t->count = t->spans = 0;
	t->raises = t->raised_outside = 0;
}

/* With the lock. */
static struct rut_task *make_task(struct rut_session *s, void *ec)
{
	struct rut_request_mode *m = &s->requests;
	struct rut_task *t;

	if (m->task_count >= TASKS_MAX && rut_single_ractor())
		free_oldest(m);
	t = m->free;
	if (t)
		m->free = t->next;
	else if (m->task_count < TASKS_MAX)
		t = rut_agent_session_alloc(s, sizeof(*t));
	if (!t)
		return NULL;
	m->task_count++;
	t->number = ++m->made;
	t->ec = ec;
	clear(t);
	t->next = *bucket_of(m, ec);
	*bucket_of(m, ec) = t;
	return t;
}

static struct rut_task *find(struct rut_session *s, void *ec, bool make)
{
	struct rut_request_mode *m = &s->requests;
	struct rut_task *t;

	rut_lock(&m->lock);
	for (t = *bucket_of(m, ec); t && t->ec != ec; t = t->next)
		;
	if (t && t->vm_stack != *(void *const *)ec)
		clear(t);
	if (!t && make) {
		t = make_task(s, ec);
		if (!t)
			lost(s);
	}
	rut_unlock(&m->lock);
	return t;
}

/* No call of it is under way. */
static void release(struct rut_session *s, struct rut_task *t)
{
	struct rut_request_mode *m = &s->requests;
	struct rut_task **link = bucket_of(m, t->ec);

	rut_lock(&m->lock);
	while (*link && *link != t)
		link = &(*link)->next;
	if (*link)
		unlink_task(m, link);
	rut_unlock(&m->lock);
}

/* ---- records ---- */

static char *put(char *to, const char *text)
{
	size_t n = strlen(text) + 1;

	memcpy(to, text, n);
	return to + n;
}

static uint32_t method_of(const struct rut_session *s, const struct rut_variant *v)
{
	return (uint32_t)(v->row - s->table.rows);
}

static void write_begin(struct rut_session *s, const struct rut_task *t)
{
	union {
		struct rut_record_request r;
		char room[sizeof(struct rut_record_request) + 4 * RUT_RECORD_TEXT];
	} e;
	char *to = e.r.texts;

	e.r.id = t->id;
	e.r.kind = t->entry->watch->row;
	e.r.method = method_of(s, t->entry);
	to = put(to, t->verb);
	to = put(to, t->path);
	to = put(to, t->traceparent);
	to = put(to, t->request_id);
	rut_agent_record_write(s, t->ec, RUT_RECORD_REQUEST_BEGIN, &e, (uint32_t)(to - (char *)&e));
}

static void write_end(struct rut_session *s, const struct rut_task *t, const char *error)
{
	union {
		struct rut_record_request_end r;
		char room[sizeof(struct rut_record_request_end) + 6 * RUT_RECORD_TEXT];
	} e;
	char *to = e.r.texts;

	e.r.id = t->id;
	e.r.kind = t->entry->watch->row;
	e.r.method = method_of(s, t->entry);
	e.r.status = t->status;
	e.r.bytes = t->bytes;
	to = put(to, t->verb);
	to = put(to, t->path);
	to = put(to, t->route);
	to = put(to, t->traceparent);
	to = put(to, t->request_id);
	to = put(to, error);
	rut_agent_record_write(s, t->ec, RUT_RECORD_REQUEST_END, &e, (uint32_t)(to - (char *)&e));
}

static void write_span(struct rut_session *s, const struct rut_task *t, const struct rut_open *o,
		       uint32_t caller, const char *detail)
{
	union {
		struct rut_record_span r;
		char room[sizeof(struct rut_record_span) + RUT_RECORD_TEXT];
	} e;
	const char *end;

	e.r.layer = o->v->watch->row;
	e.r.method = method_of(s, o->v);
	e.r.caller = caller;
	e.r.depth = o->depth;
	end = put(e.r.texts, detail);
	rut_agent_record_write(s, t->ec, RUT_RECORD_SPAN_BEGIN, &e, (uint32_t)(end - (char *)&e));
}

static void write_span_end(struct rut_session *s, const struct rut_task *t,
			   const struct rut_open *o, const char *detail, const char *error)
{
	union {
		struct rut_record_span_end r;
		char room[sizeof(struct rut_record_span_end) + 2 * RUT_RECORD_TEXT];
	} e;
	const char *end;

	e.r.layer = o->v->watch->row;
	e.r.method = method_of(s, o->v);
	e.r.depth = o->depth;
	end = put(put(e.r.texts, detail), error);
	rut_agent_record_write(s, t->ec, RUT_RECORD_SPAN_END, &e, (uint32_t)(end - (char *)&e));
}

/* ---- fields ---- */

struct field {
	char *text;
	size_t size;
};

static struct field field_of(struct rut_task *t, char field, char *other, size_t size)
{
	switch (field) {
	case RUT_FIELD_VERB:
		return (struct field){t->verb, sizeof(t->verb)};
	case RUT_FIELD_PATH:
		return (struct field){t->path, sizeof(t->path)};
	case RUT_FIELD_ROUTE:
		return (struct field){t->route, sizeof(t->route)};
	case RUT_FIELD_TRACEPARENT:
		return (struct field){t->traceparent, sizeof(t->traceparent)};
	case RUT_FIELD_REQUEST_ID:
		return (struct field){t->request_id, sizeof(t->request_id)};
	case RUT_FIELD_ERROR:
		return (struct field){t->error, sizeof(t->error)};
	default:
		return (struct field){other, size};
	}
}

/*
 * The fields of a watched method that are read at this event. A value that is not there leaves what
 * is known already. `detail` gets the one of that name.
 */
static void read_fields(struct rut_session *s, struct rut_task *t, struct rut_variant *v,
			const struct rut_trace_arg *ta, char detail[RUT_RECORD_TEXT])
{
	const struct rut_watch *w = v->watch;
	char when = ta->event == RUT_EVENT_CALL ? RUT_WATCH_CALL : RUT_WATCH_RETURN;
	const struct rut_watch_code *code = NULL;
	bool looked = false;

	for (unsigned i = 0; i < w->nreads; i++) {
		const struct rut_watch_read *r = &w->reads[i];
		char text[RUT_RECORD_TEXT];
		struct field to;

		if (r->when != when)
			continue;
		if (!looked)
			code = rut_agent_watch_code(s, w, &v->code, ta);
		looked = true;
		if (!rut_agent_watch_read(s, w, r, code, ta, text, sizeof(text)))
			continue;
		to = field_of(t, r->field, detail, RUT_RECORD_TEXT);
		if (r->field == RUT_FIELD_STATUS) {
			t->status = (uint16_t)atoi(text);
		} else if (r->field == RUT_FIELD_BYTES) {
			t->bytes = atoll(text);
		} else {
			size_t n = strlen(text);

			n = n < to.size - 1 ? n : to.size - 1;
			memcpy(to.text, text, n);
			to.text[n] = 0;
		}
	}
}

/* ---- calls ---- */

static void begin_request(struct rut_session *s, struct rut_task *t, struct rut_variant *v,
			  const struct rut_trace_arg *ta)
{
	char detail[RUT_RECORD_TEXT];

	t->active = true;
	t->count = t->spans = 0;
	t->raises = t->raised_outside = 0;
	t->id = (uint64_t)rut_agent_pid << 32 |
		__atomic_add_fetch(&s->requests.count, 1, __ATOMIC_RELAXED);
	t->entry = v;
	t->status = 0;
	t->bytes = -1;
	t->verb[0] = t->path[0] = t->route[0] = t->traceparent[0] = t->request_id[0] = t->error[0] =
		0;
	read_fields(s, t, v, ta, detail);
	if (s->mode != RUT_AGENT_SCRIPT) {
		write_begin(s, t);
		return;
	}
	t->begin_ns = rut_ring_clock();
	rut_agent_request_hit_name(s, t);
	rut_agent_request_hit(s, t, RUT_HIT_REQUEST_BEGIN, "");
}

/* A script's probes of the end tell what the call was, too. */
static void keep_detail(struct rut_session *s, struct rut_task *t, const struct rut_open *o,
			const char *detail)
{
	size_t len = strlen(detail);
	char *to;

	if (!t->details)
		t->details = rut_agent_session_alloc(s, RUT_OPEN_MAX * sizeof(*t->details));
	if (!t->details)
		return;
	to = t->details[o - t->open];
	len = len < RUT_OPEN_DETAIL ? len : RUT_OPEN_DETAIL - 1;
	memcpy(to, detail, len);
	to[len] = 0;
}

static void begin_span(struct rut_session *s, struct rut_task *t, struct rut_open *o,
		       const struct rut_trace_arg *ta, const char *detail)
{
	if (s->mode != RUT_AGENT_SCRIPT) {
		write_span(s, t, o, rut_agent_request_caller(s, ta), detail);
		return;
	}
	keep_detail(s, t, o, detail);
	o->caller = rut_agent_request_caller(s, ta);
	o->begin_ns = rut_ring_clock();
	rut_agent_request_hit_span(s, o, RUT_HIT_SPAN_BEGIN, detail, "");
}

static bool inside_its_layer(const struct rut_task *t, const struct rut_watch *w)
{
	for (uint32_t i = t->count; i--;)
		if (t->open[i].span)
			return t->open[i].v->watch->row == w->row;
	return false;
}

/* The innermost call ended without an event. */
static void drop_open(struct rut_session *s, struct rut_task *t)
{
	const struct rut_open *o = &t->open[--t->count];

	t->spans -= o->span;
	if (!o->request || !t->active)
		return;
	t->active = false;
	if (s->mode == RUT_AGENT_SCRIPT)
		rut_agent_request_hit_name(s, t);
}

/* A watched method that is no entry point begins. */
static void read_call(struct rut_session *s, struct rut_task *t, struct rut_variant *v,
		      const struct rut_trace_arg *ta, char detail[RUT_RECORD_TEXT])
{
	char first = t->route[0], last = t->path[0];

	read_fields(s, t, v, ta, detail);
	if (s->mode == RUT_AGENT_SCRIPT && t->active && v->watch->what == RUT_WATCH_INFO &&
	    (t->route[0] || first != t->route[0] || last != t->path[0]))
		rut_agent_request_hit_name(s, t);
}

static void call(struct rut_session *s, const struct rut_trace_arg *ta, struct rut_variant *v)
{
	const struct rut_watch *w = v->watch;
	bool entry = w->what == RUT_WATCH_REQUEST;
	bool span = w->what == RUT_WATCH_SPAN || w->what == RUT_WATCH_NESTED;
	struct rut_task *t = find(s, ta->ec, entry || span);
	char detail[RUT_RECORD_TEXT] = "";
	struct rut_open *o;

	if (!t)
		return;
	while (t->count && t->open[t->count - 1].cfp <= ta->cfp)
		drop_open(s, t);
	if (!entry && !span && !t->active)
		return;
	if (span && w->what == RUT_WATCH_SPAN && inside_its_layer(t, w))
		return;
	if (t->count == RUT_OPEN_MAX)
		return;
	entry = entry && !t->active;
	if (entry)
		begin_request(s, t, v, ta);
	o = &t->open[t->count];
	*o = (struct rut_open){.cfp = ta->cfp,
			       .v = v,
			       .raises = t->raises,
			       .depth = t->spans,
			       .request = entry,
			       .span = span};
	if (!entry)
		read_call(s, t, v, ta, detail);
	if (span)
		begin_span(s, t, o, ta, detail);
	if (entry || span || w->returns) {
		t->count++;
		t->spans += span;
	}
}

/*
 * Does an exception end this call? Ruby reports such a return like one that returns nil. The
 * instruction that returns has one value on the stack; a call that raises has taken it.
 */
static bool raised(struct rut_session *s, const struct rut_task *t, const struct rut_open *o,
		   const struct rut_trace_arg *ta)
{
	const VALUE *cfp = ta->cfp, *pc = (const VALUE *)cfp[RUT_FRAME_PC];
	bool one = cfp[RUT_FRAME_SP] == cfp[RUT_FRAME_EP] + 2 * sizeof(VALUE);

	if (ta->data != rb.qnil) {
		if (one)
			s->requests.leave = *pc;
		return false;
	}
	if (t->raises == o->raises)
		return false;
	return !(one && s->requests.leave && *pc == s->requests.leave);
}

static void end_request(struct rut_session *s, struct rut_task *t, const char *error)
{
	if (s->mode != RUT_AGENT_SCRIPT) {
		t->active = false;
		write_end(s, t, error);
		return;
	}
	rut_agent_request_hit(s, t, RUT_HIT_REQUEST_END, error);
	t->active = false;
	rut_agent_request_hit_name(s, t);
}

static void end_open(struct rut_session *s, struct rut_task *t, const struct rut_open *o,
		     const struct rut_trace_arg *ta)
{
	struct rut_variant *v = (struct rut_variant *)o->v;
	bool failed = raised(s, t, o, ta);
	const char *error = failed ? rut_agent_table_get(&s->table, t->raised) : NULL;
	char detail[RUT_RECORD_TEXT] = "";

	if (v->watch->returns)
		read_fields(s, t, v, ta, detail);
	/* The server rescues what the application raises, and answers with an error. */
	if (o->request && t->status >= 500 && t->raises)
		error = rut_agent_table_get(&s->table,
					    t->raised_outside ? t->raised_outside : t->raised);
	/* A job runner rescues it, and notes it. */
	if (o->request && !error)
		error = t->error;
	if (!error || strlen(error) >= RUT_RECORD_TEXT)
		error = "";
	if (o->span) {
		t->spans--;
		if (s->mode == RUT_AGENT_SCRIPT)
			rut_agent_request_hit_span(
				s, o, RUT_HIT_SPAN_END,
				*detail || !t->details ? detail : t->details[t->count], error);
		else
			write_span_end(s, t, o, detail, error);
	}
	if (o->request)
		end_request(s, t, error);
}

static void returns(struct rut_session *s, const struct rut_trace_arg *ta,
		    const struct rut_variant *v)
{
	struct rut_task *t = find(s, ta->ec, false);

	if (!t && v->watch->what == RUT_WATCH_REQUEST && s->requests.freed_active) {
		s->requests.freed_active--;
		lost(s);
	}
	if (!t)
		return;
	while (t->count && t->open[t->count - 1].cfp < ta->cfp)
		drop_open(s, t);
	if (t->count && t->open[t->count - 1].cfp == ta->cfp) {
		struct rut_open o = t->open[--t->count];

		end_open(s, t, &o, ta);
	}
	if (!t->count && !t->active)
		release(s, t);
}

void rut_agent_request_event(struct rut_session *s, const struct rut_trace_arg *ta,
			     struct rut_variant *v)
{
	if (ta->event == RUT_EVENT_CALL)
		call(s, ta, v);
	else if (ta->event == RUT_EVENT_RETURN)
		returns(s, ta, v);
}

/* Is a file the server's own: in the directory of its entry point, or below? */
static bool of_the_server(const struct rut_session *s, const struct rut_task *t, const char *path)
{
	const char *entry = rut_agent_table_get(&s->table, t->entry->row->path);
	const char *slash = entry ? strrchr(entry, '/') : NULL;

	return slash && !strncmp(path, entry, (size_t)(slash - entry) + 1);
}

/*
 * While a server answers for what the application raised it may raise and rescue on its own: Puma 6
 * empties a queue into its log until it gets a ThreadError.
 */
static void raise_event(struct rut_session *s, const struct rut_trace_arg *ta)
{
	struct rut_task *t = find(s, ta->ec, false);
	const char *path;
	char name[256];
	bool singleton;
	int line;

	if (!t)
		return;
	rut_agent_class_name(rb.rb_obj_class(ta->data), name, sizeof(name), &singleton);
	t->raised = rut_agent_table_str(&s->table, name, strlen(name));
	t->raises++;
	path = rut_source_location(&line);
	if (t->active && path && !of_the_server(s, t, path))
		t->raised_outside = t->raised;
}

/* An exception is raised, or a thread ends. */
static void on_event(VALUE tp, void *session)
{
	const struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_session *s = session;
	struct rut_task *t;

	if (ta->event == RUT_EVENT_RAISE) {
		raise_event(s, ta);
		return;
	}
	t = find(s, ta->ec, false);
	if (!t)
		return;
	t->active = false;
	if (s->mode == RUT_AGENT_SCRIPT)
		rut_agent_request_hit_name(s, t);
	release(s, t);
}

void rut_agent_request_hook(struct rut_session *s)
{
	rut_agent_watches_intern(s);
	rut_agent_session_tp(s, RUT_EVENT_RAISE | RUT_EVENT_THREAD_END, on_event);
}

void rut_agent_request_unhook(struct rut_session *s)
{
	if (s->requests.keys)
		rb.rb_gc_unregister_address(&s->requests.keys);
	if (s->requests.codes)
		rb.rb_gc_unregister_address(&s->requests.codes);
	s->requests.keys = s->requests.codes = 0;
}
