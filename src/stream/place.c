/* SPDX-License-Identifier: MIT */
#include "stream/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ring/append.h"

#define PAGE	 ((size_t)4096)
#define GAPS_MAX 65536

struct gap {
	uint64_t at, len;
};

struct gaps {
	struct gap *all; /* owned; sorted */
	size_t n;
};

static void gaps_fini(struct gaps *g)
{
	free(g->all);
}

/* `sync`: and waits until it is on the disk. */
static int replace(int dir, const char *name, const void *data, size_t len, bool sync)
{
	_cleanup_close_ int fd = -1;
	char temp[320];
	int rc;

	/* Several collectors may write the same. */
	snprintf(temp, sizeof(temp), ".%.255s.%d", name, (int)getpid());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	rc = rut_packet_write(fd, data, len, 0);
	if (!rc && ((sync && fdatasync(fd) < 0) || renameat(dir, temp, dir, name) < 0 ||
		    (sync && fsync(dir) < 0)))
		rc = -errno;
	if (rc)
		unlinkat(dir, temp, 0);
	return rc;
}

int rut_place_file(int dir, const char *name, const void *data, size_t len)
{
	return replace(dir, name, data, len, true);
}

/* ---- gaps ---- */

static void gaps_name(const char *name, char *ret, size_t size)
{
	snprintf(ret, size, ".%.255s.gaps", name);
}

static int gaps_read(int dir, const char *name, struct gaps *ret)
{
	_cleanup_close_ int fd = -1;
	char path[320];
	struct stat st;
	size_t len;

	gaps_name(name, path, sizeof(path));
	fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	len = (size_t)st.st_size / sizeof(struct gap) * sizeof(struct gap);
	if (len > GAPS_MAX * sizeof(struct gap))
		return -E2BIG;
	ret->all = malloc(len + 1);
	if (!ret->all)
		return -ENOMEM;
	if (pread(fd, ret->all, len, 0) != (ssize_t)len)
		return -EIO;
	ret->n = len / sizeof(struct gap);
	return 0;
}

static int gaps_write(int dir, const char *name, const struct gaps *g, bool sync)
{
	char path[320];

	gaps_name(name, path, sizeof(path));
	if (!g->n)
		return unlinkat(dir, path, 0) < 0 && errno != ENOENT ? -errno : 0;
	return replace(dir, path, g->all, g->n * sizeof(*g->all), sync);
}

/* Puts a gap at index i. */
static int gaps_insert(struct gaps *g, size_t i, uint64_t at, uint64_t len)
{
	struct gap *all;

	if (g->n >= GAPS_MAX)
		return -E2BIG;
	all = realloc(g->all, (g->n + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	memmove(all + i + 1, all + i, (g->n - i) * sizeof(*all));
	all[i] = (struct gap){at, len};
	g->all = all;
	g->n++;
	return 0;
}

/* Takes [at, end) out of the gaps. */
static int gaps_cut(struct gaps *g, uint64_t at, uint64_t end)
{
	for (size_t i = 0; i < g->n; i++) {
		struct gap *k = &g->all[i];
		const uint64_t k_end = k->at + k->len;
		int rc;

		if (k_end <= at || k->at >= end)
			continue;
		if (k_end > end) {
			rc = gaps_insert(g, i + 1, end, k_end - end);
			if (rc)
				return rc;
			k = &g->all[i];
		}
		if (k->at < at) {
			k->len = at - k->at;
			continue;
		}
		memmove(k, k + 1, (g->n - i - 1) * sizeof(*k));
		g->n--;
		i--;
	}
	return 0;
}

static const struct gap *gaps_find(const struct gaps *g, uint64_t at)
{
	for (size_t i = 0; i < g->n; i++)
		if (at >= g->all[i].at && at < g->all[i].at + g->all[i].len)
			return &g->all[i];
	return NULL;
}

/* ---- packets ---- */

/* A packet without events that covers `len` bytes, up to the packet with the header `next`. */
static int write_filler(int fd, const struct rut_packet *next, uint64_t at, uint64_t len)
{
	struct rut_packet p = *next;

	p.content_size = sizeof(p) * 8;
	p.packet_size = len * 8;
	p.timestamp_end = p.timestamp_begin;
	return rut_packet_write(fd, &p, sizeof(p), (off_t)at);
}

static int set_size(int fd, uint64_t at, uint64_t whole)
{
	const uint64_t bits = whole * 8;

	return rut_packet_write(fd, &bits, sizeof(bits),
				(off_t)(at + offsetof(struct rut_packet, packet_size)));
}

/* Into bytes that an empty packet covers: what makes it visible comes last, in one page. */
static int write_hidden(int fd, uint64_t at, const unsigned char *packet, size_t whole)
{
	const size_t first = whole % PAGE || at % PAGE ? sizeof(struct rut_packet) : PAGE;
	int rc = rut_packet_write(fd, packet + first, whole - first, (off_t)(at + first));

	return rc ? rc : rut_packet_write(fd, packet, first, (off_t)at);
}

/* Into the gap k: what remains of it on both sides are gaps. */
static int fill(int fd, const struct gap *k, const struct rut_packet *head,
		const unsigned char *packet, size_t whole, uint64_t at)
{
	const uint64_t end = at + whole, gap_end = k->at + k->len;
	int rc = 0;

	if (end > gap_end || (at > k->at && at - k->at < sizeof(*head)) ||
	    (end < gap_end && gap_end - end < sizeof(*head)))
		return -EBADMSG;
	if (end < gap_end)
		rc = write_filler(fd, head, end, gap_end - end);
	if (!rc && at == k->at)
		rc = set_size(fd, at, whole);
	if (!rc)
		rc = write_hidden(fd, at, packet, whole);
	return rc || at == k->at ? rc : set_size(fd, k->at, at - k->at);
}

/*
 * Nothing from `size` on is a gap: a writer was killed after it had noted one there, and before the
 * file was longer. What comes now would be taken for missing for ever.
 */
static int forget_gaps(int dir, const char *name, uint64_t size)
{
	__attribute__((cleanup(gaps_fini))) struct gaps g = {0};
	int rc = gaps_read(dir, name, &g);

	if (rc || !g.n || g.all[g.n - 1].at + g.all[g.n - 1].len <= size)
		return rc;
	rc = gaps_cut(&g, size, UINT64_MAX);
	return rc ? rc : gaps_write(dir, name, &g, true);
}

/* Behind the end; what is missing in between is a gap, which is noted first. */
static int append_behind(int dir, const char *name, int fd, const struct rut_packet *head,
			 const unsigned char *packet, size_t whole, uint64_t at, uint64_t size)
{
	__attribute__((cleanup(gaps_fini))) struct gaps g = {0};
	/* Where a page is not a packet's own, the packet is a gap until all of it is there. */
	const bool pages = whole % PAGE == 0 && at % PAGE == 0;
	const uint64_t end = pages ? at : at + whole;
	const struct gap gap = {size, end - size};
	int rc = 0;

	if (at > size && at - size < sizeof(*head))
		return -EBADMSG;
	/* A gap that outlasts this call must be on the disk before a later packet is acknowledged.
	 */
	if (gap.len) {
		rc = gaps_read(dir, name, &g);
		if (!rc)
			rc = gaps_cut(&g, size, UINT64_MAX);
		if (!rc)
			rc = gaps_insert(&g, g.n, size, gap.len);
		if (!rc)
			rc = gaps_write(dir, name, &g, at > size);
		if (!rc)
			rc = write_filler(fd, head, size, gap.len);
		if (!rc && ftruncate(fd, (off_t)end) < 0)
			rc = -errno;
	}
	if (!gap.len)
		rc = forget_gaps(dir, name, size);
	if (rc || pages)
		return rc ? rc : rut_packet_append(fd, head, packet, whole, (off_t)at);
	rc = fill(fd, &gap, head, packet, whole, at);
	if (!rc)
		rc = gaps_cut(&g, at, end);
	return rc ? rc : gaps_write(dir, name, &g, at > size);
}

/* The packet at `at`, as far as it is one within `size` bytes. */
static bool read_packet(int fd, uint64_t at, uint64_t size, struct rut_packet *ret)
{
	return pread(fd, ret, sizeof(*ret), (off_t)at) == (ssize_t)sizeof(*ret) &&
	       ret->magic == RUT_CTF_PACKET_MAGIC && ret->packet_size % 8 == 0 &&
	       ret->packet_size / 8 >= sizeof(*ret) && ret->packet_size / 8 <= size - at;
}

/*
 * A writer was killed at `at`, and left packets without events, or, by a loss of power, nothing
 * that is one. Notes these as a gap. Returns 1 when they were the file's last and are cut off.
 */
static int find_unfinished(int fd, struct gaps *g, uint64_t at, size_t whole, uint64_t size)
{
	struct rut_packet p;
	uint64_t end = 0;
	int rc;

	while (end < at && read_packet(fd, end, size, &p))
		end += p.packet_size / 8;
	if (end != at)
		return -EBADMSG;
	while (end < size && end - at < whole && read_packet(fd, end, size, &p)) {
		if (p.content_size != sizeof(p) * 8)
			return -EBADMSG;
		end += p.packet_size / 8;
	}
	if (end - at < whole)
		return ftruncate(fd, (off_t)at) < 0 ? -errno : 1;
	/* Only a gap can be larger than what was to be there. */
	if (end - at > whole && !gaps_find(g, at + whole))
		return -EBADMSG;
	rc = gaps_cut(g, at, end);
	for (size_t i = 0; !rc && i <= g->n; i++)
		if (i == g->n || g->all[i].at > at) {
			rc = gaps_insert(g, i, at, end - at);
			break;
		}
	return rc ? rc : set_size(fd, at, end - at);
}

/* Before the end: into a gap, or to where a writer was killed. */
static int put_before_end(int dir, const char *name, int fd, const struct rut_packet *head,
			  const unsigned char *packet, size_t whole, uint64_t at, uint64_t size)
{
	__attribute__((cleanup(gaps_fini))) struct gaps g = {0};
	const struct gap *k;
	int rc = gaps_read(dir, name, &g);

	if (rc)
		return rc;
	k = gaps_find(&g, at);
	if (!k) {
		rc = find_unfinished(fd, &g, at, whole, size);
		if (!rc)
			rc = gaps_write(dir, name, &g, true);
		k = gaps_find(&g, at);
	}
	if (rc == 1)
		return append_behind(dir, name, fd, head, packet, whole, at, at);
	if (!rc)
		rc = k ? fill(fd, k, head, packet, whole, at) : -EBADMSG;
	if (!rc)
		rc = gaps_cut(&g, at, at + whole);
	return rc ? rc : gaps_write(dir, name, &g, true);
}

/* Is there a gap at that offset? */
static int in_gap(int dir, const char *name, uint64_t at)
{
	__attribute__((cleanup(gaps_fini))) struct gaps g = {0};
	int rc = gaps_read(dir, name, &g);

	return rc ? rc : gaps_find(&g, at) != NULL;
}

/* But for the end, which may have been set since. */
static bool same_packet(const struct rut_packet *there, const struct rut_packet *head)
{
	struct rut_packet p = *head;

	if (there->timestamp_end >= p.timestamp_end)
		p.timestamp_end = there->timestamp_end;
	return !memcmp(there, &p, sizeof(p));
}

static int put(int dir, const char *name, int fd, uint64_t at, const unsigned char *packet,
	       size_t whole)
{
	struct rut_packet head, there;
	uint64_t size;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	size = (uint64_t)st.st_size;
	memcpy(&head, packet, sizeof(head));
	if (at >= size)
		return append_behind(dir, name, fd, &head, packet, whole, at, size);
	if (pread(fd, &there, sizeof(there), (off_t)at) == (ssize_t)sizeof(there) &&
	    same_packet(&there, &head)) {
		/* Unless its writer was killed before the gap ended here. */
		rc = in_gap(dir, name, at);
		if (rc != 1)
			return rc ? rc : 1;
	}
	return put_before_end(dir, name, fd, &head, packet, whole, at, size);
}

bool rut_place_is_packet(const void *data, size_t content, size_t whole)
{
	struct rut_packet p;

	if (content < sizeof(p) || whole < content)
		return false;
	memcpy(&p, data, sizeof(p));
	return p.magic == RUT_CTF_PACKET_MAGIC && p.packet_size == whole * 8 &&
	       p.content_size == content * 8;
}

int rut_place_packet(int dir, const char *name, int fd, uint64_t offset,
		     const unsigned char *packet, size_t whole)
{
	int rc;

	if (flock(fd, LOCK_EX) < 0)
		return -errno;
	rc = put(dir, name, fd, offset, packet, whole);
	flock(fd, LOCK_UN);
	return rc;
}

int rut_place_has(int dir, const char *name, int fd, uint64_t offset, size_t content, size_t whole)
{
	struct rut_packet p;
	int rc = 0;

	if (flock(fd, LOCK_EX) < 0)
		return -errno;
	if (pread(fd, &p, sizeof(p), (off_t)offset) == (ssize_t)sizeof(p) &&
	    p.magic == RUT_CTF_PACKET_MAGIC && p.content_size == content * 8 &&
	    p.packet_size == whole * 8) {
		rc = in_gap(dir, name, offset);
		rc = rc < 0 ? rc : !rc;
	}
	flock(fd, LOCK_UN);
	return rc;
}

static int set_end(int dir, const char *name, int fd, uint64_t offset, size_t whole, uint64_t ns)
{
	struct rut_packet p;
	int rc;

	if (pread(fd, &p, sizeof(p), (off_t)offset) != (ssize_t)sizeof(p) ||
	    p.magic != RUT_CTF_PACKET_MAGIC || p.packet_size != whole * 8)
		return -EAGAIN;
	rc = in_gap(dir, name, offset);
	if (rc)
		return rc < 0 ? rc : -EAGAIN;
	if (p.timestamp_end >= ns)
		return 1;
	return rut_packet_write(fd, &ns, sizeof(ns),
				(off_t)(offset + offsetof(struct rut_packet, timestamp_end)));
}

int rut_place_end(int dir, const char *name, int fd, uint64_t offset, size_t whole, uint64_t ns)
{
	int rc;

	if (flock(fd, LOCK_EX) < 0)
		return -errno;
	rc = set_end(dir, name, fd, offset, whole, ns);
	flock(fd, LOCK_UN);
	return rc;
}

/* ---- pieces ---- */

/* Opens and locks the file; another process may remove it before it is locked. */
static int open_pieces(int dir, const char *name)
{
	for (;;) {
		_cleanup_close_ int fd =
			openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
		struct stat st;

		if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
			return -errno;
		if (st.st_nlink)
			return RUT_TAKE_FD(fd);
	}
}

/*
 * Writes a piece, and a byte that says that it is there, behind the content. It is written again
 * when it was there: its writer may not have waited for the disk.
 */
static int write_piece(int fd, const struct rut_place_piece *p, bool *ret_new)
{
	char there = 0;
	int rc;

	*ret_new = pread(fd, &there, 1, (off_t)(p->content + p->at / p->part)) != 1 || !there;
	rc = rut_packet_write(fd, p->data, p->len, (off_t)p->at);
	if (!rc)
		rc = rut_packet_write(fd, "\1", 1, (off_t)(p->content + p->at / p->part));
	return !rc && fdatasync(fd) < 0 ? -errno : rc;
}

/* Reads the content and the `n` bytes behind it. Returns 1 when all pieces are there, 0 or -EIO. */
static int read_pieces(int fd, unsigned char *all, size_t content, size_t n)
{
	if (pread(fd, all + content, n, (off_t)content) != (ssize_t)n ||
	    memchr(all + content, 0, n))
		return 0;
	return pread(fd, all, content, 0) == (ssize_t)content ? 1 : -EIO;
}

int rut_place_piece(int dir, const char *name, const struct rut_place_piece *p, bool *ret_new,
		    unsigned char **ret)
{
	const size_t n = (p->content + p->part - 1) / p->part;
	_cleanup_close_ int fd = open_pieces(dir, name);
	int rc = fd < 0 ? fd : write_piece(fd, p, ret_new);
	unsigned char *all;

	if (rc)
		return rc;
	all = malloc(p->content + n);
	if (!all)
		return -ENOMEM;
	rc = read_pieces(fd, all, p->content, n);
	if (rc == 1)
		*ret = all;
	else
		free(all);
	return rc;
}
