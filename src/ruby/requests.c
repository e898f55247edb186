/* SPDX-License-Identifier: MIT */
/*
 * Each round closes the packet that a process is writing and reads every packet that is finished.
 * What is in a ring is another process's: sizes and strings are checked before they are used, and a
 * packet is copied first, so that it does not change meanwhile.
 */
#include "ruby/requests.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/record.h"
#include "base/cleanup.h"
#include "ring/read.h"
#include "ruby/events.h"
#include "ruby/requests_out.h"
#include "ruby/rows.h"

struct reader {
	struct rut_tracer *t;
	struct rut_tracee *p;
	const unsigned char *at, *end; /* of the packet */
	uint64_t time_ns;
	pid_t tid; /* as the last SWITCH says; 0: none has come yet */
	uint32_t fiber;
};

/* The name of a kind or layer. */
static const char *name_of(const struct reader *r, uint32_t number)
{
	struct rut_ruby_row row;

	if (!rut_tracee_rows_get(r->t, r->p, number, &row) || !row.class_name)
		return "?";
	return row.class_name;
}

/* The next text of the record; NULL: it does not end in the packet. */
static const char *text(struct reader *r)
{
	const char *s = (const char *)r->at;
	const unsigned char *end = memchr(r->at, 0, (size_t)(r->end - r->at));

	if (!end)
		return NULL;
	r->at = end + 1;
	return s;
}

static bool texts(struct reader *r, const char **const *to, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		*to[i] = text(r);
		if (!*to[i])
			return false;
	}
	return true;
}

static bool request_begin(struct reader *r, struct rut_ruby_request *ev)
{
	const char **const to[] = {&ev->verb, &ev->path, &ev->traceparent, &ev->request_id};
	struct rut_record_request rec;

	memcpy(&rec, r->at, sizeof(rec));
	r->at += sizeof(rec);
	ev->id = rec.id;
	ev->kind = name_of(r, rec.kind);
	return texts(r, to, 4);
}

static bool request_end(struct reader *r, struct rut_ruby_request *ev)
{
	const char **const to[] = {&ev->verb,	     &ev->path,	      &ev->route,
				   &ev->traceparent, &ev->request_id, &ev->error};
	struct rut_record_request_end rec;

	memcpy(&rec, r->at, sizeof(rec));
	r->at += sizeof(rec);
	ev->id = rec.id;
	ev->kind = name_of(r, rec.kind);
	ev->status = rec.status;
	ev->bytes = rec.bytes;
	return texts(r, to, 6);
}

static bool span_begin(struct reader *r, struct rut_ruby_request *ev)
{
	const char **const to[] = {&ev->detail};
	struct rut_record_span rec;

	memcpy(&rec, r->at, sizeof(rec));
	r->at += sizeof(rec);
	ev->kind = name_of(r, rec.layer);
	ev->depth = rec.depth;
	return texts(r, to, 1);
}

static bool span_end(struct reader *r, struct rut_ruby_request *ev)
{
	const char **const to[] = {&ev->detail, &ev->error};
	struct rut_record_span_end rec;

	memcpy(&rec, r->at, sizeof(rec));
	r->at += sizeof(rec);
	ev->kind = name_of(r, rec.layer);
	ev->depth = rec.depth;
	return texts(r, to, 2);
}

static const struct {
	uint16_t id;
	enum rut_ruby_request_what what;
	size_t bytes; /* without its texts */
	bool (*read)(struct reader *r, struct rut_ruby_request *ev);
} kinds[] = {
	{RUT_RECORD_REQUEST_BEGIN, RUT_RUBY_REQUEST_BEGIN, sizeof(struct rut_record_request),
	 request_begin},
	{RUT_RECORD_REQUEST_END, RUT_RUBY_REQUEST_END, sizeof(struct rut_record_request_end),
	 request_end},
	{RUT_RECORD_SPAN_BEGIN, RUT_RUBY_SPAN_BEGIN, sizeof(struct rut_record_span), span_begin},
	{RUT_RECORD_SPAN_END, RUT_RUBY_SPAN_END, sizeof(struct rut_record_span_end), span_end},
};

/* One record. False: the rest of the packet cannot be read. */
static bool record(struct reader *r)
{
	struct rut_ruby_request ev = {.pid = r->p->pid,
				      .tid = r->tid,
				      .fiber = r->fiber,
				      .bytes = -1,
				      .kind = "",
				      .verb = "",
				      .path = "",
				      .route = "",
				      .traceparent = "",
				      .request_id = "",
				      .error = "",
				      .detail = ""};
	size_t room = (size_t)(r->end - r->at);
	struct rut_record_switch sw;
	uint64_t header, low;

	memcpy(&header, r->at, sizeof(header));
	/* 48 bits of the time: what came before has the rest. */
	low = header >> 16;
	ev.time_ns = (r->time_ns & ~0xffffffffffffull) | low;
	if (ev.time_ns + (1ull << 47) < r->time_ns)
		ev.time_ns += 1ull << 48;
	r->time_ns = ev.time_ns;
	if ((header & 0xffff) == RUT_RECORD_SWITCH && room >= sizeof(sw)) {
		memcpy(&sw, r->at, sizeof(sw));
		r->tid = (pid_t)sw.tid;
		r->fiber = sw.fiber;
		r->at += sizeof(sw);
		return true;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if ((header & 0xffff) != kinds[i].id || room < kinds[i].bytes)
			continue;
		ev.what = kinds[i].what;
		if (!kinds[i].read(r, &ev))
			return false;
		r->t->on_request(&ev, r->t->on_request_arg);
		return true;
	}
	return false;
}

static void packet(struct rut_tracer *t, struct rut_tracee *p, const unsigned char *data,
		   uint64_t bytes)
{
	struct rut_packet head;
	struct reader r = {.t = t, .p = p, .tid = p->request_tid, .fiber = p->request_fiber};
	uint64_t content;

	memcpy(&head, data, sizeof(head));
	content = head.content_size / 8;
	if (head.magic != RUT_CTF_PACKET_MAGIC || content < sizeof(head) || content > bytes)
		return;
	r.at = data + sizeof(head);
	r.end = data + content;
	r.time_ns = head.timestamp_begin;
	while (r.end - r.at >= (ptrdiff_t)sizeof(uint64_t) && record(&r))
		;
	/* A packet may begin without a SWITCH (docs/ruby-events.md). */
	p->request_tid = r.tid;
	p->request_fiber = r.fiber;
}

/* What a finished packet takes, as it says. The process may change it at any time: it is read once.
 */
static uint64_t packet_bytes(const struct rut_ring *ring, const unsigned char *packet)
{
	const uint64_t *bits =
		(const void *)(packet + offsetof(struct rut_packet, content_size)); /* aligned */
	uint64_t bytes = __atomic_load_n(bits, __ATOMIC_RELAXED) / 8;

	return bytes < sizeof(struct rut_packet) || bytes > ring->subbuf_size ? ring->subbuf_size
									      : bytes;
}

static void drain(struct rut_tracer *t, struct rut_tracee *p)
{
	const struct rut_ring *ring = rut_events_ring(p);
	uint64_t pos = __atomic_load_n(&ring->ctl->consumed, __ATOMIC_ACQUIRE), lost;
	const unsigned char *next;
	uint32_t n = 0;

	rut_ring_flush(ring);
	/* No more than it can hold: what it says of its positions may be untrue. */
	while (n++ < ring->count && (next = rut_ring_next(ring, &pos))) {
		/* A round is short, so most of a sub-buffer is empty. */
		uint64_t bytes = packet_bytes(ring, next);
		_cleanup_free_ unsigned char *copy = malloc(bytes);

		if (!copy)
			return;
		memcpy(copy, next, bytes);
		pos += ring->subbuf_size;
		rut_ring_release(ring, pos);
		packet(t, p, copy, bytes);
	}
	lost = __atomic_load_n(&ring->ctl->lost, __ATOMIC_RELAXED);
	if (lost > p->lost_told) {
		struct rut_ruby_request ev = {
			.what = RUT_RUBY_REQUESTS_LOST, .pid = p->pid, .lost = lost - p->lost_told};

		p->lost_told = lost;
		t->on_request(&ev, t->on_request_arg);
	}
}

void rut_requests_round(struct rut_tracer *t)
{
	for (size_t i = 0; t->on_request && i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];

		if (p->events)
			drain(t, p);
		if (p->exited && p->events)
			rut_requests_last(t, p);
	}
}

void rut_requests_last(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_ruby_request ev = {.what = RUT_RUBY_REQUESTS_OVER, .pid = p->pid};

	if (!t->on_request || !p->events || p->requests_over)
		return;
	drain(t, p);
	p->requests_over = true;
	t->on_request(&ev, t->on_request_arg);
}

void rut_tracer_on_request(struct rut_tracer *t, rut_ruby_request_fn fn, void *arg)
{
	t->on_request = fn;
	t->on_request_arg = arg;
}
