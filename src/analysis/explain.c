/* SPDX-License-Identifier: MIT */
#include "analysis/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/where_call.h"

#define NODES_MAX 20000
#define DEPTH_MAX 256
#define WAITS_MAX 256 /* that are laid over the history: the longest */

void rut_an_explanation_free(struct rut_explanation *x)
{
	if (!x)
		return;
	free(x->sentence);
	free(x->nodes);
	rut_strtab_fini(&x->texts);
	free(x);
}

/* ---- The tree ---- */

struct open_node {
	uint32_t node;
	uint8_t type; /* RUT_LOG_CALL or RUT_LOG_SPAN */
	uint32_t depth;
	int64_t begin_ns;
};

struct wait {
	const struct rut_log_entry *slice;
	uint32_t node;
};

struct builder {
	struct rut_requests *q;
	const struct rut_request *r;
	struct rut_explanation *x;
	struct open_node open[DEPTH_MAX];
	uint32_t n_open;
	uint32_t last_nr;   /* of the system call of the slice before */
	struct wait *waits; /* owned */
	size_t n_waits, cap_waits;
	struct rut_slice *seen; /* owned: what the machine did meanwhile */
	size_t n_seen;
};

static uint32_t add_node(struct rut_explanation *x, uint32_t parent, const struct rut_an_node *like)
{
	uint32_t last = RUT_NO_NODE,
		 at = parent == RUT_NO_NODE ? RUT_NO_NODE : x->nodes[parent].first_child;

	for (; at != RUT_NO_NODE; last = at, at = x->nodes[at].next) {
		const struct rut_an_node *n = &x->nodes[at];

		if (n->kind == like->kind && n->name == like->name && n->what == like->what &&
		    n->text == like->text && (n->kind != RUT_NODE_PLACE || n->place == like->place))
			return at;
	}
	if (x->n == NODES_MAX)
		return parent;
	if (x->n == x->cap) {
		uint32_t cap = x->cap ? x->cap * 2 : 64;
		void *to = realloc(x->nodes, cap * sizeof(*x->nodes));

		if (!to)
			return parent;
		x->nodes = to;
		x->cap = cap;
	}
	x->nodes[x->n] = *like;
	x->nodes[x->n].first_child = x->nodes[x->n].next = RUT_NO_NODE;
	if (last != RUT_NO_NODE)
		x->nodes[last].next = x->n;
	else if (parent != RUT_NO_NODE)
		x->nodes[parent].first_child = x->n;
	return x->n++;
}

static void close_top(struct builder *b, int64_t ts_ns)
{
	const struct open_node *o = &b->open[--b->n_open];
	struct rut_an_node *n = &b->x->nodes[o->node];
	int64_t ns = ts_ns - o->begin_ns;

	n->total_ns += ns;
	if (ns > n->longest_ns)
		n->longest_ns = ns;
}

/* Closes what is open of this type at this depth or deeper, and all within it. */
static void close_down_to(struct builder *b, uint8_t type, uint32_t depth, int64_t ts_ns)
{
	uint32_t keep = b->n_open;

	for (uint32_t i = b->n_open; i-- > 1;)
		if (b->open[i].type == type && b->open[i].depth >= depth)
			keep = i;
	while (b->n_open > keep)
		close_top(b, ts_ns);
}

static void open_entry(struct builder *b, const struct rut_log_entry *e)
{
	struct rut_an_node like = {
		.kind = e->type == RUT_LOG_CALL ? RUT_NODE_CALL : RUT_NODE_SPAN,
		.name = e->name,
		.what = e->what,
		.text = e->detail >= 0 ? b->x->texts.strs[e->detail].data : NULL,
		.caller = e->caller,
	};
	uint32_t node;

	close_down_to(b, e->type, e->nr, e->ts_ns);
	if (b->n_open == DEPTH_MAX)
		return;
	node = add_node(b->x, b->open[b->n_open - 1].node, &like);
	b->x->nodes[node].calls++;
	b->open[b->n_open++] = (struct open_node){node, e->type, e->nr, e->ts_ns};
}

static void add_wait(struct builder *b, const struct rut_log_entry *e, uint32_t node)
{
	if (b->n_waits == b->cap_waits) {
		size_t cap = b->cap_waits ? b->cap_waits * 2 : 256;
		void *to = realloc(b->waits, cap * sizeof(*b->waits));

		if (!to)
			return;
		b->waits = to;
		b->cap_waits = cap;
	}
	b->waits[b->n_waits++] = (struct wait){e, node};
}

static bool is_call_place(enum rut_place p)
{
	return p == RUT_PLACE_SYSTEM || p == RUT_PLACE_DISK || p == RUT_PLACE_NET ||
	       p == RUT_PLACE_PIPE || p == RUT_PLACE_LOCK || p == RUT_PLACE_SLEEP ||
	       p == RUT_PLACE_CHILD || p == RUT_PLACE_OTHER;
}

static void add_slice(struct builder *b, const struct rut_log_entry *e)
{
	uint32_t parent = b->open[b->n_open - 1].node, at = parent;
	enum rut_place place = (enum rut_place)e->place;
	int64_t ns = e->end_ns - e->ts_ns;
	bool call = is_call_place(place) && e->name;
	struct rut_an_node like = {
		.kind = call ? RUT_NODE_SYSCALL : RUT_NODE_PLACE,
		.place = (uint8_t)place,
		.name = call ? e->name : NULL,
		.what = call ? e->what : NULL,
	};
	struct rut_an_node *n;

	if (place != RUT_PLACE_RUBY) {
		at = add_node(b->x, parent, &like);
		n = &b->x->nodes[at];
		if (at != parent) {
			n->total_ns += ns;
			n->calls += !call || e->nr != b->last_nr;
			if (ns > n->longest_ns)
				n->longest_ns = ns;
			if (n->own[place] + ns > n->own[n->place])
				n->place = (uint8_t)place;
		}
		if (call)
			b->last_nr = e->nr;
	}
	b->x->nodes[at].own[place] += ns;
	if (rut_place_waits(place) && place != RUT_PLACE_SLEEP && place != RUT_PLACE_FIBER)
		add_wait(b, e, at);
}

static bool build(struct builder *b)
{
	const struct rut_log *l = b->r->log;
	struct rut_an_node root = {.kind = RUT_NODE_CALL, .calls = 1};

	if (add_node(b->x, RUT_NO_NODE, &root) != 0)
		return false;
	b->open[b->n_open++] = (struct open_node){0, RUT_LOG_CALL, 0, b->r->begin_ns};
	b->last_nr = UINT32_MAX;
	for (size_t i = 0; i < l->n; i++) {
		const struct rut_log_entry *e = &l->entries[i];

		switch (e->type) {
		case RUT_LOG_SLICE:
			add_slice(b, e);
			break;
		case RUT_LOG_CALL:
		case RUT_LOG_SPAN:
			open_entry(b, e);
			break;
		default:
			close_down_to(b, e->what ? RUT_LOG_SPAN : RUT_LOG_CALL, e->nr, e->ts_ns);
			break;
		}
	}
	while (b->n_open)
		close_top(b, b->r->end_ns);
	return true;
}

/* ---- Threads and processes ---- */

static int64_t overlap(int64_t a_begin, int64_t a_end, int64_t b_begin, int64_t b_end)
{
	int64_t from = a_begin > b_begin ? a_begin : b_begin, to = a_end < b_end ? a_end : b_end;

	return to > from ? to - from : 0;
}

/* What all threads did since the request began, those that are still at it included. */
static void look_back(struct builder *b)
{
	const struct rut_history *h = b->q->history;
	struct rut_where *w = &b->q->where;
	const struct rut_slice *s = NULL;
	size_t n = 0, max;

	while ((s = rut_an_history_at(h, n)) && s->end_ns > b->r->begin_ns)
		n++;
	b->x->short_history = !s && h->n_slices > RUT_HISTORY_SLICES;
	max = n + w->n_threads;
	b->seen = calloc(max + 1, sizeof(*b->seen));
	if (!b->seen)
		return;
	while (n--)
		b->seen[b->n_seen++] = *rut_an_history_at(h, n);
	for (size_t i = 0; i < w->n_threads; i++)
		if (rut_an_where_exists(w, i) &&
		    rut_an_where_now(w, w->threads[i], b->r->end_ns, &b->seen[b->n_seen]))
			b->n_seen++;
}

/* "postgres (812)", "thread 14 of this process". Returns the thread, or NULL. */
static struct rut_thread *name_thread(const struct builder *b, int64_t tid, char *out, size_t size)
{
	struct rut_thread *t = rut_an_state_thread(&b->q->run->engine->state, tid);
	const struct rut_thread *leader =
		t ? rut_an_state_leader(&b->q->run->engine->state, t) : NULL;
	const char *comm = leader && *leader->comm ? leader->comm : t ? t->comm : "";

	if (t && t->pid == b->r->pid)
		snprintf(out, size, "thread %lld of this process", (long long)tid);
	else
		snprintf(out, size, "%s (%lld)", comm, (long long)(t && t->pid > 0 ? t->pid : tid));
	if (!*comm)
		snprintf(out, size, "thread %lld", (long long)tid);
	return t;
}

static void name_culprit(struct builder *b, struct rut_culprit *c)
{
	struct rut_thread *t = name_thread(b, c->tid, c->name, sizeof(c->name));

	if (t)
		rut_an_requests_serving(b->q, t, c->serves, sizeof(c->serves));
}

static struct rut_culprit *culprit(struct builder *b, struct rut_an_node *n, int64_t tid,
				   int64_t ns)
{
	struct rut_culprit *least = NULL, *c = NULL;

	for (uint32_t i = 0; i < n->n_who; i++) {
		if (n->who[i].tid == tid)
			c = &n->who[i];
		if (!least || n->who[i].ns < least->ns)
			least = &n->who[i];
	}
	if (!c && n->n_who < RUT_CULPRITS) {
		c = &n->who[n->n_who++];
		*c = (struct rut_culprit){.tid = tid};
		name_culprit(b, c);
	} else if (!c && least->ns < ns) {
		c = least;
		*c = (struct rut_culprit){.tid = tid};
		name_culprit(b, c);
	}
	if (c)
		c->ns += ns;
	return c;
}

static void note_method(struct rut_culprit *c, const struct rut_slice *s)
{
	if (s->method && !*c->serves)
		snprintf(c->serves, sizeof(c->serves), "%s", s->method->name);
}

/* Threads that ran on the CPU that the request waited for, or, of its process, anywhere. */
static void blame_running(struct builder *b, struct rut_an_node *n, const struct rut_log_entry *e)
{
	const struct rut_state *st = &b->q->run->engine->state;
	bool gvl = e->place == RUT_PLACE_GVL;

	for (size_t i = 0; i < b->n_seen; i++) {
		const struct rut_slice *s = &b->seen[i];
		const struct rut_thread *t;
		struct rut_culprit *c;
		int64_t ns;

		if (s->place != RUT_PLACE_RUBY || s->tid == b->r->tid || (!gvl && s->cpu != e->cpu))
			continue;
		ns = overlap(s->begin_ns, s->end_ns, e->ts_ns, e->end_ns);
		t = ns && gvl ? rut_index_get(&st->tids, (uint64_t)s->tid + 1) : NULL;
		if (!ns || (gvl && (!t || t->pid != b->r->pid)))
			continue;
		c = culprit(b, n, s->tid, ns);
		if (!c)
			continue;
		c->did[RUT_PLACE_RUBY] += ns;
		note_method(c, s);
	}
}

/* A process that ends is its first thread, whichever thread is the last one to go. */
static int64_t waker_of(struct builder *b, const struct rut_log_entry *e)
{
	const struct rut_thread *t = rut_an_state_thread(&b->q->run->engine->state, e->by);

	return t && t->exiting && t->pid > 0 && t->pid != b->r->pid ? t->pid : e->by;
}

/* What the thread that ended the wait did meanwhile. */
static void blame_waker(struct builder *b, struct rut_an_node *n, const struct rut_log_entry *e)
{
	const int64_t by = e->by ? waker_of(b, e) : 0;
	struct rut_culprit *c = by ? culprit(b, n, by, e->end_ns - e->ts_ns) : NULL;

	for (size_t i = 0; c && i < b->n_seen; i++) {
		const struct rut_slice *s = &b->seen[i];
		int64_t ns =
			s->tid == by ? overlap(s->begin_ns, s->end_ns, e->ts_ns, e->end_ns) : 0;

		c->did[s->place] += ns;
		if (ns && s->place == RUT_PLACE_RUBY)
			note_method(c, s);
		if (ns > c->longest_ns && rut_place_waits(s->place)) {
			c->longest_ns = ns;
			c->did_call = s->call;
			c->did_what = s->what;
			c->did_by = s->by;
		}
	}
	if (c && c->did_by && c->did_by != b->r->tid)
		(void)name_thread(b, c->did_by, c->by_name, sizeof(c->by_name));
}

/* Segments that were lost on the way to the peer that is waited for, or from it. */
static void count_resends(const struct builder *b, struct rut_an_node *n,
			  const struct rut_log_entry *e)
{
	const size_t prefix = strlen(RUT_CONNECTING);
	const char *peer = e->what;

	if (!peer)
		return;
	if (!strncmp(peer, RUT_CONNECTING, prefix))
		peer += prefix;
	n->resends += rut_an_history_resends(b->q->history, peer, e->ts_ns, e->end_ns);
}

static void blame_disk(struct builder *b, struct rut_an_node *n, const struct rut_log_entry *e)
{
	const struct rut_disk_use *u;

	for (uint64_t i = 0; (u = rut_an_history_disk_at(b->q->history, i)); i++) {
		int64_t ns = overlap(u->begin_ns, u->end_ns, e->ts_ns, e->end_ns);
		struct rut_culprit *c;

		/* In order of their ends; nothing serves a request for a minute. */
		if (u->end_ns < e->ts_ns)
			break;
		c = ns ? culprit(b, n, u->tid, ns) : NULL;
		if (!c)
			continue;
		c->bytes += u->bytes;
		c->did_what = u->disk;
	}
}

static void blame(struct builder *b, const struct wait *w)
{
	struct rut_an_node *n = &b->x->nodes[w->node];
	const struct rut_log_entry *e = w->slice;
	int64_t by;

	switch (e->place) {
	case RUT_PLACE_RUNQ:
	case RUT_PLACE_GVL:
		blame_running(b, n, e);
		break;
	case RUT_PLACE_DISK:
	case RUT_PLACE_FAULT:
		blame_disk(b, n, e);
		break;
	case RUT_PLACE_STOPPED:
		by = rut_an_history_stopped_by(b->q->history, b->r->tid, b->r->pid,
					       e->ts_ns - 1000000000, e->end_ns);
		if (by)
			(void)culprit(b, n, by, e->end_ns - e->ts_ns);
		break;
	case RUT_PLACE_NET:
		count_resends(b, n, e);
		blame_waker(b, n, e);
		break;
	default:
		blame_waker(b, n, e);
		break;
	}
}

static int by_length(const void *a, const void *b)
{
	const struct rut_log_entry *x = ((const struct wait *)a)->slice;
	const struct rut_log_entry *y = ((const struct wait *)b)->slice;
	int64_t p = x->end_ns - x->ts_ns, q = y->end_ns - y->ts_ns;

	return p > q ? -1 : p < q;
}

static int by_share(const void *a, const void *b)
{
	int64_t x = ((const struct rut_culprit *)a)->ns, y = ((const struct rut_culprit *)b)->ns;

	return x > y ? -1 : x < y;
}

/* The log continues when the request does. */
static bool copy_texts(struct rut_explanation *x, const struct rut_log *l)
{
	for (size_t i = 0; i < l->texts.count; i++)
		if (rut_strtab_intern(&x->texts, l->texts.strs[i].data, l->texts.strs[i].len) < 0)
			return false;
	return true;
}

struct rut_explanation *rut_an_explain(struct rut_requests *q, struct rut_request *r)
{
	struct builder *b = calloc(1, sizeof(*b));
	struct rut_explanation *x = calloc(1, sizeof(*x));

	if (!b || !x) {
		free(b);
		free(x);
		return NULL;
	}
	b->q = q;
	b->r = r;
	b->x = x;
	x->ruby = rut_an_ruby_seen(&q->run->engine->state);
	x->lost = r->log->lost;
	if (copy_texts(x, r->log) && build(b)) {
		look_back(b);
		qsort(b->waits, b->n_waits, sizeof(*b->waits), by_length);
		for (size_t i = 0; i < b->n_waits && i < WAITS_MAX; i++)
			blame(b, &b->waits[i]);
		for (uint32_t i = 0; i < x->n; i++)
			qsort(x->nodes[i].who, x->nodes[i].n_who, sizeof(*x->nodes[i].who),
			      by_share);
		rut_an_explain_sentence(x, r);
	}
	free(b->waits);
	free(b->seen);
	free(b);
	if (x->sentence)
		return x;
	rut_an_explanation_free(x);
	return NULL;
}
