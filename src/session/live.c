/* SPDX-License-Identifier: MIT */
#include "session/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/memfs.h"
#include "session/aside.h"
#include "session/mappings.h"
#include "session/statedump.h"

/*
 * A producer takes the time before it has its place, and may be interrupted between the two: what
 * has come up to now is all that there is up to a little earlier.
 */
#define SLACK_NS 10000000ull

/* One of a CPU; the last one has the state of the machine. */
struct stream {
	int fd;
	uint64_t pos; /* in the ring */
	uint64_t seq, lost;
	uint64_t end_ns; /* of the last packet */
};

struct rut_session_live {
	struct rut_recorder *r; /* borrowed */
	int mount_fd, dir_fd;
	struct stream *streams; /* owned; one more than there are CPUs */
	unsigned char *buf;	/* owned; of a sub-buffer's size */
	uint32_t text_len, dynamic_len;
	char path[128];
};

static int write_metadata(struct rut_session_live *l, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	_cleanup_close_ int fd = -1;
	int rc;

	/* Calls of 32-bit programs too: there may be some at any time. */
	rut_recorder_metadata(l->r, true, rut_clock_offset_near_ns(l->r->meta->clock_offset_ns),
			      &text);
	if (text.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	unlinkat(l->dir_fd, ".metadata", 0);
	fd = openat(l->dir_fd, ".metadata", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = fd < 0 ? -errno : rut_file_write(fd, text.data, text.len);
	if (!rc && renameat(l->dir_fd, ".metadata", l->dir_fd, "metadata") < 0)
		rc = -errno;
	return rc ? rut_err_errno(err, -rc, "cannot write the metadata") : 0;
}

/* Metadata that grew is there before packets that need it are read. */
static int follow_metadata(struct rut_session_live *l, struct rut_err *err)
{
	uint32_t text_len = __atomic_load_n(&l->r->meta->text_len, __ATOMIC_ACQUIRE);
	uint32_t dynamic_len = __atomic_load_n(&l->r->meta->dynamic_len, __ATOMIC_ACQUIRE);
	int rc;

	if (text_len == l->text_len && dynamic_len == l->dynamic_len)
		return 0;
	rc = write_metadata(l, err);
	if (!rc) {
		l->text_len = text_len;
		l->dynamic_len = dynamic_len;
	}
	return rc;
}

static int append(struct stream *s, struct rut_packet *p, uint64_t end_ns, uint64_t lost)
{
	p->packet_seq_num = s->seq++;
	p->events_discarded = lost - s->lost;
	p->timestamp_end = end_ns > p->timestamp_begin ? end_ns : p->timestamp_begin;
	s->end_ns = p->timestamp_end;
	return rut_file_write(s->fd, p, p->packet_size / 8);
}

/* A packet without events: nothing came up to `end_ns`. */
static int append_empty(struct rut_session_live *l, size_t i, uint64_t end_ns, uint64_t lost)
{
	struct stream *s = &l->streams[i];
	struct rut_packet p = {
		.magic = RUT_CTF_PACKET_MAGIC,
		.stream_instance_id = i,
		.timestamp_begin = s->end_ns,
		.content_size = sizeof(p) * 8,
		.packet_size = sizeof(p) * 8,
		.cpu_id = (uint32_t)i,
	};

	memcpy(p.uuid, l->r->uuid, sizeof(p.uuid));
	return append(s, &p, end_ns, lost);
}

/* A producer that was interrupted comes back within microseconds. */
static int copy(const struct rut_ring *ring, struct stream *s, struct rut_packet *to)
{
	int rc;

	for (int tries = 0; (rc = rut_ring_tail(ring, &s->pos, to)) == -EAGAIN && tries < 100;
	     tries++)
		nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
	return rc;
}

static int copy_ring(struct rut_session_live *l, int cpu)
{
	const struct rut_ring *ring = &l->r->rings[cpu];
	struct rut_packet *p = (void *)l->buf;
	struct stream *s = &l->streams[cpu];
	uint64_t now = rut_ring_clock() - SLACK_NS;
	uint64_t end = __atomic_load_n(&ring->ctl->pos, __ATOMIC_ACQUIRE);
	uint64_t lost = __atomic_load_n(&ring->ctl->lost, __ATOMIC_RELAXED);
	bool any = false;

	while (s->pos < end) {
		uint64_t before = s->pos;
		int rc = copy(ring, s, p);

		/* Readers see by the numbers that packets are missing. */
		if (rc == -ESTALE)
			s->seq += (s->pos >> ring->shift) - (before >> ring->shift);
		else if (rc == -EAGAIN)
			return 0; /* up to then nothing is certain */
		else if (rc > 0)
			rc = append(s, p, now, lost);
		if (rc < 0 && rc != -ESTALE)
			return rc;
		any |= rc >= 0 && s->pos != before;
		if (s->pos == before)
			break;
	}
	return any || now <= s->end_ns ? 0 : append_empty(l, (size_t)cpu, now, lost);
}

int rut_live_step(struct rut_session_live *l, struct rut_err *err)
{
	uint64_t now = rut_ring_clock() - SLACK_NS;
	int rc = 0;

	for (int cpu = 0; cpu < l->r->ncpus && !rc; cpu++)
		rc = copy_ring(l, cpu);
	/* The statedump does not wait for room. */
	if (!rc && now > l->streams[l->r->ncpus].end_ns)
		rc = append_empty(l, (size_t)l->r->ncpus, now, 0);
	if (rc)
		return rut_err_errno(err, -rc, "cannot keep what was recorded in memory");
	return follow_metadata(l, err);
}

static void emit_state(struct rut_statedump *s, void *arg)
{
	const struct rut_session_live *l = arg;

	rut_statedump_write(s);
	if (rut_mappings_wanted(l->r))
		rut_mappings_dump(s, l->r);
}

static int write_state(const unsigned char *packet, uint64_t records, void *arg)
{
	struct rut_session_live *l = arg;
	struct stream *s = &l->streams[l->r->ncpus];
	struct rut_packet *p = (struct rut_packet *)packet; /* in the memory of aside.c */

	p->packet_size = p->content_size;
	return append(s, p, s->end_ns, 0);
}

static int open_streams(struct rut_session_live *l, uint64_t now, struct rut_err *err)
{
	for (int i = 0; i <= l->r->ncpus; i++) {
		struct stream *s = &l->streams[i];
		char name[32];

		snprintf(name, sizeof(name), "kernel_%d", i);
		s->fd = openat(l->dir_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (s->fd < 0)
			return rut_err_errno(err, errno, "cannot make a file in memory");
		s->end_ns = now;
		if (i == l->r->ncpus)
			continue;
		s->pos = __atomic_load_n(&l->r->rings[i].ctl->pos, __ATOMIC_ACQUIRE);
		s->lost = __atomic_load_n(&l->r->rings[i].ctl->lost, __ATOMIC_RELAXED);
		/* So that the reader knows the stream when it opens the trace. */
		if (append_empty(l, (size_t)i, now, s->lost) < 0)
			return rut_err_errno(err, errno, "cannot write a file in memory");
	}
	return 0;
}

static int start(struct rut_session_live *l, bool with_state, struct rut_err *err)
{
	uint64_t now = rut_ring_clock();
	const struct rut_aside state = {
		.uuid = l->r->uuid,
		.contexts = l->r->conf.contexts,
		.ncpus = (uint32_t)l->r->ncpus,
		.at_ns = now,
		.write = write_state,
		.arg = l,
	};
	int rc;

	l->mount_fd = rut_memfs_mount(false, err);
	if (l->mount_fd < 0)
		return l->mount_fd;
	if (mkdirat(l->mount_fd, l->r->conf.name, 0700) < 0 ||
	    (l->dir_fd = openat(l->mount_fd, l->r->conf.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) <
		    0)
		return rut_err_errno(err, errno, "cannot make a directory in memory");
	snprintf(l->path, sizeof(l->path), "/proc/self/fd/%d/%s", l->mount_fd, l->r->conf.name);
	rc = follow_metadata(l, err);
	if (!rc)
		rc = open_streams(l, now, err);
	if (rc || !with_state)
		return rc;
	rc = rut_aside_write(&state, emit_state, l);
	return rc < 0 ? rut_err_errno(err, -rc, "cannot write the state of the machine") : 0;
}

int rut_live_open(struct rut_session_live **ret, struct rut_recorder *r, bool state,
		  struct rut_err *err)
{
	struct rut_session_live *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return rut_err_set(err, ENOMEM, "out of memory");
	l->r = r;
	l->mount_fd = l->dir_fd = -1;
	l->buf = malloc(r->rings[0].subbuf_size);
	l->streams = calloc((size_t)r->ncpus + 1, sizeof(*l->streams));
	for (int i = 0; l->streams && i <= r->ncpus; i++)
		l->streams[i].fd = -1;
	rc = l->buf && l->streams ? start(l, state, err)
				  : rut_err_set(err, ENOMEM, "out of memory");
	if (rc)
		rut_live_free(l);
	else
		*ret = l;
	return rc;
}

const char *rut_live_path(const struct rut_session_live *l)
{
	return l->path;
}

void rut_live_free(struct rut_session_live *l)
{
	if (!l)
		return;
	for (int i = 0; l->streams && i <= l->r->ncpus; i++)
		rut_closep(&l->streams[i].fd);
	rut_closep(&l->dir_fd);
	rut_closep(&l->mount_fd);
	free(l->streams);
	free(l->buf);
	free(l);
}
