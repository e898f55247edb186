/* SPDX-License-Identifier: MIT */
/*
 * Packets that are there twice: a copy of a trace below the directory that is read, snapshots of
 * one flight recorder that overlap. They are identified by the trace's UUID, the stream (class, and
 * instance or CPU), and what their header says: sequence number, times and size. Of each the first
 * is read.
 *
 * Only files of one stream of one trace, of which there are several, are looked through.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ctf/set.h"

/* A file, and what its stream is. */
struct candidate {
	struct rut_set_stream *s;
	uint32_t file;
	uint64_t instance; /* or CPU */
	bool has_instance;
	size_t order;
};

struct seen {
	struct rut_set_file *f;
	uint64_t offset, seq, begin, end, bits, discarded;
	size_t order;
};

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_identity(const struct candidate *x, const struct candidate *y)
{
	int c = memcmp(x->s->meta->pub.uuid, y->s->meta->pub.uuid, 16);

	if (!c)
		c = compare_u64(x->s->pub.cls->id, y->s->pub.cls->id);
	if (!c)
		c = compare_u64(x->has_instance, y->has_instance);
	return c ? c : compare_u64(x->instance, y->instance);
}

static int by_stream(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int c = by_identity(x, y);

	return c ? c : compare_u64(x->order, y->order);
}

static int same_packet(const struct seen *x, const struct seen *y)
{
	int c = compare_u64(x->seq, y->seq);

	if (!c)
		c = compare_u64(x->begin, y->begin);
	if (!c)
		c = compare_u64(x->end, y->end);
	if (!c)
		c = compare_u64(x->bits, y->bits);
	return c ? c : compare_u64(x->discarded, y->discarded);
}

static int by_packet(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	int c = same_packet(x, y);

	return c ? c : compare_u64(x->order, y->order);
}

static int by_offset(const void *a, const void *b)
{
	return compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

struct packets {
	struct seen *seen; /* owned */
	size_t n, cap;
};

static int add_packets(struct packets *p, const struct candidate *c, uint64_t *regs)
{
	struct rut_set_file *f = &c->s->files[c->file];
	uint64_t offset = 0;

	while (offset < f->map.size) {
		struct rut_packet_info info;

		if (rut_packet_read(c->s->meta, f->map.data, f->map.size, offset, regs, &info,
				    NULL) < 0)
			break;
		if (p->n == p->cap) {
			size_t cap = p->cap ? 2 * p->cap : 64;
			void *seen = realloc(p->seen, cap * sizeof(*p->seen));

			if (!seen)
				return -ENOMEM;
			p->seen = seen;
			p->cap = cap;
		}
		/* Packets without times cannot be identified for certain. */
		if (info.pub.has_begin && info.pub.has_end)
			p->seen[p->n++] = (struct seen){
				f,
				offset,
				info.pub.has_seq ? info.pub.seq : 0,
				info.pub.begin_clock,
				info.pub.end_clock,
				info.pub.content_bits,
				info.pub.discarded,
				c->order,
			};
		offset += info.pub.packet_bits / 8;
	}
	rut_ctf_file_forget(&f->map, 0, offset);
	return 0;
}

static int skip(struct rut_set_file *f, uint64_t offset)
{
	uint64_t *skips = realloc(f->skips, (f->n_skips + 1) * sizeof(*skips));

	if (!skips)
		return -ENOMEM;
	f->skips = skips;
	skips[f->n_skips++] = offset;
	return 0;
}

/* The files of one stream. */
static int find_in(struct rut_ctf_set *set, const struct candidate *list, size_t n)
{
	struct packets p = {0};
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		_cleanup_free_ uint64_t *regs = calloc(list[i].s->meta->n_regs + 1, sizeof(*regs));

		rc = regs ? add_packets(&p, &list[i], regs) : -ENOMEM;
	}
	if (!rc && p.n)
		qsort(p.seen, p.n, sizeof(*p.seen), by_packet);
	for (size_t i = 1; i < p.n && !rc; i++) {
		/* Packets without events and of no time are what a file grows by. */
		if (same_packet(&p.seen[i - 1], &p.seen[i]) || p.seen[i - 1].f == p.seen[i].f)
			continue;
		rc = skip(p.seen[i].f, p.seen[i].offset);
		set->twins++;
		/* The next is compared with the first of them. */
		p.seen[i].f = p.seen[i - 1].f;
	}
	for (size_t i = 0; i < n && !rc; i++) {
		struct rut_set_file *f = &list[i].s->files[list[i].file];

		if (f->n_skips)
			qsort(f->skips, f->n_skips, sizeof(*f->skips), by_offset);
	}
	free(p.seen);
	return rc;
}

static bool identify(const struct rut_set_stream *s, uint32_t file, struct candidate *ret)
{
	_cleanup_free_ uint64_t *regs = calloc(s->meta->n_regs + 1, sizeof(*regs));
	const struct rut_set_file *f = &s->files[file];
	struct rut_packet_info info;

	if (!regs || !s->meta->pub.has_uuid || !f->map.size ||
	    rut_packet_read(s->meta, f->map.data, f->map.size, 0, regs, &info, NULL) < 0)
		return false;
	ret->has_instance = info.has_instance;
	ret->instance = info.has_instance ? info.instance : (uint64_t)(int64_t)info.pub.cpu;
	return !info.other_trace && (info.has_instance || info.pub.cpu >= 0);
}

int rut_set_find_twins(struct rut_ctf_set *set)
{
	_cleanup_free_ struct candidate *list = NULL;
	size_t n = 0, cap = 0, from = 0;
	int rc = 0;

	for (size_t i = 0; i < set->n_streams; i++)
		cap += set->streams[i]->n_files;
	if (cap < 2)
		return 0;
	list = calloc(cap, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_streams; i++) {
		for (uint32_t k = 0; k < set->streams[i]->n_files; k++) {
			list[n] = (struct candidate){.s = set->streams[i], .file = k, .order = n};
			n += identify(set->streams[i], k, &list[n]);
		}
	}
	qsort(list, n, sizeof(*list), by_stream);
	for (size_t i = 1; i <= n && !rc; i++) {
		if (i < n && !by_identity(&list[from], &list[i]))
			continue;
		if (i - from > 1)
			rc = find_in(set, list + from, i - from);
		from = i;
	}
	return rc;
}
