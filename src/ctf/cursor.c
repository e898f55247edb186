/* SPDX-License-Identifier: MIT */
/*
 * The hot path: from record to record within a packet, from packet to packet within a stream.
 *
 * A record costs: the header by its short path, a look-up of the class, the steps of its program.
 * Every extent is checked against the packet's content, so that fields can be loaded unchecked.
 */
#include "ctf/cursor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "ctf/bits.h"
#include "ctf/decode.h"
#include "ctf/program.h"

#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

static const struct rut_set_file *file_of(const struct rut_cursor *c)
{
	return &c->s->files[c->file];
}

/* Reports bad input at a bit of the current packet. */
__attribute__((format(printf, 3, 4), noinline, cold)) static void complain(struct rut_cursor *c,
									   uint64_t byte,
									   const char *fmt, ...)
{
	char what[400], msg[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	c->counts->errors++;
	snprintf(msg, sizeof(msg), "'%s', byte %" PRIu64 ": %s", file_of(c)->path, byte, what);
	if (c->opts->on_error)
		c->opts->on_error(msg, c->opts->arg);
	else
		rut_warn("%s", msg);
}

/* ---- Losses ---- */

void rut_ctf_loss_text(const struct rut_ctf_loss *l, char *buf, size_t size)
{
	const char *what = l->packets ? "packets" : "events";
	int n = snprintf(buf, size, "%" PRIu64 " %s were lost in '%s'", l->count, what,
			 l->stream->path);

	if (!l->has_times || n < 0 || (size_t)n >= size)
		return;
	snprintf(buf + n, size - (size_t)n, " between %" PRId64 ".%09d and %" PRId64 ".%09d",
		 l->begin_ns / 1000000000, abs((int)(l->begin_ns % 1000000000)),
		 l->end_ns / 1000000000, abs((int)(l->end_ns % 1000000000)));
}

static void report_loss(struct rut_cursor *c, bool packets, uint64_t count, int64_t begin_ns,
			int64_t end_ns, bool has_times)
{
	struct rut_ctf_loss loss = {&c->s->pub, packets, count, has_times, begin_ns, end_ns};
	char text[600];

	if (packets)
		c->counts->lost_packets += count;
	else
		c->counts->discarded += count;
	if (c->opts->on_loss) {
		c->opts->on_loss(&loss, c->opts->arg);
		return;
	}
	rut_ctf_loss_text(&loss, text, sizeof(text));
	rut_warn("%s", text);
}

static void check_losses(struct rut_cursor *c)
{
	const struct rut_ctf_packet *p = &c->info.pub, *q = &c->prev.pub;
	int64_t begin_ns = q->has_end ? q->end_ns : q->begin_ns;
	bool has_times = p->has_begin && (!c->has_prev || q->has_begin);
	uint64_t n;

	if (!c->has_prev)
		begin_ns = p->begin_ns;
	if (p->has_discarded && (!c->has_prev || q->has_discarded)) {
		n = (p->discarded - (c->has_prev ? q->discarded : 0)) & c->info.discarded_mask;
		if (n)
			report_loss(c, false, n, begin_ns, p->has_end ? p->end_ns : p->begin_ns,
				    has_times);
	}
	n = c->has_prev ? rut_packets_missing(&c->prev, &c->info) : 0;
	if (n)
		report_loss(c, true, n, begin_ns, p->begin_ns, has_times);
}

/* ---- Packets ---- */

/*
 * Where to begin to give memory back. A reader of events that were found ahead touches pages again
 * that were given back already: those go the next time.
 */
static uint64_t forget_from(const struct rut_cursor *c)
{
	const uint64_t again = c->opts->ahead ? 1 << 20 : 0;

	return c->forgotten_to > again ? c->forgotten_to - again : 0;
}

static bool next_file(struct rut_cursor *c)
{
	const struct rut_set_file *f = file_of(c);

	if (c->file + 1 >= c->s->n_files && c->opts->follow) {
		c->done = true; /* for now */
		return false;
	}
	c->counts->bytes_done += f->map.size - c->next_offset;
	rut_ctf_file_forget(&f->map, forget_from(c), f->map.size);
	c->next_offset = c->forgotten_to = c->expected_to = 0;
	if (c->file + 1 >= c->s->n_files) {
		c->next_offset = f->map.size;
		c->done = true;
		return false;
	}
	c->file++;
	return true;
}

static void begin_packet(struct rut_cursor *c)
{
	const struct rut_meta_stream_class *sc = rut_meta_stream_class(c->info.cls);

	c->plan = &sc->header;
	c->clock = sc->pub.clock;
	c->clock_is_ns = c->clock && c->clock->freq == 1000000000;
	c->quick = c->clock_is_ns && c->plan->kind > RUT_CTF_HEADER_GENERAL && c->plan->max_bytes &&
		   !c->opts->general;
	c->pos = c->info.events_pos;
	if (c->info.pub.has_begin)
		c->clk = c->info.pub.begin_clock;
	c->warned_back = false;
	c->ev.data = file_of(c)->map.data + c->info.pub.offset_bytes;
	c->ev.packet = &c->info.pub;
	c->ev.cpu = c->info.pub.cpu;
	c->in_packet = true;
}

static bool is_empty(const struct rut_packet_info *p)
{
	return p->pub.content_bits <= p->events_pos && p->pub.has_begin && p->pub.has_end &&
	       p->pub.begin_clock == p->pub.end_clock;
}

/*
 * Follow: is the packet that was read from `offset` (with the result `rc`) still being written?
 * rutile's recorder lets a file grow by packets without events and of no time, which become a
 * packet with events then (session/writer.c): until something else follows them they may be that.
 */
static bool is_unfinished(struct rut_cursor *c, uint64_t offset, int rc,
			  const struct rut_packet_info *info)
{
	const struct rut_set_file *f = file_of(c);
	struct rut_packet_info next = *info;
	uint64_t at = offset;

	if (rc < 0 || info->cut)
		return true;
	if (!is_empty(info))
		return false;
	while (is_empty(&next)) {
		at += next.pub.packet_bits / 8;
		if (at >= f->map.size || rut_packet_read(c->s->meta, f->map.data, f->map.size, at,
							 c->regs, &next, NULL) < 0)
			return true;
	}
	/* Checked again: what was seen before may be older than what follows it. */
	return rut_packet_read(c->s->meta, f->map.data, f->map.size, offset, c->regs, &next, NULL) <
		       0 ||
	       next.pub.packet_bits != info->pub.packet_bits ||
	       next.pub.content_bits != info->pub.content_bits;
}

/* Advises the kernel which pages of the file were read and which come next. */
static void expect_pages(struct rut_cursor *c, const struct rut_set_file *f, uint64_t offset)
{
	if (offset - c->forgotten_to >= c->forget_bytes) {
		rut_ctf_file_consume(&f->map, forget_from(c), offset);
		c->forgotten_to = offset & ~(uint64_t)4095; /* whole pages are forgotten */
	}
	if (c->opts->prefault && offset + c->forget_bytes / 2 > c->expected_to) {
		c->expected_to = offset + c->forget_bytes;
		rut_ctf_file_expect(&f->map, offset, c->forget_bytes);
	}
}

/* Says what is odd about a packet. False: it is of another stream. */
static bool check_packet(struct rut_cursor *c, const struct rut_set_file *f, uint64_t offset)
{
	if (c->info.cut)
		complain(c, offset,
			 "the packet is cut off: the file ends %" PRIu64 " bytes after its begin",
			 f->map.size - offset);
	if (unlikely(c->info.other_trace) && !c->other_trace) {
		c->other_trace = true;
		complain(
			c, offset,
			"the packet is of another trace (its uuid differs from the metadata's); it "
			"and those behind it are read all the same");
	}
	if (c->info.cls == c->s->pub.cls)
		return true;
	complain(c, offset, "the packet is of stream %" PRIu64 ", the file of %" PRIu64,
		 c->info.cls->id, c->s->pub.cls->id);
	return false;
}

/* Reads the next packet's header. Returns false at the end of the stream. */
static bool read_any_packet(struct rut_cursor *c)
{
	struct rut_err err = RUT_ERR_INIT;
	const struct rut_set_file *f = file_of(c);
	uint64_t offset = c->next_offset;
	int rc;

	while (offset >= f->map.size) {
		if (!next_file(c))
			return false;
		f = file_of(c);
		offset = 0;
	}
	expect_pages(c, f, offset);
	c->prev = c->info;
	rc = rut_packet_read(c->s->meta, f->map.data, f->map.size, offset, c->regs, &c->info, &err);
	if (rut_ctf_file_was_cut(&f->map)) {
		complain(c, offset, "the file was cut short while it was read");
		c->next_offset = f->map.size;
		c->info = c->prev;
		return read_any_packet(c);
	}
	if (unlikely(c->opts->follow) && c->file + 1 >= c->s->n_files &&
	    is_unfinished(c, offset, rc, &c->info)) {
		c->info = c->prev;
		c->next_offset = offset;
		c->done = c->unfinished = true;
		return false;
	}
	if (rc < 0) {
		complain(c, offset, "%s", err.msg);
		c->counts->bytes_done += f->map.size - offset;
		if (!c->opts->continues)
			c->counts->skipped_bytes += f->map.size - offset;
		c->next_offset = f->map.size;
		c->info = c->prev;
		return read_any_packet(c);
	}
	c->next_offset = offset + c->info.pub.packet_bits / 8;
	c->counts->bytes_done += c->info.pub.packet_bits / 8;
	if (!check_packet(c, f, offset)) {
		c->info = c->prev;
		return read_any_packet(c);
	}
	return true;
}

/* The same, without packets that another file has too. */
static bool read_packet(struct rut_cursor *c)
{
	while (read_any_packet(c)) {
		if (!rut_set_is_twin(file_of(c), c->info.pub.offset_bytes))
			return true;
		c->info = c->prev;
	}
	return false;
}

/* Opens the next packet that is not wholly before opts->begin_ns. */
static bool open_packet(struct rut_cursor *c)
{
	while (read_packet(c)) {
		const struct rut_ctf_packet *p = &c->info.pub;

		check_losses(c);
		c->has_prev = true;
		c->counts->packets++;
		if (c->opts->has_begin && p->has_end && p->has_begin && p->end_ns >= p->begin_ns &&
		    p->end_ns < c->opts->begin_ns)
			continue;
		if (c->opts->has_end && p->has_begin && p->begin_ns > c->opts->end_ns) {
			if (c->s->pub.disordered)
				continue;
			c->done = true;
			return false;
		}
		begin_packet(c);
		return true;
	}
	return false;
}

/* ---- Headers ---- */

static inline uint64_t load(const uint8_t *p, unsigned int size)
{
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	switch (size) {
	case 8:
		memcpy(&v64, p, 8);
		return v64;
	case 4:
		memcpy(&v32, p, 4);
		return v32;
	case 2:
		memcpy(&v16, p, 2);
		return v16;
	case 1:
		return *p;
	default:
		return 0;
	}
}

/* A time of `bits` bits: the clock is at least where it was, so a smaller value has wrapped. */
static inline uint64_t advance(uint64_t clk, uint64_t v, unsigned int bits)
{
	uint64_t mask;

	if (bits >= 64)
		return v;
	mask = ((uint64_t)1 << bits) - 1;
	if (v < (clk & mask))
		clk += mask + 1;
	return (clk & ~mask) | v;
}

static inline void update_clock(struct rut_cursor *c, uint64_t v, unsigned int bits)
{
	c->clk = advance(c->clk, v, bits);
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

struct header {
	uint64_t id, clk;
	uint32_t bytes;
};

/* A header of a form known by its plan; h->max_bytes are there. */
static ALWAYS_INLINE struct header planned_header(const struct rut_ctf_header_plan *h,
						  enum rut_ctf_header_kind kind, const uint8_t *p,
						  uint64_t clk)
{
	uint64_t w, id;

	switch (kind) {
	case RUT_CTF_HEADER_COMPACT:
		w = load(p, 4);
		if ((w & 31) != 31)
			return (struct header){w & 31, advance(clk, w >> 5, 27), 4};
		break;
	case RUT_CTF_HEADER_LARGE:
		id = load(p, 2);
		if (id != 65535)
			return (struct header){id, advance(clk, load(p + h->short_ts_off, 4), 32),
					       h->short_len};
		break;
	case RUT_CTF_HEADER_WORD:
		w = load(p, 8);
		return (struct header){w & 0xffff, advance(clk, w >> 16, 48), 8};
	default:
		if (h->ts_size)
			clk = advance(clk, load(p + h->ts_off, h->ts_size), 8u * h->ts_size);
		return (struct header){load(p + h->id_off, h->id_size), clk, h->len};
	}
	return (struct header){load(p + h->id_off, 4), load(p + h->ts_off, 8), h->len};
}

/* Reads the header at *pos; leaves *pos behind it. */
static inline bool read_header(struct rut_cursor *c, uint64_t *pos, uint64_t *id)
{
	const struct rut_ctf_header_plan *h = c->plan;
	struct header got;

	if (h->kind <= RUT_CTF_HEADER_GENERAL || c->opts->general ||
	    *pos + 8ull * h->max_bytes > c->info.pub.content_bits)
		return general_header(c, pos, id);
	got = planned_header(h, h->kind, c->ev.data + (*pos >> 3), c->clk);
	*id = got.id;
	c->clk = got.clk;
	*pos += 8ull * got.bytes;
	return true;
}

/* ---- Records ---- */

static bool walk_any(struct rut_cursor *c, const struct rut_ctf_type *t, uint64_t *pos)
{
	struct rut_ctf_iter it = {
		.data = c->ev.data, .pos = *pos, .end = c->info.pub.content_bits, .regs = c->regs};

	rut_ctf_iter_skip(&it, t);
	*pos = it.pos;
	return !it.failed;
}

/* Runs the program of a class. Returns false when the record does not fit in the packet. */
static ALWAYS_INLINE bool walk(struct rut_cursor *c, const struct rut_ctf_program *prog,
			       uint64_t *ret_pos)
{
	const uint64_t end = c->info.pub.content_bits;
	const uint8_t *data = c->ev.data, *nul;
	uint64_t pos = *ret_pos, n;

	for (const struct rut_ctf_step *s = prog->steps;; s++) {
		switch (s->op) {
		case RUT_CTF_OP_END:
			*ret_pos = pos;
			return true;
		case RUT_CTF_OP_FIXED:
			pos = rut_bits_align(pos, s->align);
			c->seg[s->seg] = pos;
			pos += s->bits;
			if (unlikely(pos > end))
				return false;
			break;
		case RUT_CTF_OP_SAVE:
			c->regs[s->type->reg] =
				rut_decode_fixed(data, c->seg[s->seg] + s->off, s->type);
			break;
		case RUT_CTF_OP_STRING:
			pos = rut_bits_align(pos, s->align);
			c->seg[s->seg] = pos;
			if (unlikely(pos >= end))
				return false;
			nul = memchr(data + (pos >> 3), 0, (end - pos) >> 3);
			if (unlikely(!nul))
				return false;
			pos = 8 * (uint64_t)(nul + 1 - data);
			break;
		case RUT_CTF_OP_SEQUENCE:
			pos = rut_bits_align(pos, s->align);
			c->seg[s->seg] = pos;
			n = c->regs[s->type->len_reg];
			if (unlikely(pos > end || n > (end - pos) / s->bits))
				return false;
			pos += n * s->bits;
			break;
		default:
			c->seg[s->seg] = rut_bits_align(pos, s->align);
			if (!walk_any(c, s->type, &pos))
				return false;
		}
	}
}

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
	if (rut_ctf_file_was_cut(&file_of(c)->map)) {
		complain(c, byte, "the file was cut short while it was read");
		c->next_offset = file_of(c)->map.size;
		return;
	}
	count_skipped(c, pos);
	if (c->info.cut)
		return; /* already said: the packet is cut off */
	if (id != UINT64_MAX) {
		complain(c, byte,
			 "%s %" PRIu64 "; the rest of the packet (to byte %" PRIu64 ") is skipped",
			 why, id, c->next_offset);
	} else {
		complain(c, byte, "%s; the rest of the packet (to byte %" PRIu64 ") is skipped",
			 why, c->next_offset);
	}
}

__attribute__((noinline, cold)) static void went_back(struct rut_cursor *c, uint64_t pos)
{
	if (!c->warned_back)
		complain(c, c->info.pub.offset_bytes + pos / 8,
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

/* Goes to the next of the events that were found. */
static ALWAYS_INLINE void show_found(struct rut_cursor *c)
{
	const struct rut_cursor_found *f = &c->found[c->found_at++];
	const struct rut_ctf_stream_class *sc = c->info.cls;
	const struct rut_ctf_quick *q = &rut_meta_stream_class(sc)->quick[f->id];

	if (q->bits != RUT_CTF_NOT_QUICK)
		c->seg[q->seg] = f->body;
	c->ev.cls = sc->by_id[f->id];
	c->ev.index = q->index;
	c->ev.ts_clock = (uint64_t)f->ts_ns - (uint64_t)c->clock->base_ns;
	c->ev.ts_ns = f->ts_ns;
	c->ev.header_pos = f->start;
	c->ev.end_pos = f->end;
}

/*
 * Finds the next wanted events of the packet, as far as headers have a plan, with everything in
 * registers: several that are passed by their size, or one whose program must run (it leaves the
 * segments in c->seg). None: the record at c->pos needs the long way, which also tells what is
 * wrong with it; nothing of it was taken.
 */
static ALWAYS_INLINE uint32_t find_planned(struct rut_cursor *c, enum rut_ctf_header_kind kind)
{
	const struct rut_ctf_header_plan *h = c->plan;
	const struct rut_ctf_stream_class *sc = c->info.cls;
	const struct rut_ctf_quick *quick = rut_meta_stream_class(sc)->quick, *q;
	const uint64_t content = c->info.pub.content_bits, base = (uint64_t)c->clock->base_ns;
	const uint8_t *data = c->ev.data, *wanted = c->wanted;
	const size_t n_ids = sc->n_by_id;
	const int64_t begin_ns = c->opts->has_begin ? c->opts->begin_ns : INT64_MIN;
	const int64_t end_ns = c->opts->has_end ? c->opts->end_ns : INT64_MAX;
	const int64_t look_ns = c->mark_ns <= end_ns ? c->mark_ns : end_ns + 1;
	const uint32_t most = c->opts->follow ? 1 : RUT_CURSOR_FOUND;
	uint64_t pos = c->pos, clk = c->clk, events = 0, n = 0, start, body, end;
	int64_t last_ns = c->last_ns, ts_ns;
	bool last = false, is_wanted;
	struct header sh;

	while (!last) {
		start = rut_bits_align(pos, h->align);
		if (unlikely(start + 8ull * h->max_bytes > content))
			break;
		sh = planned_header(h, kind, data + (start >> 3), clk);
		if (unlikely(sh.id >= n_ids))
			break;
		ts_ns = (int64_t)(base + sh.clk);
		if (unlikely(ts_ns < last_ns))
			break;
		q = &quick[sh.id];
		is_wanted = !wanted || wanted[q->index] || unlikely(ts_ns >= look_ns);
		body = 0;
		end = start + 8ull * sh.bytes;
		if (likely(q->bits != RUT_CTF_NOT_QUICK)) {
			body = rut_bits_align(end, q->align);
			end = body + q->bits;
			if (unlikely(end > content))
				break;
		} else if (unlikely(!sc->by_id[sh.id]) || (n && is_wanted) ||
			   unlikely(!walk(c, sc->by_id[sh.id]->program, &end))) {
			break;
		}
		if (is_wanted) {
			if (unlikely(ts_ns > end_ns))
				break;
			if (likely(ts_ns >= begin_ns)) {
				c->found[n++] =
					(struct rut_cursor_found){ts_ns, start, body, end, sh.id};
				last = n == most || q->bits == RUT_CTF_NOT_QUICK ||
				       ts_ns >= look_ns;
			}
		}
		pos = end;
		clk = sh.clk;
		last_ns = ts_ns;
		events++;
	}
	if (unlikely(rut_ctf_file_was_cut(&file_of(c)->map)))
		return 0;
	c->pos = pos;
	c->clk = clk;
	c->last_ns = last_ns;
	c->counts->events += events;
	return (uint32_t)n;
}

/* A loop for each form of header, so that the form is no question in it. */
static uint32_t find_quickly(struct rut_cursor *c)
{
	switch (c->plan->kind) {
	case RUT_CTF_HEADER_COMPACT:
		return find_planned(c, RUT_CTF_HEADER_COMPACT);
	case RUT_CTF_HEADER_LARGE:
		return find_planned(c, RUT_CTF_HEADER_LARGE);
	case RUT_CTF_HEADER_WORD:
		return find_planned(c, RUT_CTF_HEADER_WORD);
	default:
		return find_planned(c, RUT_CTF_HEADER_FLAT);
	}
}

bool rut_cursor_next(struct rut_cursor *c)
{
	if (likely(c->found_at < c->n_found)) {
		show_found(c);
		return true;
	}
	for (;;) {
		const struct rut_ctf_event_class *cls;
		uint64_t start, pos, id;

		if (unlikely(!c->in_packet) && (c->done || !open_packet(c)))
			return false;
		if (c->quick && (c->n_found = find_quickly(c))) {
			c->found_at = 0;
			show_found(c);
			return true;
		}
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
		if (unlikely(!walk(c, cls->program, &pos))) {
			bad_record(c, start, "an event runs past its packet", UINT64_MAX);
			continue;
		}
		if (unlikely(rut_ctf_file_was_cut(&file_of(c)->map) || pos == start)) {
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
		c->ev.header_pos = start;
		c->ev.end_pos = pos;
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
	c->ev.seg = c->seg;
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
		rut_ctf_file_forget(&file_of(c)->map, c->forgotten_to,
				    c->next_offset < file_of(c)->map.size ? c->next_offset
									  : file_of(c)->map.size);
	free(c->regs);
	free(c->seg);
	c->regs = c->seg = NULL;
}

void rut_cursor_rewind(struct rut_cursor *c)
{
	c->file = 0;
	c->next_offset = c->forgotten_to = c->expected_to = 0;
	c->in_packet = c->done = c->has_prev = false;
	c->n_found = c->found_at = 0;
	c->clk = 0;
	c->last_ns = INT64_MIN;
}

bool rut_cursor_is_ready(struct rut_cursor *c)
{
	const struct rut_set_file *f = file_of(c);
	struct rut_packet_info info;
	int rc;

	if (!c->done || !c->unfinished)
		return false;
	rc = rut_packet_read(c->s->meta, f->map.data, f->map.size, c->next_offset, c->regs, &info,
			     NULL);
	return !is_unfinished(c, c->next_offset, rc, &info);
}

void rut_cursor_resume(struct rut_cursor *c)
{
	c->done = c->unfinished = false;
	if (c->in_packet) /* the mapping may have moved */
		c->ev.data = file_of(c)->map.data + c->info.pub.offset_bytes;
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
	if (!rut_packet_read(s->meta, file_of(c)->map.data, file_of(c)->map.size, c->next_offset,
			     c->regs, &c->info, &err)) {
		c->has_prev = true;
		c->next_offset += c->info.pub.packet_bits / 8;
	}
}
