/* SPDX-License-Identifier: MIT */
/*
 * The hot path: from record to record within a packet, where headers have a plan. Everything is in
 * registers and in bytes; every extent is checked against the packet's content, so that fields can
 * be loaded unchecked.
 */
#include "ctf/cursor_priv.h"

/*
 * So far ahead of the record the trace is fetched into the cache. Where a record ends is not known
 * before its header is read, so the CPU cannot run ahead of a miss by itself. Beyond the file it
 * has no effect.
 */
enum { FETCH_BYTES = 2048 };

/* One that is not of a fixed size. `*pos`: bits behind its header, then behind it. */
static bool find_walk(struct rut_cursor *c, const struct rut_flat_class *e, uint32_t n,
		      uint64_t *pos, uint16_t *ret_seg)
{
	const struct rut_ctf_program *prog;
	uint64_t *seg = c->seg;

	if (unlikely(e->how == RUT_FLAT_UNKNOWN))
		return false;
	prog = c->classes[e->index]->program;
	*ret_seg = RUT_FOUND_OWN;
	if (e->how == RUT_FLAT_WALK_TAKE && c->n_words + prog->n_segs <= RUT_CURSOR_WORDS) {
		seg = c->words + c->n_words;
		*ret_seg = (uint16_t)c->n_words;
		if (unlikely(!rut_cursor_walk(c, prog, seg, pos)))
			return false;
		c->n_words += prog->n_segs;
		return true;
	}
	/* What it saves must not be of the events that were found before it. */
	if (n && e->how != RUT_FLAT_WALK)
		return false;
	return rut_cursor_walk(c, prog, seg, pos);
}

/* Events of this time and later need the long way: one was asked for, or the end is reached. */
static int64_t stop_time(const struct rut_cursor *c)
{
	const int64_t end_ns = c->opts->has_end ? c->opts->end_ns : INT64_MAX;

	return c->mark_ns <= end_ns ? c->mark_ns : end_ns + 1;
}

/* The cursor stands behind what was passed. False: nothing was, or it may be zeros. */
static bool keep(struct rut_cursor *c, uint64_t events, uint64_t pos, uint64_t clk, int64_t last_ns)
{
	if (unlikely(rut_ctf_file_was_cut(&rut_cursor_file(c)->map)) || !events)
		return false;
	c->pos = 8 * pos;
	c->clk = clk;
	c->last_ns = last_ns;
	c->counts->events += events;
	return true;
}

/*
 * The loop, for one form of header. `packed`: nothing is aligned, so that a record begins where the
 * one before it ends.
 */
static ALWAYS_INLINE uint32_t find(struct rut_cursor *c, const struct rut_ctf_header_plan h,
				   bool packed)
{
	const struct rut_flat_class *const classes = c->flat->classes, *e;
	const size_t n_ids = c->flat->n;
	const uint8_t *const data = c->ev.data;
	const uint64_t content = c->info.pub.content_bits / 8;
	const uint64_t mask = packed ? 0 : h.align / 8 - 1;
	const uint64_t limit = content - h.max_bytes, base = (uint64_t)c->clock->base_ns;
	const int64_t begin_ns = c->opts->has_begin ? c->opts->begin_ns : INT64_MIN;
	const int64_t stop_ns = stop_time(c);
	const uint32_t most = c->opts->follow ? 1 : RUT_CURSOR_FOUND;
	uint64_t pos = (c->pos + 7) / 8, clk = c->clk, events = 0, start, body, end, bits;
	int64_t last_ns = c->last_ns > begin_ns ? c->last_ns : begin_ns, ts_ns;
	struct rut_found *f = c->found, *full = f + most;
	struct rut_header sh;
	uint16_t seg;

	if (content < h.max_bytes)
		return 0;
	c->n_words = 0;
	while (f < full) {
		start = (pos + mask) & ~mask;
		if (unlikely(start > limit))
			break;
		__builtin_prefetch(data + start + FETCH_BYTES);
		sh = rut_cursor_header(&h, h.kind, data + start, clk);
		ts_ns = (int64_t)(base + sh.clk);
		if (unlikely(sh.id >= n_ids || ts_ns < last_ns || ts_ns >= stop_ns))
			break;
		e = &classes[sh.id];
		body = start + sh.bytes;
		if (!packed)
			body = (body + e->mask) & ~(uint64_t)e->mask;
		end = body + e->bytes;
		if (likely(e->how <= RUT_FLAT_TAKE)) {
			if (unlikely(end > content))
				break;
			/* Written either way; kept when it is wanted. */
			f->ts_ns = ts_ns;
			f->body = 8 * body;
			f->start = (uint32_t)(8 * start);
			f->index = e->index;
			f->seg = RUT_FOUND_BODY;
			f->src = 0;
			f += e->how;
		} else {
			bits = 8 * (start + sh.bytes);
			if (!find_walk(c, e, (uint32_t)(f - c->found), &bits, &seg))
				break;
			end = (bits + 7) / 8;
			if (e->how != RUT_FLAT_WALK)
				*f++ = (struct rut_found){ts_ns,    0,	 (uint32_t)(8 * start),
							  e->index, seg, 0};
			if (seg == RUT_FOUND_OWN && e->how != RUT_FLAT_WALK)
				full = f; /* the next would overwrite its segments */
		}
		pos = end;
		clk = sh.clk;
		last_ns = ts_ns;
		events++;
	}
	return keep(c, events, pos, clk, last_ns) ? (uint32_t)(f - c->found) : 0;
}

/* A loop for each form of header, so that the form is no question in it. */
uint32_t rut_cursor_find(struct rut_cursor *c)
{
	struct rut_ctf_header_plan h = *c->plan;

	switch (c->flat->packed) {
	case RUT_FLAT_PACKED_COMPACT:
		return find(c, rut_flat_compact, true);
	case RUT_FLAT_PACKED_LARGE:
		return find(c, rut_flat_large, true);
	default:
		break;
	}
	switch (h.kind) {
	case RUT_CTF_HEADER_COMPACT:
		h.kind = RUT_CTF_HEADER_COMPACT;
		return find(c, h, false);
	case RUT_CTF_HEADER_LARGE:
		h.kind = RUT_CTF_HEADER_LARGE;
		return find(c, h, false);
	case RUT_CTF_HEADER_WORD:
		h.kind = RUT_CTF_HEADER_WORD;
		return find(c, h, false);
	default:
		h.kind = RUT_CTF_HEADER_FLAT;
		return find(c, h, false);
	}
}
