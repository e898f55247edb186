/* SPDX-License-Identifier: MIT */
/* From packet to packet within a stream: what is lost, cut, or of another trace is reported. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "ctf/cursor_priv.h"

void rut_cursor_complain(struct rut_cursor *c, uint64_t byte, const char *fmt, ...)
{
	char what[400], msg[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	c->counts->errors++;
	snprintf(msg, sizeof(msg), "'%s', byte %" PRIu64 ": %s", rut_cursor_file(c)->path, byte,
		 what);
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
	const struct rut_set_file *f = rut_cursor_file(c);

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
		   c->info.pub.content_bits <= UINT32_MAX && !c->opts->general;
	c->pos = c->info.events_pos;
	if (c->info.pub.has_begin)
		c->clk = c->info.pub.begin_clock;
	c->warned_back = false;
	c->ev.data = rut_cursor_file(c)->map.data + c->info.pub.offset_bytes;
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
	const struct rut_set_file *f = rut_cursor_file(c);
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
		rut_cursor_complain(c, offset,
				    "the packet is cut off: the file ends %" PRIu64
				    " bytes after its begin",
				    f->map.size - offset);
	if (unlikely(c->info.other_trace) && !c->other_trace) {
		c->other_trace = true;
		rut_cursor_complain(
			c, offset,
			"the packet is of another trace (its uuid differs from the metadata's); it "
			"and those behind it are read all the same");
	}
	if (c->info.cls == c->s->pub.cls)
		return true;
	rut_cursor_complain(c, offset, "the packet is of stream %" PRIu64 ", the file of %" PRIu64,
			    c->info.cls->id, c->s->pub.cls->id);
	return false;
}

/* Reads the next packet's header. Returns false at the end of the stream. */
static bool read_any_packet(struct rut_cursor *c)
{
	struct rut_err err = RUT_ERR_INIT;
	const struct rut_set_file *f = rut_cursor_file(c);
	uint64_t offset = c->next_offset;
	int rc;

	while (offset >= f->map.size) {
		if (!next_file(c))
			return false;
		f = rut_cursor_file(c);
		offset = 0;
	}
	expect_pages(c, f, offset);
	c->prev = c->info;
	rc = rut_packet_read(c->s->meta, f->map.data, f->map.size, offset, c->regs, &c->info, &err);
	if (rut_ctf_file_was_cut(&f->map)) {
		rut_cursor_complain(c, offset, "the file was cut short while it was read");
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
		rut_cursor_complain(c, offset, "%s", err.msg);
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
		if (!rut_set_is_twin(rut_cursor_file(c), c->info.pub.offset_bytes))
			return true;
		c->info = c->prev;
	}
	return false;
}

bool rut_cursor_open_packet(struct rut_cursor *c)
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

bool rut_cursor_is_ready(struct rut_cursor *c)
{
	const struct rut_set_file *f = rut_cursor_file(c);
	struct rut_packet_info info;
	int rc;

	if (!c->done || !c->unfinished)
		return false;
	rc = rut_packet_read(c->s->meta, f->map.data, f->map.size, c->next_offset, c->regs, &info,
			     NULL);
	return !is_unfinished(c, c->next_offset, rc, &info);
}
