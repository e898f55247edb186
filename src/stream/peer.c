/* SPDX-License-Identifier: MIT */
#include "stream/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "stream/live.h"
#include "stream/proto.h"

/* Statuses other than RUT_RELAY_OK. */
#define STATUS_UNKNOWN 11
#define STATUS_INVALID 48

struct rut_peer {
	struct rut_store *store; /* borrowed */
	char client[64];
	enum rut_peer_kind kind;
	bool agreed, known;
	struct rut_live_server *viewer; /* owned; of a VIEWER */
	uint32_t minor;
	struct rut_store_session *session;	      /* owned */
	bool (*is_host)(void *arg, const char *host); /* NULL: any host */
	void *host_arg;
	struct rut_buf in; /* of the message that has begun */
	uint64_t want;	   /* bytes of it; 0: not known before its header is there */
};

struct rut_peer *rut_peer_new(struct rut_store *store, const char *client, enum rut_peer_kind kind)
{
	struct rut_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->store = store;
	p->kind = kind;
	if (kind == RUT_PEER_VIEWER) {
		p->viewer = rut_live_server_new(store);
		if (!p->viewer) {
			free(p);
			return NULL;
		}
	}
	snprintf(p->client, sizeof(p->client), "%s", client);
	return p;
}

void rut_peer_certify(struct rut_peer *p, bool (*is_host)(void *arg, const char *host), void *arg)
{
	p->is_host = is_host;
	p->host_arg = arg;
}

void rut_peer_free(struct rut_peer *p)
{
	if (!p)
		return;
	if (p->session)
		rut_store_end(p->session);
	rut_live_server_free(p->viewer);
	rut_buf_fini(&p->in);
	free(p);
}

bool rut_peer_inside(const struct rut_peer *p)
{
	return p->in.len > 0;
}

size_t rut_peer_buffered(const struct rut_peer *p)
{
	return p->in.cap;
}

uint64_t rut_peer_oldest(const struct rut_peer *p)
{
	return p->viewer ? rut_live_server_oldest(p->viewer) : 0;
}

bool rut_peer_known(const struct rut_peer *p)
{
	return p->known;
}

/* ---- commands ---- */

/* The status that reports to a producer what went wrong. */
static uint32_t status_of(int rc)
{
	return !rc				? RUT_RELAY_OK
	       : rc == -EINVAL || rc == -EPROTO ? STATUS_INVALID
						: RUT_RELAY_ERRNO + (uint32_t)-rc;
}

static int do_version(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	uint32_t major, minor;
	int rc = rut_relay_get_version(data, len, &major, &minor);

	if (rc)
		return rc;
	rut_relay_put_version_reply(out, RUT_RELAY_MAJOR, RUT_RELAY_MINOR_MAX);
	if (major != RUT_RELAY_MAJOR || minor < RUT_RELAY_MINOR_MIN)
		return -EPROTONOSUPPORT;
	p->minor = minor < RUT_RELAY_MINOR_MAX ? minor : RUT_RELAY_MINOR_MAX;
	p->agreed = true;
	return 0;
}

static int do_session(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	struct rut_relay_session s;
	int rc = rut_relay_get_session(data, len, p->minor, &s);

	if (rc)
		return rc;
	if (p->session)
		rc = -EINVAL;
	else if (p->is_host && !p->is_host(p->host_arg, s.host)) {
		char host[65];

		/* Of a stranger: only what prints goes into the log. */
		snprintf(host, sizeof(host), "%s", s.host);
		for (char *c = host; *c; c++)
			*c = (char)(*c > ' ' && *c < 0x7f ? *c : '?');
		rut_warn("%s: its certificate does not name the host '%s'", p->client, host);
		rc = -EACCES;
	} else
		rc = rut_store_session(p->store, p->client, &s, &p->session);
	p->known |= !rc;
	rut_relay_put_session_reply(out, rc ? 0 : rut_store_session_id(p->session), status_of(rc),
				    rc ? NULL : rut_store_session_path(p->session));
	if (!rc)
		rut_info("%s: begins '%s'", p->client, rut_store_session_path(p->session));
	return rc;
}

static int do_stream(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	struct rut_relay_stream s;
	uint64_t handle = UINT64_MAX;
	int rc = rut_relay_get_stream(data, len, &s);

	if (rc)
		return rc;
	rc = rut_store_add(p->session, &s, &handle);
	rut_relay_put_stream_reply(out, handle, status_of(rc));
	return rc;
}

static int do_rotation(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	struct rut_relay_rotation r;
	int rc = rut_relay_get_rotation(data, len, &r);

	if (rc)
		return rc;
	rc = rut_store_rotate(p->session, &r);
	rut_relay_put_status(out, status_of(rc));
	return rc;
}

static int do_chunk(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	struct rut_relay_chunk c;
	int rc = rut_relay_get_chunk(data, len, &c);

	if (rc)
		return rc;
	rc = rut_store_chunk(p->session, &c);
	rut_relay_put_status(out, status_of(rc));
	return rc;
}

static int do_chunk_end(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	struct rut_relay_chunk_end c;
	int rc = rut_relay_get_chunk_end(data, len, &c);

	if (rc)
		return rc;
	rc = rut_store_close_chunk(p->session, &c);
	rut_relay_put_chunk_reply(out, status_of(rc),
				  rc ? NULL : rut_store_session_path(p->session));
	return rc;
}

static int do_metadata(struct rut_peer *p, const void *data, size_t len)
{
	struct rut_relay_metadata m;
	int rc = rut_relay_get_metadata(data, len, &m);

	/* It has no reply: only the connection is closed. */
	return rc ? rc : rut_store_metadata(p->session, &m);
}

static int do_index(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out)
{
	struct rut_relay_index i;
	int rc = rut_relay_get_index(data, len, &i);

	if (rc)
		return rc;
	rc = rut_store_has(p->store, p->client, i.stream) ? 0 : -ENOENT;
	if (!rc && !i.packet_bits)
		rut_store_idle(p->store, p->client, i.stream, i.end_ns);
	rut_relay_put_status(out, status_of(rc));
	return rc;
}

/* Commands with a stream and a number. */
static int do_pair(struct rut_peer *p, uint32_t command, const void *data, size_t len,
		   struct rut_buf *out)
{
	uint64_t handle, number;
	int rc = rut_relay_get_pair(data, len, &handle, &number);

	if (rc)
		return rc;
	if (command == RUT_RELAY_DATA_PENDING) {
		rc = rut_store_pending(p->session, handle, number);
		rut_relay_put_status(out, rc < 0 ? STATUS_UNKNOWN : (uint32_t)rc);
		return rc < 0 ? rc : 0;
	}
	rc = command == RUT_RELAY_CLOSE_STREAM ? rut_store_close_stream(p->session, handle)
					       : rut_store_reset_metadata(p->session, handle);
	rut_relay_put_status(out, status_of(rc));
	return rc;
}

/* Commands with one number, which cannot fail. */
static int do_number(struct rut_peer *p, uint32_t command, const void *data, size_t len,
		     struct rut_buf *out)
{
	uint64_t number;
	int rc = rut_relay_get_number(data, len, &number);

	if (rc)
		return rc;
	if (command == RUT_RELAY_CHUNK_EXISTS)
		rut_relay_put_exists_reply(out, RUT_RELAY_OK,
					   rut_store_has_chunk(p->session, number));
	else if (command == RUT_RELAY_GET_CONFIG)
		rut_relay_put_config_reply(out, RUT_RELAY_OK,
					   rut_store_may_clear(p->store) ? RUT_RELAY_CLEAR_ALLOWED
									 : 0);
	else
		rut_relay_put_status(out, command == RUT_RELAY_END_PENDING ? 0 : RUT_RELAY_OK);
	return 0;
}

static int do_command(struct rut_peer *p, uint32_t command, const void *data, size_t len,
		      struct rut_buf *out)
{
	if (command == RUT_RELAY_VERSION)
		return do_version(p, data, len, out);
	if (!p->agreed ||
	    (!p->session && command != RUT_RELAY_CREATE_SESSION && command != RUT_RELAY_GET_CONFIG))
		return -EPROTO;
	switch (command) {
	case RUT_RELAY_CREATE_SESSION:
		return do_session(p, data, len, out);
	case RUT_RELAY_ADD_STREAM:
		return do_stream(p, data, len, out);
	case RUT_RELAY_SEND_METADATA:
		return do_metadata(p, data, len);
	case RUT_RELAY_SEND_INDEX:
		return do_index(p, data, len, out);
	case RUT_RELAY_ROTATE_STREAMS:
		return do_rotation(p, data, len, out);
	case RUT_RELAY_CREATE_CHUNK:
		return do_chunk(p, data, len, out);
	case RUT_RELAY_CLOSE_CHUNK:
		return do_chunk_end(p, data, len, out);
	case RUT_RELAY_CLOSE_STREAM:
	case RUT_RELAY_DATA_PENDING:
	case RUT_RELAY_RESET_METADATA:
		return do_pair(p, command, data, len, out);
	case RUT_RELAY_QUIESCENT:
	case RUT_RELAY_BEGIN_PENDING:
	case RUT_RELAY_END_PENDING:
	case RUT_RELAY_CHUNK_EXISTS:
	case RUT_RELAY_GET_CONFIG:
		return do_number(p, command, data, len, out);
	case RUT_RELAY_START_DATA:
	case RUT_RELAY_STREAMS_SENT:
		rut_relay_put_status(out, RUT_RELAY_OK);
		return 0;
	default:
		rut_relay_put_status(out, STATUS_UNKNOWN);
		return -EPROTO;
	}
}

/* ---- messages ---- */

/* The header is there: how much is the message? */
static int measure(struct rut_peer *p, struct rut_err *err)
{
	struct rut_relay_header h;
	struct rut_relay_data d;

	if (p->viewer) {
		const uint64_t size = rut_live_server_size(p->in.data);

		if (size > RUT_LIVE_COMMAND_MAX)
			return rut_err_set(err, EMSGSIZE, "a command of %llu bytes",
					   (unsigned long long)size);
		p->want = RUT_LIVE_HEADER + size;
		return 0;
	}
	if (p->kind == RUT_PEER_DATA) {
		rut_relay_get_data(p->in.data, &d);
		if (!rut_store_has(p->store, p->client, d.stream))
			return rut_err_set(err, ENOENT, "a packet of a stream that is not there");
		if ((uint64_t)d.size + d.padding > RUT_PEER_PACKET_MAX)
			return rut_err_set(err, EMSGSIZE, "a packet of %llu bytes",
					   (unsigned long long)d.size + d.padding);
		p->known = true;
		p->want = RUT_RELAY_DATA + (uint64_t)d.size;
		return 0;
	}
	rut_relay_get_header(p->in.data, &h);
	if (h.size > RUT_PEER_COMMAND_MAX)
		return rut_err_set(err, EMSGSIZE, "a command of %llu bytes",
				   (unsigned long long)h.size);
	p->want = RUT_RELAY_HEADER + h.size;
	return 0;
}

static int finish_packet(struct rut_peer *p, struct rut_err *err)
{
	struct rut_relay_data d;
	int rc;

	rut_relay_get_data(p->in.data, &d);
	rc = rut_buf_reserve(&p->in, d.padding);
	if (!rc)
		rc = rut_store_packet(p->store, p->client, &d,
				      (unsigned char *)p->in.data + RUT_RELAY_DATA);
	return rc ? rut_err_errno(err, -rc, "cannot store a packet") : 0;
}

static int finish_command(struct rut_peer *p, struct rut_buf *out, struct rut_err *err)
{
	struct rut_relay_header h;
	int rc;

	if (p->viewer) {
		/* A viewer waits for a reply before it sends the next command. */
		if (out->len > RUT_LIVE_UNREAD_MAX)
			return rut_err_set(err, EMSGSIZE, "it does not read its replies");
		rc = rut_live_server_command(p->viewer, p->in.data, p->in.len, out);
		p->known |= !rc;
		return rc ? rut_err_errno(err, -rc, "a viewer's command") : 0;
	}
	rut_relay_get_header(p->in.data, &h);
	rc = do_command(p, h.command, p->in.data + RUT_RELAY_HEADER, h.size, out);
	if (!rc && out->failed)
		rc = -ENOMEM;
	return rc ? rut_err_errno(err, -rc, "command %u", h.command) : 0;
}

int rut_peer_feed(struct rut_peer *p, const void *data, size_t len, struct rut_buf *out,
		  struct rut_err *err)
{
	const size_t head = p->viewer		       ? RUT_LIVE_HEADER
			    : p->kind == RUT_PEER_DATA ? RUT_RELAY_DATA
						       : RUT_RELAY_HEADER;
	const char *from = data;
	int rc;

	for (;;) {
		uint64_t want = p->want ? p->want : head;
		size_t n = want - p->in.len < len ? (size_t)(want - p->in.len) : len;

		rut_buf_add(&p->in, from, n);
		if (p->in.failed)
			return rut_err_set(err, ENOMEM, "out of memory");
		from += n;
		len -= n;
		if (p->in.len < want)
			return 0;
		rc = p->want ? 0 : measure(p, err);
		if (rc)
			return rc;
		if (p->in.len < p->want)
			continue;
		rc = p->kind == RUT_PEER_DATA ? finish_packet(p, err) : finish_command(p, out, err);
		if (rc)
			return rc;
		rut_buf_clear(&p->in);
		p->want = 0;
		/* A large packet's memory is not kept by each of a thousand connections. */
		if (p->in.cap > (1u << 20)) {
			rut_buf_fini(&p->in);
			p->in = (struct rut_buf)RUT_BUF_INIT;
		}
		if (!len)
			return 0;
	}
}
