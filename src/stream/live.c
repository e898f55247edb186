/* SPDX-License-Identifier: MIT */
#include "stream/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring/ring.h"
#include "stream/live_wire.h"
#include "stream/store_live.h"
#include "stream/wire.h"

enum { SESSIONS = 16 };		   /* of one viewer */
#define METADATA_PIECE (1u << 20)  /* bytes in one reply */
#define PACKET_MAX     (64u << 20) /* as of a producer's */

/* A stream that was announced to the viewer. */
struct seen {
	uint64_t session, number, trace;
	bool metadata;
	struct rut_store_file *file; /* a reference; NULL: none yet */
	size_t next;		     /* packet of that file */
	uint64_t sent;		     /* bytes of metadata */
	uint64_t told_ns;	     /* up to when the viewer knows that nothing came */
	bool ended;
};

struct rut_live_server {
	struct rut_store *store; /* borrowed */
	bool connected;
	uint64_t sessions[SESSIONS];
	size_t n_sessions;
	struct seen *streams; /* owned */
	size_t n_streams;
};

struct rut_live_server *rut_live_server_new(struct rut_store *store)
{
	struct rut_live_server *v = calloc(1, sizeof(*v));

	if (v)
		v->store = store;
	return v;
}

static void forget(struct rut_live_server *v, uint64_t session)
{
	size_t kept = 0;

	for (size_t i = 0; i < v->n_streams; i++)
		if (session && v->streams[i].session != session)
			v->streams[kept++] = v->streams[i];
		else
			rut_store_file_unref(v->streams[i].file);
	v->n_streams = kept;
}

void rut_live_server_free(struct rut_live_server *v)
{
	if (!v)
		return;
	forget(v, 0);
	free(v->streams);
	free(v);
}

uint64_t rut_live_server_oldest(const struct rut_live_server *v)
{
	uint64_t oldest = 0;

	for (size_t i = 0; i < v->n_streams; i++) {
		const struct rut_store_file *f = v->streams[i].file;

		if (f && f->closed && (!oldest || f->number < oldest))
			oldest = f->number;
	}
	return oldest;
}

uint64_t rut_live_server_size(const void *header)
{
	return rut_be64_at(header, 0);
}

static void put_text(struct rut_buf *out, const char *text, size_t size)
{
	const size_t len = strnlen(text, size - 1);

	rut_buf_add(out, text, len);
	for (size_t i = len; i < size; i++)
		rut_buf_putc(out, 0);
}

/* A number that follows in `out` is not known yet: it is put here later. */
static void set_be32(struct rut_buf *out, size_t at, uint32_t v)
{
	v = __builtin_bswap32(v);
	if (!out->failed)
		memcpy(out->data + at, &v, sizeof(v));
}

/* ---- sessions ---- */

struct list {
	struct rut_live_server *v;
	struct rut_buf *out;
	uint32_t count;
	uint64_t session;
};

static bool list_one(void *arg, const struct rut_store_live_session *s)
{
	struct list *l = arg;

	rut_be64_put(l->out, s->id);
	rut_be32_put(l->out, s->live_us ? s->live_us : 1);
	rut_be32_put(l->out, 0);
	rut_be32_put(l->out, s->streams);
	put_text(l->out, s->host, RUT_LIVE_HOST);
	put_text(l->out, s->name, RUT_LIVE_NAME);
	l->count++;
	return !l->out->failed;
}

static void do_list(struct rut_live_server *v, struct rut_buf *out)
{
	struct list l = {.v = v, .out = out};
	const size_t at = out->len;

	rut_be32_put(out, 0);
	rut_store_each_session(v->store, list_one, &l);
	set_be32(out, at, l.count);
}

static struct seen *find(struct rut_live_server *v, uint64_t number)
{
	for (size_t i = 0; i < v->n_streams; i++)
		if (v->streams[i].number == number)
			return &v->streams[i];
	return NULL;
}

/* Streams of one path are one trace: its number is the first one's. */
struct trace {
	const char *path;
	uint64_t number;
};

static bool is_least(void *arg, const struct rut_store_live_stream *s)
{
	struct trace *t = arg;

	if (!strcmp(s->path, t->path) && s->number < t->number)
		t->number = s->number;
	return true;
}

static bool add_stream(void *arg, const struct rut_store_live_stream *s)
{
	struct list *l = arg;
	struct trace trace = {s->path, s->number};
	struct seen *more;

	if (find(l->v, s->number))
		return true;
	more = reallocarray(l->v->streams, l->v->n_streams + 1, sizeof(*more));
	if (!more)
		return false;
	rut_store_each_stream(l->v->store, l->session, is_least, &trace);
	l->v->streams = more;
	more[l->v->n_streams++] =
		(struct seen){.session = l->session,
			      .number = s->number,
			      .trace = trace.number,
			      .metadata = s->metadata,
			      .file = s->file ? rut_store_file_ref(s->file) : NULL};
	rut_be64_put(l->out, s->number);
	rut_be64_put(l->out, trace.number);
	rut_be32_put(l->out, s->metadata);
	put_text(l->out, s->path, RUT_LIVE_PATH);
	put_text(l->out, s->channel, RUT_LIVE_NAME);
	l->count++;
	return !l->out->failed;
}

/* "STATUS COUNT STREAM...": those that were not announced to the viewer. */
static uint32_t put_streams(struct rut_live_server *v, uint64_t session, struct rut_buf *out)
{
	struct list l = {.v = v, .out = out, .session = session};
	const size_t at = out->len;

	rut_be32_put(out, RUT_LIVE_OK);
	rut_be32_put(out, 0);
	rut_store_each_stream(v->store, session, add_stream, &l);
	set_be32(out, at + 4, l.count);
	return l.count;
}

static bool is_attached(const struct rut_live_server *v, uint64_t session)
{
	for (size_t i = 0; i < v->n_sessions; i++)
		if (v->sessions[i] == session)
			return true;
	return false;
}

static void do_attach(struct rut_live_server *v, uint64_t session, uint32_t seek,
		      struct rut_buf *out)
{
	if (!rut_store_is_live(v->store, session) || v->n_sessions == SESSIONS ||
	    is_attached(v, session)) {
		rut_be32_put(out, RUT_LIVE_ATTACH_UNKNOWN);
		rut_be32_put(out, 0);
		return;
	}
	v->sessions[v->n_sessions++] = session;
	put_streams(v, session, out);
	for (size_t i = 0; i < v->n_streams && seek == RUT_LIVE_SEEK_LAST; i++)
		if (v->streams[i].session == session && v->streams[i].file)
			v->streams[i].next = v->streams[i].file->n;
}

static void do_detach(struct rut_live_server *v, uint64_t session, struct rut_buf *out)
{
	forget(v, session);
	for (size_t i = 0; i < v->n_sessions; i++)
		if (v->sessions[i] == session)
			v->sessions[i] = v->sessions[--v->n_sessions];
	rut_be32_put(out, RUT_LIVE_OK);
}

static void do_streams(struct rut_live_server *v, uint64_t session, struct rut_buf *out)
{
	const size_t at = out->len;
	uint32_t status = RUT_LIVE_OK;

	if (!is_attached(v, session))
		status = RUT_LIVE_STREAMS_ERR;
	else if (!rut_store_is_live(v->store, session))
		status = RUT_LIVE_STREAMS_CLOSED;
	else if (!put_streams(v, session, out))
		status = RUT_LIVE_STREAMS_NONE;
	else
		return;
	if (out->len == at) {
		rut_be32_put(out, 0);
		rut_be32_put(out, 0);
	}
	set_be32(out, at, status);
}

/* ---- what has come ---- */

struct look {
	uint64_t number, idle_ns;
	struct rut_store_file *file;
	bool found;
	uint32_t count;
};

static bool look_at(void *arg, const struct rut_store_live_stream *s)
{
	struct look *l = arg;

	l->count++;
	if (s->number != l->number)
		return true;
	l->found = true;
	l->file = s->file;
	l->idle_ns = s->idle_ns;
	return true;
}

/* Takes the file that the stream has by now, or the one of the next chunk. */
static struct look refresh(const struct rut_live_server *v, struct seen *s)
{
	struct look l = {.number = s->number};

	rut_store_each_stream(v->store, s->session, look_at, &l);
	if (!s->file && l.file)
		s->file = rut_store_file_ref(l.file);
	while (!s->metadata && s->file && s->next == s->file->n && s->file->next) {
		struct rut_store_file *next = rut_store_file_ref(s->file->next);

		rut_store_file_unref(s->file);
		s->file = next;
		s->next = 0;
	}
	return l;
}

/* Metadata is sent again with each chunk: what the viewer has is at its begin. */
static uint64_t unsent(struct seen *s)
{
	while (s->file && s->sent >= s->file->bytes && s->file->next &&
	       s->file->next->bytes >= s->sent) {
		struct rut_store_file *next = rut_store_file_ref(s->file->next);

		rut_store_file_unref(s->file);
		s->file = next;
	}
	return s->file && s->file->bytes > s->sent ? s->file->bytes - s->sent : 0;
}

static uint32_t flags_of(struct rut_live_server *v, const struct seen *of, uint32_t streams)
{
	uint32_t flags = 0, known = 0;

	for (size_t i = 0; i < v->n_streams; i++) {
		struct seen *s = &v->streams[i];

		if (s->session != of->session)
			continue;
		known++;
		if (s->metadata && s->trace == of->trace) {
			refresh(v, s);
			flags |= unsent(s) ? RUT_LIVE_FLAG_METADATA : 0;
		}
	}
	return flags | (streams > known ? RUT_LIVE_FLAG_STREAM : 0);
}

struct index {
	uint64_t at, packet_bits, content_bits, begin_ns, end_ns, discarded, class_id;
};

static void put_index(struct rut_buf *out, const struct index *i, uint32_t status, uint32_t flags)
{
	const uint64_t numbers[] = {i->at,     i->packet_bits, i->content_bits, i->begin_ns,
				    i->end_ns, i->discarded,   i->class_id};

	for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++)
		rut_be64_put(out, numbers[k]);
	rut_be32_put(out, status);
	rut_be32_put(out, flags);
}

/* The packets of rutile and LTTng begin alike. Returns false for others. */
static bool read_index(const struct seen *s, struct index *ret)
{
	const struct rut_store_place *p = &s->file->places[s->next];
	struct rut_packet head;

	if (p->len < sizeof(head) ||
	    pread(s->file->fd, &head, sizeof(head), (off_t)p->at) != (ssize_t)sizeof(head) ||
	    head.magic != RUT_CTF_PACKET_MAGIC)
		return false;
	*ret = (struct index){.at = p->at,
			      .packet_bits = (uint64_t)p->len * 8,
			      .content_bits = head.content_size,
			      .begin_ns = head.timestamp_begin,
			      .end_ns = head.timestamp_end,
			      .discarded = head.events_discarded,
			      .class_id = head.stream_id};
	return true;
}

static void do_index(struct rut_live_server *v, uint64_t number, struct rut_buf *out)
{
	struct seen *s = find(v, number);
	struct index index = {0};
	uint32_t flags;
	struct look l;

	if (!s || s->metadata) {
		put_index(out, &index, RUT_LIVE_INDEX_ERR, 0);
		return;
	}
	l = refresh(v, s);
	flags = flags_of(v, s, l.count);
	if (s->file && s->next < s->file->n) {
		bool known = read_index(s, &index);

		s->next++;
		s->told_ns = known ? index.end_ns : s->told_ns;
		put_index(out, &index, known ? RUT_LIVE_OK : RUT_LIVE_INDEX_ERR, flags);
	} else if (!l.found) {
		put_index(out, &index, RUT_LIVE_INDEX_HUP, flags);
	} else if (l.idle_ns > s->told_ns) {
		s->told_ns = index.end_ns = l.idle_ns;
		put_index(out, &index, RUT_LIVE_INDEX_INACTIVE, flags);
	} else {
		put_index(out, &index, RUT_LIVE_INDEX_RETRY, flags);
	}
}

/* ---- bytes ---- */

/* Appends bytes of a file. Returns false, with nothing appended, when they cannot be read. */
static bool put_bytes(struct rut_buf *out, int fd, uint64_t at, size_t len)
{
	size_t done = 0;

	if (rut_buf_reserve(out, len))
		return false;
	while (done < len) {
		ssize_t n = pread(fd, out->data + out->len + done, len - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	out->len += len;
	return true;
}

/* Only the packet that the last index has named, or a part of it. */
static void do_packet(struct rut_live_server *v, uint64_t number, uint64_t at, uint32_t len,
		      struct rut_buf *out)
{
	const struct seen *s = find(v, number);
	const struct rut_store_place *p =
		s && !s->metadata && s->file && s->next ? &s->file->places[s->next - 1] : NULL;
	const size_t begin = out->len;

	rut_be32_put(out, RUT_LIVE_OK);
	rut_be32_put(out, len);
	rut_be32_put(out, 0);
	if (p && len <= PACKET_MAX && at >= p->at && at - p->at <= p->len &&
	    len <= p->len - (at - p->at) && put_bytes(out, s->file->fd, at, len))
		return;
	set_be32(out, begin, RUT_LIVE_PACKET_ERR);
	set_be32(out, begin + 4, 0);
}

static void do_metadata(struct rut_live_server *v, uint64_t number, struct rut_buf *out)
{
	struct seen *s = find(v, number);
	const size_t begin = out->len;
	uint64_t len;

	if (s && s->metadata)
		refresh(v, s);
	len = s && s->metadata ? unsent(s) : 0;
	if (len > METADATA_PIECE)
		len = METADATA_PIECE;
	rut_be64_put(out, len);
	rut_be32_put(out, !s || !s->metadata ? RUT_LIVE_METADATA_ERR
			  : len		     ? RUT_LIVE_OK
					     : RUT_LIVE_METADATA_NONE);
	if (!len)
		return;
	if (put_bytes(out, s->file->fd, s->sent, (size_t)len)) {
		s->sent += len;
		return;
	}
	set_be32(out, begin, 0);
	set_be32(out, begin + 4, 0);
	set_be32(out, begin + 8, RUT_LIVE_METADATA_ERR);
}

/* ---- commands ---- */

static int do_connect(struct rut_live_server *v, const uint8_t *numbers, struct rut_buf *out)
{
	const uint32_t major = rut_be32_at(numbers, 8), minor = rut_be32_at(numbers, 12);

	rut_be64_put(out, 1);
	rut_be32_put(out, RUT_LIVE_MAJOR);
	rut_be32_put(out, minor < RUT_LIVE_MINOR ? minor : RUT_LIVE_MINOR);
	rut_be32_put(out, rut_be32_at(numbers, 16));
	v->connected = major == RUT_LIVE_MAJOR;
	return v->connected ? 0 : -EPROTONOSUPPORT;
}

/* Bytes of a command's numbers; 0: there is no such command. */
static size_t size_of(uint32_t command, bool *ret_none)
{
	static const uint8_t sizes[] = {
		[RUT_LIVE_CONNECT] = 20, [RUT_LIVE_ATTACH] = 20,  [RUT_LIVE_INDEX] = 8,
		[RUT_LIVE_PACKET] = 20,	 [RUT_LIVE_METADATA] = 8, [RUT_LIVE_STREAMS] = 8,
		[RUT_LIVE_DETACH] = 8};

	*ret_none = command == RUT_LIVE_LIST || command == RUT_LIVE_CREATE;
	return command < sizeof(sizes) ? sizes[command] : 0;
}

int rut_live_server_command(struct rut_live_server *v, const void *data, size_t len,
			    struct rut_buf *out)
{
	const uint8_t *numbers = (const uint8_t *)data + RUT_LIVE_HEADER;
	const uint32_t command = rut_be32_at(data, 8);
	uint64_t number = len >= RUT_LIVE_HEADER + 8 ? rut_be64_at(numbers, 0) : 0;
	bool none;
	size_t size = size_of(command, &none);

	if ((!size && !none) || len < RUT_LIVE_HEADER + size ||
	    (!v->connected && command != RUT_LIVE_CONNECT))
		return -EPROTO;
	switch ((enum rut_live_command)command) {
	case RUT_LIVE_CONNECT:
		return do_connect(v, numbers, out);
	case RUT_LIVE_LIST:
		do_list(v, out);
		break;
	case RUT_LIVE_ATTACH:
		do_attach(v, number, rut_be32_at(numbers, 16), out);
		break;
	case RUT_LIVE_INDEX:
		do_index(v, number, out);
		break;
	case RUT_LIVE_PACKET:
		do_packet(v, number, rut_be64_at(numbers, 8), rut_be32_at(numbers, 16), out);
		break;
	case RUT_LIVE_METADATA:
		do_metadata(v, number, out);
		break;
	case RUT_LIVE_STREAMS:
		do_streams(v, number, out);
		break;
	case RUT_LIVE_CREATE:
		rut_be32_put(out, RUT_LIVE_OK);
		break;
	case RUT_LIVE_DETACH:
		do_detach(v, number, out);
		break;
	}
	return out->failed ? -ENOMEM : 0;
}
