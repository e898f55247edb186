/* SPDX-License-Identifier: MIT */
/*
 * Merging streams by time: a heap of cursors. The one at the root stays there while its next
 * event comes before its children's; at equal times the streams' ranks decide (rank.c).
 */
#include "ctf/reader.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ctf/ahead.h"
#include "ctf/reader_priv.h"

/* rut_ctf_reader_next() reads it without knowing the struct. */
_Static_assert(offsetof(struct rut_ctf_reader, run) == 0, "run is the reader's first member");

/* How much of each stream may stay in memory behind the reader. */
static uint64_t forget_bytes(size_t n_streams)
{
	uint64_t n = (64u << 20) / (n_streams ? n_streams : 1);

	return n > 4 << 20 ? 4 << 20 : n < 256 << 10 ? 256 << 10 : n;
}

/* At equal times. */
__attribute__((noinline)) static bool is_first(const struct rut_cursor *a,
					       const struct rut_cursor *b)
{
	if (a->s->rank != b->s->rank)
		return a->s->rank < b->s->rank;
	if (a->ev.cls->id != b->ev.cls->id)
		return a->ev.cls->id < b->ev.cls->id;
	return a->s->pub.index < b->s->pub.index;
}

static inline bool before(const struct rut_merge_node *a, const struct rut_merge_node *b)
{
	if (__builtin_expect(a->ts_ns != b->ts_ns, 1))
		return a->ts_ns < b->ts_ns;
	/* A node of no stream comes last. */
	return a->c && (!b->c || is_first(a->c, b->c));
}

static inline void sift_down(struct rut_merge_node *heap, size_t n, size_t i)
{
	const struct rut_merge_node node = heap[i];
	const struct rut_merge_node *child;

	for (size_t first; (first = 2 * i + 1) < n; i = (size_t)(child - heap)) {
		child = &heap[first];
		child += before(&child[1], &child[0]);
		if (!before(child, &node))
			break;
		heap[i] = *child;
	}
	heap[i] = node;
}

/* Of the two below the root one is the next. Where there is none its time is none. */
static void find_rival(struct rut_ctf_reader *r)
{
	const struct rut_merge_node *h = r->heap;

	r->rival_ns = h[1].ts_ns < h[2].ts_ns ? h[1].ts_ns : h[2].ts_ns;
}

/* A heap of `n` nodes needs so many: each of the upper half has two below it. */
static size_t heap_room(size_t n)
{
	return n + 3;
}

static const struct rut_merge_node no_node = {.ts_ns = INT64_MAX};

static void make_heap(struct rut_ctf_reader *r)
{
	for (size_t i = r->n_heap; i < heap_room(r->n_cursors); i++)
		r->heap[i] = no_node;
	for (size_t i = r->n_heap / 2; i-- > 0;)
		sift_down(r->heap, r->n_heap, i);
	find_rival(r);
}

/* The root's cursor is at its end, or not before its rivals any more. */
static void settle(struct rut_ctf_reader *r, bool has_event)
{
	if (!has_event) {
		r->heap[0] = r->heap[--r->n_heap];
		r->heap[r->n_heap] = no_node;
	}
	sift_down(r->heap, r->n_heap, 0);
	find_rival(r);
}

/* Follow: how far a stream may be behind the others, in time of the trace or of waiting for it. */
static int64_t follow_lag_ns(const struct rut_ctf_reader *r)
{
	return r->opts.follow_lag_ns ? r->opts.follow_lag_ns : 1000000000;
}

/* Follow: all of the stream was read, and its file has not grown for that long. */
static bool is_silent(const struct rut_ctf_reader *r, const struct rut_cursor *c, uint64_t now_ns)
{
	uint64_t since = c->s->grown_ns > r->opened_ns ? c->s->grown_ns : r->opened_ns;

	return c->done && now_ns - since >= (uint64_t)follow_lag_ns(r);
}

/*
 * Follow: the time up to which all streams are known, by the ends of the packets that were opened.
 * A stream that lags too far behind is not waited for. How far the others are cannot always tell:
 * they may wait for it themselves, so one in which nothing comes is not waited for either.
 */
static void set_watermark(struct rut_ctf_reader *r)
{
	int64_t lag = follow_lag_ns(r);
	int64_t least = INT64_MAX, most = INT64_MIN;
	const uint64_t now_ns = rut_now_ns();

	for (size_t i = 0; i < r->n_cursors; i++) {
		const struct rut_cursor *c = r->cursors[i];
		int64_t end = c->info.pub.has_end ? c->info.pub.end_ns : c->last_ns;

		most = end > most ? end : most;
		if (end < least && !is_silent(r, c, now_ns))
			least = end;
	}
	if (r->quiet || least == INT64_MAX)
		least = most;
	else if (most != INT64_MIN && least < most - lag)
		least = most - lag;
	r->watermark_ns = least;
}

static bool waits(const struct rut_ctf_reader *r, const struct rut_cursor *c)
{
	for (size_t i = 0; i < r->n_heap; i++)
		if (r->heap[i].c == c)
			return true;
	return false;
}

static void free_flats(struct rut_ctf_reader *r)
{
	for (size_t i = 0; i < r->n_flats; i++)
		free(r->flats[i]);
	free(r->flats);
	r->flats = NULL;
	r->n_flats = 0;
}

/* How records of this stream class are passed. NULL: no memory, the long way is taken. */
static const struct rut_flat *flat_of(struct rut_ctf_reader *r,
				      const struct rut_ctf_stream_class *sc)
{
	struct rut_flat **flats, *f;

	for (size_t i = r->n_flats; i-- > 0;)
		if (r->flats[i]->sc == sc)
			return r->flats[i];
	f = rut_flat_new(sc, r->wanted);
	flats = f ? realloc(r->flats, (r->n_flats + 1) * sizeof(*flats)) : NULL;
	if (!flats) {
		free(f);
		return NULL;
	}
	r->flats = flats;
	flats[r->n_flats++] = f;
	return f;
}

/* Puts those cursors on the heap that are not there: at the begin all, later those that stood at an
 * end. */
static void start(struct rut_ctf_reader *r)
{
	free_flats(r);
	for (size_t i = 0; i < r->n_cursors; i++) {
		struct rut_cursor *c = r->cursors[i];

		c->wanted = r->wanted;
		c->flat = flat_of(r, c->s->pub.cls);
		c->classes = r->set->classes;
		if (!waits(r, c) && rut_cursor_next(c))
			r->heap[r->n_heap++] = (struct rut_merge_node){c->ev.ts_ns, c};
	}
	make_heap(r);
	if (r->opts.follow)
		set_watermark(r);
	r->started = true;
	r->fresh = true;
}

/* Nothing is given out without another look. */
static void end_run(struct rut_ctf_reader *r)
{
	r->run = &r->own;
	r->own.next = r->own.end = NULL;
}

/*
 * The files may have grown. The next event is looked for when it is asked for: until then classes
 * that came with them can be wanted.
 */
static void resume(struct rut_ctf_reader *r)
{
	for (size_t i = 0; i < r->n_cursors; i++)
		rut_cursor_resume(r->cursors[i]);
	r->started = false;
	end_run(r);
}

/* The heap's root, unless it has to wait. */
static const struct rut_ctf_event *follow_root(struct rut_ctf_reader *r)
{
	if (!r->n_heap)
		return NULL;
	if (r->heap[0].ts_ns > r->watermark_ns) {
		set_watermark(r);
		if (r->heap[0].ts_ns > r->watermark_ns) {
			r->fresh = true; /* it was not given out */
			return NULL;
		}
	}
	return &r->heap[0].c->ev;
}

struct rut_cursor *rut_reader_step(struct rut_ctf_reader *r)
{
	struct rut_merge_node *root = r->heap;

	if (__builtin_expect(!r->started, 0))
		start(r);
	if (r->n_heap && !r->fresh) {
		bool has_event = rut_cursor_next(root->c);

		root->ts_ns = root->c->ev.ts_ns;
		if (!has_event || root->ts_ns >= r->rival_ns)
			settle(r, has_event);
	}
	r->fresh = false;
	return r->n_heap ? root->c : NULL;
}

/* Without a thread of its own it reads on by itself. */
static void start_ahead(struct rut_ctf_reader *r)
{
	if (rut_ahead_new(&r->ahead, r) < 0)
		r->opts.ahead = false; /* not while the thread reads it */
}

const struct rut_ctf_event *rut_ctf_reader_more(struct rut_ctf_reader *r)
{
	struct rut_cursor *c;

	if (r->opts.ahead && !r->ahead)
		start_ahead(r);
	if (r->ahead)
		return rut_ahead_next(r->ahead, &r->run);
	/* The run may have stopped at one whose segments are elsewhere. */
	if (r->run != &r->own && rut_reader_has_run(r, r->heap[0].c)) {
		rut_cursor_show(r->heap[0].c);
		return &r->heap[0].c->ev;
	}
	c = rut_reader_step(r);
	if (__builtin_expect(r->opts.follow, 0))
		return follow_root(r);
	if (!c) {
		end_run(r);
		return NULL;
	}
	c->run.until_ns = r->rival_ns;
	r->run = &c->run;
	return &c->ev;
}

static int add_cursor(struct rut_ctf_reader *r, size_t stream)
{
	struct rut_cursor **cursors = realloc(r->cursors, (r->n_cursors + 1) * sizeof(*r->cursors));
	struct rut_merge_node *heap;
	struct rut_cursor *c;

	if (!cursors)
		return -ENOMEM;
	r->cursors = cursors;
	heap = realloc(r->heap, heap_room(r->n_cursors + 1) * sizeof(*r->heap));
	if (!heap)
		return -ENOMEM;
	r->heap = heap;
	c = calloc(1, sizeof(*c));
	if (!c || rut_cursor_init(c, r->set->streams[stream], &r->opts, &r->counts) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->forget_bytes = forget_bytes(r->set->n_streams);
	c->wanted = r->wanted;
	cursors[r->n_cursors++] = c;
	return 0;
}

/* Classes that came with grown metadata were not known when the caller chose. */
static int grow_wanted(struct rut_ctf_reader *r, size_t had)
{
	size_t n = r->set->n_classes;
	uint8_t *wanted;

	if (!r->wanted || n == had)
		return 0;
	wanted = realloc(r->wanted, n + 1);
	if (!wanted)
		return -ENOMEM;
	memset(wanted + had, 0, n + 1 - had);
	r->wanted = wanted; /* start() gives it to the cursors */
	return 0;
}

/*
 * Nothing comes any more: what is held back for streams that say nothing is given out. Returns 1
 * when there is some.
 */
static int give_up_waiting(struct rut_ctf_reader *r)
{
	if (r->quiet || !r->n_heap || rut_now_ns() - r->grown_ns < (uint64_t)follow_lag_ns(r))
		return 0;
	r->quiet = true;
	return 1;
}

int rut_ctf_reader_poll(struct rut_ctf_reader *r, struct rut_err *err)
{
	size_t had = r->set->n_streams, had_classes = r->set->n_classes;
	int rc;

	rc = rut_set_refresh(r->set, err);
	if (rc < 0)
		return rc;
	/* A packet that was being written gets whole without the file's growing. */
	for (size_t i = 0; i < r->n_cursors && !rc; i++)
		rc = rut_cursor_is_ready(r->cursors[i]);
	if (!rc)
		return give_up_waiting(r);
	r->grown_ns = rut_now_ns();
	r->quiet = false;
	rc = grow_wanted(r, had_classes);
	for (size_t i = 0; i < r->n_cursors && !rc; i++)
		rc = rut_cursor_grow(r->cursors[i]);
	if (rc < 0)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = had; i < r->set->n_streams; i++)
		if (add_cursor(r, i) < 0)
			return rut_err_set(err, ENOMEM, "out of memory");
	resume(r);
	return 1;
}

void rut_ctf_reader_drain(struct rut_ctf_reader *r)
{
	r->opts.follow = false;
	resume(r);
}

void rut_ctf_reader_want(struct rut_ctf_reader *r, const struct rut_ctf_event_class *cls)
{
	if (!r->wanted)
		r->wanted = calloc(r->set->n_classes + 1, 1);
	if (r->wanted && cls)
		r->wanted[cls->index] = 1;
}

void rut_reader_set_mark(struct rut_ctf_reader *r, int64_t ts_ns)
{
	r->mark_ns = ts_ns;
	for (size_t i = 0; i < r->n_cursors; i++)
		r->cursors[i]->mark_ns = ts_ns;
}

void rut_ctf_reader_mark(struct rut_ctf_reader *r, int64_t ts_ns)
{
	if (r->ahead)
		rut_ahead_mark(r->ahead, ts_ns);
	else
		rut_reader_set_mark(r, ts_ns);
}

int64_t rut_reader_last_ns(const struct rut_ctf_reader *r)
{
	int64_t last = INT64_MIN;

	for (size_t i = 0; i < r->n_cursors; i++)
		if (r->cursors[i]->last_ns > last)
			last = r->cursors[i]->last_ns;
	return last;
}

int64_t rut_ctf_reader_last_ns(const struct rut_ctf_reader *r)
{
	return r->ahead ? rut_ahead_last_ns(r->ahead) : rut_reader_last_ns(r);
}

int rut_ctf_reader_seek(struct rut_ctf_reader *r, int64_t ts_ns, struct rut_err *err)
{
	int rc;

	rut_ahead_free(r->ahead);
	r->ahead = NULL;
	end_run(r);
	rc = rut_ctf_set_scan(r->set, err);
	if (rc < 0)
		return rc;
	r->opts.has_begin = true;
	r->opts.begin_ns = ts_ns;
	for (size_t i = 0; i < r->n_cursors; i++)
		rut_cursor_seek(r->cursors[i], ts_ns);
	r->n_heap = 0;
	r->started = false;
	return 0;
}

void rut_ctf_reader_counts(const struct rut_ctf_reader *r, struct rut_ctf_counts *ret)
{
	if (r->ahead)
		rut_ahead_counts(r->ahead, ret);
	else
		*ret = r->counts;
}

void rut_ctf_reader_free(struct rut_ctf_reader *r)
{
	if (!r)
		return;
	rut_ahead_free(r->ahead);
	for (size_t i = 0; i < r->n_cursors; i++) {
		rut_cursor_fini(r->cursors[i]);
		free(r->cursors[i]);
	}
	free(r->cursors);
	free(r->heap);
	free_flats(r);
	free(r->wanted);
	free(r);
}

int rut_ctf_reader_new(struct rut_ctf_reader **ret, struct rut_ctf_set *set,
		       const struct rut_ctf_reader_opts *opts, struct rut_err *err)
{
	struct rut_ctf_reader *r = aligned_alloc(_Alignof(struct rut_ctf_reader), sizeof(*r));
	int rc;

	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	memset(r, 0, sizeof(*r));
	r->set = set;
	r->run = &r->own;
	r->heap = malloc(heap_room(0) * sizeof(*r->heap));
	if (!r->heap) {
		free(r);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	if (opts)
		r->opts = *opts;
	/* Files that still grow, or are freed as they are read, cannot be read ahead. */
	r->opts.ahead = r->opts.ahead && !r->opts.follow && !set->opts.consume;
	r->watermark_ns = INT64_MIN;
	r->grown_ns = r->opened_ns = rut_now_ns();
	r->mark_ns = INT64_MAX;
	if (r->opts.follow && (rc = rut_set_refresh_metadata(set, err)) < 0) {
		rut_ctf_reader_free(r);
		return rc;
	}
	for (size_t i = 0; i < set->n_streams; i++) {
		if (r->opts.only_stream && r->opts.only_stream != i + 1)
			continue;
		if (add_cursor(r, i) < 0) {
			rut_ctf_reader_free(r);
			return rut_err_set(err, ENOMEM, "out of memory");
		}
	}
	/* An end, too, needs to know whether a stream's packets are in order. */
	rc = r->opts.has_begin ? rut_ctf_reader_seek(r, r->opts.begin_ns, err)
	     : r->opts.has_end ? rut_ctf_set_scan(set, err)
			       : 0;
	if (rc < 0) {
		rut_ctf_reader_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}
