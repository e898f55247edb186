/* SPDX-License-Identifier: MIT */
/*
 * The sender's thread. One round sends a batch of packets, has the collector confirm them, and
 * releases them. Whatever fails ends the connection; the next round that may connects again and
 * continues behind what was confirmed. The protocol is a link (pump_relay.c, pump_nats.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "ring/append.h"
#include "stream/sender_internal.h"

#define BATCH_PACKETS 64
#define PAUSE_MIN_NS  100000000ull
#define PAUSE_MAX_NS  5000000000ull
#define PUNCH_BYTES   (1 << 20)

struct batch {
	unsigned int packets;
	uint64_t bytes;
};

/* ---- a connection ---- */

static void rewind_file(struct rut_stream_file *f)
{
	f->sent = f->confirmed;
	f->batch = 0;
	f->dropped = f->dropped_ok;
	f->cut = f->cut_ok;
}

static void rewind_files(struct rut_sender *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct rut_chunk *c = s->chunks; c; c = c->next)
		for (struct rut_stream_part *p = c->parts; p; p = p->next)
			for (struct rut_stream_file *f = p->files; f; f = f->next)
				rewind_file(f);
	pthread_mutex_unlock(&s->lock);
}

/* What the collector may have of the chunk that is being sent is in a trace that ends now. */
static void mark_split(struct rut_sender *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct rut_stream_part *p = s->chunks ? s->chunks->parts : NULL; p; p = p->next)
		for (const struct rut_stream_file *f = p->files; f; f = f->next)
			s->chunks->split |= f->sent > 0;
	pthread_mutex_unlock(&s->lock);
}

static void set_connected(struct rut_sender *s, bool connected)
{
	pthread_mutex_lock(&s->lock);
	s->stats.connected = connected;
	s->stats.connects += connected;
	pthread_mutex_unlock(&s->lock);
}

static void disconnect(struct rut_sender *s, const struct rut_err *err)
{
	if (!s->said_broken && !s->cancelled)
		rut_warn("%s: %s; trying again", s->to, err->msg);
	s->said_broken = true;
	if (s->stats.connected)
		s->stats.breaks++;
	mark_split(s);
	s->link->close(s);
	set_connected(s, false);
	rewind_files(s);
	__atomic_store_n(&s->in_flight, 0, __ATOMIC_RELAXED);
	s->pause_ns = s->pause_ns ? s->pause_ns * 2 : PAUSE_MIN_NS;
	if (s->pause_ns > PAUSE_MAX_NS)
		s->pause_ns = PAUSE_MAX_NS;
	s->retry_at_ns = rut_now_ns() + s->pause_ns;
}

static int connect_link(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	int rc = s->link->open(s, c, err);

	if (rc)
		return rc;
	set_connected(s, true);
	if (s->said_broken)
		rut_info("%s: connected again", s->to);
	s->said_broken = false;
	return 0;
}

/* ---- rounds ---- */

const unsigned char *rut_sender_held(struct rut_sender *s, const struct rut_stream_file *f,
				     size_t len)
{
	const unsigned char *data;
	size_t there = 0;

	pthread_mutex_lock(&s->lock);
	data = rut_held_find(&f->held, f->sent, &there);
	pthread_mutex_unlock(&s->lock);
	return there < len ? NULL : data;
}

/* The header of the packet at f->sent. Returns 0 or -EBADMSG. */
static int read_head(struct rut_sender *s, const struct rut_stream_file *f, off_t size,
		     struct rut_packet *ret)
{
	int rc;

	if (f->fd >= 0)
		return rut_stream_file_head(f, f->sent, size, ret);
	pthread_mutex_lock(&s->lock);
	rc = rut_stream_file_head(f, f->sent, size, ret);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* The rest of a file is not sent: it is no packet. What is before it may have to be sent again. */
static void give_up(struct rut_sender *s, struct rut_stream_file *f)
{
	rut_warn("'%s' is damaged at byte %lld: the rest of it is not sent", f->name,
		 (long long)f->sent);
	pthread_mutex_lock(&s->lock);
	f->bad = true;
	__atomic_store_n(&f->size, f->sent, __ATOMIC_RELAXED);
	s->waiting -= f->waiting - f->batch;
	f->waiting = f->batch;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

/*
 * Sends the packet at f->sent, which takes `whole` bytes of the file. What stands for packets that
 * were dropped is sent as a small packet, and what follows counts their events as lost.
 */
static int send_one(struct rut_sender *s, struct rut_stream_file *f, struct rut_packet *p,
		    struct batch *b)
{
	const off_t whole = (off_t)(p->packet_size / 8);
	uint64_t lost = 0;
	bool filler = s->drop_oldest && rut_packet_is_filler(f->fd, p, f->sent, &lost);
	int rc;

	p->events_discarded += f->dropped + lost;
	if (filler)
		p->packet_size = RUT_STREAM_PACKET * 8;
	rc = s->link->packet(s, f, p);
	if (rc)
		return rc;
	f->last = f->sent;
	f->last_ns = p->timestamp_end;
	f->sent += whole;
	b->packets++;
	if (filler) {
		f->dropped += lost;
		f->cut += whole - (off_t)RUT_STREAM_PACKET;
		return 0;
	}
	b->bytes += (uint64_t)whole;
	f->batch += (uint64_t)whole;
	__atomic_fetch_add(&s->in_flight, (uint64_t)whole, __ATOMIC_RELAXED);
	return 0;
}

static bool is_full(const struct rut_sender *s, const struct batch *b)
{
	return b->packets >= BATCH_PACKETS || b->bytes >= s->batch;
}

/*
 * From here on the packet at f->sent is not dropped. Returns the size of the file, up to which that
 * packet may have grown since.
 */
static off_t claim(struct rut_sender *s, struct rut_stream_file *f)
{
	off_t size;

	pthread_mutex_lock(&s->lock);
	if (f->claimed <= f->sent)
		f->claimed = f->sent + 1;
	size = f->size;
	pthread_mutex_unlock(&s->lock);
	return size;
}

/*
 * Sends the packets of one file that begin before `end`. Its size is read once: what comes later
 * waits for the next round.
 */
static int send_file(struct rut_sender *s, struct rut_stream_file *f, off_t end, off_t size,
		     struct batch *b, struct rut_err *err)
{
	while (f->sent < end && !is_full(s, b)) {
		struct rut_packet p;
		int rc;

		if (s->drop_oldest)
			size = claim(s, f);
		if (read_head(s, f, size, &p) < 0) {
			give_up(s, f);
			return 0;
		}
		rc = send_one(s, f, &p, b);
		if (rc > 0)
			return 0; /* its stream is not open yet */
		if (rc)
			return rut_err_errno(err, -rc, "the connection to the collector broke");
	}
	return 0;
}

/*
 * Sends what the files from the `from`-th up to the `upto`-th have, or only what is claimed. The
 * file behind the one with which the batch is full is the first one of the next round: one that has
 * more than can be sent does not keep others from being sent.
 */
static int send_some(struct rut_sender *s, struct rut_chunk *c, unsigned int from,
		     unsigned int upto, bool claimed, struct batch *b, struct rut_err *err)
{
	unsigned int n = 0;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	for (struct rut_stream_part *p = c->parts; p; p = p->next)
		for (struct rut_stream_file *f = p->files; f; f = f->next, n++) {
			const off_t size = f->size;
			const off_t end = claimed && f->claimed < size ? f->claimed : size;

			if (n < from || n >= upto || rc || is_full(s, b))
				continue;
			pthread_mutex_unlock(&s->lock);
			rc = send_file(s, f, end, size, b, err);
			pthread_mutex_lock(&s->lock);
			if (is_full(s, b))
				s->first = n + 1;
		}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/*
 * What was claimed when a connection broke comes first, so that no more is claimed at any time than
 * one batch.
 */
static int send_files(struct rut_sender *s, struct rut_chunk *c, struct batch *b,
		      struct rut_err *err)
{
	const unsigned int first = s->first;
	int rc = s->drop_oldest ? send_some(s, c, 0, UINT_MAX, true, b, err) : 0;

	if (!rc)
		rc = send_some(s, c, first, UINT_MAX, false, b, err);
	if (!rc)
		rc = send_some(s, c, 0, first, false, b, err);
	return rc;
}

/*
 * Gives back what the collector has. The file stays a sequence of packets at every moment: its
 * first one becomes an empty packet as large as all that was removed.
 */
static void punch(const struct rut_sender *s, struct rut_stream_file *f)
{
	struct rut_packet p;

	if (s->keep || f->confirmed - f->punched < PUNCH_BYTES ||
	    pread(f->fd, &p, sizeof(p), 0) != (ssize_t)sizeof(p) || f->confirmed % 4096)
		return;
	p.content_size = sizeof(p) * 8;
	p.packet_size = (uint64_t)f->confirmed * 8;
	/* It stands for nothing that was dropped. */
	if (pwrite(f->fd, &(struct rut_packet_foot){0}, sizeof(struct rut_packet_foot),
		   f->confirmed - (off_t)sizeof(struct rut_packet_foot)) < 0 ||
	    pwrite(f->fd, &p, sizeof(p), 0) != (ssize_t)sizeof(p))
		return;
	if (!fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096,
		       f->confirmed - 4096))
		f->punched = f->confirmed;
}

static void confirm_file(struct rut_stream_file *f)
{
	f->confirmed = f->sent;
	f->waiting -= f->batch;
	f->batch = 0;
	f->dropped_ok = f->dropped;
	f->cut_ok = f->cut;
}

/* The recorder takes the lock: no disk I/O under it. The lists grow at their ends only. */
static void release(struct rut_sender *s, struct rut_chunk *c, const struct batch *b)
{
	uint64_t events, packets;
	bool kept_up;

	pthread_mutex_lock(&s->lock);
	for (struct rut_stream_part *p = c->parts; p; p = p->next)
		for (struct rut_stream_file *f = p->files; f; f = f->next)
			if (f->sent > f->confirmed) {
				confirm_file(f);
				rut_held_release(&f->held, &s->pool, f->confirmed);
				if (f->fd < 0)
					continue;
				pthread_mutex_unlock(&s->lock);
				punch(s, f);
				pthread_mutex_lock(&s->lock);
			}
	s->waiting -= b->bytes;
	__atomic_store_n(&s->in_flight, 0, __ATOMIC_RELAXED);
	s->stats.bytes += b->bytes;
	s->stats.packets += b->packets;
	kept_up = s->dropping && s->waiting < s->limit / 2;
	s->dropping &= !kept_up;
	events = s->stats.dropped_events;
	packets = s->stats.dropped_packets;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (kept_up)
		rut_info("%s keeps up again: %llu events in %llu packets were dropped", s->to,
			 (unsigned long long)events, (unsigned long long)packets);
}

/* What was dropped is not to be found missing later. */
static void forget_numbers(const struct rut_sender *s)
{
	for (struct rut_stream_out *o = s->streams; o; o = o->next)
		o->now.in_seq = o->safe.in_seq = 0;
}

/* Takes a chunk out of the list, behind `before`, and forgets what is not sent of it. */
static void take_out(struct rut_sender *s, const struct rut_chunk *c, struct rut_chunk *before)
{
	pthread_mutex_lock(&s->lock);
	for (struct rut_stream_part *p = c->parts; p; p = p->next)
		for (struct rut_stream_file *f = p->files; f; f = f->next)
			s->waiting -= f->waiting;
	if (before) {
		before->next = c->next;
		before->skips = true;
	} else {
		s->chunks = c->next;
	}
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

/* The first chunk that is to be cleared, which needs no connection, and the one before. Locked. */
static struct rut_chunk *find_cleared(const struct rut_sender *s, struct rut_chunk **ret_before)
{
	*ret_before = NULL;
	for (struct rut_chunk *c = s->chunks; c && c->next; c = c->next) {
		if (c->closed && c->cleared)
			return c;
		*ret_before = c;
	}
	return NULL;
}

/*
 * Ends a chunk that was cleared. Without a connection the collector has no session to clear, and
 * it has nothing of one behind another, which is `before`.
 */
static int clear_chunk(struct rut_sender *s, struct rut_chunk *c, struct rut_chunk *before,
		       struct rut_err *err)
{
	int rc = 0;

	if (!before && s->stats.connected)
		rc = s->link->clear(s, c, err);
	if (rc)
		return rc;
	take_out(s, c, before);
	if (!before)
		forget_numbers(s);
	if (!s->keep)
		rut_chunk_remove(c);
	pthread_mutex_lock(&s->lock);
	s->clears--;
	s->clear_failed = c->split;
	pthread_mutex_unlock(&s->lock);
	rut_chunk_free(c);
	return 0;
}

/* The chunk was sent: the next one, if there is one. Returns 1 when that was the last one. */
static int next_chunk(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	struct rut_chunk *next;
	bool ending, cleared;
	int rc;

	pthread_mutex_lock(&s->lock);
	next = c->next;
	cleared = c->cleared;
	ending = s->ending;
	pthread_mutex_unlock(&s->lock);
	/* The next one may have begun during this round: then it is to be cleared, not to be kept.
	 */
	if (next ? cleared : !ending)
		return 0;
	rc = s->link->end(s, c, next, err);
	if (rc)
		return rc;
	if (c->skips)
		forget_numbers(s);
	if (!s->keep)
		rut_chunk_remove(c);
	pthread_mutex_lock(&s->lock);
	s->chunks = next;
	pthread_mutex_unlock(&s->lock);
	rut_chunk_free(c);
	return !next;
}

/* Returns the bytes moved, or -errno. Sets `ended` when all is done. */
static int64_t round_trip(struct rut_sender *s, struct rut_err *err)
{
	struct batch b = {0};
	struct rut_chunk *c, *cleared, *before;
	uint64_t complete_ns, beside_ns;
	bool closed;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	c = s->chunks;
	closed = c && c->closed;
	cleared = find_cleared(s, &before);
	complete_ns = s->complete_ns;
	beside_ns = s->beside_ns < complete_ns ? s->beside_ns : complete_ns;
	pthread_mutex_unlock(&s->lock);
	if (!c) {
		s->ended = s->ending;
		return 0;
	}
	if (cleared) {
		rc = clear_chunk(s, cleared, before, err);
		return rc ? rc : 1;
	}
	rc = s->stats.connected ? s->link->update(s, c, err) : connect_link(s, c, err);
	if (!rc)
		rc = send_files(s, c, &b, err);
	if (!rc && !b.packets && !closed && s->link->idle)
		s->link->idle(s, complete_ns, beside_ns);
	if (!rc)
		rc = s->link->confirm(s, err);
	if (rc)
		return rc;
	s->pause_ns = 0;
	release(s, c, &b);
	/* More may have come before it was closed: only a round that found nothing ends it. */
	if (closed && !b.bytes && !b.packets)
		rc = next_chunk(s, c, err);
	s->ended = rc == 1;
	return rc < 0 ? rc : (int64_t)(b.bytes + b.packets) + closed;
}

static void wait_for_work(struct rut_sender *s, uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	pthread_mutex_lock(&s->lock);
	if (!s->cancelled)
		pthread_cond_timedwait(&s->wake, &s->lock, &until);
	pthread_mutex_unlock(&s->lock);
}

/* That needs no connection. */
static bool must_clear(struct rut_sender *s)
{
	struct rut_chunk *before;
	bool must;

	pthread_mutex_lock(&s->lock);
	must = find_cleared(s, &before) != NULL;
	pthread_mutex_unlock(&s->lock);
	return must;
}

void *rut_sender_run(void *sender)
{
	struct rut_sender *s = sender;

	while (!__atomic_load_n(&s->cancelled, __ATOMIC_ACQUIRE)) {
		struct rut_err err = RUT_ERR_INIT;
		uint64_t now = rut_now_ns();
		int64_t rc;

		if (!s->stats.connected && now < s->retry_at_ns && !must_clear(s)) {
			wait_for_work(s, s->retry_at_ns - now);
			continue;
		}
		rc = round_trip(s, &err);
		if (s->ended)
			break;
		if (rc < 0)
			disconnect(s, &err);
		else if (!rc)
			wait_for_work(s, PAUSE_MIN_NS);
	}
	s->link->close(s);
	set_connected(s, false);
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
