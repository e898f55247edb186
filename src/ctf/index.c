/* SPDX-License-Identifier: MIT */
/*
 * What can be known of streams without their events: times, packets, losses.
 *
 * LTTng writes index/NAME.idx beside a stream file: a big-endian table of its packets. It is used
 * when it agrees with the file's size and with its first and last packet; otherwise the headers of
 * the packets themselves are read.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ctf/set.h"

enum { INDEX_MAGIC = 0xc1f1dcc1u };

struct index_header {
	uint32_t magic, major, minor, entry_len;
};

struct index_entry { /* big-endian; version 1.0. 1.1 adds stream_instance_id, packet_seq_num */
	uint64_t offset, packet_bits, content_bits, begin_clock, end_clock, discarded, stream_id;
};
_Static_assert(sizeof(struct index_entry) == 56, "as LTTng writes it");

/* What the scan of one stream knows so far. */
struct scan {
	struct rut_ctf_set *set;
	struct rut_set_stream *s;
	uint64_t *regs;
	struct rut_packet_info prev;
	bool has_prev;
};

static void add_mark(struct rut_set_stream *s, uint32_t file, const struct rut_ctf_packet *p)
{
	if (!p->has_begin)
		return;
	if (s->mark_skip) {
		s->mark_skip--;
		return;
	}
	if (!s->marks) {
		s->marks = malloc(RUT_SET_MAX_MARKS * sizeof(*s->marks));
		if (!s->marks)
			return; /* seeks will be slower */
		s->mark_stride = 1;
	}
	if (s->n_marks == RUT_SET_MAX_MARKS) {
		for (size_t i = 0; i < s->n_marks / 2; i++)
			s->marks[i] = s->marks[2 * i];
		s->n_marks /= 2;
		s->mark_stride *= 2;
	}
	s->marks[s->n_marks++] = (struct rut_set_mark){file, p->offset_bytes, p->begin_ns};
	s->mark_skip = s->mark_stride - 1;
}

static void add_packet(struct scan *sc, uint32_t file, const struct rut_packet_info *info)
{
	const struct rut_ctf_packet *p = &info->pub, *q = &sc->prev.pub;
	struct rut_ctf_stream *pub = &sc->s->pub;

	if (rut_set_is_twin(&sc->s->files[file], p->offset_bytes))
		return;
	pub->packets++;
	if (p->has_begin) {
		int64_t end = p->has_end && p->end_ns > p->begin_ns ? p->end_ns : p->begin_ns;

		if (!pub->has_times || p->begin_ns < pub->begin_ns)
			pub->begin_ns = p->begin_ns;
		if (!pub->has_times || end > pub->end_ns)
			pub->end_ns = end;
		pub->has_times = true;
	}
	if (p->has_discarded)
		pub->discarded +=
			(p->discarded - (sc->has_prev ? q->discarded : 0)) & info->discarded_mask;
	if (sc->has_prev && p->has_begin && q->has_begin && p->begin_ns < q->begin_ns)
		sc->s->pub.disordered = true;
	if (sc->has_prev)
		pub->lost_packets += rut_packets_missing(&sc->prev, info);
	add_mark(sc->s, file, p);
	sc->prev = *info;
	sc->has_prev = true;
}

static void scan_headers(struct scan *sc, uint32_t file)
{
	const struct rut_set_file *f = &sc->s->files[file];
	uint64_t offset = 0, forgotten = 0;

	while (offset < f->map.size) {
		struct rut_packet_info info;

		/* Errors found here are reported when the events are read. */
		if (rut_packet_read(sc->s->meta, f->map.data, f->map.size, offset, sc->regs, &info,
				    NULL) < 0 ||
		    rut_ctf_file_was_cut(&f->map))
			break;
		if (info.cls == sc->s->pub.cls)
			add_packet(sc, file, &info);
		offset += info.pub.packet_bits / 8;
		if (offset - forgotten >= 1 << 22) {
			rut_ctf_file_forget(&f->map, forgotten, offset);
			forgotten = offset;
		}
	}
	rut_ctf_file_forget(&f->map, forgotten, offset);
}

static char *index_path(const char *stream_path)
{
	const char *slash = strrchr(stream_path, '/');
	int dir = slash ? (int)(slash - stream_path) : 1;
	char *path;

	if (asprintf(&path, "%.*s/index/%s.idx", dir, slash ? stream_path : ".",
		     slash ? slash + 1 : stream_path) < 0)
		return NULL;
	return path;
}

/* The packet at an entry's offset, if the file says the same of it. */
static bool agrees(struct scan *sc, const struct rut_set_file *f, const struct index_entry *e,
		   struct rut_packet_info *ret)
{
	uint64_t offset = be64toh(e->offset);

	return offset < f->map.size &&
	       !rut_packet_read(sc->s->meta, f->map.data, f->map.size, offset, sc->regs, ret,
				NULL) &&
	       ret->pub.packet_bits == be64toh(e->packet_bits) &&
	       ret->pub.content_bits == be64toh(e->content_bits) && ret->pub.has_begin &&
	       ret->pub.has_end && ret->pub.begin_clock == be64toh(e->begin_clock) &&
	       ret->pub.end_clock == be64toh(e->end_clock) && ret->cls->id == be64toh(e->stream_id);
}

/* Whether the entries cover the file without a gap. */
static bool covers(const uint8_t *entries, uint64_t n, uint32_t entry_len, uint64_t size)
{
	uint64_t offset = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct index_entry e;

		memcpy(&e, entries + i * entry_len, sizeof(e));
		if (be64toh(e.offset) != offset || be64toh(e.packet_bits) % 8 ||
		    be64toh(e.packet_bits) / 8 > size - offset || !e.packet_bits)
			return false;
		offset += be64toh(e.packet_bits) / 8;
	}
	return offset == size;
}

/* Returns whether the index was there and could be used. */
static bool scan_index(struct scan *sc, uint32_t file)
{
	const struct rut_set_file *f = &sc->s->files[file];
	_cleanup_free_ char *path = index_path(f->path);
	struct rut_packet_info first, last, info;
	const struct rut_ctf_clock *clock = sc->s->pub.cls->clock;
	const uint8_t *entries;
	struct rut_ctf_file map;
	struct index_header h;
	struct index_entry e;
	uint32_t entry_len;
	bool ok = false;
	uint64_t n;

	if (!path || !clock || rut_ctf_file_map(&map, path, false, NULL) < 0)
		return false;
	if (map.size < sizeof(h))
		goto out;
	memcpy(&h, map.data, sizeof(h));
	entry_len = be32toh(h.entry_len);
	if (be32toh(h.magic) != INDEX_MAGIC || be32toh(h.major) != 1 || entry_len < sizeof(e) ||
	    entry_len > 4096)
		goto out;
	n = (map.size - sizeof(h)) / entry_len;
	entries = map.data + sizeof(h);
	if (!n || !covers(entries, n, entry_len, f->map.size))
		goto out;
	memcpy(&e, entries, sizeof(e));
	if (!agrees(sc, f, &e, &first))
		goto out;
	memcpy(&e, entries + (n - 1) * entry_len, sizeof(e));
	if (!agrees(sc, f, &e, &last) || (first.pub.has_seq && entry_len < sizeof(e) + 16))
		goto out;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t seq[2] = {0};

		memcpy(&e, entries + i * entry_len, sizeof(e));
		if (entry_len >= sizeof(e) + sizeof(seq))
			memcpy(seq, entries + i * entry_len + sizeof(e), sizeof(seq));
		info = first;
		info.pub.offset_bytes = be64toh(e.offset);
		info.pub.begin_ns = rut_ctf_clock_ns(clock, be64toh(e.begin_clock));
		info.pub.end_ns = rut_ctf_clock_ns(clock, be64toh(e.end_clock));
		info.pub.discarded = be64toh(e.discarded);
		info.pub.seq = be64toh(seq[1]);
		add_packet(sc, file, &info);
	}
	ok = !rut_ctf_file_was_cut(&map);
out:
	rut_ctf_file_unmap(&map);
	return ok;
}

int rut_ctf_set_scan(struct rut_ctf_set *set, struct rut_err *err)
{
	if (set->scanned)
		return 0;
	for (size_t i = 0; i < set->n_streams; i++) {
		struct scan sc = {.set = set, .s = set->streams[i]};

		sc.regs = calloc(sc.s->meta->n_regs + 1, sizeof(*sc.regs));
		if (!sc.regs)
			return rut_err_set(err, ENOMEM, "out of memory");
		for (uint32_t f = 0; f < sc.s->n_files; f++)
			if (set->opts.ignore_index || !scan_index(&sc, f))
				scan_headers(&sc, f);
		free(sc.regs);
	}
	set->scanned = true;
	return 0;
}

/* rutile writes a trace of one moment beside others: why a snapshot was taken. The streams of other
 * tracers are taken at their word. */
static bool has_length(const struct rut_ctf_stream *s)
{
	const struct rut_ctf_env *tracer = rut_ctf_trace_env(s->trace, "tracer_name");

	return s->has_times && (s->begin_ns != s->end_ns || !tracer || !tracer->str ||
				strcmp(tracer->str, "rutile") != 0);
}

static int span(struct rut_ctf_set *set, bool inner, int64_t *ret_begin_ns, int64_t *ret_end_ns)
{
	int64_t begin = 0, end = 0;
	bool any = false, lengths = false;
	int rc = rut_ctf_set_scan(set, NULL);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < set->n_streams && inner; i++)
		lengths |= has_length(&set->streams[i]->pub);
	for (size_t i = 0; i < set->n_streams; i++) {
		const struct rut_ctf_stream *s = &set->streams[i]->pub;

		if (!s->has_times || (lengths && !has_length(s)))
			continue;
		if (!any || (inner ? s->begin_ns > begin : s->begin_ns < begin))
			begin = s->begin_ns;
		if (!any || (inner ? s->end_ns < end : s->end_ns > end))
			end = s->end_ns;
		any = true;
	}
	if (!any)
		return -ENODATA;
	if (begin > end)
		return -ERANGE;
	*ret_begin_ns = begin;
	*ret_end_ns = end;
	return 0;
}

int rut_ctf_set_range(struct rut_ctf_set *set, int64_t *ret_begin_ns, int64_t *ret_end_ns)
{
	return span(set, false, ret_begin_ns, ret_end_ns);
}

int rut_ctf_set_intersection(struct rut_ctf_set *set, int64_t *ret_begin_ns, int64_t *ret_end_ns)
{
	return span(set, true, ret_begin_ns, ret_end_ns);
}

/* ---- Slices ---- */

struct cut {
	int64_t ns;
	uint64_t bytes; /* of trace that begin about there */
};

static int by_time(const void *a, const void *b)
{
	int64_t x = ((const struct cut *)a)->ns, y = ((const struct cut *)b)->ns;

	return x < y ? -1 : x > y;
}

int rut_ctf_set_slices(struct rut_ctf_set *set, int64_t begin_ns, int64_t end_ns, uint64_t bytes,
		       int64_t **ret_bounds, size_t *ret_n)
{
	_cleanup_free_ struct cut *cuts = NULL;
	size_t n_cuts = 0, n = 1, k = 0;
	uint64_t sum = 0;
	int64_t *bounds;
	int rc = rut_ctf_set_scan(set, NULL);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < set->n_streams; i++)
		n_cuts += set->streams[i]->n_marks;
	cuts = calloc(n_cuts + 1, sizeof(*cuts));
	bounds = calloc(n_cuts + 2, sizeof(*bounds));
	if (!cuts || !bounds) {
		free(bounds);
		return -ENOMEM;
	}
	for (size_t i = 0; i < set->n_streams; i++) {
		const struct rut_set_stream *s = set->streams[i];

		for (size_t m = 0; m < s->n_marks; m++)
			cuts[k++] =
				(struct cut){s->marks[m].begin_ns, s->pub.size_bytes / s->n_marks};
	}
	qsort(cuts, n_cuts, sizeof(*cuts), by_time);
	bounds[0] = begin_ns;
	for (size_t i = 0; i < n_cuts; i++) {
		if (sum >= bytes && cuts[i].ns > bounds[n - 1] && cuts[i].ns <= end_ns) {
			bounds[n++] = cuts[i].ns;
			sum = 0;
		}
		sum += cuts[i].ns >= begin_ns ? cuts[i].bytes : 0;
	}
	bounds[n] = end_ns < INT64_MAX ? end_ns + 1 : end_ns;
	*ret_bounds = bounds;
	*ret_n = n;
	return 0;
}
