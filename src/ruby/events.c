/* SPDX-License-Identifier: MIT */
/*
 * Events of trace mode: packets are taken out of the rings, and the records of all processes are
 * given to the caller in order of time.
 *
 * A round takes the time, then closes the packet that each process is writing: now every record up
 * to that time is in a finished packet. What is younger waits for the next round, so that no
 * process runs ahead of another. Hits of scripts are added up: their order does not matter.
 *
 * A process may write any time, and its clock may be ahead (a time namespace): records of a time
 * that is far ahead are reported as of now, and no more than two rings are kept of a process.
 */
#include "ruby/events.h"
#include "ruby/rows.h"
#include "ruby/table.h"
#include "ruby/target.h"

#include "agent/event.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ring/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AHEAD_MAX_NS 5000000000ull
#define HELD_MS	     1000
#define BEHIND_NS    (2 * HELD_MS * 1000000ull)

/* Packets that were taken out and are not reported yet. */
struct rut_events {
	struct rut_ring ring;
	void *map;
	size_t map_bytes;
	uint64_t lost;	      /* as of the last reported packet */
	unsigned char *queue; /* owned; packets of subbuf_size bytes */
	size_t count, cap;    /* packets */
	size_t at;	      /* the packet being reported */
	size_t off;	      /* in it */
	uint64_t time_ns;     /* of the record at `off`; valid when has */
	uint64_t told_ns;     /* of the last record, as it is in the packet */
	uint64_t now_ns;      /* of the round; 0: of a dump, where any time is right */
	bool has;
	uint64_t held_ms; /* since when a packet waits for a record that is not finished; 0: none */
	/* A backtrace, of the next event of this thread. */
	uint32_t frames_tid, frame_count;
	uint32_t frames[RUT_EVENT_CALLERS];
};

int rut_events_open_at(struct rut_tracee *p, int fd, uint64_t off, uint64_t bytes,
		       struct rut_err *err)
{
	struct rut_events *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return rut_err_set(err, ENOMEM, "out of memory");
	e->map_bytes = bytes;
	e->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)off);
	if (e->map == MAP_FAILED) {
		free(e);
		return rut_err_errno(err, errno, "cannot map the ring of process %d", (int)p->pid);
	}
	p->events = e;
	r = rut_ring_open_ctl(&e->ring, e->map, (char *)e->map + RUT_RING_CTL_SIZE,
			      e->map_bytes - RUT_RING_CTL_SIZE, err);
	if (r < 0)
		rut_events_close(p);
	return r;
}

int rut_events_open(struct rut_tracee *p, struct rut_err *err)
{
	struct rut_agent_slot *slot = &p->ctl->slots[p->slot];
	_cleanup_close_ int fd =
		rut_target_open_shared(p->pid, slot->ring_fd, RUT_AGENT_RING_MEMFD);
	struct rut_family *f = p->family;
	uint64_t bytes = __atomic_load_n(&f->map->ring_bytes, __ATOMIC_RELAXED), off;
	bool shared = bytes && slot->ring_member == p->member;
	struct stat st;

	if (fd < 0 && fd != -ENOENT)
		return rut_err_errno(err, -fd, "cannot open the ring of process %d", (int)p->pid);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != slot->ring_ino)
		return rut_target_closed(p->pid, "ring", err);
	if (!shared)
		bytes = (uint64_t)st.st_size;
	off = shared ? p->member * bytes : 0;
	if (bytes <= RUT_RING_CTL_SIZE || bytes > 1ull << 32 || bytes % 4096 ||
	    off + bytes > (uint64_t)st.st_size)
		return rut_err_set(err, EPROTO, "the ring of process %d is not ours", (int)p->pid);
	if (shared && f->ring_fd < 0 && f->members * bytes <= (uint64_t)st.st_size) {
		f->ring_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		f->ring_bytes = bytes;
	}
	return rut_events_open_at(p, fd, off, bytes, err);
}

const struct rut_ring *rut_events_ring(const struct rut_tracee *p)
{
	return &p->events->ring;
}

bool rut_events_told(const struct rut_tracee *p)
{
	return p->events->at >= p->events->count && !p->events->has;
}

void rut_events_close(struct rut_tracee *p)
{
	struct rut_events *e = p->events;

	if (!e)
		return;
	munmap(e->map, e->map_bytes);
	free(e->queue);
	free(e);
	p->events = NULL;
}

static unsigned char *packet_at(struct rut_events *e, size_t i)
{
	return e->queue + i * e->ring.subbuf_size;
}

/* For one packet more: those that were reported go first. */
static int make_room(struct rut_events *e)
{
	size_t cap = e->cap ? e->cap * 2 : 4;
	unsigned char *to;

	if (e->count < e->cap)
		return 0;
	if (e->at) {
		memmove(e->queue, packet_at(e, e->at), (e->count - e->at) * e->ring.subbuf_size);
		e->count -= e->at;
		e->at = 0;
		return 0;
	}
	to = realloc(e->queue, cap * e->ring.subbuf_size);
	if (!to)
		return -ENOMEM;
	e->queue = to;
	e->cap = cap;
	return 0;
}

/* Copies what is finished: the ring is free again for the target. */
static int take_packets(struct rut_events *e)
{
	uint64_t pos = __atomic_load_n(&e->ring.ctl->consumed, __ATOMIC_ACQUIRE);
	const unsigned char *packet;
	uint32_t taken = 0;

	if (e->at && e->at == e->count)
		e->at = e->count = 0;
	/* No more than it can hold: what the target says of its positions may be untrue. */
	while (taken++ < e->ring.count && e->count - e->at < 2 * (size_t)e->ring.count &&
	       (packet = rut_ring_next(&e->ring, &pos))) {
		if (make_room(e) < 0)
			return -ENOMEM;
		memcpy(packet_at(e, e->count++), packet, e->ring.subbuf_size);
		pos += e->ring.subbuf_size;
		rut_ring_release(&e->ring, pos);
	}
	return 0;
}

static size_t content_bytes(const struct rut_events *e, const struct rut_packet *packet)
{
	uint64_t n = packet->content_size / 8;

	return n > e->ring.subbuf_size ? e->ring.subbuf_size : (size_t)n;
}

void rut_events_lost(struct rut_tracer *t, struct rut_tracee *p, uint64_t lost, uint64_t time_ns)
{
	struct rut_ruby_event ev = {.type = RUT_RUBY_EVENT_LOST,
				    .pid = p->pid,
				    .tid = p->pid,
				    .lost = lost,
				    .time_ns = time_ns};

	if (lost && t->on_event)
		t->on_event(&ev, t->on_event_arg);
}

/* What did not fit. Hits of scripts trapped instead. */
static void emit_lost(struct rut_tracer *t, struct rut_tracee *p, uint64_t lost, uint64_t time_ns)
{
	if (lost <= p->events->lost || t->config.mode == RUT_RUBY_SCRIPT)
		return;
	rut_events_lost(t, p, lost - p->events->lost, time_ns);
	p->events->lost = lost;
}

/* The time of the next record; false when there is none. */
static bool peek(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_events *e = p->events;

	while (!e->has && e->at < e->count) {
		const struct rut_packet *packet = (struct rut_packet *)packet_at(e, e->at);
		size_t end = content_bytes(e, packet);
		uint64_t header, low, base = packet->timestamp_begin;

		if (e->off == 0)
			e->off = sizeof(*packet);
		if (e->off + sizeof(struct rut_event_common) > end) {
			emit_lost(t, p, packet->events_discarded, packet->timestamp_end);
			e->at++;
			e->off = 0;
			continue;
		}
		memcpy(&header, packet_at(e, e->at) + e->off, sizeof(header));
		low = header >> 16;
		/* 48 bits of the time: the packet's beginning has the rest. */
		e->time_ns = (base & ~0xffffffffffffull) | low;
		if (e->time_ns + (1ull << 47) < base)
			e->time_ns += 1ull << 48;
		/* In a packet times never decrease: what comes is of a record that was not
		 * finished. */
		if (e->time_ns < (e->off == sizeof(*packet) ? base : e->told_ns)) {
			e->off = end;
			continue;
		}
		e->told_ns = e->time_ns;
		if (e->now_ns && e->time_ns > e->now_ns + AHEAD_MAX_NS)
			e->time_ns = e->now_ns;
		e->has = true;
	}
	return e->has;
}

static void row_names(struct rut_tracer *t, struct rut_tracee *p, uint32_t number,
		      struct rut_ruby_event *ev)
{
	struct rut_ruby_row row;

	if (!rut_tracee_rows_get(t, p, number, &row))
		return;
	ev->class_name = row.class_name;
	ev->method_name = row.method_name;
	ev->singleton = row.singleton;
	ev->path = row.path;
	ev->line = row.line;
	ev->is_c = rut_ruby_table_is_c(p, number);
}

static void keep_frames(struct rut_events *e, const struct rut_event_slow *rec)
{
	e->frames_tid = rec->c.tid;
	e->frame_count = rec->caller_count;
	memcpy(e->frames, rec->callers, rec->caller_count * sizeof(*e->frames));
}

/* `rows`: numbers, wherever they stand in a record. */
static void name_callers(struct rut_tracer *t, struct rut_tracee *p, const void *rows, size_t count,
			 struct rut_ruby_event *ev)
{
	static struct rut_ruby_event callers[RUT_EVENT_CALLERS];

	for (size_t i = 0; i < count; i++) {
		uint32_t row;

		memcpy(&row, (const char *)rows + i * sizeof(row), sizeof(row));
		callers[i] = (struct rut_ruby_event){.type = RUT_RUBY_EVENT_CALL};
		row_names(t, p, row, &callers[i]);
	}
	ev->callers = callers;
	ev->caller_count = count;
}

static void tell(struct rut_tracer *t, struct rut_tracee *p, const unsigned char *rec, size_t size,
		 struct rut_ruby_event *ev)
{
	const struct rut_event_slow *slow = (const void *)rec;

	switch (ev->type) {
	case RUT_RUBY_EVENT_HIT:
		ev->probe = slow->c.row;
		ev->duration_ns = ((const struct rut_event_hit *)rec)->duration_ns;
		ev->line = (uint32_t)((const struct rut_event_hit *)rec)->line;
		ev->texts = ((const struct rut_event_hit *)rec)->texts;
		ev->text_bytes = size - sizeof(struct rut_event_hit);
		break;
	case RUT_RUBY_EVENT_RAISE:
		ev->class_name = rut_ruby_table_string(t, p, slow->c.row);
		ev->path = rut_ruby_table_string(t, p, ((const struct rut_event_raise *)rec)->path);
		ev->line = ((const struct rut_event_raise *)rec)->line;
		break;
	case RUT_RUBY_EVENT_SLOW:
		row_names(t, p, slow->c.row, ev);
		ev->duration_ns = slow->duration_ns;
		name_callers(t, p, rec + sizeof(*slow), (size - sizeof(*slow)) / sizeof(uint32_t),
			     ev);
		break;
	case RUT_RUBY_EVENT_RETURN:
		ev->duration_ns = ((const struct rut_event_return *)rec)->duration_ns;
		row_names(t, p, slow->c.row, ev);
		break;
	default:
		row_names(t, p, slow->c.row, ev);
		break;
	}
	if (p->events->frame_count && p->events->frames_tid == slow->c.tid) {
		name_callers(t, p, p->events->frames, p->events->frame_count, ev);
		p->events->frame_count = 0;
	}
	if (t->on_event)
		t->on_event(ev, t->on_event_arg);
}

/* The size of the record and its type, or 0 when it makes no sense. */
static size_t measure(const unsigned char *rec, size_t room, struct rut_ruby_event *ev)
{
	const struct rut_event_common *c = (const void *)rec;
	const struct rut_event_slow *slow = (const void *)rec;
	size_t n;

	switch (c->header & 0xffff) {
	case RUT_EVENT_ID_CALL:
		ev->type = RUT_RUBY_EVENT_CALL;
		return sizeof(*c);
	case RUT_EVENT_ID_CALL_ARGS:
		ev->type = RUT_RUBY_EVENT_CALL;
		ev->args = (const char *)rec + sizeof(*c);
		n = strnlen(ev->args, room - sizeof(*c));
		return n < room - sizeof(*c) ? sizeof(*c) + n + 1 : 0;
	case RUT_EVENT_ID_RETURN:
		ev->type = RUT_RUBY_EVENT_RETURN;
		n = sizeof(struct rut_event_return);
		break;
	case RUT_EVENT_ID_RETURN_VALUE:
		ev->type = RUT_RUBY_EVENT_RETURN;
		n = sizeof(struct rut_event_return);
		if (room <= n)
			return 0;
		ev->value = (const char *)rec + n;
		n += strnlen(ev->value, room - n) + 1;
		break;
	case RUT_EVENT_ID_RAISE:
		ev->type = RUT_RUBY_EVENT_RAISE;
		n = sizeof(struct rut_event_raise);
		break;
	case RUT_EVENT_ID_SLOW:
	case RUT_EVENT_ID_FRAMES:
		ev->type = RUT_RUBY_EVENT_SLOW;
		if (room < sizeof(*slow) || slow->caller_count > RUT_EVENT_CALLERS)
			return 0;
		n = sizeof(*slow) + slow->caller_count * sizeof(uint32_t);
		break;
	case RUT_EVENT_ID_HIT:
		ev->type = RUT_RUBY_EVENT_HIT;
		n = sizeof(struct rut_event_hit);
		if (room < n)
			return 0;
		n += ((const struct rut_event_hit *)rec)->text_bytes;
		break;
	default:
		return 0;
	}
	return n <= room ? n : 0;
}

static void tell_next(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_events *e = p->events;
	const unsigned char *packet = packet_at(e, e->at), *rec = packet + e->off;
	size_t end = content_bytes(e, (const struct rut_packet *)packet), size;
	const struct rut_event_common *c = (const void *)rec;
	struct rut_ruby_event ev = {
		.pid = p->pid,
		.tid = (pid_t)c->tid,
		.time_ns = e->time_ns,
		.depth = c->depth,
		.fiber = c->fiber,
	};

	size = measure(rec, end - e->off, &ev);
	e->has = false;
	if (!size) {
		e->off = end; /* not ours: the rest of the packet cannot be read */
		return;
	}
	if ((c->header & 0xffff) == RUT_EVENT_ID_FRAMES)
		keep_frames(e, (const void *)rec);
	else
		tell(t, p, rec, size, &ev);
	e->off += size;
}

/* The process with the oldest record up to that time. */
static struct rut_tracee *find_first(struct rut_tracer *t, uint64_t until)
{
	struct rut_tracee *first = NULL;

	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];

		if (p->events && peek(t, p) && p->events->time_ns <= until &&
		    (!first || p->events->time_ns < first->events->time_ns))
			first = p;
	}
	return first;
}

static void tell_all(struct rut_tracer *t)
{
	for (size_t i = 0; i < t->count; i++)
		while (t->tracees[i]->events && peek(t, t->tracees[i]))
			tell_next(t, t->tracees[i]);
}

/*
 * Up to when all is told: a record that is being written keeps the ones before it in its packet. A
 * process that was killed there has no more to come. The positions, too, are memory of the
 * process: whatever it makes of them, all is told that is older than a record may take.
 */
static uint64_t complete_ns(struct rut_tracer *t, uint64_t now)
{
	uint64_t ret = now, now_ms = rut_now_ms();

	for (size_t i = 0; i < t->count; i++) {
		struct rut_events *e = t->tracees[i]->events;
		uint64_t pos, next;

		if (!e)
			continue;
		pos = __atomic_load_n(&e->ring.ctl->pos, __ATOMIC_ACQUIRE);
		next = __atomic_load_n(&e->ring.ctl->consumed, __ATOMIC_ACQUIRE) +
		       e->ring.subbuf_size;
		/* Is the oldest packet closed, and still there? */
		if (pos < next) {
			e->held_ms = 0;
			continue;
		}
		if (!e->held_ms)
			e->held_ms = now_ms;
		if (now_ms - e->held_ms < HELD_MS && e->told_ns < ret)
			ret = e->told_ns;
	}
	return now > BEHIND_NS && ret < now - BEHIND_NS ? now - BEHIND_NS : ret;
}

int rut_events_round(struct rut_tracer *t, struct rut_err *err)
{
	uint64_t now = rut_now_ns(), until = t->ending ? UINT64_MAX : now;
	struct rut_tracee *first;

	for (size_t i = 0; i < t->count; i++) {
		struct rut_events *e = t->tracees[i]->events;

		if (!e)
			continue;
		e->now_ns = now;
		rut_ring_flush(&e->ring);
		if (take_packets(e) < 0)
			return rut_err_set(err, ENOMEM, "out of memory");
	}
	if (t->config.mode == RUT_RUBY_SCRIPT) {
		tell_all(t);
		t->complete_ns = complete_ns(t, now);
	} else {
		while ((first = find_first(t, until)))
			tell_next(t, first);
	}
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->events)
			emit_lost(t, t->tracees[i], t->tracees[i]->events->ring.ctl->lost, now);
	return 0;
}

void rut_events_left(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_events *e = p->events;
	uint64_t pos, end, lost = 0;

	if (!e || t->config.mode == RUT_RUBY_RECORD)
		return;
	pos = __atomic_load_n(&e->ring.ctl->consumed, __ATOMIC_ACQUIRE);
	end = __atomic_load_n(&e->ring.ctl->pos, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < e->ring.count && pos < end; i++, pos += e->ring.subbuf_size)
		lost += rut_ring_packet_records(&e->ring, pos) + !i;
	rut_events_lost(t, p, lost, rut_now_ns());
}

/* Packets in the order in which they were written, the last one with the end that it has so far. */
static int take_memory(struct rut_events *e)
{
	const struct rut_ring *r = &e->ring;
	uint64_t pos = r->ctl->pos, mask = r->subbuf_size - 1;
	uint64_t last = (pos + mask) >> r->shift, first = last > r->count ? last - r->count : 0;

	e->queue = malloc((size_t)r->count * r->subbuf_size);
	if (!e->queue)
		return -ENOMEM;
	for (uint64_t i = first; i < last; i++) {
		struct rut_packet *p = (struct rut_packet *)packet_at(e, e->count);

		memcpy(p, r->data + ((i & (r->count - 1)) << r->shift), r->subbuf_size);
		if (p->magic != RUT_CTF_PACKET_MAGIC || p->packet_seq_num != i)
			continue;
		if (i == pos >> r->shift) {
			p->content_size = (pos & mask) * 8;
			p->events_discarded = r->ctl->lost;
			p->timestamp_end = p->timestamp_begin;
		}
		e->count++;
	}
	return 0;
}

int rut_events_tell_memory(struct rut_tracer *t, struct rut_tracee *p, struct rut_ring_ctl *ctl,
			   unsigned char *data, size_t bytes, struct rut_err *err)
{
	struct rut_events e = {0};
	int rc = rut_ring_open_ctl(&e.ring, ctl, data, bytes, err);

	if (rc < 0)
		return rc;
	rc = take_memory(&e);
	if (rc < 0)
		return rut_err_set(err, ENOMEM, "out of memory");
	p->events = &e;
	while (peek(t, p))
		tell_next(t, p);
	p->events = NULL;
	free(e.queue);
	return 0;
}

bool rut_events_busy(const struct rut_tracer *t)
{
	for (size_t i = 0; i < t->count; i++) {
		const struct rut_events *e = t->tracees[i]->events;

		if (e && e->ring.ctl->pos - e->ring.ctl->consumed > e->ring.subbuf_size)
			return true;
	}
	return false;
}
