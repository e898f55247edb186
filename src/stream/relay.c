/* SPDX-License-Identifier: MIT */
#include "stream/relay.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ring/ring.h"

#define FORMAT_CTF_1_8 1
#define PENDING_MS     5
#define FLUSH_BYTES    (64u << 10)

struct rut_relay {
	struct rut_conn ctl, data;
	uint32_t minor;
	uint64_t chunk;
	bool rotated, clearable;
	int timeout_ms;
	struct rut_buf out; /* commands not sent yet */
	size_t replies;	    /* statuses to come, of commands sent or in `out` */
	char path[RUT_RELAY_PATH_MAX];
};

static int broken(const struct rut_relay *r, int rc, struct rut_err *err)
{
	return rc == -EKEYREJECTED
		       ? rut_err_set(err, EKEYREJECTED, "the collector refuses our certificate")
		       : rut_err_errno(err, -rc, "the connection to the collector broke");
}

/* The peer's number is for the reader: no value of it may look like success, or like our own. */
static int refused(const char *what, uint32_t status, struct rut_err *err)
{
	const int number = (int)(status & 0xffff);

	if ((status & 0xffff0000) == RUT_RELAY_ERRNO && number)
		return rut_err_set(err, EPROTO, "the collector refused %s: %s", what,
				   strerror(number));
	return rut_err_set(err, EPROTO, "the collector refused %s (status %u)", what, status);
}

static int flush(struct rut_relay *r)
{
	int rc;

	if (r->out.failed)
		return -ENOMEM;
	rc = rut_conn_send(&r->ctl, r->out.data, r->out.len);
	rut_buf_clear(&r->out);
	return rc;
}

/* The statuses of pipelined commands, each of which must be OK. */
static int read_replies(struct rut_relay *r, const char *what, struct rut_err *err)
{
	int rc = flush(r);

	for (; r->replies && !rc; r->replies--) {
		uint8_t reply[RUT_RELAY_REPLY_STATUS];

		rc = rut_conn_recv(&r->ctl, reply, sizeof(reply));
		if (!rc && rut_relay_get_status(reply) != RUT_RELAY_OK)
			return refused(what, rut_relay_get_status(reply), err);
	}
	return rc ? broken(r, rc, err) : 0;
}

/* Sends what is collected and reads the reply of its last command. */
static int ask(struct rut_relay *r, void *reply, size_t len, struct rut_err *err)
{
	int rc = read_replies(r, "a packet", err);

	if (rc)
		return rc;
	rc = rut_conn_recv(&r->ctl, reply, len);
	return rc ? broken(r, rc, err) : 0;
}

/* The text behind a reply. What does not fit is refused. */
static int read_path(struct rut_relay *r, uint32_t len, struct rut_err *err)
{
	int rc;

	if (len > sizeof(r->path))
		return rut_err_set(err, EPROTO, "the collector sent a path of %u bytes", len);
	rc = rut_conn_recv(&r->ctl, r->path, len);
	if (rc)
		return broken(r, rc, err);
	r->path[len ? len - 1 : 0] = '\0';
	return 0;
}

static int agree(struct rut_relay *r, uint32_t minor_max, struct rut_err *err)
{
	uint8_t reply[RUT_RELAY_REPLY_VERSION];
	uint32_t major, minor;
	int rc;

	rut_relay_put_version(&r->out, RUT_RELAY_MAJOR, minor_max);
	rc = ask(r, reply, sizeof(reply), err);
	if (rc)
		return rc;
	rut_relay_get_version(reply, sizeof(reply), &major, &minor);
	if (major != RUT_RELAY_MAJOR || minor < RUT_RELAY_MINOR_MIN)
		return rut_err_set(err, EPROTONOSUPPORT,
				   "the collector speaks version %u.%u of the relay protocol: "
				   "%d.%d or later is needed",
				   major, minor, RUT_RELAY_MAJOR, RUT_RELAY_MINOR_MIN);
	r->minor = minor < minor_max ? minor : minor_max;
	return 0;
}

/* What the daemon allows. Earlier versions cannot delete. */
static int ask_config(struct rut_relay *r, struct rut_err *err)
{
	uint8_t reply[RUT_RELAY_REPLY_CONFIG];
	uint32_t status;
	uint64_t flags;
	int rc;

	if (r->minor < RUT_RELAY_MINOR_CLEAR)
		return 0;
	rut_relay_put_number(&r->out, RUT_RELAY_GET_CONFIG, 0);
	rc = ask(r, reply, sizeof(reply), err);
	if (rc)
		return rc;
	flags = rut_relay_get_config_reply(reply, &status);
	r->clearable = status == RUT_RELAY_OK && flags & RUT_RELAY_CLEAR_ALLOWED;
	return 0;
}

static int create_session(struct rut_relay *r, const struct rut_relay_conf *conf,
			  struct rut_err *err)
{
	struct rut_relay_session s = {
		.name = conf->session,
		.host = conf->host,
		.base_path = "",
		.live_us = conf->live_us,
		.snapshot = conf->snapshot,
		.id = conf->id,
		.created_s = (uint64_t)time(NULL),
		.format = FORMAT_CTF_1_8,
	};
	uint8_t reply[RUT_RELAY_REPLY_SESSION];
	uint32_t status, len;
	int rc;

	memcpy(s.uuid, conf->uuid, sizeof(s.uuid));
	rut_relay_put_session(&r->out, r->minor, &s);
	rc = ask(r, reply, sizeof(reply), err);
	if (rc)
		return rc;
	rut_relay_get_session_reply(reply, &status, &len);
	rc = read_path(r, len, err);
	if (rc)
		return rc;
	if (conf->url->tls && status == RUT_RELAY_ERRNO + EACCES)
		return rut_err_set(err, EPROTO,
				   "the collector refused the session: does our certificate name "
				   "the host '%s'?",
				   conf->host);
	return status == RUT_RELAY_OK ? 0 : refused("the session", status, err);
}

static void put_chunk(struct rut_relay *r)
{
	rut_relay_put_chunk(&r->out, &(struct rut_relay_chunk){.id = r->chunk,
							       .created_s = (uint64_t)time(NULL),
							       .name = ""});
	r->replies++;
}

static int reach(struct rut_conn *l, const struct rut_relay_conf *conf, uint16_t port,
		 struct rut_err *err)
{
	int rc = rut_conn_connect(l, conf->url->host, port, conf->timeout_ms, err);

	return rc || !conf->url->tls ? rc : rut_conn_secure(l, conf->tls, conf->url->host, err);
}

int rut_relay_probe(const struct rut_relay_conf *conf, struct rut_err *err)
{
	struct rut_relay r = {.ctl.fd = -1, .data.fd = -1, .timeout_ms = conf->timeout_ms};
	int rc = reach(&r.ctl, conf, conf->url->port, err);

	if (!rc)
		rc = agree(&r, RUT_RELAY_MINOR_MAX, err);
	if (rc == -ECONNRESET && !conf->url->tls)
		rut_err_set(err, ECONNRESET,
			    "'%s' closes the connection at once: a collector that takes only TLS "
			    "is addressed as relays://",
			    conf->url->host);
	rut_conn_close(&r.ctl);
	rut_buf_fini(&r.out);
	return rc;
}

int rut_relay_open(struct rut_relay **ret, const struct rut_relay_conf *conf, struct rut_err *err)
{
	struct rut_relay *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->ctl.fd = r->data.fd = -1;
	r->timeout_ms = conf->timeout_ms;
	rc = reach(&r->ctl, conf, conf->url->port, err);
	if (!rc)
		rc = reach(&r->data, conf, conf->url->data_port, err);
	if (!rc)
		rc = agree(r, conf->minor_max ? conf->minor_max : RUT_RELAY_MINOR_MAX, err);
	if (!rc)
		rc = ask_config(r, err);
	if (!rc)
		rc = create_session(r, conf, err);
	if (!rc) {
		put_chunk(r);
		rc = read_replies(r, "the trace chunk", err);
	}
	if (rc)
		rut_relay_free(r);
	else
		*ret = r;
	return rc;
}

const char *rut_relay_path(const struct rut_relay *r)
{
	return r->path;
}

int rut_relay_add(struct rut_relay *r, const char *path, const char *channel, uint64_t *ret_stream,
		  struct rut_err *err)
{
	const struct rut_relay_stream s = {.channel = channel, .path = path, .chunk = r->chunk};
	uint8_t reply[RUT_RELAY_REPLY_STREAM];
	uint32_t status;
	int rc;

	rut_relay_put_stream(&r->out, &s);
	rc = ask(r, reply, sizeof(reply), err);
	if (rc)
		return rc;
	*ret_stream = rut_relay_get_stream_reply(reply, &status);
	return status == RUT_RELAY_OK ? 0 : refused("a stream", status, err);
}

int rut_relay_publish(struct rut_relay *r, struct rut_err *err)
{
	rut_relay_put_header(&r->out, RUT_RELAY_STREAMS_SENT, 0);
	r->replies++;
	return read_replies(r, "the streams", err);
}

int rut_relay_metadata(struct rut_relay *r, uint64_t stream, const char *text, size_t len)
{
	rut_relay_put_metadata(
		&r->out, &(struct rut_relay_metadata){.stream = stream, .text = text, .len = len});
	return flush(r);
}

int rut_relay_packet(struct rut_relay *r, const struct rut_relay_index *index,
		     const struct rut_relay_content *content)
{
	const struct rut_relay_data d = {
		.stream = index->stream,
		.seq = index->seq,
		.size = (uint32_t)(sizeof(*content->head) + content->len),
		.padding = content->padding,
	};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	int rc;

	rut_relay_put_data(&b, &d);
	rut_buf_add(&b, content->head, sizeof(*content->head));
	if (b.failed)
		return -ENOMEM;
	/* One segment with what follows: each wakes the other side. */
	rc = content->len ? rut_conn_send_part(&r->data, b.data, b.len)
			  : rut_conn_send(&r->data, b.data, b.len);
	if (!rc && content->data)
		rc = rut_conn_send(&r->data, content->data, content->len);
	else if (!rc)
		rc = rut_conn_send_file(&r->data, content->fd, content->at, content->len);
	rut_relay_put_index(&r->out, index);
	r->replies++;
	/* The index follows its packet: a collector that holds one back for the other stays small.
	 */
	return rc || r->out.len < FLUSH_BYTES ? rc : flush(r);
}

int rut_relay_beacon(struct rut_relay *r, uint64_t stream, uint64_t class_id, uint64_t end_ns)
{
	rut_relay_put_index(&r->out, &(struct rut_relay_index){.stream = stream,
							       .seq = RUT_RELAY_NO_SEQ,
							       .end_ns = end_ns,
							       .class_id = class_id});
	r->replies++;
	return 0;
}

/* Returns the number of streams with a packet that is not stored yet, or -errno. */
static int ask_pending(struct rut_relay *r, const struct rut_relay_sent *sent, size_t count,
		       struct rut_err *err)
{
	int pending = 0, rc;

	for (size_t i = 0; i < count; i++)
		rut_relay_put_pair(&r->out, RUT_RELAY_DATA_PENDING, sent[i].stream, sent[i].seq);
	rc = read_replies(r, "a packet", err);
	for (size_t i = 0; i < count && !rc; i++) {
		uint8_t reply[RUT_RELAY_REPLY_STATUS];

		rc = rut_conn_recv(&r->ctl, reply, sizeof(reply));
		if (rc)
			return broken(r, rc, err);
		if (rut_relay_get_status(reply) > 1)
			return refused("to say what is stored", rut_relay_get_status(reply), err);
		pending += rut_relay_get_status(reply) == 1;
	}
	return rc ? rc : pending;
}

/*
 * Waits a little. A collector that cannot store a packet closes the connection for data, and
 * answers on the other one that the packet is pending.
 */
static int pause_pending(const struct rut_relay *r, struct rut_err *err)
{
	struct pollfd p = {.fd = r->data.fd, .events = POLLRDHUP};

	if (poll(&p, 1, PENDING_MS) <= 0 || !(p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
		return 0;
	return rut_err_set(
		err, ECONNRESET,
		"the collector closed the connection for packets; its log says why (is its disk "
		"full?)");
}

int rut_relay_confirm(struct rut_relay *r, const struct rut_relay_sent *sent, size_t count,
		      struct rut_err *err)
{
	uint64_t least_queued = UINT64_MAX;
	int least = INT_MAX;

	for (int ms = 0; ms <= r->timeout_ms; ms += PENDING_MS) {
		int pending = ask_pending(r, sent, count, err);
		uint64_t queued = rut_relay_queued(r);

		if (pending <= 0)
			return pending;
		/* A slow link or collector is not a dead one. */
		if (pending < least || queued < least_queued)
			ms = 0;
		least = pending < least ? pending : least;
		least_queued = queued < least_queued ? queued : least_queued;
		pending = pause_pending(r, err);
		if (pending)
			return pending;
	}
	return rut_err_set(err, ETIMEDOUT, "the collector does not store what it receives");
}

static int close_chunk(struct rut_relay *r, uint64_t id, enum rut_relay_close how,
		       struct rut_err *err)
{
	const struct rut_relay_chunk_end end = {id, (uint64_t)time(NULL), (int)how};
	uint8_t reply[RUT_RELAY_REPLY_CHUNK];
	uint32_t len, status;
	int rc;

	rut_relay_put_chunk_end(&r->out, &end);
	rc = ask(r, reply, sizeof(reply), err);
	if (rc)
		return rc;
	status = rut_relay_get_chunk_reply(reply, &len);
	if (status != RUT_RELAY_OK)
		return refused("to close the trace chunk", status, err);
	return read_path(r, len, err);
}

static int next_chunk(struct rut_relay *r, const struct rut_relay_position *positions,
		      uint32_t count, enum rut_relay_close how, struct rut_err *err)
{
	uint64_t old = r->chunk++;
	int rc;

	put_chunk(r);
	rut_relay_put_rotation(&r->out, r->chunk, positions, count);
	r->replies++;
	rc = read_replies(r, "the rotation", err);
	return rc ? rc : close_chunk(r, old, how, err);
}

int rut_relay_rotate(struct rut_relay *r, const struct rut_relay_position *positions,
		     uint32_t count, struct rut_err *err)
{
	r->rotated = true;
	return next_chunk(r, positions, count, RUT_RELAY_CLOSE_MOVE, err);
}

bool rut_relay_clearable(const struct rut_relay *r)
{
	return r->clearable;
}

int rut_relay_clear(struct rut_relay *r, const struct rut_relay_position *positions, uint32_t count,
		    struct rut_err *err)
{
	return next_chunk(r, positions, count, RUT_RELAY_CLOSE_DELETE, err);
}

int rut_relay_finish(struct rut_relay *r, const struct rut_relay_sent *sent, size_t count,
		     struct rut_err *err)
{
	int rc;

	for (size_t i = 0; i < count; i++) {
		rut_relay_put_pair(&r->out, RUT_RELAY_CLOSE_STREAM, sent[i].stream, sent[i].seq);
		r->replies++;
	}
	rc = read_replies(r, "the end of a stream", err);
	if (rc)
		return rc;
	return close_chunk(r, r->chunk, r->rotated ? RUT_RELAY_CLOSE_MOVE : RUT_RELAY_CLOSE_UNSET,
			   err);
}

uint64_t rut_relay_queued(const struct rut_relay *r)
{
	int bytes = 0;

	return ioctl(r->data.fd, SIOCOUTQ, &bytes) < 0 || bytes < 0 ? 0 : (uint64_t)bytes;
}

void rut_relay_abort(const struct rut_relay *r)
{
	rut_conn_abort(&r->ctl);
	rut_conn_abort(&r->data);
}

void rut_relay_free(struct rut_relay *r)
{
	if (!r)
		return;
	rut_conn_close(&r->ctl);
	rut_conn_close(&r->data);
	rut_buf_fini(&r->out);
	free(r);
}
