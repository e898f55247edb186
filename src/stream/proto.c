/* SPDX-License-Identifier: MIT */
#include "stream/proto.h"

#include <errno.h>
#include <string.h>

#include "stream/wire.h"

/*
 * Padding of the optional chunk number in ROTATE_STREAMS. The protocol's own declaration was not
 * packed at first, so peers of different architectures send it with 0, 3 or 7 bytes of padding; a
 * receiver distinguishes them by the payload's size.
 */
#define ROTATE_PADDING 7
#define POSITION_BYTES 16

/* ---- primitives ---- */

static void put_u8(struct rut_buf *b, uint8_t v)
{
	rut_buf_add(b, &v, 1);
}

/* What is left of a payload. After a read beyond its end everything reads as 0. */
struct in {
	const uint8_t *data;
	size_t left;
	bool bad;
};

static const uint8_t *take(struct in *in, size_t n)
{
	const uint8_t *p = in->data;

	if (n > in->left) {
		in->bad = true;
		in->left = 0;
		return NULL;
	}
	in->data += n;
	in->left -= n;
	return p;
}

static uint8_t get_u8(struct in *in)
{
	const uint8_t *p = take(in, 1);

	return p ? *p : 0;
}

static uint32_t get_u32(struct in *in)
{
	const uint8_t *p = take(in, 4);

	return p ? rut_be32_at(p, 0) : 0;
}

static uint64_t get_u64(struct in *in)
{
	const uint8_t *p = take(in, 8);

	return p ? rut_be64_at(p, 0) : 0;
}

/* A text of `len` bytes, of which the last is its only NUL. A length of 0 is an empty text. */
static const char *get_text(struct in *in, uint32_t len)
{
	const uint8_t *p = take(in, len);

	if (p && len && memchr(p, 0, len) == p + len - 1)
		return (const char *)p;
	in->bad |= len != 0;
	return "";
}

static int done(const struct in *in)
{
	return in->bad ? -EPROTO : 0;
}

static uint32_t text_len(const char *s)
{
	return (uint32_t)strlen(s) + 1;
}

static void put_text(struct rut_buf *b, const char *s)
{
	rut_buf_add(b, s, strlen(s) + 1);
}

/* ---- headers ---- */

void rut_relay_put_header(struct rut_buf *b, enum rut_relay_command command, uint64_t size)
{
	rut_be64_put(b, 0); /* a circuit that nothing uses */
	rut_be64_put(b, size);
	rut_be32_put(b, command);
	rut_be32_put(b, 0); /* the command's version, always 0 */
}

void rut_relay_get_header(const void *data, struct rut_relay_header *ret)
{
	ret->size = rut_be64_at(data, 8);
	ret->command = rut_be32_at(data, 16);
}

void rut_relay_put_data(struct rut_buf *b, const struct rut_relay_data *d)
{
	rut_be64_put(b, 0);
	rut_be64_put(b, d->stream);
	rut_be64_put(b, d->seq);
	rut_be32_put(b, d->size);
	rut_be32_put(b, d->padding);
}

void rut_relay_get_data(const void *data, struct rut_relay_data *ret)
{
	*ret = (struct rut_relay_data){
		.stream = rut_be64_at(data, 8),
		.seq = rut_be64_at(data, 16),
		.size = rut_be32_at(data, 24),
		.padding = rut_be32_at(data, 28),
	};
}

/* ---- commands ---- */

void rut_relay_put_version(struct rut_buf *b, uint32_t major, uint32_t minor)
{
	rut_relay_put_header(b, RUT_RELAY_VERSION, 8);
	rut_relay_put_version_reply(b, major, minor);
}

int rut_relay_get_version(const void *data, size_t len, uint32_t *ret_major, uint32_t *ret_minor)
{
	struct in in = {data, len, false};

	*ret_major = get_u32(&in);
	*ret_minor = get_u32(&in);
	return done(&in);
}

void rut_relay_put_session(struct rut_buf *b, uint32_t minor, const struct rut_relay_session *s)
{
	uint32_t name = text_len(s->name), host = text_len(s->host), base = text_len(s->base_path);
	const bool format = minor >= 15;

	rut_relay_put_header(b, RUT_RELAY_CREATE_SESSION,
			     59 + (format ? 4 : 0) + (uint64_t)name + host + base);
	rut_be32_put(b, name);
	rut_be32_put(b, host);
	rut_be32_put(b, base);
	rut_be32_put(b, s->live_us);
	put_u8(b, s->snapshot);
	put_u8(b, s->name_has_time);
	rut_buf_add(b, s->uuid, sizeof(s->uuid));
	rut_be64_put(b, s->id);
	rut_be64_put(b, s->created_s);
	put_u8(b, s->has_chunk);
	rut_be64_put(b, s->chunk);
	if (format)
		rut_be32_put(b, s->format);
	put_text(b, s->name);
	put_text(b, s->host);
	put_text(b, s->base_path);
}

int rut_relay_get_session(const void *data, size_t len, uint32_t minor,
			  struct rut_relay_session *ret)
{
	struct in in = {data, len, false};
	uint32_t name = get_u32(&in), host = get_u32(&in), base = get_u32(&in);
	const uint8_t *uuid;

	*ret = (struct rut_relay_session){.live_us = get_u32(&in)};
	ret->snapshot = get_u8(&in);
	ret->name_has_time = get_u8(&in);
	uuid = take(&in, sizeof(ret->uuid));
	if (uuid)
		memcpy(ret->uuid, uuid, sizeof(ret->uuid));
	ret->id = get_u64(&in);
	ret->created_s = get_u64(&in);
	ret->has_chunk = get_u8(&in);
	ret->chunk = get_u64(&in);
	if (minor >= 15)
		ret->format = get_u32(&in);
	ret->name = get_text(&in, name);
	ret->host = get_text(&in, host);
	ret->base_path = get_text(&in, base);
	return done(&in);
}

void rut_relay_put_stream(struct rut_buf *b, const struct rut_relay_stream *s)
{
	uint32_t channel = text_len(s->channel), path = text_len(s->path);

	rut_relay_put_header(b, RUT_RELAY_ADD_STREAM, 32 + (uint64_t)channel + path);
	rut_be32_put(b, channel);
	rut_be32_put(b, path);
	rut_be64_put(b, s->file_bytes);
	rut_be64_put(b, s->file_count);
	rut_be64_put(b, s->chunk);
	put_text(b, s->channel);
	put_text(b, s->path);
}

int rut_relay_get_stream(const void *data, size_t len, struct rut_relay_stream *ret)
{
	struct in in = {data, len, false};
	uint32_t channel = get_u32(&in), path = get_u32(&in);

	ret->file_bytes = get_u64(&in);
	ret->file_count = get_u64(&in);
	ret->chunk = get_u64(&in);
	ret->channel = get_text(&in, channel);
	ret->path = get_text(&in, path);
	return done(&in);
}

void rut_relay_put_metadata(struct rut_buf *b, const struct rut_relay_metadata *m)
{
	rut_relay_put_header(b, RUT_RELAY_SEND_METADATA, 12 + (uint64_t)m->len);
	rut_be64_put(b, m->stream);
	rut_be32_put(b, m->padding);
	rut_buf_add(b, m->text, m->len);
}

int rut_relay_get_metadata(const void *data, size_t len, struct rut_relay_metadata *ret)
{
	struct in in = {data, len, false};

	ret->stream = get_u64(&in);
	ret->padding = get_u32(&in);
	ret->text = in.data;
	ret->len = in.left;
	return done(&in);
}

void rut_relay_put_index(struct rut_buf *b, const struct rut_relay_index *i)
{
	rut_relay_put_header(b, RUT_RELAY_SEND_INDEX, 80);
	rut_be64_put(b, i->stream);
	rut_be64_put(b, i->seq);
	rut_be64_put(b, i->packet_bits);
	rut_be64_put(b, i->content_bits);
	rut_be64_put(b, i->begin_ns);
	rut_be64_put(b, i->end_ns);
	rut_be64_put(b, i->discarded);
	rut_be64_put(b, i->class_id);
	rut_be64_put(b, i->instance_id);
	rut_be64_put(b, i->packet_seq);
}

int rut_relay_get_index(const void *data, size_t len, struct rut_relay_index *ret)
{
	struct in in = {data, len, false};

	ret->stream = get_u64(&in);
	ret->seq = get_u64(&in);
	ret->packet_bits = get_u64(&in);
	ret->content_bits = get_u64(&in);
	ret->begin_ns = get_u64(&in);
	ret->end_ns = get_u64(&in);
	ret->discarded = get_u64(&in);
	ret->class_id = get_u64(&in);
	ret->instance_id = get_u64(&in);
	ret->packet_seq = get_u64(&in);
	return done(&in);
}

void rut_relay_put_pair(struct rut_buf *b, enum rut_relay_command command, uint64_t stream,
			uint64_t number)
{
	rut_relay_put_header(b, command, 16);
	rut_be64_put(b, stream);
	rut_be64_put(b, number);
}

int rut_relay_get_pair(const void *data, size_t len, uint64_t *ret_stream, uint64_t *ret_number)
{
	struct in in = {data, len, false};

	*ret_stream = get_u64(&in);
	*ret_number = get_u64(&in);
	return done(&in);
}

void rut_relay_put_number(struct rut_buf *b, enum rut_relay_command command, uint64_t number)
{
	rut_relay_put_header(b, command, 8);
	rut_be64_put(b, number);
}

int rut_relay_get_number(const void *data, size_t len, uint64_t *ret)
{
	struct in in = {data, len, false};

	*ret = get_u64(&in);
	return done(&in);
}

void rut_relay_put_rotation(struct rut_buf *b, uint64_t chunk,
			    const struct rut_relay_position *positions, uint32_t count)
{
	static const char zeros[ROTATE_PADDING];

	rut_relay_put_header(b, RUT_RELAY_ROTATE_STREAMS,
			     4 + 1 + ROTATE_PADDING + 8 + (uint64_t)count * POSITION_BYTES);
	rut_be32_put(b, count);
	put_u8(b, 1);
	rut_buf_add(b, zeros, sizeof(zeros));
	rut_be64_put(b, chunk);
	for (uint32_t i = 0; i < count; i++) {
		rut_be64_put(b, positions[i].stream);
		rut_be64_put(b, positions[i].seq);
	}
}

int rut_relay_get_rotation(const void *data, size_t len, struct rut_relay_rotation *ret)
{
	struct in in = {data, len, false};
	size_t head;

	ret->count = get_u32(&in);
	ret->has_chunk = get_u8(&in);
	if (in.bad || ret->count > RUT_RELAY_POSITIONS || len < (size_t)ret->count * POSITION_BYTES)
		return -EPROTO;
	head = len - (size_t)ret->count * POSITION_BYTES;
	if (head != 13 && head != 16 && head != 20)
		return -EPROTO;
	take(&in, head - 13);
	ret->chunk = get_u64(&in);
	ret->positions = in.data;
	return done(&in);
}

void rut_relay_get_position(const struct rut_relay_rotation *r, uint32_t i,
			    struct rut_relay_position *ret)
{
	ret->stream = rut_be64_at(r->positions, (size_t)i * POSITION_BYTES);
	ret->seq = rut_be64_at(r->positions, (size_t)i * POSITION_BYTES + 8);
}

void rut_relay_put_chunk(struct rut_buf *b, const struct rut_relay_chunk *c)
{
	uint32_t name = c->name[0] ? text_len(c->name) : 0;

	rut_relay_put_header(b, RUT_RELAY_CREATE_CHUNK, 20 + (uint64_t)name);
	rut_be64_put(b, c->id);
	rut_be64_put(b, c->created_s);
	rut_be32_put(b, name);
	if (name)
		put_text(b, c->name);
}

int rut_relay_get_chunk(const void *data, size_t len, struct rut_relay_chunk *ret)
{
	struct in in = {data, len, false};

	ret->id = get_u64(&in);
	ret->created_s = get_u64(&in);
	ret->name = get_text(&in, get_u32(&in));
	return done(&in);
}

void rut_relay_put_chunk_end(struct rut_buf *b, const struct rut_relay_chunk_end *c)
{
	rut_relay_put_header(b, RUT_RELAY_CLOSE_CHUNK, 21);
	rut_be64_put(b, c->id);
	rut_be64_put(b, c->closed_s);
	put_u8(b, c->how != RUT_RELAY_CLOSE_UNSET);
	rut_be32_put(b, c->how == RUT_RELAY_CLOSE_UNSET ? 0 : (uint32_t)c->how);
}

int rut_relay_get_chunk_end(const void *data, size_t len, struct rut_relay_chunk_end *ret)
{
	struct in in = {data, len, false};
	uint32_t how;
	bool set;

	ret->id = get_u64(&in);
	ret->closed_s = get_u64(&in);
	set = get_u8(&in);
	how = get_u32(&in);
	if (set && how > RUT_RELAY_CLOSE_DELETE)
		return -EPROTO;
	ret->how = set ? (int)how : RUT_RELAY_CLOSE_UNSET;
	return done(&in);
}

/* ---- replies ---- */

void rut_relay_put_status(struct rut_buf *b, uint32_t status)
{
	rut_be32_put(b, status);
}

uint32_t rut_relay_get_status(const void *data)
{
	return rut_be32_at(data, 0);
}

void rut_relay_put_version_reply(struct rut_buf *b, uint32_t major, uint32_t minor)
{
	rut_be32_put(b, major);
	rut_be32_put(b, minor);
}

void rut_relay_put_stream_reply(struct rut_buf *b, uint64_t handle, uint32_t status)
{
	rut_be64_put(b, handle);
	rut_be32_put(b, status);
}

uint64_t rut_relay_get_stream_reply(const void *data, uint32_t *ret_status)
{
	*ret_status = rut_be32_at(data, 8);
	return rut_be64_at(data, 0);
}

void rut_relay_put_session_reply(struct rut_buf *b, uint64_t id, uint32_t status, const char *path)
{
	rut_be64_put(b, id);
	rut_be32_put(b, status);
	rut_be32_put(b, path ? text_len(path) : 0);
	if (path)
		put_text(b, path);
}

uint64_t rut_relay_get_session_reply(const void *data, uint32_t *ret_status, uint32_t *ret_path_len)
{
	*ret_status = rut_be32_at(data, 8);
	*ret_path_len = rut_be32_at(data, 12);
	return rut_be64_at(data, 0);
}

void rut_relay_put_chunk_reply(struct rut_buf *b, uint32_t status, const char *path)
{
	rut_be32_put(b, status);
	rut_be32_put(b, path ? text_len(path) : 0);
	if (path)
		put_text(b, path);
}

uint32_t rut_relay_get_chunk_reply(const void *data, uint32_t *ret_path_len)
{
	*ret_path_len = rut_be32_at(data, 4);
	return rut_be32_at(data, 0);
}

void rut_relay_put_exists_reply(struct rut_buf *b, uint32_t status, bool exists)
{
	rut_be32_put(b, status);
	put_u8(b, exists);
}

uint64_t rut_relay_get_config_reply(const void *data, uint32_t *ret_status)
{
	*ret_status = rut_be32_at(data, 0);
	return rut_be64_at(data, 4);
}

void rut_relay_put_config_reply(struct rut_buf *b, uint32_t status, uint64_t flags)
{
	rut_be32_put(b, status);
	rut_be64_put(b, flags);
}
