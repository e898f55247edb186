/* SPDX-License-Identifier: MIT */
/*
 * Dropping the oldest packets when more is waiting than allowed (--loss oldest).
 *
 * The recorder's thread drops, since the sender's may hang in a connection. It takes packets that
 * the sender has not claimed, the oldest of all files first: what was sent once is not dropped,
 * because the collector may have it. A dropped packet becomes one without events, which grows over
 * those that are dropped behind it, so that the file stays a sequence of packets; its last bytes
 * say how many events it stands for. The sender adds these to the count of lost events of all
 * packets from there on, and the packets' numbers have a gap, so every reader sees what is missing.
 *
 * Only packets that say how many records they have are dropped: names of methods, which later
 * events need, do not. The first packet of a file stays, since readers count losses from packet to
 * packet, and the last one, as its end may still be moved.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ring/append.h"
#include "stream/sender_internal.h"

#define PAGE ((off_t)4096)

/* Finds the file's oldest packet that may be dropped. Locked. */
static bool find_oldest(struct rut_stream_file *f)
{
	if (f->bad)
		return false;
	if (f->drop_at < f->confirmed) {
		f->drop_at = f->confirmed;
		f->known = f->filling = false;
	}
	if (f->known && f->drop_at >= f->claimed)
		return true;
	f->known = false;
	while (f->drop_at < f->size && f->searched < f->size) {
		off_t whole;

		if (rut_stream_file_head(f, f->drop_at, f->size, &f->oldest) < 0)
			break;
		whole = (off_t)(f->oldest.packet_size / 8);
		if (f->drop_at + whole >= f->size)
			break;
		f->known = f->drop_at && f->drop_at >= f->claimed &&
			   rut_packet_read_foot(f->fd, &f->oldest, f->drop_at, RUT_PACKET_COUNTED,
						&f->oldest_records);
		if (f->known)
			return true;
		f->drop_at += whole;
		f->filling = false;
	}
	/* What is sent or claimed makes no other one: only new packets do. */
	f->searched = f->size;
	return false;
}

static struct rut_stream_file *oldest_file(const struct rut_sender *s)
{
	struct rut_stream_file *oldest = NULL;

	for (const struct rut_chunk *c = s->chunks; c && !oldest; c = c->next)
		for (struct rut_stream_part *p = c->parts; p; p = p->next)
			for (struct rut_stream_file *f = p->files; f; f = f->next)
				if (find_oldest(f) &&
				    (!oldest ||
				     f->oldest.timestamp_begin < oldest->oldest.timestamp_begin))
					oldest = f;
	return oldest;
}

/* Gives back the pages of a filler but its first and last, from those of the packet at `at` on. */
static void free_pages(const struct rut_stream_file *f, off_t at, off_t end)
{
	const off_t foot = (off_t)sizeof(struct rut_packet_foot);
	off_t from = (f->filler_at + (off_t)sizeof(struct rut_packet) + PAGE - 1) & ~(PAGE - 1);
	off_t to = (end - foot) & ~(PAGE - 1);

	/* The page with the foot before. */
	if (from < ((at - foot) & ~(PAGE - 1)))
		from = (at - foot) & ~(PAGE - 1);
	if (to > from &&
	    fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from) < 0)
		rut_debug("cannot free the pages of a dropped packet of '%s'", f->name);
}

/* Drops the packet that find_oldest() has found. Locked. Returns 0 or -errno. */
static int drop(struct rut_sender *s, struct rut_stream_file *f)
{
	const uint64_t whole = f->oldest.packet_size / 8;
	const off_t at = f->drop_at, end = at + (off_t)whole;
	struct rut_packet_foot foot = {RUT_PACKET_DROPPED, f->oldest_records};
	struct rut_packet p = f->oldest;
	off_t from = at;
	int rc;

	/* The one before it grows, unless it may be on its way. */
	if (f->filling && f->filler_at >= f->claimed && end - f->filler_at <= INT32_MAX) {
		from = f->filler_at;
		foot.records += f->filler_records;
		p.timestamp_begin = f->filler.timestamp_begin;
	}
	p.content_size = sizeof(p) * 8;
	p.packet_size = (uint64_t)(end - from) * 8;
	rc = rut_packet_write(f->fd, &foot, sizeof(foot), end - (off_t)sizeof(foot));
	if (!rc)
		rc = rut_packet_write(f->fd, &p, sizeof(p), from);
	if (rc)
		return rc;
	f->filling = true;
	f->filler_at = from;
	f->filler = p;
	f->filler_records = foot.records;
	free_pages(f, at, end);
	f->drop_at = end;
	f->known = false;
	f->waiting -= whole;
	s->waiting -= whole;
	s->stats.dropped_packets++;
	s->stats.dropped_events += f->oldest_records;
	return 0;
}

/* What was dropped is added to events_discarded of what is behind it, as when it is sent. */
static void count_dropped(const struct rut_stream_file *f)
{
	struct rut_packet p;
	uint64_t lost, dropped = 0;
	int rc = 0;

	for (off_t at = 0; !rc && !rut_stream_file_head(f, at, f->size, &p);
	     at += (off_t)(p.packet_size / 8)) {
		if (rut_packet_is_filler(f->fd, &p, at, &lost))
			dropped += lost;
		p.events_discarded += dropped;
		if (dropped)
			rc = rut_packet_write(f->fd, &p, sizeof(p), at);
	}
	if (rc)
		rut_warn("'%s' does not say in all packets how many events were dropped: %s",
			 f->name, strerror(-rc));
}

void rut_sender_leave(struct rut_sender *s)
{
	for (const struct rut_chunk *c = s->chunks; c && s->drop_oldest; c = c->next)
		for (const struct rut_stream_part *p = c->parts; p; p = p->next)
			for (const struct rut_stream_file *f = p->files; f; f = f->next)
				count_dropped(f);
}

void rut_sender_drop_oldest(struct rut_sender *s)
{
	struct rut_stream_file *f;
	bool begins = false;

	pthread_mutex_lock(&s->lock);
	while (s->waiting >= s->limit && (f = oldest_file(s)) && !drop(s, f)) {
		begins |= !s->dropping;
		s->dropping = true;
	}
	pthread_mutex_unlock(&s->lock);
	if (begins)
		rut_warn("%s does not keep up: the oldest packets are dropped", s->to);
}
