/* SPDX-License-Identifier: MIT */
/*
 * A sender's link to a relay daemon, in LTTng's protocol.
 *
 * The collector sees its own numbers of packets and lost events: packets without events are added
 * (at the begin of a connection and at the end of a chunk, so that every stream covers the whole
 * time), and the counts of several directories become one row.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "stream/added.h"
#include "stream/sender_internal.h"

#define LIVE_US	  1000000
#define BEACON_NS 500000000ull

static struct rut_stream_out *get_stream(struct rut_sender *s, const char *part,
					 const char *channel)
{
	struct rut_stream_out **end = &s->streams, *o;

	for (; *end; end = &(*end)->next)
		if (!strcmp((*end)->part, part) && !strcmp((*end)->channel, channel))
			return *end;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->part = strdup(part);
	o->channel = strdup(channel);
	o->metadata = !strcmp(channel, "metadata");
	if (!o->part || !o->channel) {
		free(o->part);
		free(o->channel);
		free(o);
		return NULL;
	}
	*end = o;
	return o;
}

/* ---- packets ---- */

static struct rut_relay_index index_of(const struct rut_stream_out *o, const struct rut_packet *p)
{
	return (struct rut_relay_index){
		.stream = o->handle,
		.seq = o->net_seq,
		.packet_bits = p->packet_size,
		.content_bits = p->content_size,
		.begin_ns = p->timestamp_begin,
		.end_ns = p->timestamp_end,
		.discarded = p->events_discarded,
		.class_id = p->stream_id,
		.instance_id = p->stream_instance_id,
		.packet_seq = p->packet_seq_num,
	};
}

static void packet_sent(struct rut_stream_out *o, const struct rut_packet *p)
{
	o->net_seq++;
	o->now.out_seq = p->packet_seq_num + 1;
	o->now.discarded = p->events_discarded;
	o->now.last_ns = p->timestamp_end;
	o->now.any = true;
}

/* A packet without events, up to `end_ns`. */
static int send_empty(struct rut_sender *s, struct rut_stream_out *o, uint64_t begin_ns,
		      uint64_t end_ns)
{
	struct rut_packet p = o->head;
	struct rut_relay_index index;
	int rc;

	p.timestamp_begin = o->now.last_ns > begin_ns ? o->now.last_ns : begin_ns;
	p.timestamp_end = end_ns > p.timestamp_begin ? end_ns : p.timestamp_begin;
	p.content_size = sizeof(p) * 8;
	p.packet_size = RUT_STREAM_PACKET * 8;
	p.packet_seq_num = o->now.out_seq;
	p.events_discarded = o->now.discarded;
	index = index_of(o, &p);
	rc = rut_relay_packet(
		s->relay, &index,
		&(struct rut_relay_content){
			.head = &p, .fd = -1, .padding = RUT_STREAM_PACKET - sizeof(p)});
	packet_sent(o, &p);
	return rc;
}

/* Changes what the file says to what the collector is to see. */
static void renumber(struct rut_stream_out *o, struct rut_stream_file *f, struct rut_packet *p)
{
	uint64_t gap;

	if (!f->sent)
		f->discarded_base = o->now.discarded;
	gap = o->now.in_seq && p->packet_seq_num > o->now.in_seq ? p->packet_seq_num - o->now.in_seq
								 : 0;
	o->now.in_seq = p->packet_seq_num + 1;
	p->packet_seq_num = o->now.out_seq + gap;
	p->events_discarded += f->discarded_base;
	if (p->timestamp_begin < o->now.last_ns)
		p->timestamp_begin = o->now.last_ns;
	if (p->timestamp_end < p->timestamp_begin)
		p->timestamp_end = p->timestamp_begin;
}

static int send_packet(struct rut_sender *s, struct rut_stream_file *f, struct rut_packet *p)
{
	struct rut_stream_out *o = f->stream;
	const size_t content = p->content_size / 8, whole = p->packet_size / 8;
	struct rut_relay_content c = {.head = p,
				      .fd = f->fd,
				      .at = f->sent + (off_t)sizeof(*p),
				      .len = content - sizeof(*p),
				      .padding = (uint32_t)(whole - content)};
	struct rut_relay_index index;
	int rc = 0;

	if (!o || !o->open)
		return 1;
	if (f->fd < 0) {
		const unsigned char *data = rut_sender_held(s, f, content);

		if (!data)
			return -EIO;
		c.data = data + sizeof(*p);
	}
	if (!o->head.magic)
		o->head = *p;
	/* After a break: what is lost between the two traces is the difference to this. */
	if (!o->net_seq && o->now.any)
		rc = send_empty(s, o, o->now.last_ns, o->now.last_ns);
	renumber(o, f, p);
	index = index_of(o, p);
	if (!rc)
		rc = rut_relay_packet(s->relay, &index, &c);
	packet_sent(o, p);
	return rc;
}

/* ---- streams of a connection ---- */

static int open_stream(struct rut_sender *s, struct rut_stream_out *o, struct rut_err *err)
{
	int rc = rut_relay_add(s->relay, o->part, o->channel, &o->handle, err);

	o->open = !rc;
	o->net_seq = 0;
	return rc;
}

/*
 * Sends what metadata the collector lacks. It can only be continued: text that is another one
 * waits for the next chunk. Takes the text.
 */
static int send_metadata(struct rut_sender *s, struct rut_stream_out *o, char *text, size_t len,
			 struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf more = RUT_BUF_INIT, packets = RUT_BUF_INIT;
	int rc = rut_metadata_added(o->text, o->text_len, text, len, &more);

	if (rc == -EINVAL && !s->said_metadata) {
		rut_warn("%s: the metadata of '%s' changed; the collector gets it with the next "
			 "trace chunk: rotate ('rutile rotate', --every) to send it",
			 s->to, o->part);
		s->said_metadata = true;
	}
	if (!rc) {
		rut_metadata_packets(text, len, more.data, more.len, &packets);
		rc = packets.failed
			     ? -ENOMEM
			     : rut_relay_metadata(s->relay, o->handle, packets.data, packets.len);
	}
	if (rc) {
		free(text);
		return rc == -EINVAL ? 0 : rut_err_errno(err, -rc, "cannot send the metadata");
	}
	free(o->text);
	o->text = text;
	o->text_len = len;
	return 0;
}

static int update_metadata(struct rut_sender *s, const struct rut_stream_part *p,
			   struct rut_err *err)
{
	struct rut_stream_out *o = get_stream(s, p->name, "metadata");
	_cleanup_free_ char *text = NULL;
	uint32_t generation = 0;
	size_t len = 0;
	int rc;

	if (!o)
		return rut_err_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&s->lock);
	if (p->text && (!o->open || p->generation != o->generation)) {
		text = malloc(p->text_len);
		len = p->text_len;
		generation = p->generation;
		if (text)
			memcpy(text, p->text, len);
	}
	pthread_mutex_unlock(&s->lock);
	if (!text)
		return 0;
	rc = o->open ? 0 : open_stream(s, o, err);
	if (!rc)
		rc = send_metadata(s, o, RUT_TAKE(text), len, err);
	if (!rc)
		o->generation = generation;
	return rc;
}

/* The streams of all CPUs are there from the begin: a live viewer wants none from the past. */
static int open_cpus(struct rut_sender *s, const struct rut_chunk *c, struct rut_err *err)
{
	int rc = 0;

	for (int cpu = 0; cpu < s->ncpus && !rc; cpu++) {
		struct rut_stream_out *o;
		char name[32];

		snprintf(name, sizeof(name), "kernel_%d", cpu);
		o = get_stream(s, "kernel", name);
		if (!o)
			return rut_err_set(err, ENOMEM, "out of memory");
		if (!o->head.magic) {
			o->head = (struct rut_packet){.magic = RUT_CTF_PACKET_MAGIC,
						      .stream_instance_id = (uint64_t)cpu,
						      .cpu_id = (uint32_t)cpu};
			memcpy(o->head.uuid, s->packet_uuid, sizeof(o->head.uuid));
		}
		rc = open_stream(s, o, err);
		if (!rc)
			rc = send_empty(s, o, c->begin_ns + cpu, c->begin_ns + cpu);
	}
	return rc;
}

/* Sends the metadata of all parts. */
static int open_parts(struct rut_sender *s, const struct rut_chunk *c, struct rut_err *err)
{
	struct rut_stream_part *p;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	p = c->parts;
	while (p && !rc) {
		pthread_mutex_unlock(&s->lock);
		rc = update_metadata(s, p, err);
		pthread_mutex_lock(&s->lock);
		p = p->next;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* Finds the parts and opens the streams that are new. The list may grow meanwhile, at its end. */
static int open_streams(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	bool added = false;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	for (struct rut_stream_part *p = c->parts; p && !rc; p = p->next) {
		pthread_mutex_unlock(&s->lock);
		rc = update_metadata(s, p, err);
		pthread_mutex_lock(&s->lock);
		for (struct rut_stream_file *f = p->files; f && !rc; f = f->next) {
			struct rut_stream_out *o = get_stream(s, p->name, f->name);

			if (!o) {
				rc = rut_err_set(err, ENOMEM, "out of memory");
				break;
			}
			f->stream = o;
			if (o->open || !f->size)
				continue;
			pthread_mutex_unlock(&s->lock);
			rc = open_stream(s, o, err);
			added = true;
			pthread_mutex_lock(&s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return rc || !added ? rc : rut_relay_publish(s->relay, err);
}

/* ---- a connection ---- */

static void rewind_streams(struct rut_sender *s)
{
	for (struct rut_stream_out *o = s->streams; o; o = o->next) {
		o->now = o->safe;
		o->open = false;
		o->text_len = 0;
		o->generation = 0;
		o->net_seq = 0;
	}
}

static void close_relay(struct rut_sender *s)
{
	struct rut_relay *r = s->relay;

	pthread_mutex_lock(&s->lock);
	s->relay = NULL;
	pthread_mutex_unlock(&s->lock);
	rut_relay_free(r);
	rewind_streams(s);
}

static void set_relay(struct rut_sender *s, struct rut_relay *r)
{
	pthread_mutex_lock(&s->lock);
	s->relay = r;
	snprintf(s->stats.path, sizeof(s->stats.path), "%s", rut_relay_path(r));
	s->no_clear = !rut_relay_clearable(r);
	if (s->cancelled)
		rut_relay_abort(r);
	pthread_mutex_unlock(&s->lock);
}

static int open_relay(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	struct rut_relay_conf conf = {
		.url = &s->url,
		.tls = s->tls,
		.session = s->session,
		.host = s->host,
		.id = s->stats.connects + 1,
		.live_us = LIVE_US,
		.timeout_ms = RUT_SENDER_TIMEOUT_MS,
	};
	struct rut_relay *r = NULL;
	int rc;

	memcpy(conf.uuid, s->uuid, sizeof(conf.uuid));
	rc = rut_relay_open(&r, &conf, err);
	if (rc)
		return rc;
	set_relay(s, r);
	/* The metadata comes first: viewers want it before they see streams. */
	rc = open_parts(s, c, err);
	if (!rc)
		rc = open_cpus(s, c, err);
	if (!rc)
		rc = open_streams(s, c, err);
	if (!rc)
		rc = rut_relay_publish(r, err);
	return rc;
}

static int confirm(struct rut_sender *s, struct rut_err *err)
{
	struct rut_relay_sent *sent;
	size_t n = 0;
	int rc;

	for (const struct rut_stream_out *o = s->streams; o; o = o->next)
		n += o->open && o->net_seq;
	sent = calloc(n + 1, sizeof(*sent));
	if (!sent)
		return rut_err_set(err, ENOMEM, "out of memory");
	n = 0;
	for (const struct rut_stream_out *o = s->streams; o; o = o->next)
		if (o->open && o->net_seq && o->now.out_seq != o->safe.out_seq)
			sent[n++] = (struct rut_relay_sent){o->handle, o->net_seq - 1};
	rc = rut_relay_confirm(s->relay, sent, n, err);
	free(sent);
	for (struct rut_stream_out *o = s->streams; o && !rc; o = o->next)
		o->safe = o->now;
	return rc;
}

/* Idle streams: nothing will come that is older. */
static void send_beacons(struct rut_sender *s, uint64_t complete_ns, uint64_t beside_ns)
{
	uint64_t now = rut_now_ns(), n = 0;

	if (now - s->beacon_ns < BEACON_NS)
		return;
	s->beacon_ns = now;
	/* Each has a time of its own: viewers warn of messages that they cannot order. */
	for (struct rut_stream_out *o = s->streams; o; o = o->next, n++) {
		uint64_t ns = (strncmp(o->part, "ruby-", 5) ? complete_ns : beside_ns) + n;

		if (o->open && !o->metadata && o->net_seq && ns > o->now.last_ns) {
			rut_relay_beacon(s->relay, o->handle, o->head.stream_id, ns);
			o->now.last_ns = ns;
		}
	}
}

/* Every CPU's stream covers the whole time of the chunk. */
static int end_streams(struct rut_sender *s, const struct rut_chunk *c, struct rut_err *err)
{
	int rc = 0;

	for (struct rut_stream_out *o = s->streams; o && !rc; o = o->next)
		if (o->open && !strcmp(o->part, "kernel") && o->net_seq &&
		    o->now.last_ns < c->end_ns)
			rc = send_empty(s, o, o->now.last_ns, c->end_ns);
	return rc ? rut_err_errno(err, -rc, "the connection to the collector broke")
		  : confirm(s, err);
}

static int rotate(struct rut_sender *s, bool clear, struct rut_err *err)
{
	struct rut_relay_position *at;
	uint32_t n = 0;
	int rc;

	for (const struct rut_stream_out *o = s->streams; o; o = o->next)
		n += o->open;
	at = calloc(n + 1, sizeof(*at));
	if (!at)
		return rut_err_set(err, ENOMEM, "out of memory");
	n = 0;
	for (struct rut_stream_out *o = s->streams; o; o = o->next) {
		if (!o->open)
			continue;
		at[n++] = (struct rut_relay_position){o->handle, o->now.out_seq};
		o->text_len = 0;
		o->generation = 0;
	}
	rc = (clear ? rut_relay_clear : rut_relay_rotate)(s->relay, at, n, err);
	free(at);
	return rc;
}

static int finish(struct rut_sender *s, struct rut_err *err)
{
	struct rut_relay_sent *sent;
	size_t n = 0;
	int rc;

	for (const struct rut_stream_out *o = s->streams; o; o = o->next)
		n += o->open;
	sent = calloc(n + 1, sizeof(*sent));
	if (!sent)
		return rut_err_set(err, ENOMEM, "out of memory");
	n = 0;
	for (const struct rut_stream_out *o = s->streams; o; o = o->next)
		if (o->open)
			sent[n++] = (struct rut_relay_sent){o->handle, o->net_seq - 1};
	rc = rut_relay_finish(s->relay, sent, n, err);
	free(sent);
	return rc;
}

static int end_chunk(struct rut_sender *s, struct rut_chunk *c, const struct rut_chunk *next,
		     struct rut_err *err)
{
	int rc = end_streams(s, c, err);

	if (rc)
		return rc;
	return next ? rotate(s, false, err) : finish(s, err);
}

static int clear_chunk(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err)
{
	int rc = end_streams(s, c, err);

	return rc ? rc : rotate(s, true, err);
}

static uint64_t queued(const struct rut_sender *s)
{
	return s->relay ? rut_relay_queued(s->relay) : 0;
}

static void abort_relay(const struct rut_sender *s)
{
	if (s->relay)
		rut_relay_abort(s->relay);
}

static int probe(const struct rut_sender *s, struct rut_err *err)
{
	const struct rut_relay_conf conf = {
		.url = &s->url, .tls = s->tls, .timeout_ms = RUT_SENDER_PROBE_MS};

	return rut_relay_probe(&conf, err);
}

const struct rut_sender_link rut_sender_relay = {
	.probe = probe,
	.open = open_relay,
	.update = open_streams,
	.packet = send_packet,
	.idle = send_beacons,
	.confirm = confirm,
	.end = end_chunk,
	.clear = clear_chunk,
	.close = close_relay,
	.queued = queued,
	.abort = abort_relay,
};
