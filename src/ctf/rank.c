/* SPDX-License-Identifier: MIT */
/*
 * The order of streams at equal times. It is that of babeltrace2, so that both print the same text:
 * by the trace's UUID (traces without one last), its host's name, the number of the stream class,
 * the number of the stream. A stream without a number gets one by the path of its file, within its
 * trace; traces of one UUID are one trace here.
 *
 * Streams that are equal in all of this share a rank: the number of the event's class decides
 * between them (reader.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ctf/set.h"

struct ranked {
	struct rut_set_stream *s;
	const char *host;
	uint64_t number;
};

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_uuids(const struct rut_ctf_trace *a, const struct rut_ctf_trace *b)
{
	if (a->has_uuid != b->has_uuid)
		return a->has_uuid ? -1 : 1;
	return a->has_uuid ? memcmp(a->uuid, b->uuid, sizeof(a->uuid)) : 0;
}

/* Streams of one trace together, in the order of their files. */
static int by_path(const void *pa, const void *pb)
{
	const struct rut_ctf_stream *a = &((const struct ranked *)pa)->s->pub;
	const struct rut_ctf_stream *b = &((const struct ranked *)pb)->s->pub;
	int c = compare_uuids(a->trace, b->trace);

	if (!c && !a->trace->has_uuid)
		c = compare_u64(a->trace->index, b->trace->index);
	if (!c)
		c = strcmp(a->path, b->path);
	return c ? c : compare_u64(a->index, b->index);
}

static bool same_trace(const struct rut_ctf_trace *a, const struct rut_ctf_trace *b)
{
	return a == b || (a->has_uuid && !compare_uuids(a, b));
}

static void number(struct ranked *list, size_t n)
{
	uint64_t next = 0;

	for (size_t i = 0; i < n; i++) {
		const struct rut_set_stream *s = list[i].s;

		if (i && !same_trace(list[i - 1].s->pub.trace, s->pub.trace))
			next = 0;
		list[i].number = s->has_instance ? s->instance : next++;
	}
}

static int compare(const struct ranked *a, const struct ranked *b)
{
	int c = compare_uuids(a->s->pub.trace, b->s->pub.trace);

	if (!c)
		c = strcmp(a->host, b->host);
	if (!c)
		c = compare_u64(a->s->pub.cls->id, b->s->pub.cls->id);
	return c ? c : compare_u64(a->number, b->number);
}

static int by_rank(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;
	int c = compare(a, b);

	return c ? c : compare_u64(a->s->pub.index, b->s->pub.index);
}

int rut_set_rank_streams(struct rut_ctf_set *set)
{
	_cleanup_free_ struct ranked *list = calloc(set->n_streams + 1, sizeof(*list));
	uint32_t rank = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_streams; i++) {
		const struct rut_ctf_env *host;

		list[i].s = set->streams[i];
		host = rut_ctf_trace_env(list[i].s->pub.trace, "hostname");
		list[i].host = host && host->str ? host->str : "";
	}
	qsort(list, set->n_streams, sizeof(*list), by_path);
	number(list, set->n_streams);
	qsort(list, set->n_streams, sizeof(*list), by_rank);
	for (size_t i = 0; i < set->n_streams; i++) {
		rank += i && compare(&list[i - 1], &list[i]);
		list[i].s->rank = rank;
	}
	return 0;
}
