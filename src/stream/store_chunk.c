/* SPDX-License-Identifier: MIT */
/* The trace chunks of a session of the store: its directories, and how they end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "stream/store_internal.h"

#define DEPTH_MAX 10 /* of the directories that rut_store_path() makes */

/* The chunk's directory: the session's own for the first, archives/N from the second on. */
static int open_archive(const struct rut_store_session *ss, uint64_t number)
{
	char path[64];

	snprintf(path, sizeof(path), "archives/%llu", (unsigned long long)number);
	return rut_store_path(ss->fd, path);
}

/* The first chunk is moved below archives/ as well. Open files stay open. */
static int archive_first(struct rut_store_session *ss)
{
	_cleanup_close_ int to = open_archive(ss, ss->chunk_number);
	int copy = openat(ss->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (to < 0 || !d) {
		if (d)
			closedir(d);
		else
			rut_closep(&copy);
		return to < 0 ? to : -ENOMEM;
	}
	for (struct dirent *e; (e = readdir(d)) && !rc;)
		if (e->d_name[0] != '.' && strcmp(e->d_name, "archives") != 0 &&
		    renameat(ss->fd, e->d_name, to, e->d_name) < 0)
			rc = -errno;
	closedir(d);
	ss->archived = !rc;
	if (!rc) {
		rut_closep(&ss->chunk_fd);
		ss->chunk_fd = RUT_TAKE_FD(to);
	}
	return rc;
}

int rut_store_chunk(struct rut_store_session *ss, const struct rut_relay_chunk *c)
{
	int fd, rc = 0;

	if (rut_store_disk_full(ss->store))
		return -ENOSPC;
	if (ss->has_chunk && !ss->archived)
		rc = archive_first(ss);
	if (rc)
		return rc;
	ss->chunk_number++;
	fd = ss->archived ? open_archive(ss, ss->chunk_number) : fcntl(ss->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return fd;
	rut_closep(&ss->old_fd);
	ss->old_fd = ss->chunk_fd;
	ss->old_number = ss->chunk_number - 1;
	ss->old_chunk = ss->chunk;
	ss->chunk_fd = fd;
	ss->has_chunk = true;
	ss->chunk_closed = false;
	ss->chunk = c->id;
	return 0;
}

/* What the store has made below a directory, but for the entry `keep`. No link is followed. */
static int remove_below(int dir, int depth, const char *keep)
{
	int copy = depth < DEPTH_MAX ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	int rc = 0;

	if (!d) {
		rut_closep(&copy);
		return -EIO;
	}
	for (struct dirent *e; (e = readdir(d)) && !rc;) {
		_cleanup_close_ int sub = -1;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (keep && !strcmp(e->d_name, keep)))
			continue;
		sub = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub >= 0)
			rc = remove_below(sub, depth + 1, NULL);
		if (!rc && unlinkat(dir, e->d_name, sub >= 0 ? AT_REMOVEDIR : 0) < 0)
			rc = -errno;
	}
	closedir(d);
	return rc;
}

/* The present chunk is the only one again: it moves into the session's own directory. */
static int leave_archive(struct rut_store_session *ss, int archives)
{
	char number[32];
	DIR *d;
	int rc = 0;
	int copy = openat(ss->chunk_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int own = fcntl(ss->fd, F_DUPFD_CLOEXEC, 3);

	d = copy < 0 || own < 0 ? NULL : fdopendir(copy);
	if (!d) {
		rut_closep(&copy);
		rut_closep(&own);
		return -ENOMEM;
	}
	for (struct dirent *e; (e = readdir(d)) && !rc;)
		if (e->d_name[0] != '.' && renameat(ss->chunk_fd, e->d_name, ss->fd, e->d_name) < 0)
			rc = -errno;
	closedir(d);
	if (rc) {
		close(own);
		return rc;
	}
	close(ss->chunk_fd);
	ss->chunk_fd = own;
	ss->archived = false;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)ss->chunk_number);
	unlinkat(archives, number, AT_REMOVEDIR);
	unlinkat(ss->fd, "archives", AT_REMOVEDIR);
	return 0;
}

/*
 * Deletes the chunk before the present one. Streams that are still writing to it, and viewers that
 * read from it, have its files open.
 */
static int clear_old(struct rut_store_session *ss, uint64_t id)
{
	_cleanup_close_ int archives = -1;
	char number[32];
	int rc;

	/* One before that has been closed to stay. */
	if (id != ss->old_chunk)
		return -ENOENT;
	if (ss->old_fd < 0)
		return 0;
	archives = openat(ss->fd, "archives", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (archives < 0)
		return -errno;
	rc = remove_below(ss->old_fd, 0, NULL);
	if (rc)
		return rc;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)ss->old_number);
	unlinkat(archives, number, AT_REMOVEDIR);
	rut_closep(&ss->old_fd);
	ss->old_fd = -1;
	return ss->kept ? 0 : leave_archive(ss, archives);
}

bool rut_store_may_clear(const struct rut_store *s)
{
	return !s->limits.no_clear;
}

int rut_store_close_chunk(struct rut_store_session *ss, const struct rut_relay_chunk_end *c)
{
	if (!ss->has_chunk)
		return -ENOENT;
	if (c->how == RUT_RELAY_CLOSE_DELETE && !rut_store_may_clear(ss->store))
		return -EPERM;
	/* Producers ask until a closed one does not exist any more. */
	if (c->id == ss->chunk) {
		ss->chunk_closed = true;
		ss->kept |= c->how != RUT_RELAY_CLOSE_DELETE;
		/* A stopped session that is cleared: its last chunk is to be empty. */
		return c->how == RUT_RELAY_CLOSE_DELETE && ss->chunk_fd >= 0
			       ? remove_below(ss->chunk_fd, 0, ss->archived ? NULL : "archives")
			       : 0;
	}
	if (c->how == RUT_RELAY_CLOSE_DELETE)
		return clear_old(ss, c->id);
	ss->kept = true;
	return 0;
}

bool rut_store_has_chunk(const struct rut_store_session *ss, uint64_t id)
{
	return ss->has_chunk && ss->chunk == id && !ss->chunk_closed;
}
