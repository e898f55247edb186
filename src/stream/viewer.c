/* SPDX-License-Identifier: MIT */
#include "stream/viewer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/memfs.h"
#include "stream/conn.h"
#include "stream/live_wire.h"
#include "stream/tls.h"
#include "stream/wire.h"

/* Bytes of the messages. */
enum {
	HEADER = 16,
	CONNECT_BYTES = 20,
	SESSION_BYTES = 20 + 64 + 255,
	STREAM_BYTES = 20 + 4096 + 255,
	STREAMS_REPLY = 8,
	INDEX_BYTES = 64,
	PACKET_REPLY = 12,
	METADATA_REPLY = 12,
};

/* More than these no daemon has, and a hostile one does not get. */
enum { MAX_SESSIONS = 10000, MAX_STREAMS = 20000, MAX_PARTS = 1000 };
#define MAX_METADATA (64u << 20)
#define MAX_PACKET   (256u << 20)
#define MAX_STEP     (64u << 20) /* bytes copied before the reader may read */
#define PACKET_COST  4096	 /* a packet counts for so many bytes more: it is two round trips */

#define TIMEOUT_MS 10000
#define PAUSE_NS   100000000

/* A trace with metadata of its own. */
struct part {
	uint64_t session, id;
	uint64_t metadata; /* its stream */
	uint64_t bytes;	   /* of metadata so far */
	bool has_metadata, wants_metadata;
	int dir, fd; /* the directory, and the file "metadata" in it */
};

struct stream {
	uint64_t id;
	size_t part;
	int fd;
	bool ended;
};

struct session {
	uint64_t id;
	bool closed, wants_streams;
};

struct rut_viewer {
	struct rut_conn conn;
	const volatile sig_atomic_t *stop; /* borrowed */
	struct session *sessions;	   /* owned */
	size_t n_sessions;
	struct part *parts; /* owned */
	size_t n_parts;
	struct stream *streams; /* owned */
	size_t n_streams;
	uint64_t copied; /* bytes in this step */
	int mount;
	char path[64];
};

/* ---- Messages ---- */

static int lost(int rc, struct rut_err *err)
{
	return rut_err_errno(err, -rc, "the connection to the relay daemon is lost");
}

static int bad(struct rut_err *err)
{
	return rut_err_set(err, EPROTO, "the relay daemon does not speak the protocol of viewers");
}

/* Sends a command with up to three numbers, the last of 32 bits, and reads the fixed reply. */
static int ask(struct rut_viewer *v, enum rut_live_command command, const uint64_t *numbers,
	       int count, const uint32_t *last, void *reply, size_t len, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	int rc;

	if (*v->stop)
		return rut_err_set(err, EINTR, "interrupted");
	rut_be64_put(&b, (uint64_t)count * 8 + (last ? 4 : 0));
	rut_be32_put(&b, command);
	rut_be32_put(&b, 0);
	for (int i = 0; i < count; i++)
		rut_be64_put(&b, numbers[i]);
	if (last)
		rut_be32_put(&b, *last);
	if (b.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_conn_send(&v->conn, b.data, b.len);
	if (!rc)
		rc = rut_conn_recv(&v->conn, reply, len);
	return rc ? lost(rc, err) : 0;
}

/* The version is sent as two numbers of 32 bits. */
static int connect_viewer(struct rut_viewer *v, struct rut_err *err)
{
	const uint64_t hello[] = {0, (uint64_t)RUT_LIVE_MAJOR << 32 | RUT_LIVE_MINOR};
	const uint32_t type = RUT_LIVE_CLIENT;
	uint8_t reply[CONNECT_BYTES];
	int rc = ask(v, RUT_LIVE_CONNECT, hello, 2, &type, reply, sizeof(reply), err);

	if (!rc && rut_be32_at(reply, 8) != RUT_LIVE_MAJOR)
		rc = rut_err_set(err, EPROTO, "the relay daemon has version %u.%u: 2.x is needed",
				 rut_be32_at(reply, 8), rut_be32_at(reply, 12));
	if (!rc)
		rc = ask(v, RUT_LIVE_CREATE, NULL, 0, NULL, reply, 4, err);
	return !rc && rut_be32_at(reply, 0) != RUT_LIVE_OK ? bad(err) : rc;
}

/* `len` bytes of the connection go to the end of a file. */
static int copy(struct rut_viewer *v, int fd, uint64_t len, struct rut_err *err)
{
	char buf[65536];

	v->copied += len;
	while (len) {
		size_t n = len < sizeof(buf) ? (size_t)len : sizeof(buf);
		int rc = rut_conn_recv(&v->conn, buf, n);

		if (rc)
			return lost(rc, err);
		rc = rut_file_write(fd, buf, n);
		if (rc)
			return rut_err_errno(err, -rc, "cannot keep the trace in memory");
		len -= n;
	}
	return 0;
}

/* ---- Streams ---- */

static int add_part(struct rut_viewer *v, uint64_t session, uint64_t id, size_t *ret,
		    struct rut_err *err)
{
	struct part *p;
	char name[32];

	for (*ret = 0; *ret < v->n_parts; (*ret)++)
		if (v->parts[*ret].session == session && v->parts[*ret].id == id)
			return 0;
	if (v->n_parts == MAX_PARTS)
		return bad(err);
	p = realloc(v->parts, (v->n_parts + 1) * sizeof(*p));
	if (!p)
		return rut_err_set(err, ENOMEM, "out of memory");
	v->parts = p;
	p += v->n_parts;
	*p = (struct part){.session = session, .id = id, .dir = -1, .fd = -1};
	snprintf(name, sizeof(name), "trace%zu", v->n_parts);
	if (mkdirat(v->mount, name, 0700) < 0 ||
	    (p->dir = openat(v->mount, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return rut_err_errno(err, errno, "cannot make a directory in memory");
	v->n_parts++;
	return 0;
}

static int add_file(const struct part *p, const char *name, int *ret, struct rut_err *err)
{
	*ret = openat(p->dir, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return *ret < 0 ? rut_err_errno(err, errno, "cannot make a file in memory") : 0;
}

/* Takes one stream's description from the connection. */
static int take_stream(struct rut_viewer *v, uint64_t session, struct rut_err *err)
{
	uint8_t text[STREAM_BYTES];
	struct stream *s;
	char name[32];
	size_t part;
	int rc = rut_conn_recv(&v->conn, text, sizeof(text));

	if (rc)
		return lost(rc, err);
	rc = add_part(v, session, rut_be64_at(text, 8), &part, err);
	if (rc)
		return rc;
	if (rut_be32_at(text, 16)) {
		v->parts[part].metadata = rut_be64_at(text, 0);
		v->parts[part].has_metadata = v->parts[part].wants_metadata = true;
		return 0;
	}
	if (v->n_streams == MAX_STREAMS)
		return bad(err);
	s = realloc(v->streams, (v->n_streams + 1) * sizeof(*s));
	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	v->streams = s;
	s += v->n_streams;
	*s = (struct stream){.id = rut_be64_at(text, 0), .part = part, .fd = -1};
	snprintf(name, sizeof(name), "stream_%zu", v->n_streams);
	rc = add_file(&v->parts[part], name, &s->fd, err);
	v->n_streams += !rc;
	return rc;
}

static int take_streams(struct rut_viewer *v, uint64_t session, uint32_t count, struct rut_err *err)
{
	int rc = count > MAX_STREAMS ? bad(err) : 0;

	for (uint32_t i = 0; i < count && !rc; i++)
		rc = take_stream(v, session, err);
	return rc;
}

static int ask_streams(struct rut_viewer *v, struct session *s, struct rut_err *err)
{
	uint8_t reply[STREAMS_REPLY];
	int rc = ask(v, RUT_LIVE_STREAMS, &s->id, 1, NULL, reply, sizeof(reply), err);
	uint32_t status = rc ? 0 : rut_be32_at(reply, 0);

	s->wants_streams = false;
	if (!rc && status == RUT_LIVE_OK)
		return take_streams(v, s->id, rut_be32_at(reply, 4), err);
	if (!rc && status != RUT_LIVE_STREAMS_NONE)
		s->closed = true; /* or it is unknown by now */
	return rc;
}

/* ---- Packets ---- */

static int ask_metadata(struct rut_viewer *v, struct part *p, struct rut_err *err)
{
	uint8_t reply[METADATA_REPLY];
	int rc;

	while (p->wants_metadata) {
		rc = ask(v, RUT_LIVE_METADATA, &p->metadata, 1, NULL, reply, sizeof(reply), err);
		if (rc)
			return rc;
		if (rut_be32_at(reply, 8) != RUT_LIVE_OK) {
			p->wants_metadata = rut_be32_at(reply, 8) != RUT_LIVE_METADATA_NONE;
			return 0; /* not ready yet: the next step asks again */
		}
		if (rut_be64_at(reply, 0) > MAX_METADATA - p->bytes)
			return bad(err);
		p->bytes += rut_be64_at(reply, 0);
		if (p->fd < 0 && (rc = add_file(p, "metadata", &p->fd, err)))
			return rc;
		rc = copy(v, p->fd, rut_be64_at(reply, 0), err);
		if (rc)
			return rc;
		if (!rut_be64_at(reply, 0))
			return 0;
	}
	return 0;
}

/* What an answer says besides: before the packet can be read. */
static int take_flags(struct rut_viewer *v, const struct stream *s, uint32_t flags,
		      struct rut_err *err)
{
	struct part *p = &v->parts[s->part];

	if (flags & RUT_LIVE_FLAG_STREAM)
		for (size_t i = 0; i < v->n_sessions; i++)
			v->sessions[i].wants_streams |= v->sessions[i].id == p->session;
	if (!(flags & RUT_LIVE_FLAG_METADATA) || !p->has_metadata)
		return 0;
	p->wants_metadata = true;
	return ask_metadata(v, p, err);
}

/* Returns 1 when it was copied, 0 when it is not there yet, or -errno. */
static int ask_packet(struct rut_viewer *v, const struct stream *s, uint64_t offset, uint32_t len,
		      struct rut_err *err)
{
	const uint64_t numbers[] = {s->id, offset};
	uint8_t reply[PACKET_REPLY];

	for (int tries = 0; tries < 50; tries++) {
		int rc = ask(v, RUT_LIVE_PACKET, numbers, 2, &len, reply, sizeof(reply), err);

		if (rc)
			return rc;
		if (rut_be32_at(reply, 0) == RUT_LIVE_OK && rut_be32_at(reply, 4) != len)
			return bad(err);
		if (rut_be32_at(reply, 0) == RUT_LIVE_OK)
			return (rc = copy(v, s->fd, len, err)) ? rc : 1;
		/* Metadata comes first, or the daemon has not got all of it yet. */
		if (rut_be32_at(reply, 0) != RUT_LIVE_PACKET_RETRY && !rut_be32_at(reply, 8))
			break;
		rc = take_flags(v, s, rut_be32_at(reply, 8), err);
		if (rc)
			return rc;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS / 10}, NULL);
	}
	return rut_err_set(err, EIO,
			   "the relay daemon does not give a packet that it has announced");
}

/* Copies the packets of a stream that are there. */
static int copy_stream(struct rut_viewer *v, size_t i, struct rut_err *err)
{
	uint8_t index[INDEX_BYTES];
	int rc = 1;

	while (rc > 0 && v->copied < MAX_STEP) {
		struct stream *s = &v->streams[i];
		uint32_t status;
		uint64_t bits;

		rc = ask(v, RUT_LIVE_INDEX, &s->id, 1, NULL, index, sizeof(index), err);
		if (!rc)
			rc = take_flags(v, s, rut_be32_at(index, 60), err);
		if (rc)
			return rc;
		status = rut_be32_at(index, 56);
		bits = rut_be64_at(index, 8);
		if (status == RUT_LIVE_INDEX_RETRY || status == RUT_LIVE_INDEX_INACTIVE)
			return 0;
		if (status != RUT_LIVE_OK) {
			s->ended = true;
			return status == RUT_LIVE_INDEX_ERR
				       ? rut_err_set(err, EIO,
						     "the relay daemon cannot read a stream")
				       : 0;
		}
		if (!bits || bits % 8 || bits / 8 > MAX_PACKET)
			return bad(err);
		rc = ask_packet(v, s, rut_be64_at(index, 0), (uint32_t)(bits / 8), err);
		v->copied += PACKET_COST;
	}
	return rc < 0 ? rc : 0;
}

int rut_viewer_step(struct rut_viewer *v, struct rut_err *err)
{
	bool ended = true;
	int rc = 0;

	v->copied = 0;
	for (size_t i = 0; i < v->n_parts && !rc; i++)
		rc = ask_metadata(v, &v->parts[i], err);
	for (size_t i = 0; i < v->n_streams && !rc; i++) {
		if (!v->streams[i].ended)
			rc = copy_stream(v, i, err);
		ended &= v->streams[i].ended;
	}
	for (size_t i = 0; i < v->n_sessions && !rc; i++) {
		if (!v->sessions[i].closed && (ended || v->sessions[i].wants_streams)) {
			size_t had = v->n_streams;

			rc = ask_streams(v, &v->sessions[i], err);
			ended &= v->n_streams == had;
		}
		ended &= v->sessions[i].closed;
	}
	return rc ? rc : ended;
}

/* ---- Sessions ---- */

static int attach(struct rut_viewer *v, uint64_t id, struct rut_err *err)
{
	const uint64_t numbers[] = {id, 0};
	const uint32_t seek = RUT_LIVE_SEEK_BEGIN;
	uint8_t reply[STREAMS_REPLY];
	struct session *s;
	int rc = ask(v, RUT_LIVE_ATTACH, numbers, 2, &seek, reply, sizeof(reply), err);

	/* Another viewer has it, or it has just ended. */
	if (rc || rut_be32_at(reply, 0) != RUT_LIVE_OK)
		return rc;
	s = realloc(v->sessions, (v->n_sessions + 1) * sizeof(*s));
	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	v->sessions = s;
	v->sessions[v->n_sessions++] = (struct session){.id = id, .wants_streams = true};
	return take_streams(v, id, rut_be32_at(reply, 4), err);
}

/* The sessions of that name. LTTng has one for each domain: all of one machine's are read. */
struct found {
	uint64_t *ids; /* owned */
	size_t count;
	bool many;	     /* of several machines */
	char origin[65];     /* of the first */
	struct rut_buf list; /* all sessions that can be read */
};

/* Names are arbitrary bytes, and a message may reach a terminal. */
static void list_session(struct found *f, const char *origin, const char *name)
{
	size_t at = f->list.len;

	rut_buf_printf(&f->list, "%s%s/%s", at ? ", " : "", origin, name);
	for (; at < f->list.len; at++)
		if ((unsigned char)f->list.data[at] < ' ' || f->list.data[at] == 127)
			f->list.data[at] = '?';
}

static int find_one(const uint8_t *text, const struct rut_live_url *url, struct found *f)
{
	char origin[65] = "", name[256] = "";
	uint64_t *ids;

	memcpy(origin, text + 20, 64);
	memcpy(name, text + 84, 255);
	if (!rut_be32_at(text, 8)) /* it is stored only */
		return 0;
	list_session(f, origin, name);
	if (strcmp(name, url->session) != 0 || (*url->origin && strcmp(origin, url->origin) != 0))
		return 0;
	f->many |= f->count && strcmp(origin, f->origin) != 0;
	memcpy(f->origin, origin, sizeof(origin));
	ids = realloc(f->ids, (f->count + 1) * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	f->ids = ids;
	ids[f->count++] = rut_be64_at(text, 0);
	return 0;
}

static int find(struct rut_viewer *v, const struct rut_live_url *url, struct found *f,
		struct rut_err *err)
{
	uint8_t count[4], text[SESSION_BYTES];
	int rc = ask(v, RUT_LIVE_LIST, NULL, 0, NULL, count, sizeof(count), err);

	if (!rc && rut_be32_at(count, 0) > MAX_SESSIONS)
		return bad(err);
	for (uint32_t i = 0; !rc && i < rut_be32_at(count, 0); i++) {
		rc = rut_conn_recv(&v->conn, text, sizeof(text));
		if (rc)
			return lost(rc, err);
		if (find_one(text, url, f))
			return rut_err_set(err, ENOMEM, "out of memory");
	}
	if (rc || (f->count && !f->many))
		return rc;
	if (f->many)
		return rut_err_set(err, ENOTUNIQ, "several machines have a session '%s': %s",
				   url->session, f->list.data);
	if (!f->list.len)
		return rut_err_set(err, ENOENT, "the relay daemon has no session that is live");
	return rut_err_set(err, ENOENT, "%s%s%s; the relay daemon has %s",
			   *url->session ? "no session '" : "which session?", url->session,
			   *url->session ? "'" : "", f->list.data);
}

static bool has_metadata(const struct rut_viewer *v)
{
	for (size_t i = 0; i < v->n_parts; i++)
		if (v->parts[i].fd < 0)
			return false;
	return v->n_parts > 0;
}

static int start(struct rut_viewer *v, const struct rut_live_url *url, struct rut_err *err)
{
	struct found f = {.list = RUT_BUF_INIT};
	int rc;

	v->mount = rut_memfs_mount(true, err);
	if (v->mount < 0)
		return v->mount;
	snprintf(v->path, sizeof(v->path), "/proc/self/fd/%d", v->mount);
	rc = connect_viewer(v, err);
	if (!rc)
		rc = find(v, url, &f, err);
	for (size_t i = 0; i < f.count && !rc; i++)
		rc = attach(v, f.ids[i], err);
	if (!rc && !v->n_sessions)
		rc = rut_err_set(err, EBUSY, "session '%s' has another viewer, or has just ended",
				 url->session);
	free(f.ids);
	rut_buf_fini(&f.list);
	while (!rc && !has_metadata(v)) {
		rc = rut_viewer_step(v, err);
		if (rc > 0)
			return has_metadata(v)
				       ? 0
				       : rut_err_set(err, ENODATA,
						     "session '%s' has ended without events",
						     url->session);
		if (!rc && !has_metadata(v))
			nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	return rc;
}

int rut_viewer_attach(struct rut_viewer **ret, struct rut_conn *conn,
		      const struct rut_live_url *url, const volatile sig_atomic_t *stop,
		      struct rut_err *err)
{
	struct rut_viewer *v = calloc(1, sizeof(*v));
	int rc;

	if (!v) {
		rut_conn_close(conn);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	v->conn = *conn;
	v->stop = stop;
	v->mount = -1;
	rc = start(v, url, err);
	if (rc)
		rut_viewer_free(v);
	else
		*ret = v;
	return rc;
}

int rut_viewer_open(struct rut_viewer **ret, const struct rut_live_url *url,
		    const volatile sig_atomic_t *stop, struct rut_err *err)
{
	struct rut_conn conn = {.fd = -1};
	struct rut_tls_conf *tls = NULL;
	int rc = url->tls ? rut_tls_conf_new(&tls, RUT_TLS_DIR, false, err) : 0;

	if (!rc)
		rc = rut_conn_connect(&conn, url->host, url->port, TIMEOUT_MS, err);
	if (!rc && tls)
		rc = rut_conn_secure(&conn, tls, url->host, err);
	rut_tls_conf_free(tls);
	if (!rc)
		return rut_viewer_attach(ret, &conn, url, stop, err);
	rut_conn_close(&conn);
	return rc;
}

const char *rut_viewer_path(const struct rut_viewer *v)
{
	return v->path;
}

void rut_viewer_free(struct rut_viewer *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->n_streams; i++)
		rut_closep(&v->streams[i].fd);
	for (size_t i = 0; i < v->n_parts; i++) {
		rut_closep(&v->parts[i].fd);
		rut_closep(&v->parts[i].dir);
	}
	rut_closep(&v->mount);
	rut_conn_close(&v->conn);
	free(v->sessions);
	free(v->parts);
	free(v->streams);
	free(v);
}
