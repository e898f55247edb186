/* SPDX-License-Identifier: MIT */
#include "stream/store_live.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "stream/store_internal.h"

/* ---- files ---- */

struct rut_store_file *rut_store_file_ref(struct rut_store_file *f)
{
	f->refs++;
	return f;
}

/* A list of unread chunks may be long: no recursion. */
void rut_store_file_unref(struct rut_store_file *f)
{
	while (f && !--f->refs) {
		struct rut_store_file *next = f->next;

		*(f->all_prev ? &f->all_prev->all_next : &f->store->all_files) = f->all_next;
		if (f->all_next)
			f->all_next->all_prev = f->all_prev;
		f->store->files--;
		rut_closep(&f->fd);
		free(f->places);
		free(f);
		f = next;
	}
}

/* ---- what happens to a stream ---- */

void rut_store_live_open(struct rut_store_stream *st)
{
	struct rut_store *s = st->session->store;
	struct rut_store_file *f;

	if (!s->live)
		return;
	f = calloc(1, sizeof(*f));
	if (!f)
		return;
	f->store = s;
	f->number = ++s->last_file;
	f->refs = 1;
	s->files++;
	f->all_next = s->all_files;
	if (s->all_files)
		s->all_files->all_prev = f;
	s->all_files = f;
	f->fd = fcntl(st->fd, F_DUPFD_CLOEXEC, 3);
	if (st->file) {
		st->file->next = rut_store_file_ref(f);
		st->file->closed = true;
		rut_store_file_unref(st->file);
	} else {
		s->current_files++;
	}
	st->file = f;
}

void rut_store_live_packet(struct rut_store_stream *st, uint64_t at, uint32_t len)
{
	struct rut_store_file *f = st->file;

	if (!f || f->closed)
		return;
	if (f->n == f->cap) {
		const size_t cap = f->cap ? 2 * f->cap : 64;
		struct rut_store_place *more = reallocarray(f->places, cap, sizeof(*more));

		if (!more)
			return;
		f->places = more;
		f->cap = cap;
	}
	f->places[f->n++] = (struct rut_store_place){.at = at, .len = len};
}

void rut_store_live_metadata(struct rut_store_stream *st)
{
	if (st->file)
		st->file->bytes = (uint64_t)st->end;
}

void rut_store_live_end(struct rut_store_stream *st)
{
	if (!st->file)
		return;
	st->file->closed = true;
	st->session->store->current_files--;
	rut_store_file_unref(st->file);
	st->file = NULL;
}

/* ---- what viewers ask for ---- */

void rut_store_serve(struct rut_store *s)
{
	s->live = true;
}

size_t rut_store_held(const struct rut_store *s)
{
	return s->files - s->current_files;
}

bool rut_store_must_release(const struct rut_store *s)
{
	if (!rut_store_held(s) || !rut_store_disk_full(s))
		return false;
	for (const struct rut_store_file *f = s->all_files; f; f = f->all_next) {
		struct stat st;

		if (f->closed && !fstat(f->fd, &st) && !st.st_nlink && st.st_blocks)
			return true;
	}
	return false;
}

void rut_store_each_session(const struct rut_store *s,
			    bool (*fn)(void *arg, const struct rut_store_live_session *what),
			    void *arg)
{
	for (const struct rut_store_session *ss = s->sessions; ss; ss = ss->next) {
		const struct rut_store_live_session what = {.id = ss->id,
							    .host = ss->host,
							    .name = ss->name,
							    .live_us = ss->live_us,
							    .streams = ss->n_streams};

		if (!fn(arg, &what))
			return;
	}
}

static const struct rut_store_session *find_session(const struct rut_store *s, uint64_t id)
{
	for (const struct rut_store_session *ss = s->sessions; ss; ss = ss->next)
		if (ss->id == id)
			return ss;
	return NULL;
}

bool rut_store_is_live(const struct rut_store *s, uint64_t session)
{
	return find_session(s, session) != NULL;
}

void rut_store_each_stream(const struct rut_store *s, uint64_t session,
			   bool (*fn)(void *arg, const struct rut_store_live_stream *what),
			   void *arg)
{
	const struct rut_store_session *ss = find_session(s, session);

	for (const struct rut_store_stream *st = ss ? ss->streams : NULL; st; st = st->next) {
		const struct rut_store_live_stream what = {.number = st->number,
							   .path = st->path,
							   .channel = st->channel,
							   .metadata = st->metadata,
							   .idle_ns = st->idle_ns,
							   .file = st->file};

		if (!fn(arg, &what))
			return;
	}
}

void rut_store_idle(struct rut_store *s, const char *client, uint64_t handle, uint64_t end_ns)
{
	struct rut_store_stream *st = rut_map_get(&s->streams, handle);

	if (st && !strcmp(st->session->client, client) && end_ns > st->idle_ns)
		st->idle_ns = end_ns;
}
