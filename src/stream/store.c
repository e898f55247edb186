/* SPDX-License-Identifier: MIT */
#include "stream/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "ring/append.h"
#include "stream/store_internal.h"

#define PAGE	       ((size_t)4096)
#define NAME_TRIES     1000
#define METADATA_BYTES (64u << 20) /* of one trace */
#define MIN_INODES     10000

int rut_store_new(struct rut_store **ret, const char *dir, const struct rut_store_limits *limits,
		  struct rut_err *err)
{
	struct rut_store *s = calloc(1, sizeof(*s));

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	s->limits = *limits;
	if (mkdir(dir, 0750) < 0 && errno != EEXIST) {
		free(s);
		return rut_err_errno(err, errno, "cannot make the directory '%s'", dir);
	}
	s->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0) {
		free(s);
		return rut_err_errno(err, errno, "cannot open the directory '%s'", dir);
	}
	*ret = s;
	return 0;
}

void rut_store_free(struct rut_store *s)
{
	if (!s)
		return;
	while (s->sessions)
		rut_store_end(s->sessions);
	for (struct rut_store_client *c = s->clients, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	rut_map_fini(&s->streams);
	close(s->fd);
	free(s);
}

void rut_store_stats(const struct rut_store *s, struct rut_store_stats *ret)
{
	*ret = s->stats;
}

static struct rut_store_client *client_of(struct rut_store *s, const char *name)
{
	struct rut_store_client *c;

	for (c = s->clients; c; c = c->next)
		if (!strcmp(c->name, name))
			return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->next = s->clients;
	s->clients = c;
	return c;
}

/* Counts bytes before they are written. */
static int charge(struct rut_store *s, const char *client, uint64_t bytes)
{
	struct rut_store_client *c = client_of(s, client);

	if (!c)
		return -ENOMEM;
	if (s->limits.bytes && c->bytes + bytes > s->limits.bytes)
		return -EDQUOT;
	c->bytes += bytes;
	return 0;
}

bool rut_store_disk_full(const struct rut_store *s)
{
	struct statvfs v;

	if (!s->limits.free_bytes || fstatvfs(s->fd, &v))
		return false;
	/* File systems that make inodes as needed say that they have none. */
	return (uint64_t)v.f_bavail * v.f_frsize < s->limits.free_bytes ||
	       (v.f_files && v.f_favail < MIN_INODES);
}

/* ---- sessions ---- */

int rut_store_charge(struct rut_store *s, const char *client, uint64_t bytes)
{
	return charge(s, client, bytes);
}

int rut_store_room(struct rut_store *s, const char *client, uint64_t bytes)
{
	const struct rut_store_client *c = client_of(s, client);

	if (!c)
		return -ENOMEM;
	if (rut_store_disk_full(s))
		return -ENOSPC;
	return s->limits.bytes && c->bytes + bytes > s->limits.bytes ? -EDQUOT : 0;
}

/* Makes HOST/NAME-DATE-TIME, or with a number behind it. */
static int make_session(struct rut_store *s, struct rut_store_session *ss,
			const struct rut_relay_session *what)
{
	_cleanup_close_ int host = rut_store_dir(s->fd, what->host);
	time_t created = (time_t)what->created_s;
	char date[32] = "", name[2 * RUT_RELAY_NAME_MAX];
	struct tm tm;

	if (host < 0)
		return host;
	if (!what->name_has_time && localtime_r(&created, &tm))
		strftime(date, sizeof(date), "-%Y%m%d-%H%M%S", &tm);
	for (int i = 0; i < NAME_TRIES; i++) {
		char more[16] = "";

		if (i)
			snprintf(more, sizeof(more), "-%d", i);
		snprintf(name, sizeof(name), "%.200s%s%s", what->name, date, more);
		if (!mkdirat(host, name, 0750)) {
			ss->fd =
				openat(host, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			snprintf(ss->path, sizeof(ss->path), "%s/%s", what->host, name);
			return ss->fd < 0 ? -errno : 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

int rut_store_session(struct rut_store *s, const char *client, const struct rut_relay_session *what,
		      struct rut_store_session **ret)
{
	struct rut_store_client *c = client_of(s, client);
	struct rut_store_session *ss;
	int rc;

	if (!rut_store_safe_name(what->name) || !rut_store_safe_name(what->host))
		return -EINVAL;
	if (!c)
		return -ENOMEM;
	if (c->sessions >= s->limits.sessions || (s->limits.bytes && c->bytes >= s->limits.bytes))
		return -EDQUOT;
	if (rut_store_disk_full(s))
		return -ENOSPC;
	ss = calloc(1, sizeof(*ss));
	if (!ss)
		return -ENOMEM;
	rc = make_session(s, ss, what);
	if (rc) {
		free(ss);
		return rc;
	}
	c->sessions++;
	ss->store = s;
	ss->id = ++s->last_id;
	ss->live_us = what->live_us;
	snprintf(ss->name, sizeof(ss->name), "%s", what->name);
	snprintf(ss->host, sizeof(ss->host), "%s", what->host);
	ss->chunk_fd = ss->old_fd = -1;
	snprintf(ss->client, sizeof(ss->client), "%s", client);
	ss->next = s->sessions;
	s->sessions = ss;
	s->stats.sessions++;
	*ret = ss;
	return 0;
}

uint64_t rut_store_session_id(const struct rut_store_session *ss)
{
	return ss->id;
}

const char *rut_store_session_path(const struct rut_store_session *ss)
{
	return ss->path;
}

static void stream_free(struct rut_store_stream *st)
{
	rut_map_remove(&st->session->store->streams, st->handle);
	rut_store_live_end(st);
	rut_closep(&st->fd);
	free(st->path);
	free(st->channel);
	free(st);
}

void rut_store_end(struct rut_store_session *ss)
{
	struct rut_store *s = ss->store;
	struct rut_store_session **at = &s->sessions;
	struct rut_store_client *c = client_of(s, ss->client);

	for (struct rut_store_stream *st = ss->streams, *next; st; st = next) {
		next = st->next;
		stream_free(st);
	}
	while (*at != ss)
		at = &(*at)->next;
	*at = ss->next;
	if (c)
		c->sessions--;
	rut_closep(&ss->chunk_fd);
	rut_closep(&ss->old_fd);
	close(ss->fd);
	free(ss);
}

/* ---- streams ---- */

static struct rut_store_stream *find_stream(const struct rut_store_session *ss, uint64_t handle)
{
	struct rut_store_stream *st = rut_map_get(&ss->store->streams, handle);

	return st && st->session == ss ? st : NULL;
}

bool rut_store_knows(const struct rut_store *s, const char *client)
{
	for (const struct rut_store_client *c = s->clients; c; c = c->next)
		if (!strcmp(c->name, client))
			return c->sessions > 0;
	return false;
}

bool rut_store_has(const struct rut_store *s, const char *client, uint64_t handle)
{
	const struct rut_store_stream *st = rut_map_get(&s->streams, handle);

	return st && !strcmp(st->session->client, client);
}

/* Random numbers: a data connection names a stream by its number alone. */
static uint64_t new_handle(const struct rut_store *s)
{
	uint64_t handle;

	do {
		if (getrandom(&handle, sizeof(handle), 0) != (ssize_t)sizeof(handle))
			return 0;
		handle >>= 1;
	} while (!handle || rut_map_get(&s->streams, handle));
	return handle;
}

int rut_store_add(struct rut_store_session *ss, const struct rut_relay_stream *what,
		  uint64_t *ret_handle)
{
	struct rut_store *s = ss->store;
	struct rut_store_stream *st;
	int rc;

	if (!rut_store_safe_name(what->channel) || !rut_store_safe_path(what->path))
		return -EINVAL;
	if (ss->n_streams >= s->limits.streams)
		return -EDQUOT;
	for (st = ss->streams; st; st = st->next)
		if (!strcmp(st->path, what->path) && !strcmp(st->channel, what->channel))
			return -EEXIST;
	st = calloc(1, sizeof(*st));
	if (!st)
		return -ENOMEM;
	*st = (struct rut_store_stream){
		.session = ss, .fd = -1, .handle = new_handle(s), .number = ++s->last_number};
	st->path = strdup(what->path);
	st->channel = strdup(what->channel);
	st->metadata = !strcmp(what->channel, "metadata");
	rc = st->path && st->channel && st->handle ? rut_map_put(&s->streams, st->handle, st)
						   : -ENOMEM;
	if (rc) {
		stream_free(st);
		return rc;
	}
	st->next = ss->streams;
	ss->streams = st;
	ss->n_streams++;
	s->stats.streams++;
	*ret_handle = st->handle;
	return 0;
}

/* The stream's file in the present chunk. */
static int open_file(struct rut_store_stream *st)
{
	struct rut_store_session *ss = st->session;
	const int chunk = st->rotating ? ss->old_fd : ss->chunk_fd;
	_cleanup_close_ int dir = -1;

	if (st->fd >= 0)
		return 0;
	if (chunk < 0)
		return -EPROTO;
	dir = rut_store_path(chunk, st->path);
	if (dir < 0)
		return dir;
	st->fd = openat(dir, st->channel, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	st->end = 0;
	if (st->fd < 0)
		return -errno;
	rut_store_live_open(st);
	return 0;
}

static void close_file(struct rut_store_stream *st)
{
	rut_closep(&st->fd);
	st->fd = -1;
	st->rotating = false;
}

int rut_store_metadata(struct rut_store_session *ss, const struct rut_relay_metadata *m)
{
	struct rut_store_stream *st = find_stream(ss, m->stream);
	int rc;

	if (!st || !st->metadata)
		return -ENOENT;
	if (st->end + (off_t)m->len > METADATA_BYTES)
		return -EFBIG;
	rc = charge(ss->store, ss->client, m->len);
	if (!rc)
		rc = open_file(st);
	if (!rc)
		rc = rut_packet_write(st->fd, m->text, m->len, st->end);
	if (rc)
		return st->fd >= 0 && ftruncate(st->fd, st->end) < 0 ? -errno : rc;
	ss->ours |= memmem(m->text, m->len, "rutile", 6) != NULL;
	st->end += (off_t)m->len;
	rut_store_live_metadata(st);
	st->any = true;
	return 0;
}

int rut_store_reset_metadata(struct rut_store_session *ss, uint64_t handle)
{
	struct rut_store_stream *st = find_stream(ss, handle);

	if (!st || !st->metadata)
		return -ENOENT;
	if (st->fd >= 0 && ftruncate(st->fd, 0) < 0)
		return -errno;
	st->end = 0;
	rut_store_live_metadata(st);
	return 0;
}

/* The header of a packet that is laid out as ours and LTTng's are; false: it is another one. */
static bool known_layout(const struct rut_relay_data *d, const unsigned char *packet,
			 struct rut_packet *ret)
{
	const uint64_t whole = (uint64_t)d->size + d->padding;

	if (d->size < sizeof(*ret))
		return false;
	memcpy(ret, packet, sizeof(*ret));
	return ret->magic == RUT_CTF_PACKET_MAGIC && ret->packet_size == whole * 8 &&
	       ret->content_size <= (uint64_t)d->size * 8 &&
	       ret->timestamp_begin <= ret->timestamp_end;
}

/* Does this packet begin the stream's next chunk? */
static bool rotates(const struct rut_store_stream *st, bool known, const struct rut_packet *head)
{
	return st->rotating && (!known || head->packet_seq_num >= st->rotate_at);
}

static int write_packet(struct rut_store_stream *st, const struct rut_relay_data *d, bool known,
			const struct rut_packet *head, unsigned char *packet)
{
	const size_t whole = (size_t)d->size + d->padding;

	/* Only where we know what a packet without events looks like. */
	if (known && st->session->ours && whole % PAGE == 0 &&
	    head->content_size >= sizeof(*head) * 8)
		return rut_packet_append(st->fd, head, packet, whole, st->end);
	return rut_packet_write(st->fd, packet, whole, st->end);
}

int rut_store_packet(struct rut_store *s, const char *client, const struct rut_relay_data *d,
		     unsigned char *packet)
{
	struct rut_store_stream *st = rut_map_get(&s->streams, d->stream);
	const size_t whole = (size_t)d->size + d->padding;
	struct rut_packet head;
	bool known;
	int rc;

	if (!st || strcmp(st->session->client, client) != 0 || st->metadata)
		return -ENOENT;
	memset(packet + d->size, 0, d->padding);
	known = known_layout(d, packet, &head);
	if (rotates(st, known, &head))
		close_file(st);
	/* Late, and its chunk was cleared. */
	if (st->rotating && st->fd < 0 && st->session->old_fd < 0) {
		st->last_seq = d->seq;
		st->any = true;
		return 0;
	}
	rc = rut_store_disk_full(s) ? -ENOSPC : charge(s, client, whole);
	if (!rc)
		rc = open_file(st);
	if (!rc)
		rc = write_packet(st, d, known, &head, packet);
	if (rc)
		return st->fd >= 0 && ftruncate(st->fd, st->end) < 0 ? -errno : rc;
	rut_store_live_packet(st, (uint64_t)st->end, (uint32_t)whole);
	st->end += (off_t)whole;
	st->last_seq = d->seq;
	st->any = true;
	s->stats.packets++;
	s->stats.bytes += whole;
	return 0;
}

int rut_store_pending(const struct rut_store_session *ss, uint64_t handle, uint64_t seq)
{
	const struct rut_store_stream *st = find_stream(ss, handle);

	if (!st)
		return -ENOENT;
	/* Numbers wrap around: a stream that got no packet is closed at number -1. */
	return st->metadata || (int64_t)((st->any ? st->last_seq : UINT64_MAX) - seq) >= 0 ? 0 : 1;
}

int rut_store_close_stream(struct rut_store_session *ss, uint64_t handle)
{
	return find_stream(ss, handle) ? 0 : -ENOENT;
}

int rut_store_rotate(struct rut_store_session *ss, const struct rut_relay_rotation *r)
{
	if (r->has_chunk && r->chunk != ss->chunk)
		return -EINVAL;
	for (uint32_t i = 0; i < r->count; i++) {
		struct rut_relay_position at;
		struct rut_store_stream *st;

		rut_relay_get_position(r, i, &at);
		st = find_stream(ss, at.stream);
		if (!st)
			return -ENOENT;
		st->rotating = !st->metadata && ss->old_fd >= 0;
		st->rotate_at = at.seq;
		/* Metadata is sent again, all of it. */
		if (st->metadata) {
			close_file(st);
			st->end = 0;
		}
	}
	return 0;
}
