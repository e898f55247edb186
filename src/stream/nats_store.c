/* SPDX-License-Identifier: MIT */
#include "stream/nats_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "ring/ring.h"
#include "stream/nats_complete.h"
#include "stream/nats_wire.h"
#include "stream/place.h"

#define OPEN_FILES 256
#define PATH_BYTES 1400
#define HOST_MAX   64  /* as long as the name of a host gets */
#define STREAM_MAX 200 /* of a stream's name: hidden files have longer ones */
/* What a file or directory counts besides its content: their number has a limit, too. */
#define FILE_BYTES 4096

/* A file of packets, which stays open while packets come. */
struct file {
	char path[PATH_BYTES]; /* below DIR; "": free */
	int dir, fd;
	bool dirty;
	uint64_t used;
};

struct rut_nats_store {
	struct rut_store *store; /* owned: the directory, its limits */
	struct file files[OPEN_FILES];
	uint64_t clock;
	int evicted; /* a file was closed before its packets were on the disk; 0: none */
	struct rut_nats_store_stats stats;
};

/* What came. */
struct message {
	struct rut_nats_subject to;
	struct rut_nats_head h;
	const void *piece;
	size_t len;
	char path[PATH_BYTES - RUT_NATS_NAME_MAX - 1]; /* of its directory, below DIR */
};

int rut_nats_store_new(struct rut_nats_store **ret, const char *dir,
		       const struct rut_store_limits *limits, struct rut_err *err)
{
	struct rut_nats_store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_store_new(&s->store, dir, limits, err);
	if (rc)
		free(s);
	else
		*ret = s;
	return rc;
}

static int file_close(struct file *f)
{
	int rc = f->dirty && fdatasync(f->fd) < 0 ? -errno : 0;

	close(f->fd);
	close(f->dir);
	*f = (struct file){0};
	return rc;
}

void rut_nats_store_free(struct rut_nats_store *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < OPEN_FILES; i++)
		if (s->files[i].path[0])
			file_close(&s->files[i]);
	rut_store_free(s->store);
	free(s);
}

/* ---- where a message belongs ---- */

/* The directory of the message's chunk: HOST/SESSION-DATE-TIME-ID[/archives/N]. */
static int chunk_path(const struct rut_nats_subject *to, const struct rut_nats_head *h, char *ret,
		      size_t size)
{
	time_t created = (time_t)h->created_s;
	char date[32], archive[32] = "";
	struct tm tm;
	size_t n;

	/* In UTC: collectors in different zones must agree. */
	if (h->created_s > INT32_MAX * 4ull || !gmtime_r(&created, &tm))
		return -EBADMSG;
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm);
	if (h->chunk)
		snprintf(archive, sizeof(archive), "/archives/%u", h->chunk + 1);
	n = (size_t)snprintf(ret, size, "%s/%.200s-%s-%02x%02x%02x%02x%s", to->host, to->session,
			     date, h->uuid[0], h->uuid[1], h->uuid[2], h->uuid[3], archive);
	return n < size ? 0 : -EBADMSG;
}

/* May the host write so many bytes more? */
static int room(struct rut_nats_store *s, const struct message *m, uint64_t bytes)
{
	int rc = rut_store_room(s->store, m->to.host, bytes);

	return rc == -EDQUOT ? RUT_NATS_OVER_LIMIT : rc;
}

/* Counts what was written; there was room for it. */
static void charge(struct rut_nats_store *s, const struct message *m, uint64_t bytes)
{
	rut_store_charge(s->store, m->to.host, bytes);
}

/* Opens the message's directory. Packets make it: what is about one that is there does not. */
static int open_below(struct rut_nats_store *s, const struct message *m)
{
	int rc, fd = rut_store_find(s->store, m->path);

	if (fd == -ENOENT && m->h.kind == RUT_NATS_END)
		return -EAGAIN;
	if (fd == -ENOENT) {
		rc = room(s, m, FILE_BYTES);
		if (rc)
			return rc;
		fd = rut_store_open(s->store, m->path);
		if (fd >= 0)
			charge(s, m, FILE_BYTES);
	}
	/* What is there under that name is no directory: it stays, and the message is refused. */
	return fd == -EINVAL || fd == -ENOTDIR || fd == -ELOOP || fd == -ENAMETOOLONG ? -EBADMSG
										      : fd;
}

/* Likewise the file in it. */
static int open_stream(struct rut_nats_store *s, const struct message *m, int dir)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int rc, fd = openat(dir, m->to.stream, flags);

	if (fd < 0 && errno == ENOENT && m->h.kind == RUT_NATS_END)
		return -EAGAIN;
	if (fd < 0 && errno == ENOENT) {
		rc = room(s, m, FILE_BYTES);
		if (rc)
			return rc;
		fd = openat(dir, m->to.stream, flags | O_CREAT, 0640);
		if (fd >= 0)
			charge(s, m, FILE_BYTES);
	}
	if (fd < 0)
		return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -EBADMSG : -errno;
	return fd;
}

static struct file *oldest_file(struct rut_nats_store *s)
{
	struct file *f = &s->files[0];

	for (size_t i = 1; i < OPEN_FILES; i++)
		if (s->files[i].used < f->used)
			f = &s->files[i];
	return f;
}

/* The stream's file. Returns 0 or -errno. */
static int get_file(struct rut_nats_store *s, const struct message *m, struct file **ret)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	char path[PATH_BYTES];
	struct file *f;
	int rc;

	snprintf(path, sizeof(path), "%s/%s", m->path, m->to.stream);
	for (f = s->files; f < s->files + OPEN_FILES; f++)
		if (!strcmp(f->path, path)) {
			f->used = ++s->clock;
			*ret = f;
			return 0;
		}
	dir_fd = open_below(s, m);
	if (dir_fd < 0)
		return dir_fd;
	fd = open_stream(s, m, dir_fd);
	if (fd < 0)
		return fd;
	if (fsync(dir_fd) < 0)
		return -errno;
	f = oldest_file(s);
	rc = f->path[0] ? file_close(f) : 0;
	/* That is about the messages of the batch that went to that file. */
	if (rc)
		s->evicted = rc;
	*f = (struct file){.dir = RUT_TAKE_FD(dir_fd), .fd = RUT_TAKE_FD(fd), .used = ++s->clock};
	memcpy(f->path, path, sizeof(f->path));
	*ret = f;
	return 0;
}

/* ---- content ---- */

/*
 * Where pieces are until all of them are there: those of another attempt, with another size of
 * pieces, are elsewhere.
 */
static void pieces_name(const struct message *m, uint32_t part, char *ret, size_t size)
{
	snprintf(ret, size, ".%.200s.%llu.%llu.%u", m->to.stream[0] ? m->to.stream : "list",
		 (unsigned long long)(m->h.kind == RUT_NATS_PACKET ? m->h.offset : m->h.seq),
		 (unsigned long long)m->h.content, part);
}

/* All of the content is where it belongs. Other attempts may have left pieces of it. */
static void remove_pieces(int dir, const struct message *m)
{
	char name[320];

	pieces_name(m, m->h.part, name, sizeof(name));
	if (m->len != m->h.content)
		unlinkat(dir, name, 0);
	for (uint32_t part = RUT_NATS_PART_MIN; part < m->h.content && part <= RUT_NATS_PIECE;
	     part *= 2) {
		pieces_name(m, part, name, sizeof(name));
		unlinkat(dir, name, 0);
	}
}

/*
 * All of the content: at once, or when this was its last missing piece. Behind it are zeros, up to
 * `size` bytes. Returns 1 with it, 0, or -errno.
 */
static int whole_content(struct rut_nats_store *s, const struct message *m, int dir, size_t size,
			 unsigned char **ret)
{
	const struct rut_nats_head *h = &m->h;
	const struct rut_place_piece p = {.content = h->content,
					  .at = h->at,
					  .part = h->part,
					  .data = m->piece,
					  .len = m->len};
	unsigned char *grown;
	char name[320];
	bool new = false;
	int rc;

	if (m->len == h->content) {
		*ret = calloc(1, size + 1);
		if (!*ret)
			return -ENOMEM;
		memcpy(*ret, m->piece, m->len);
		return 1;
	}
	pieces_name(m, h->part, name, sizeof(name));
	rc = rut_place_piece(dir, name, &p, &new, ret);
	if (rc >= 0 && new)
		charge(s, m, m->len);
	if (rc != 1)
		return rc;
	grown = realloc(*ret, size + 1);
	if (!grown) {
		free(*ret);
		*ret = NULL;
		return -ENOMEM;
	}
	memset(grown + h->content, 0, size + 1 - h->content);
	*ret = grown;
	return 1;
}

/* What storing the message writes, but for pieces that were counted as they came. */
static uint64_t size_written(const struct message *m)
{
	return m->len == m->h.content ? m->h.whole : m->h.whole - m->h.content;
}

static int put_content(struct rut_nats_store *s, const struct message *m, const struct file *f)
{
	_cleanup_free_ unsigned char *packet = NULL;
	const struct rut_nats_head *h = &m->h;
	int rc = rut_place_has(f->dir, m->to.stream, f->fd, h->offset, h->content, h->whole);

	/* The rest of one that is complete begins no new one. */
	if (rc < 0 || (rc && m->len != h->content))
		return rc;
	if (!rc)
		rc = room(s, m, m->len + h->whole - h->content);
	if (rc < 0)
		return rc;
	rc = whole_content(s, m, f->dir, h->whole, &packet);
	if (rc != 1)
		return rc;
	/* A packet in pieces is one only now. */
	rc = rut_place_is_packet(packet, h->content, h->whole)
		     ? rut_place_packet(f->dir, m->to.stream, f->fd, h->offset, packet, h->whole)
		     : -EBADMSG;
	if (rc >= 0 || rc == -EBADMSG)
		remove_pieces(f->dir, m);
	if (rc)
		return rc;
	charge(s, m, size_written(m));
	s->stats.packets++;
	s->stats.bytes += h->whole;
	return 0;
}

/* Something is in the part, maybe for the second time: `rc`, which is returned. */
static int arrived(struct rut_nats_store *s, int part, int rc)
{
	const int whole = rut_nats_part_completes(part);

	s->stats.complete += whole > 0;
	return whole < 0 ? whole : rc;
}

static int put_packet(struct rut_nats_store *s, const struct message *m)
{
	const struct rut_nats_head *h = &m->h;
	struct file *f = NULL;
	int rc;

	if (h->whole > RUT_NATS_CONTENT_MAX ||
	    (!h->at && h->kind == RUT_NATS_PACKET &&
	     (m->len < sizeof(struct rut_packet) ||
	      !rut_place_is_packet(m->piece, h->content, h->whole))))
		return -EBADMSG;
	rc = get_file(s, m, &f);
	if (rc)
		return rc;
	/* A packet that is there, too: its writer may have been killed before it was on the disk.
	 */
	f->dirty = true;
	rc = h->kind == RUT_NATS_END
		     ? rut_place_end(f->dir, m->to.stream, f->fd, h->offset, h->whole, h->seq)
		     : put_content(s, m, f);
	return rc < 0 ? rc : arrived(s, f->dir, rc);
}

/* The generation of the metadata that is there; 0: none. */
static uint64_t generation(int dir)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	uint64_t n = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/.generation", dir);
	if (rut_buf_read_file(&b, path, 64) || b.failed || !b.len || rut_parse_u64(b.data, &n))
		return 0;
	return n;
}

static int put_metadata(struct rut_nats_store *s, const struct message *m)
{
	_cleanup_close_ int dir = open_below(s, m);
	_cleanup_free_ unsigned char *text = NULL;
	char number[32];
	int rc;

	if (dir < 0)
		return dir;
	rc = rut_store_lock(dir);
	if (rc)
		return rc;
	if (m->h.seq <= generation(dir))
		return fsync(dir) < 0 ? -errno : arrived(s, dir, 1);
	rc = room(s, m, m->len);
	if (!rc)
		rc = whole_content(s, m, dir, m->h.content, &text);
	if (rc != 1)
		return rc;
	rc = rut_place_file(dir, "metadata", text, m->h.content);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)m->h.seq);
	if (!rc)
		rc = rut_place_file(dir, ".generation", number, strlen(number));
	if (rc)
		return rc;
	charge(s, m, size_written(m));
	remove_pieces(dir, m);
	return arrived(s, dir, 0);
}

static int put_list(struct rut_nats_store *s, const struct message *m)
{
	_cleanup_close_ int dir = open_below(s, m);
	_cleanup_free_ unsigned char *text = NULL;
	int rc;

	if (dir < 0)
		return dir;
	rc = rut_store_lock(dir);
	if (!rc && !faccessat(dir, ".complete", F_OK, AT_SYMLINK_NOFOLLOW))
		return fsync(dir) < 0 ? -errno : 1;
	if (!rc && !faccessat(dir, ".list", F_OK, AT_SYMLINK_NOFOLLOW)) {
		rc = rut_nats_complete(dir);
		s->stats.complete += rc > 0;
		return rc < 0 ? rc : 1;
	}
	if (!rc)
		rc = room(s, m, m->len);
	if (!rc)
		rc = m->h.content ? whole_content(s, m, dir, m->h.content, &text) : 1;
	if (rc != 1)
		return rc;
	rc = rut_nats_list(dir, text ? text : (const void *)"", m->h.content);
	if (rc < 0)
		return rc;
	s->stats.complete += (unsigned int)rc;
	charge(s, m, size_written(m));
	remove_pieces(dir, m);
	return 0;
}

/* Names that can be made below DIR; those that begin with a dot are ours. */
static bool safe_names(const struct rut_nats_subject *to)
{
	return strlen(to->host) <= HOST_MAX && rut_store_safe_name(to->host) &&
	       rut_store_safe_name(to->session) && rut_store_safe_name(to->part) &&
	       (!to->stream[0] ||
		(strlen(to->stream) <= STREAM_MAX && rut_store_safe_name(to->stream)));
}

/* Reads a message, and where it belongs. Returns 0 or -EBADMSG. */
static int parse(const char *subject, const void *data, size_t len, struct message *ret)
{
	const bool events[] = {[RUT_NATS_BEGIN] = true, [RUT_NATS_CHUNK] = true};
	const struct rut_nats_head *h = &ret->h;
	size_t n;
	bool event;

	if (rut_nats_subject_get(subject, &ret->to) || rut_nats_head_get(data, len, &ret->h) ||
	    !safe_names(&ret->to) || chunk_path(&ret->to, h, ret->path, sizeof(ret->path)))
		return -EBADMSG;
	ret->piece = (const char *)data + RUT_NATS_HEAD;
	ret->len = len - RUT_NATS_HEAD;
	event = h->kind < sizeof(events) && events[h->kind];
	if (event == (ret->to.stream[0] != '\0') ||
	    (h->kind == RUT_NATS_METADATA) != !strcmp(ret->to.stream, "metadata"))
		return -EBADMSG;
	n = strlen(ret->path);
	if (!event && (size_t)snprintf(ret->path + n, sizeof(ret->path) - n, "/%s", ret->to.part) >=
			      sizeof(ret->path) - n)
		return -EBADMSG;
	return 0;
}

int rut_nats_store_put(struct rut_nats_store *s, const char *subject, const void *data, size_t len)
{
	struct message m;
	int rc = parse(subject, data, len, &m);

	if (rc || m.h.kind == RUT_NATS_BEGIN)
		return rc;
	if (m.h.kind == RUT_NATS_CHUNK)
		return put_list(s, &m);
	rc = m.h.kind == RUT_NATS_METADATA ? put_metadata(s, &m) : put_packet(s, &m);
	s->stats.duplicates += rc == 1;
	return rc;
}

int rut_nats_store_sync(struct rut_nats_store *s)
{
	int rc = s->evicted;

	s->evicted = 0;
	for (struct file *f = s->files; f < s->files + OPEN_FILES; f++)
		if (f->dirty) {
			if (fdatasync(f->fd) < 0)
				rc = -errno;
			else
				f->dirty = false;
		}
	return rc;
}

void rut_nats_store_stats(const struct rut_nats_store *s, struct rut_nats_store_stats *ret)
{
	*ret = s->stats;
}
