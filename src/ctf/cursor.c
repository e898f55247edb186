/* SPDX-License-Identifier: MIT */
/*
 * Events of one stream, one after the other. Most are found by cursor_find.c; this file has the
 * long way, which can read every header, finds what is wrong with a record, and knows about the
 * bounds of what is read.
 */
#include "ctf/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctf/cursor_priv.h"

/* ---- Headers ---- */

static inline void update_clock(struct rut_cursor *c, uint64_t v, unsigned int bits)
{
	c->clk = rut_cursor_advance(c->clk, v, bits);
}

/* The header's type is walked; the last id wins, as in LTTng's extended form. */
static void general_fields(struct rut_cursor *c, struct rut_ctf_iter *it,
			   const struct rut_ctf_type *t, uint64_t *id)
{
	struct rut_ctf_value v;
	uint64_t n;

	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		n = rut_ctf_iter_enter(it, t);
		for (uint64_t i = 0; i < n && !it->failed; i++)
			general_fields(c, it, t->fields[i].type, id);
		return;
	case RUT_CTF_KIND_VARIANT:
		n = rut_ctf_iter_enter(it, t);
		if (!it->failed)
			general_fields(c, it, t->fields[n].type, id);
		return;
	case RUT_CTF_KIND_OPTIONAL:
		if (rut_ctf_iter_enter(it, t))
			general_fields(c, it, t->elem, id);
		return;
	default:
		rut_ctf_iter_value(it, t, &v);
		if (it->failed)
			return;
		if (t->role == RUT_CTF_ROLE_EVENT_ID)
			*id = v.u;
		else if (t->role == RUT_CTF_ROLE_TIMESTAMP)
			update_clock(c, v.u,
				     t->vlen ? (unsigned int)(it->pos - v.pos) / 8 * 7
					     : (unsigned int)t->size);
	}
}

static bool general_header(struct rut_cursor *c, uint64_t *pos, uint64_t *id)
{
	struct rut_ctf_iter it = {
		.data = c->ev.data, .pos = *pos, .end = c->info.pub.content_bits, .regs = c->regs};
	const struct rut_ctf_type *h = c->info.cls->event_header;

	*id = 0;
	if (h)
		general_fields(c, &it, h, id);
	*pos = it.pos;
	return !it.failed;
}

/* Reads the header at *pos; leaves *pos behind it. */
static inline bool read_header(struct rut_cursor *c, uint64_t *pos, uint64_t *id)
{
	const struct rut_ctf_header_plan *h = c->plan;
	struct rut_header got;

	if (h->kind <= RUT_CTF_HEADER_GENERAL || c->opts->general ||
	    *pos + 8ull * h->max_bytes > c->info.pub.content_bits)
		return general_header(c, pos, id);
	got = rut_cursor_header(h, h->kind, c->ev.data + (*pos >> 3), c->clk);
	*id = got.id;
	c->clk = got.clk;
	*pos += 8ull * got.bytes;
	return true;
}

/* ---- Records ---- */

static inline const struct rut_ctf_event_class *find_class(const struct rut_ctf_stream_class *sc,
							   uint64_t id)
{
	if (likely(id < sc->n_by_id))
		return sc->by_id[id];
	return sc->n_by_id ? NULL : rut_map_get(&rut_meta_stream_class(sc)->other, id);
}

/* Counts what is left of the packet; once where several readers share the packets of a time range.
 */
static void count_skipped(struct rut_cursor *c, uint64_t pos)
{
	int64_t last_ns = c->info.pub.has_begin ? c->info.pub.begin_ns : INT64_MIN;

	if (c->last_ns > last_ns)
		last_ns = c->last_ns;
	if (c->opts->continues && last_ns < c->opts->begin_ns)
		return;
	c->counts->skipped_bytes += (c->info.pub.content_bits - pos) / 8;
}

void rut_ctf_skipped_text(const struct rut_ctf_counts *counts, char *buf, size_t size)
{
	uint64_t read = counts->bytes_done - counts->skipped_bytes;
	double events = read ? (double)counts->events / (double)read : 0;

	if (size)
		buf[0] = '\0';
	if (!counts->skipped_bytes)
		return;
	events *= (double)counts->skipped_bytes;
	snprintf(buf, size, "%" PRIu64 " bytes could not be read: about %.0f events are missing",
		 counts->skipped_bytes, events < 1 ? 1 : events);
}

__attribute__((noinline, cold)) static void bad_record(struct rut_cursor *c, uint64_t pos,
						       const char *why, uint64_t id)
{
	uint64_t byte = c->info.pub.offset_bytes + pos / 8;

	c->in_packet = false;
	if (rut_ctf_file_was_cut(&rut_cursor_file(c)->map)) {
		rut_cursor_complain(c, byte, "the file was cut short while it was read");
		c->next_offset = rut_cursor_file(c)->map.size;
		return;
	}
	count_skipped(c, pos);
	if (c->info.cut)
		return; /* already said: the packet is cut off */
	if (id != UINT64_MAX) {
		rut_cursor_complain(c, byte,
				    "%s %" PRIu64 "; the rest of the packet (to byte %" PRIu64
				    ") is skipped",
				    why, id, c->next_offset);
	} else {
		rut_cursor_complain(c, byte,
				    "%s; the rest of the packet (to byte %" PRIu64 ") is skipped",
				    why, c->next_offset);
	}
}

__attribute__((noinline, cold)) static void went_back(struct rut_cursor *c, uint64_t pos)
{
	if (!c->warned_back)
		rut_cursor_complain(c, c->info.pub.offset_bytes + pos / 8,
				    "time runs backwards, by %" PRIu64 " ns",
				    (uint64_t)c->last_ns - (uint64_t)c->ev.ts_ns);
	c->warned_back = true;
}

static inline int64_t clock_ns(const struct rut_cursor *c)
{
	if (likely(c->clock_is_ns))
		return (int64_t)((uint64_t)c->clock->base_ns + c->clk);
	return c->clock ? rut_ctf_clock_ns(c->clock, c->clk) : 0;
}

static bool find_run(struct rut_cursor *c)
{
	const uint32_t n = rut_cursor_find(c);

	c->run = (struct rut_ctf_run){.ev = &c->ev,
				      .next = c->found,
				      .end = c->found + n,
				      .base_ns = (uint64_t)c->clock->base_ns,
				      .classes = c->classes,
				      .seg = RUT_FOUND_BODY};
	return n;
}

bool rut_cursor_more(struct rut_cursor *c)
{
	c->run.next = c->run.end = c->found;
	for (;;) {
		const struct rut_ctf_event_class *cls;
		uint64_t start, pos, id;

		if (unlikely(!c->in_packet) && (c->done || !rut_cursor_open_packet(c)))
			return false;
		if (c->quick && c->flat && find_run(c))
			return true;
		start = pos = rut_bits_align(c->pos, c->plan->align);
		if (pos >= c->info.pub.content_bits) {
			c->in_packet = false;
			continue;
		}
		if (unlikely(!read_header(c, &pos, &id))) {
			bad_record(c, start, "the header of an event runs past its packet",
				   UINT64_MAX);
			continue;
		}
		cls = find_class(c->info.cls, id);
		if (unlikely(!cls)) {
			bad_record(c, start, "the metadata has no event", id);
			continue;
		}
		if (unlikely(!rut_cursor_walk(c, cls->program, c->seg, &pos))) {
			bad_record(c, start, "an event runs past its packet", UINT64_MAX);
			continue;
		}
		if (unlikely(rut_ctf_file_was_cut(&rut_cursor_file(c)->map) || pos == start)) {
			bad_record(c, start, "an event has no size at all", UINT64_MAX);
			continue;
		}
		c->pos = pos;
		c->counts->events++;
		c->ev.cls = cls;
		c->ev.index = cls->index;
		c->ev.ts_clock = c->clk;
		c->ev.ts_ns = clock_ns(c);
		if (unlikely(c->ev.ts_ns < c->last_ns))
			went_back(c, start);
		if (c->opts->has_end && c->ev.ts_ns > c->opts->end_ns) {
			c->done = !c->s->pub.disordered;
			c->in_packet = false;
			continue;
		}
		c->last_ns = c->ev.ts_ns;
		if (c->wanted && !c->wanted[cls->index] && c->ev.ts_ns < c->mark_ns)
			continue;
		if (c->opts->has_begin && c->ev.ts_ns < c->opts->begin_ns)
			continue;
		c->ev.seg = c->seg;
		c->ev.header_pos = start;
		return true;
	}
}

/* ---- Life ---- */

/* Makes room for `n` values; those that were there stay. */
static int make_room(uint64_t **array, size_t *has, size_t n)
{
	uint64_t *grown;

	if (*array && n <= *has)
		return 0;
	grown = realloc(*array, (n + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + *has, 0, (n + 1 - *has) * sizeof(*grown));
	*array = grown;
	*has = n;
	return 0;
}

int rut_cursor_grow(struct rut_cursor *c)
{
	if (make_room(&c->regs, &c->n_regs, c->s->meta->n_regs) < 0 ||
	    make_room(&c->seg, &c->n_segs, c->s->meta->max_segs) < 0)
		return -ENOMEM;
	c->ev.regs = c->regs;
	/* The event that was decoded last may still wait to be given out. */
	c->ev.seg = c->run.next > c->found ? rut_cursor_segments(c, c->run.next - 1) : c->seg;
	return 0;
}

int rut_cursor_init(struct rut_cursor *c, const struct rut_set_stream *s,
		    const struct rut_ctf_reader_opts *opts, struct rut_ctf_counts *counts)
{
	*c = (struct rut_cursor){.s = s,
				 .opts = opts,
				 .counts = counts,
				 .forget_bytes = 1 << 22,
				 .mark_ns = INT64_MAX};
	if (rut_cursor_grow(c) < 0) {
		rut_cursor_fini(c);
		return -ENOMEM;
	}
	c->ev.stream = &s->pub;
	c->ev.has_ts = s->pub.cls->clock != NULL;
	rut_cursor_rewind(c);
	return 0;
}

void rut_cursor_fini(struct rut_cursor *c)
{
	/* A long trace may be read by many short-lived cursors, so none of it stays in memory. */
	if (c->s && c->s->n_files)
		rut_ctf_file_forget(&rut_cursor_file(c)->map, c->forgotten_to,
				    c->next_offset < rut_cursor_file(c)->map.size
					    ? c->next_offset
					    : rut_cursor_file(c)->map.size);
	free(c->regs);
	free(c->seg);
	c->regs = c->seg = NULL;
}

void rut_cursor_rewind(struct rut_cursor *c)
{
	c->file = 0;
	c->next_offset = c->forgotten_to = c->expected_to = 0;
	c->in_packet = c->done = c->has_prev = false;
	c->run.next = c->run.end = c->found;
	c->clk = 0;
	c->last_ns = INT64_MIN;
}

void rut_cursor_resume(struct rut_cursor *c)
{
	c->done = c->unfinished = false;
	if (c->in_packet) /* the mapping may have moved */
		c->ev.data = rut_cursor_file(c)->map.data + c->info.pub.offset_bytes;
}

void rut_cursor_seek(struct rut_cursor *c, int64_t ts_ns)
{
	const struct rut_set_stream *s = c->s;
	size_t lo = 0, hi = s->n_marks;
	struct rut_err err = RUT_ERR_INIT;

	rut_cursor_rewind(c);
	if (s->pub.disordered)
		return;
	while (lo < hi) { /* the first mark that begins at ts_ns or later: several may at once */
		size_t mid = lo + (hi - lo) / 2;

		if (s->marks[mid].begin_ns >= ts_ns)
			hi = mid;
		else
			lo = mid + 1;
	}
	if (lo < 2)
		return;
	/*
	 * One mark earlier: the packet before is where losses are counted from, and packets may
	 * overlap a little.
	 */
	c->file = s->marks[lo - 2].file;
	c->next_offset = c->forgotten_to = s->marks[lo - 2].offset;
	if (!rut_packet_read(s->meta, rut_cursor_file(c)->map.data, rut_cursor_file(c)->map.size,
			     c->next_offset, c->regs, &c->info, &err)) {
		c->has_prev = true;
		c->next_offset += c->info.pub.packet_bits / 8;
	}
}
