/* SPDX-License-Identifier: MIT */
#include "analysis/requests.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain.h"
#include "base/glob.h"
#include "expr/expr.h"

/* The requests of one thread. */
struct served {
	struct rut_where_thread *where; /* borrowed; NULL: unknown to the kernel's events */
	uint32_t fiber;			/* that runs now */
	struct rut_request *open;	/* owned list */
	int64_t since_ns;		/* without `where`: up to here its time is accounted for */
};

static uint64_t foreign_key(int64_t pid, int64_t tid)
{
	return ((uint64_t)pid << 32 | (uint32_t)tid) + 1;
}

/* The requests of this thread; made when there are none yet and `make` is set. */
static struct served *served_of(struct rut_requests *q, struct rut_thread *thread, int64_t pid,
				int64_t tid, bool make)
{
	struct rut_where_thread *w = thread ? rut_an_where_thread(&q->where, thread) : NULL;
	struct served *s =
		w ? w->user
		  : rut_map_get(&q->foreign, foreign_key(thread ? thread->pid : pid, tid));

	if (s || !make || (thread && !w))
		return s;
	s = calloc(1, sizeof(*s));
	if (!s || (!w && rut_map_put(&q->foreign, foreign_key(pid, tid), s))) {
		free(s);
		q->run->engine->state.failed = true;
		return NULL;
	}
	s->where = w;
	if (w)
		w->user = s;
	return s;
}

/* ---- Time ---- */

static void add_time(struct rut_request *r, enum rut_place place, int64_t ns)
{
	struct rut_request_layer *l = &r->layers[r->depth ? r->open[r->depth - 1] : 0];

	r->ns[place] += ns;
	l->total_ns += ns;
	if (place == RUT_PLACE_RUBY)
		l->ruby_ns += ns;
}

static void log_slice(struct rut_request *r, int64_t from_ns, const struct rut_slice *s,
		      enum rut_place place)
{
	const struct rut_log_entry e = {
		.type = RUT_LOG_SLICE,
		.place = (uint8_t)place,
		.cpu = s->cpu,
		.nr = s->nr,
		.ts_ns = from_ns,
		.end_ns = s->end_ns,
		.by = s->by,
		.name = place == RUT_PLACE_FIBER ? NULL : s->call,
		.what = place == RUT_PLACE_FIBER ? NULL : s->what,
	};

	rut_an_log_add(r->log, &e);
}

static void add_slice(const struct served *s, const struct rut_slice *slice)
{
	for (struct rut_request *r = s->open; r; r = r->next) {
		int64_t from = slice->begin_ns > r->begin_ns ? slice->begin_ns : r->begin_ns;
		enum rut_place place = r->fiber == s->fiber ? slice->place : RUT_PLACE_FIBER;

		if (slice->end_ns <= from)
			continue;
		add_time(r, place, slice->end_ns - from);
		if (r->log)
			log_slice(r, from, slice, place);
	}
}

static void on_slice(void *arg, struct rut_where_thread *t, const struct rut_slice *slice)
{
	(void)arg;
	add_slice(t->user, slice);
}

/* Accounts for the thread's time up to now. */
static void catch_up(struct rut_requests *q, struct served *s, int64_t now_ns, bool runs)
{
	const struct rut_slice slice = {
		.begin_ns = s->since_ns, .end_ns = now_ns, .place = RUT_PLACE_UNKNOWN, .cpu = -1};

	if (s->where) {
		rut_an_where_touch(&q->where, s->where, now_ns, runs);
		return;
	}
	if (now_ns > s->since_ns)
		add_slice(s, &slice);
	s->since_ns = now_ns;
}

/* ---- Begin and end ---- */

static void copy_text(char *to, size_t size, struct rut_ruby_text t)
{
	size_t n = t.len < size - 1 ? t.len : size - 1;

	if (!t.len)
		return;
	/* Not in the middle of a character of UTF-8. */
	while (n < t.len && n && ((unsigned char)t.s[n] & 0xc0) == 0x80)
		n--;
	memcpy(to, t.s, n);
	to[n] = '\0';
}

static struct rut_request *find(struct served *s, uint32_t fiber)
{
	struct rut_request *r = s ? s->open : NULL;

	while (r && r->fiber != fiber)
		r = r->next;
	return r;
}

static void free_request(struct rut_request *r)
{
	rut_an_log_free(r->log);
	rut_an_explanation_free(r->explained);
	free(r);
}

static void drop(struct served *s, struct rut_request *r)
{
	struct rut_request **at = &s->open;

	if (!r)
		return;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	free_request(r);
}

static struct rut_request *begin(struct rut_requests *q, struct rut_thread *thread, int64_t pid,
				 int64_t tid, uint32_t fiber, int64_t ts_ns)
{
	struct served *s = served_of(q, thread, pid, tid, true);
	struct rut_request *r;

	q->seen = true;
	if (!s)
		return NULL;
	catch_up(q, s, ts_ns, true);
	s->fiber = fiber;
	/* The end of the one before was lost. */
	drop(s, find(s, fiber));
	r = calloc(1, sizeof(*r));
	if (!r) {
		q->run->engine->state.failed = true;
		return NULL;
	}
	r->thread = thread;
	r->pid = pid;
	r->tid = tid;
	r->fiber = fiber;
	r->begin_ns = ts_ns;
	r->log = q->history ? calloc(1, sizeof(*r->log)) : NULL;
	r->layers[0].name = q->run->engine->state.empty;
	r->n_layers = 1;
	r->next = s->open;
	s->open = r;
	return r;
}

/* What may have become known since it began. */
static void name_process(struct rut_request *r)
{
	snprintf(r->comm, sizeof(r->comm), "%s", r->thread ? r->thread->comm : "ruby");
	for (uint8_t i = 1; i < r->n_layers; i++)
		if (r->layers[i].named_by)
			r->layers[i].name = r->layers[i].named_by->name;
}

static void end(struct rut_requests *q, struct served *s, struct rut_request *r, int64_t ts_ns)
{
	struct rut_request **at = &s->open;

	r->end_ns = ts_ns;
	name_process(r);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	r->next = NULL;
	if (r->log && r->end_ns - r->begin_ns > q->slowest_ns(q))
		r->explained = rut_an_explain(q, r);
	for (size_t i = 0; i < q->n_listeners; i++)
		q->ended(q->listeners[i], r);
	free_request(r);
	if (s->open)
		return;
	if (s->where) {
		s->where->user = NULL;
	} else {
		rut_map_each(&q->foreign, slot) {
			if (slot->value == s) {
				(void)rut_map_remove(&q->foreign, slot->key);
				break;
			}
		}
	}
	free(s);
}

/* ---- Hooks ---- */

static void on_request(void *arg, const void *data)
{
	const struct rut_hook_ruby_request *h = data;
	struct rut_requests *q = arg;
	struct served *s;
	struct rut_request *r;

	if (q->run->conf->of_periods)
		return;
	q->seen = true;
	if (h->end) {
		s = served_of(q, h->thread, h->pid, h->tid, false);
		r = find(s, h->fiber);
		if (!r || r->method)
			return;
		catch_up(q, s, h->ts_ns, true);
	} else {
		s = NULL;
		r = begin(q, h->thread, h->pid, h->tid, h->fiber, h->ts_ns);
		if (!r)
			return;
		r->id = h->id;
	}
	snprintf(r->kind, sizeof(r->kind), "%s", h->kind);
	copy_text(r->verb, sizeof(r->verb), h->verb);
	copy_text(r->path, sizeof(r->path), h->path);
	copy_text(r->route, sizeof(r->route), h->route);
	copy_text(r->trace, sizeof(r->trace), h->traceparent);
	copy_text(r->request_id, sizeof(r->request_id), h->request_id);
	copy_text(r->error, sizeof(r->error), h->error);
	r->status = h->status;
	if (h->end)
		end(q, s, r, h->ts_ns);
}

/* Does the user take calls of this method as requests? */
static bool is_request(struct rut_requests *q, const struct rut_ruby_method *m)
{
	static char yes, no;
	const char *const glob = q->run->conf->request;
	const void *known;

	if (!glob || q->run->conf->of_periods)
		return false;
	known = rut_map_get(&q->methods, (uint64_t)m->index + 1);
	if (!known) {
		known = rut_glob_string(glob, m->name) ? &yes : &no;
		(void)rut_map_put(&q->methods, (uint64_t)m->index + 1, (void *)(uintptr_t)known);
	}
	return known == &yes;
}

static void log_call(struct rut_requests *q, struct served *s, struct rut_request *r, int64_t ts_ns,
		     enum rut_log_type type, const char *name, uint32_t depth)
{
	const struct rut_log_entry e = {.type = (uint8_t)type,
					.ts_ns = ts_ns,
					.end_ns = ts_ns,
					.name = name,
					.nr = depth,
					.detail = -1};

	catch_up(q, s, ts_ns, true);
	rut_an_log_add(r->log, &e);
}

static void on_begin(void *arg, const void *data)
{
	const struct rut_hook_ruby_begin *h = data;
	struct rut_requests *q = arg;
	struct served *s = served_of(q, h->thread, h->pid, h->tid, false);
	struct rut_request *r = find(s, h->fiber);

	if (r && r->log)
		log_call(q, s, r, h->ts_ns, RUT_LOG_CALL, h->method->name, h->depth);
	if (r || !is_request(q, h->method))
		return;
	r = begin(q, h->thread, h->pid, h->tid, h->fiber, h->ts_ns);
	if (!r)
		return;
	snprintf(r->kind, sizeof(r->kind), "call");
	snprintf(r->route, sizeof(r->route), "%s", h->method->name);
	r->method = h->method;
	r->method_depth = h->depth;
}

static void on_call(void *arg, const void *data)
{
	const struct rut_hook_ruby_call *h = data;
	struct rut_requests *q = arg;
	struct served *s = served_of(q, h->thread, h->pid, h->tid, false);
	struct rut_request *r = find(s, h->fiber);

	if (r && r->log)
		log_call(q, s, r, h->end_ns, RUT_LOG_END, h->method->name, h->depth);
	if (!r || r->method != h->method || r->method_depth != h->depth)
		return;
	catch_up(q, s, h->end_ns, true);
	end(q, s, r, h->end_ns);
}

static void on_fiber(void *arg, const void *data)
{
	const struct rut_hook_ruby_fiber *h = data;
	struct rut_requests *q = arg;
	struct served *s = served_of(q, h->thread, h->pid, h->tid, false);
	struct rut_where_thread *w = h->thread ? rut_an_where_thread(&q->where, h->thread) : NULL;

	if (w)
		w->ruby = true;
	if (!s || q->run->conf->of_periods)
		return;
	catch_up(q, s, h->ts_ns, true);
	s->fiber = h->fiber;
}

static bool is_wanted(const struct rut_requests *q, const struct rut_period *p)
{
	return q->run->conf->of_periods && p->def->name &&
	       !strcmp(p->def->name, q->run->conf->request);
}

void rut_an_requests_period_begin(struct rut_requests *q, struct rut_period *p)
{
	struct rut_engine *e = q->run->engine;
	struct rut_state *st = &e->state;
	struct rut_thread *t;
	struct rut_request *r;

	if (!is_wanted(q, p))
		return;
	rut_state_set_cpu(st, e->event);
	t = rut_an_state_current(st, e->event, &st->classes[e->event->index]);
	if (!t)
		return;
	p->user = (void *)(uintptr_t)t->tid;
	/* Within a request of the thread something may look like the begin of another. */
	r = find(served_of(q, t, t->pid, t->tid, false), 0);
	if (r && !r->outlived)
		return;
	r = begin(q, t, t->pid, t->tid, 0, p->begin_ns);
	if (!r)
		return;
	r->id = p->serial;
	snprintf(r->kind, sizeof(r->kind), "period");
	snprintf(r->route, sizeof(r->route), "%s", p->def->name);
}

void rut_an_requests_period_end(struct rut_requests *q, const struct rut_period *p)
{
	struct rut_thread *t =
		is_wanted(q, p) && p->user
			? rut_an_state_thread(&q->run->engine->state, (int64_t)(uintptr_t)p->user)
			: NULL;
	struct served *s = t ? served_of(q, t, t->pid, t->tid, false) : NULL;
	struct rut_request *r = find(s, 0);

	if (!r)
		return;
	/*
	 * It began within the open one, which ends at this event too, or its end was lost: then the
	 * thread's next begin replaces it. The open one may also be a later one, which goes on.
	 */
	if (r->id != p->serial) {
		r->outlived |= p->complete && p->serial > r->id;
		return;
	}
	if (!p->complete) {
		drop(s, r);
		return;
	}
	catch_up(q, s, p->end_ns, true);
	end(q, s, r, p->end_ns);
}

static void on_event(void *arg, const void *data)
{
	const struct rut_hook_ruby_event *h = data;
	struct rut_requests *q = arg;
	struct served *s =
		h->what == RUT_RUBY_RAISED ? served_of(q, h->thread, h->pid, h->tid, false) : NULL;
	struct rut_request *r = s ? find(s, s->fiber) : NULL;

	if (!r)
		return;
	/* The majority's site (Boyer and Moore): right where one site raises more than half. */
	if (!r->raised_there)
		r->raise_site = h->site;
	if (r->raise_site == h->site)
		r->raised_there++;
	else
		r->raised_there--;
	r->raised++;
}

static void on_block(void *arg, const void *data)
{
	struct rut_requests *q = arg;

	if (q->history)
		rut_an_history_disk(q->history, data);
}

static void on_stretch(void *arg, const struct rut_slice *s)
{
	rut_an_history_slice(((struct rut_requests *)arg)->history, s);
}

/* The number of the layer among the request's; the last one is for all that do not fit. */
static uint8_t layer_of(struct rut_request *r, const struct rut_hook_ruby_span *h)
{
	uint8_t i = 1;

	while (i < r->n_layers && r->layers[i].name != h->layer)
		i++;
	if (i == r->n_layers && i < RUT_REQUEST_LAYERS)
		r->layers[r->n_layers++] =
			(struct rut_request_layer){.name = h->layer, .named_by = h->layer_name};
	return i < RUT_REQUEST_LAYERS ? i : RUT_REQUEST_LAYERS - 1;
}

static void log_span(struct rut_request *r, const struct rut_hook_ruby_span *h)
{
	struct rut_log_entry e = {
		.type = h->end ? RUT_LOG_END : RUT_LOG_SPAN,
		.ts_ns = h->ts_ns,
		.end_ns = h->ts_ns,
		.name = h->method ? h->method->name : NULL,
		.what = h->layer,
		.nr = h->depth,
		.detail = -1,
		.caller = h->caller,
	};

	if (h->detail.len && !h->end)
		e.detail = rut_strtab_intern(&r->log->texts, h->detail.s, h->detail.len);
	rut_an_log_add(r->log, &e);
}

static void on_span(void *arg, const void *data)
{
	const struct rut_hook_ruby_span *h = data;
	struct rut_requests *q = arg;
	struct served *s = served_of(q, h->thread, h->pid, h->tid, false);
	struct rut_request *r = find(s, h->fiber);
	uint32_t depth = h->depth;

	q->has_spans = true;
	if (!r)
		return;
	catch_up(q, s, h->ts_ns, true);
	/* Those above it have ended, whether or not the trace says so. */
	if (depth < r->depth)
		r->depth = depth;
	if (r->log)
		log_span(r, h);
	if (h->end || depth >= RUT_REQUEST_DEPTH)
		return;
	while (r->depth < depth)
		r->open[r->depth++] = 0;
	r->open[r->depth] = layer_of(r, h);
	r->layers[r->open[r->depth++]].spans++;
}

/* ---- Life ---- */

static void free_served(struct served *s)
{
	for (struct rut_request *r = s->open, *next; r; r = next) {
		next = r->next;
		free_request(r);
	}
	free(s);
}

static void forget(void *arg, void *user)
{
	(void)arg;
	free_served(user);
}

int rut_an_requests_init(struct rut_requests *q, struct rut_run *run)
{
	static const struct {
		enum rut_hook hook;
		rut_hook_fn fn;
	} subs[] = {
		{RUT_HOOK_RUBY_REQUEST, on_request}, {RUT_HOOK_RUBY_BEGIN, on_begin},
		{RUT_HOOK_RUBY_CALL, on_call},	     {RUT_HOOK_RUBY_FIBER, on_fiber},
		{RUT_HOOK_RUBY_SPAN, on_span},	     {RUT_HOOK_RUBY_EVENT, on_event},
		{RUT_HOOK_BLOCK_DONE, on_block},
	};
	struct rut_state *st = &run->engine->state;

	q->run = run;
	q->where.slice = on_slice;
	q->where.forget = forget;
	q->where.arg = q;
	if (run->conf->explain) {
		q->history = rut_an_history_new();
		if (!q->history)
			return -ENOMEM;
		q->where.stretch = on_stretch;
	}
	if (rut_an_where_init(&q->where, st))
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(subs) / sizeof(*subs); i++)
		if (rut_an_state_subscribe(st, subs[i].hook, subs[i].fn, q))
			return -ENOMEM;
	return 0;
}

void rut_an_requests_fini(struct rut_requests *q)
{
	rut_an_state_unsubscribe(&q->run->engine->state, q);
	for (size_t i = 0; i < q->where.n_threads; i++)
		if (q->where.threads[i] && q->where.threads[i]->user)
			free_served(q->where.threads[i]->user);
	rut_map_each(&q->foreign, s)
		free_served(s->value);
	rut_map_fini(&q->foreign);
	rut_map_fini(&q->methods);
	rut_an_where_fini(&q->where);
	free(q->listeners);
	rut_an_history_free(q->history);
}

static void run_open(struct rut_requests *q, struct served *s, int64_t now_ns,
		     void (*fn)(struct rut_instance *inst, struct rut_request *r),
		     struct rut_instance *inst)
{
	catch_up(q, s, now_ns, false);
	for (struct rut_request *r = s->open; r; r = r->next) {
		r->end_ns = now_ns;
		r->running = true;
		name_process(r);
		if (r->log && r->end_ns - r->begin_ns > q->slowest_ns(q)) {
			rut_an_explanation_free(r->explained);
			r->explained = rut_an_explain(q, r);
		}
		fn(inst, r);
	}
}

void rut_an_requests_running(struct rut_requests *q, int64_t now_ns,
			     void (*fn)(struct rut_instance *inst, struct rut_request *r),
			     struct rut_instance *inst)
{
	for (size_t i = 0; i < q->where.n_threads; i++)
		if (rut_an_where_exists(&q->where, i) && q->where.threads[i]->user)
			run_open(q, q->where.threads[i]->user, now_ns, fn, inst);
	rut_map_each(&q->foreign, s)
		run_open(q, s->value, now_ns, fn, inst);
}

void rut_an_requests_serving(struct rut_requests *q, struct rut_thread *t, char *out, size_t size)
{
	const struct rut_where_thread *w =
		rut_an_where_exists(&q->where, t->index) ? q->where.threads[t->index] : NULL;
	struct served *s = w ? w->user : NULL;
	const struct rut_request *r = find(s, s ? s->fiber : 0);

	if (r)
		rut_an_request_name(r, out, size);
	else
		*out = '\0';
}

/* ---- Names ---- */

/* A segment of a path that is a number, a UUID or a hash. */
static bool is_id(const char *s, size_t len)
{
	size_t digits = 0, hex = 0;

	for (size_t i = 0; i < len; i++) {
		digits += isdigit((unsigned char)s[i]) != 0;
		hex += isxdigit((unsigned char)s[i]) || s[i] == '-';
	}
	return len && (digits == len || (hex == len && len >= 16 && digits));
}

void rut_an_request_name(const struct rut_request *r, char *out, size_t size)
{
	size_t n;

	if (*r->route || !*r->path) {
		snprintf(out, size, "%s", *r->route ? r->route : *r->kind ? r->kind : "?");
		return;
	}
	n = (size_t)snprintf(out, size, "%s%s", r->verb, *r->verb ? " " : "");
	for (const char *p = r->path; *p && n + 8 < size;) {
		size_t len = strcspn(p + (*p == '/'), "/") + (*p == '/');
		size_t slash = *p == '/';

		if (is_id(p + slash, len - slash))
			n += (size_t)snprintf(out + n, size - n, "%s:id", slash ? "/" : "");
		else
			n += (size_t)snprintf(out + n, size - n, "%.*s", (int)len, p);
		if (n >= size)
			n = size - 1;
		p += len;
	}
}

bool rut_an_request_failed(const struct rut_request *r)
{
	return *r->error || r->status >= 500;
}
