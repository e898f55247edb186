/* SPDX-License-Identifier: MIT */
#include "stream/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define METADATA_MAX (64u << 20)
/* Times of directories are those of the last timer tick: a change may not show in them. */
#define RECENT_NS 50000000ll

int rut_chunk_new(struct rut_chunk **ret, const char *path, struct rut_err *err)
{
	struct rut_chunk *c = calloc(1, sizeof(*c));

	if (!c)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c->path = strdup(path);
	if (c->fd < 0 || !c->path) {
		int rc = rut_err_errno(err, c->fd < 0 ? errno : ENOMEM, "cannot open '%s'", path);

		rut_chunk_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

static void part_free(struct rut_stream_part *p)
{
	struct rut_held_pool none = {0};

	for (struct rut_stream_file *f = p->files, *next; f; f = next) {
		next = f->next;
		rut_held_release(&f->held, &none, f->held.end);
		rut_closep(&f->fd);
		free(f->name);
		free(f);
	}
	rut_held_pool_free(&none);
	rut_closep(&p->fd);
	free(p->text);
	free(p->name);
	free(p);
}

void rut_chunk_free(struct rut_chunk *c)
{
	if (!c)
		return;
	for (struct rut_stream_part *p = c->parts, *next; p; p = next) {
		next = p->next;
		part_free(p);
	}
	rut_closep(&c->fd);
	free(c->path);
	free(c);
}

/* Has the directory changed since `seen`? Notes its time. */
static bool changed(int fd, struct timespec *seen)
{
	struct timespec now;
	struct stat st;
	bool same;

	if (fstat(fd, &st) < 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	same = st.st_mtim.tv_sec == seen->tv_sec && st.st_mtim.tv_nsec == seen->tv_nsec;
	*seen = st.st_mtim;
	/* Soon after a change another one can have the same time: look again the next time. */
	if ((now.tv_sec - st.st_mtim.tv_sec) * 1000000000ll + now.tv_nsec - st.st_mtim.tv_nsec <
	    RECENT_NS)
		seen->tv_nsec = -1;
	return !same;
}

/* Calls fn for each name that is not hidden. */
static void each_name(int fd, void (*fn)(void *arg, const char *name, void *lock), void *arg,
		      void *lock)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (!d) {
		rut_closep(&copy);
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			fn(arg, e->d_name, lock);
	closedir(d);
}

struct guard {
	void (*fn)(void *arg, bool on);
	void *arg;
};

static void add_file(void *arg, const char *name, void *lock)
{
	struct guard *g = lock;
	struct rut_stream_part *p = arg;
	struct rut_stream_file *f, **end = &p->files;
	struct stat st;

	if (!strcmp(name, "metadata"))
		return;
	for (; *end; end = &(*end)->next)
		if (!strcmp((*end)->name, name))
			return;
	f = calloc(1, sizeof(*f));
	if (!f)
		return;
	f->name = strdup(name);
	f->fd = openat(p->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (!f->name || f->fd < 0 || fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		rut_closep(&f->fd);
		free(f->name);
		free(f);
		return;
	}
	g->fn(g->arg, true);
	*end = f;
	g->fn(g->arg, false);
}

static void add_part(void *arg, const char *name, void *lock)
{
	struct guard *g = lock;
	struct rut_chunk *c = arg;
	struct rut_stream_part *p, **end = &c->parts;
	_cleanup_close_ int fd = -1;

	for (; *end; end = &(*end)->next)
		if (!strcmp((*end)->name, name))
			return;
	fd = openat(c->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || faccessat(fd, "metadata", R_OK, 0) < 0)
		return;
	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	p->name = strdup(name);
	if (!p->name) {
		free(p);
		return;
	}
	p->fd = RUT_TAKE_FD(fd);
	g->fn(g->arg, true);
	*end = p;
	g->fn(g->arg, false);
}

static void read_metadata(struct rut_stream_part *p, struct guard *g)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[64];
	char *old;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/metadata", p->fd);
	if (rut_buf_read_file(&b, path, METADATA_MAX) < 0 || b.failed || !b.len ||
	    (p->text && b.len == p->text_len && !memcmp(b.data, p->text, b.len)))
		return;
	g->fn(g->arg, true);
	old = p->text;
	p->text_len = b.len;
	p->text = rut_buf_take(&b);
	p->generation++;
	g->fn(g->arg, false);
	free(old);
}

static off_t size_of(const struct rut_stream_file *f)
{
	struct stat st;

	if (f->fd < 0)
		return f->held.end;
	return fstat(f->fd, &st) < 0 ? 0 : st.st_size;
}

struct rut_stream_file *rut_chunk_held(struct rut_chunk *c, const char *part, const char *name,
				       void (*lock)(void *arg, bool on), void *arg)
{
	struct rut_stream_part *p = c->parts;
	struct rut_stream_file *f, **end;

	while (p && strcmp(p->name, part) != 0)
		p = p->next;
	if (!p)
		return NULL;
	for (end = &p->files; *end; end = &(*end)->next)
		if (!strcmp((*end)->name, name))
			return *end;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->fd = -1;
	f->name = strdup(name);
	if (!f->name) {
		free(f);
		return NULL;
	}
	lock(arg, true);
	*end = f;
	lock(arg, false);
	return f;
}

/* Returns the new bytes. */
static uint64_t grow(struct rut_stream_file *f, off_t size, const struct guard *g)
{
	uint64_t bytes = 0;

	g->fn(g->arg, true);
	if (!f->bad) {
		bytes = (uint64_t)(size - f->size);
		f->waiting += bytes;
		__atomic_store_n(&f->size, size, __ATOMIC_RELAXED);
	}
	g->fn(g->arg, false);
	return bytes;
}

uint64_t rut_chunk_scan(struct rut_chunk *c, void (*lock)(void *arg, bool on), void *arg)
{
	struct guard g = {lock, arg};
	uint64_t bytes = 0;

	if (changed(c->fd, &c->seen))
		each_name(c->fd, add_part, c, &g);
	for (struct rut_stream_part *p = c->parts; p; p = p->next) {
		if (changed(p->fd, &p->seen)) {
			each_name(p->fd, add_file, p, &g);
			read_metadata(p, &g);
		}
		for (struct rut_stream_file *f = p->files; f; f = f->next) {
			off_t size = size_of(f);

			if (size > __atomic_load_n(&f->size, __ATOMIC_RELAXED))
				bytes += grow(f, size, &g);
		}
	}
	return bytes;
}

static bool read_bytes(const struct rut_stream_file *f, off_t at, void *ret, size_t len)
{
	const unsigned char *data;
	size_t there = 0;

	if (f->fd >= 0)
		return pread(f->fd, ret, len, at) == (ssize_t)len;
	data = rut_held_find(&f->held, at, &there);
	if (data && there >= len)
		memcpy(ret, data, len);
	return data && there >= len;
}

int rut_stream_file_head(const struct rut_stream_file *f, off_t at, off_t size,
			 struct rut_packet *ret)
{
	const off_t left = size - at;

	if (left < (off_t)sizeof(*ret) || !read_bytes(f, at, ret, sizeof(*ret)) ||
	    ret->magic != RUT_CTF_PACKET_MAGIC || ret->content_size % 8 || ret->packet_size % 8 ||
	    ret->content_size < sizeof(*ret) * 8 || ret->packet_size < ret->content_size ||
	    ret->packet_size / 8 > (uint64_t)left || ret->packet_size / 8 > INT32_MAX)
		return -EBADMSG;
	return 0;
}

void rut_chunk_remove(const struct rut_chunk *c)
{
	for (const struct rut_stream_part *p = c->parts; p; p = p->next) {
		for (const struct rut_stream_file *f = p->files; f; f = f->next)
			unlinkat(p->fd, f->name, 0);
		unlinkat(p->fd, "metadata", 0);
		unlinkat(c->fd, p->name, AT_REMOVEDIR);
	}
	rmdir(c->path);
}
