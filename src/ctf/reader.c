/* SPDX-License-Identifier: MIT */
/*
 * Merging streams by time: a heap of cursors. The one at the root goes on for as long as its next
 * event comes before its children's; ties go to the stream that was opened first.
 */
#include "ctf/reader.h"

#include <stdlib.h>

#include "ctf/cursor.h"

struct rut_ctf_reader {
	struct rut_ctf_set *set; /* borrowed */
	struct rut_ctf_reader_opts opts;
	struct rut_ctf_counts counts;
	struct rut_cursor *cursors; /* owned */
	size_t n_cursors;
	struct rut_cursor **heap; /* owned array */
	size_t n_heap;
	uint8_t *wanted; /* owned; NULL: all */
	bool started;
};

static inline bool before(const struct rut_cursor *a, const struct rut_cursor *b)
{
	if (a->ev.ts_ns != b->ev.ts_ns)
		return a->ev.ts_ns < b->ev.ts_ns;
	return a < b;
}

static void sift_down(struct rut_ctf_reader *r, size_t i)
{
	struct rut_cursor *c = r->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= r->n_heap)
			break;
		if (child + 1 < r->n_heap && before(r->heap[child + 1], r->heap[child]))
			child++;
		if (!before(r->heap[child], c))
			break;
		r->heap[i] = r->heap[child];
		i = child;
	}
	r->heap[i] = c;
}

static void start(struct rut_ctf_reader *r)
{
	r->n_heap = 0;
	for (size_t i = 0; i < r->n_cursors; i++) {
		r->cursors[i].wanted = r->wanted;
		if (rut_cursor_next(&r->cursors[i]))
			r->heap[r->n_heap++] = &r->cursors[i];
	}
	for (size_t i = r->n_heap / 2; i-- > 0;)
		sift_down(r, i);
	r->started = true;
}

const struct rut_ctf_event *rut_ctf_reader_next(struct rut_ctf_reader *r)
{
	if (__builtin_expect(!r->started, 0)) {
		start(r);
	} else if (r->n_heap) {
		if (!rut_cursor_next(r->heap[0]))
			r->heap[0] = r->heap[--r->n_heap];
		if (r->n_heap > 1)
			sift_down(r, 0);
	}
	return r->n_heap ? &r->heap[0]->ev : NULL;
}

void rut_ctf_reader_want(struct rut_ctf_reader *r, const struct rut_ctf_event_class *cls)
{
	if (!r->wanted)
		r->wanted = calloc(r->set->n_classes + 1, 1);
	if (r->wanted)
		r->wanted[cls->index] = 1;
}

int rut_ctf_reader_seek(struct rut_ctf_reader *r, int64_t ts_ns, struct rut_err *err)
{
	int rc = rut_ctf_set_scan(r->set, err);

	if (rc < 0)
		return rc;
	r->opts.has_begin = true;
	r->opts.begin_ns = ts_ns;
	for (size_t i = 0; i < r->n_cursors; i++)
		rut_cursor_seek(&r->cursors[i], ts_ns);
	r->started = false;
	return 0;
}

void rut_ctf_reader_counts(const struct rut_ctf_reader *r, struct rut_ctf_counts *ret)
{
	*ret = r->counts;
}

void rut_ctf_reader_free(struct rut_ctf_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_cursors; i++)
		rut_cursor_fini(&r->cursors[i]);
	free(r->cursors);
	free(r->heap);
	free(r->wanted);
	free(r);
}

/* How much of each stream may stay in memory behind the reader. */
static uint64_t forget_bytes(size_t n_streams)
{
	uint64_t n = (64u << 20) / (n_streams ? n_streams : 1);

	return n > 4 << 20 ? 4 << 20 : n < 256 << 10 ? 256 << 10 : n;
}

int rut_ctf_reader_new(struct rut_ctf_reader **ret, struct rut_ctf_set *set,
		       const struct rut_ctf_reader_opts *opts, struct rut_err *err)
{
	struct rut_ctf_reader *r = calloc(1, sizeof(*r));
	int rc = -ENOMEM;

	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->set = set;
	if (opts)
		r->opts = *opts;
	r->cursors = calloc(set->n_streams + 1, sizeof(*r->cursors));
	r->heap = calloc(set->n_streams + 1, sizeof(*r->heap));
	if (!r->cursors || !r->heap)
		goto err;
	for (size_t i = 0; i < set->n_streams; i++) {
		if (r->opts.only_stream && r->opts.only_stream != i + 1)
			continue;
		if (rut_cursor_init(&r->cursors[r->n_cursors], set->streams[i], &r->opts,
				    &r->counts) < 0)
			goto err;
		r->cursors[r->n_cursors++].forget_bytes = forget_bytes(set->n_streams);
	}
	if (r->opts.has_begin && (rc = rut_ctf_reader_seek(r, r->opts.begin_ns, err)) < 0) {
		rut_ctf_reader_free(r);
		return rc;
	}
	*ret = r;
	return 0;
err:
	rut_ctf_reader_free(r);
	return rut_err_set(err, ENOMEM, "out of memory");
}
