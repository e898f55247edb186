/* SPDX-License-Identifier: MIT */
/*
 * A trace must be readable whenever its writer is killed, so a file has to be a sequence of whole
 * packets at every instant. One write(2) of a packet is not enough: SIGKILL makes it short
 * (measured: at a page's end on tmpfs, at a folio's on ext4), and so does a full disk. What nothing
 * can divide is a write inside one page. Hence a packet comes in five steps, each of which leaves
 * whole packets wherever it is cut off:
 *
 *  1. the file grows by as many pages as the packet has, each of them a packet without events;
 *  2. the first one's packet_size grows over all of them (8 bytes): the others become padding;
 *  3. the packet's pages but the first are written into the padding, which is not read;
 *  4. the first page is written behind the header, which says still that there are no events;
 *  5. with the header the packet is there.
 *
 * The same holds for the directory: it gets its name, "kernel", when the metadata stands in it, and
 * new metadata replaces the old by a rename. Files being made have names with a dot, which readers
 * pass over.
 */
#include "session/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "ring/append.h"
#include "ruby/record.h"
#include "session/aside.h"
#include "session/mappings.h"
#include "session/rubies.h"
#include "session/stacks.h"
#include "session/unwind.h"
#include "session/statedump.h"
#include "stream/sender.h"

#define PAGE ((size_t)4096)

static bool compat_seen(const struct rut_recorder *r)
{
	/* What a collector has can only be continued: it gets the whole description at once. */
	if (r->meta->output.to[0])
		return true;
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		if (__atomic_load_n(&RUT_CTL_USER(r->rings[cpu].ctl)->compat_seen,
				    __ATOMIC_ACQUIRE))
			return true;
	return false;
}

int rut_writer_describe_compat(struct rut_writer *w, struct rut_err *err)
{
	return w->compat || !compat_seen(w->recorder) ? 0 : rut_writer_update_metadata(w, err);
}

int rut_writer_update_metadata(struct rut_writer *w, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	_cleanup_close_ int fd = -1;
	bool compat = compat_seen(w->recorder);
	int rc;

	if (!w->clock_offset_ns)
		w->clock_offset_ns = rut_clock_offset_near_ns(w->recorder->meta->clock_offset_ns) +
				     w->recorder->clock_correction_ns;
	rut_recorder_metadata(w->recorder, compat, w->clock_offset_ns, &text);
	if (text.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	/* An attempt before may have been cut off by a full disk. */
	unlinkat(w->dir_fd, ".metadata", 0);
	fd = openat(w->dir_fd, ".metadata", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0640);
	if (fd < 0)
		return rut_err_errno(err, errno, "cannot make '%s/kernel/metadata'", w->path);
	rc = rut_packet_write(fd, text.data, text.len, 0);
	if (!rc && renameat(w->dir_fd, ".metadata", w->dir_fd, "metadata") < 0)
		rc = -errno;
	if (rc)
		return rut_err_errno(err, -rc, "cannot write '%s/kernel/metadata'", w->path);
	w->compat = compat;
	return 0;
}

/* True when the directory holds nothing, or nothing but `but`. */
static bool is_empty(int fd, const char *but)
{
	int copy = dup(fd);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	bool empty = true;

	if (!d) {
		rut_closep(&copy);
		return false;
	}
	/* The copy shares its position. */
	rewinddir(d);
	for (struct dirent *e; (e = readdir(d));)
		empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
			 !strcmp(e->d_name, but);
	closedir(d);
	return empty;
}

/* Files of DIR/PART, "kernel" or "script". Takes its descriptor. Only what we write is touched. */
static void remove_files(int dir_fd, const char *part)
{
	const size_t len = strlen(part);
	DIR *d = dir_fd < 0 ? NULL : fdopendir(dir_fd);

	if (!d) {
		rut_closep(&dir_fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if ((!strncmp(e->d_name, part, len) && e->d_name[len] == '_') ||
		    !strcmp(e->d_name, "metadata") || !strcmp(e->d_name, ".metadata"))
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

static void remove_script(int dir_fd)
{
	remove_files(openat(dir_fd, "script", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		     "script");
	unlinkat(dir_fd, "script", AT_REMOVEDIR);
}

/*
 * A writer that was killed before it published leaves a directory that is empty or holds ".kernel".
 * The next one of that name takes it: the lock says that no writer is at work there.
 */
static int take_dir(int fd, const char *dir, struct rut_err *err)
{
	bool locked = !flock(fd, LOCK_EX | LOCK_NB);

	if (!locked && errno == EWOULDBLOCK)
		return rut_err_set(err, EEXIST, "another recorder is writing to '%s'", dir);
	if (locked && is_empty(fd, ".kernel")) {
		remove_files(openat(fd, ".kernel", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
			     "kernel");
		unlinkat(fd, ".kernel", AT_REMOVEDIR);
	}
	return is_empty(fd, ".") ? 0
				 : rut_err_set(err, EEXIST,
					       "'%s' is not empty: a trace never overwrites, "
					       "choose another name",
					       dir);
}

static int make_dir(struct rut_writer *w, const char *dir, struct rut_err *err)
{
	_cleanup_close_ int fd = -1;
	int rc;

	w->made = !mkdir(dir, 0750);
	if (!w->made && errno != EEXIST)
		return rut_err_errno(err, errno, "cannot make the directory '%s'", dir);
	/* A link that another user put into a shared directory is not followed. */
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return rut_err_errno(err, errno, "cannot open the directory '%s'", dir);
	rc = take_dir(fd, dir, err);
	if (rc)
		return rc;
	if (mkdirat(fd, ".kernel", 0750) < 0)
		return rut_err_errno(err, errno, "cannot make the directory '%s/kernel'", dir);
	w->dir_fd = openat(fd, ".kernel", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->dir_fd < 0)
		return rut_err_errno(err, errno, "cannot open the directory '%s/kernel'", dir);
	w->parent_fd = RUT_TAKE_FD(fd);
	return 0;
}

int rut_writer_publish(struct rut_writer *w, struct rut_err *err)
{
	if (renameat(w->parent_fd, ".kernel", w->parent_fd, "kernel") < 0)
		return rut_err_errno(err, errno, "cannot make the directory '%s/kernel'", w->path);
	w->published = true;
	return 0;
}

void rut_writer_discard(struct rut_writer *w)
{
	if (w->dir_fd >= 0) {
		remove_files(RUT_TAKE_FD(w->dir_fd), "kernel");
		unlinkat(w->parent_fd, w->published ? "kernel" : ".kernel", AT_REMOVEDIR);
	}
	/* A companion may have written into what was empty. */
	if (w->parent_fd >= 0)
		remove_script(w->parent_fd);
	if (w->made)
		rmdir(w->path);
	rut_writer_close(w);
}

static void remove_rubies(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!dir && copy >= 0)
		close(copy);
	while (dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, RUT_RECORD_DIR, strlen(RUT_RECORD_DIR)))
			rut_record_remove(fd, e->d_name);
	if (dir)
		closedir(dir);
}

int rut_trace_remove(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	remove_script(fd);
	remove_rubies(fd);
	remove_files(openat(fd, "kernel", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		     "kernel");
	/* A trace of Ruby events alone has none. */
	if (unlinkat(fd, "kernel", AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return rmdir(path) < 0 ? -errno : 0;
}

int rut_writer_open_hidden(struct rut_writer *w, struct rut_recorder *r, const char *dir,
			   struct rut_err *err)
{
	int rc;

	*w = (struct rut_writer){.recorder = r, .dir_fd = -1, .parent_fd = -1};
	w->path = strdup(dir);
	w->streams = calloc((size_t)r->ncpus + 1, sizeof(*w->streams));
	w->stacks = calloc(rut_stacks_places(r) + 1, sizeof(*w->stacks));
	for (int cpu = 0; w->streams && cpu <= r->ncpus; cpu++)
		w->streams[cpu].fd = -1;
	if (!w->path || !w->streams || !w->stacks) {
		rut_writer_close(w);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	for (int i = 0; i < r->ncpus; i++) {
		w->streams[i].pos = r->conf.mode == RUT_RING_DISCARD
					    ? r->rings[i].ctl->consumed
					    : rut_ring_oldest(&r->rings[i]);
	}
	rc = make_dir(w, dir, err);
	if (!rc)
		rc = rut_writer_update_metadata(w, err);
	if (rc)
		rut_writer_discard(w);
	return rc;
}

int rut_writer_open(struct rut_writer *w, struct rut_recorder *r, const char *dir,
		    struct rut_err *err)
{
	int rc = rut_writer_open_hidden(w, r, dir, err);

	if (!rc)
		rc = rut_writer_publish(w, err);
	if (rc && w->path)
		rut_writer_discard(w);
	return rc;
}

void rut_writer_continue(struct rut_writer *w, const struct rut_writer *last)
{
	for (int cpu = 0; cpu < w->recorder->ncpus; cpu++) {
		w->streams[cpu].pos = last->streams[cpu].pos;
		w->streams[cpu].lost = w->streams[cpu].lost_before = last->streams[cpu].lost;
	}
	w->lapped = last->lapped;
}

static int open_stream(struct rut_writer *w, int cpu)
{
	struct rut_stream *s = &w->streams[cpu];
	char name[32];

	/* The number behind the CPUs' is that of a snapshot's statedump. */
	snprintf(name, sizeof(name), "kernel_%d", cpu);
	s->fd = openat(w->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	return s->fd < 0 ? -errno : 0;
}

static int append_plain(int fd, const struct rut_packet *head, const unsigned char *packet,
			size_t len, off_t end)
{
	int rc = rut_packet_write_first(fd, head, packet, end);

	return rc ? rc : rut_packet_write(fd, packet + PAGE, len - PAGE, end + (off_t)PAGE);
}

/* One that a file gets is there whenever we are killed; in memory nothing would be left of it. */
static int append_packet(struct rut_writer *w, int cpu, const struct rut_packet *head,
			 const unsigned char *packet, size_t len)
{
	const struct rut_stream *s = &w->streams[cpu];

	if (w->sender)
		return rut_sender_packet(w->sender, cpu, head, packet, len);
	/* What is not visible before it is finished needs no care. */
	return w->published ? rut_packet_append(s->fd, head, packet, len, s->end)
			    : append_plain(s->fd, head, packet, len, s->end);
}

/* Takes back what is behind `end`. */
static int cut_stream(struct rut_writer *w, int cpu, off_t end)
{
	if (w->sender)
		rut_sender_cut(w->sender, cpu, end);
	else if (w->streams[cpu].fd >= 0 && ftruncate(w->streams[cpu].fd, end) < 0)
		return -errno;
	return 0;
}

/*
 * What was lost before the first packet of a file is reported by the difference to a packet without
 * events before it: without one, babeltrace2 cannot know how much it was.
 */
static int tell_gap(struct rut_writer *w, int cpu, const struct rut_packet *head)
{
	struct rut_stream *s = &w->streams[cpu];
	struct rut_packet gap = *head;
	int rc;

	if (s->end || !head->events_discarded || !head->packet_seq_num)
		return 0;
	gap.events_discarded = 0;
	gap.packet_seq_num--;
	if (w->sender) {
		rut_packet_make_empty(&gap);
		rc = rut_sender_packet(w->sender, cpu, &gap, (const unsigned char *)&gap, PAGE);
	} else {
		rc = rut_packet_append_empty(s->fd, gap, 1, 0);
	}
	if (!rc)
		s->end = (off_t)PAGE;
	return rc;
}

void rut_writer_finish(struct rut_writer *w, uint64_t end_ns)
{
	for (int cpu = 0; cpu < w->recorder->ncpus; cpu++) {
		struct rut_stream *s = &w->streams[cpu];
		off_t at = s->last + (off_t)offsetof(struct rut_packet, timestamp_end);

		if (!s->end || s->last_end_ns >= end_ns)
			continue;
		if (w->sender)
			rut_sender_end_stream(w->sender, cpu, end_ns);
		/* Eight bytes within a page: there before or after, never half. */
		else if (s->fd >= 0 && pwrite(s->fd, &end_ns, sizeof(end_ns), at) != sizeof(end_ns))
			rut_debug("cannot mark the end of '%s' for CPU %d", w->path, cpu);
	}
}

int rut_writer_append(struct rut_writer *w, int cpu, const unsigned char *packet,
		      const uint64_t *records)
{
	struct rut_stream *s = &w->streams[cpu];
	struct rut_packet head;
	size_t len;
	int rc = s->fd < 0 && !w->sender ? open_stream(w, cpu) : 0;

	if (rc)
		return rc;
	memcpy(&head, packet, sizeof(head));
	len = (head.content_size / 8 + PAGE - 1) & ~(PAGE - 1);
	if (len * 8 < head.packet_size)
		head.packet_size = len * 8;
	else
		len = head.packet_size / 8;
	head.events_discarded -= s->lost_before;
	if (!s->end && w->begin_ns && w->begin_ns < head.timestamp_begin &&
	    head.timestamp_begin - w->begin_ns < RUT_PACKET_MAX_NS &&
	    (w->recorder->conf.mode == RUT_RING_DISCARD || !head.packet_seq_num))
		head.timestamp_begin = w->begin_ns;
	rc = tell_gap(w, cpu, &head);
	if (!rc)
		rc = append_packet(w, cpu, &head, packet, len);
	/* A sender that drops packets has them in files. */
	if (!rc && records && w->recorder->meta->output.drop_oldest && !w->sender)
		rc = rut_packet_add_count(s->fd, &head, *records, s->end);
	if (rc) {
		int failed = cut_stream(w, cpu, s->end);

		return failed ? failed : rc;
	}
	s->last = s->end;
	s->last_end_ns = head.timestamp_end;
	len = head.packet_size / 8;
	s->end += (off_t)len;
	s->lost = head.events_discarded + s->lost_before;
	w->bytes += len;
	w->packets++;
	return 0;
}

/* The packet at the position: in the ring itself, or a copy where producers may reuse it meanwhile.
 */
static int borrow_packet(struct rut_writer *w, int cpu, const unsigned char **ret,
			 uint64_t *ret_records)
{
	const struct rut_ring *ring = &w->recorder->rings[cpu];
	uint64_t *pos = &w->streams[cpu].pos;
	int rc;

	*ret_records = rut_ring_packet_records(ring, *pos);
	if (ring->mode == RUT_RING_DISCARD) {
		*ret = rut_ring_next(ring, pos);
		return *ret ? 0 : -EAGAIN;
	}
	if (!w->copy)
		w->copy = malloc(ring->subbuf_size);
	if (!w->copy)
		return -ENOMEM;
	*ret = w->copy;
	while ((rc = rut_ring_copy(ring, *pos, w->copy)) == -ESTALE) {
		uint64_t oldest = rut_ring_oldest(ring);

		/* Overtaken: readers of the trace see the gap by the packets' numbers. */
		w->lapped += (oldest - *pos) >> ring->shift;
		*pos = oldest;
		*ret_records = rut_ring_packet_records(ring, oldest);
	}
	return rc;
}

int64_t rut_writer_drain(struct rut_writer *w, struct rut_err *err)
{
	struct rut_recorder *r = w->recorder;
	int64_t n = 0;
	int rc = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		const struct rut_ring *ring = &r->rings[cpu];
		uint64_t *pos = &w->streams[cpu].pos, records;
		const unsigned char *data;

		while (!(rc = borrow_packet(w, cpu, &data, &records))) {
			/* Before the first packet that needs it. */
			rc = rut_writer_describe_compat(w, err);
			if (!rc)
				rc = rut_writer_append(w, cpu, data, &records);
			w->write_errno = -rc;
			if (rc)
				break;
			w->records += records;
			*pos += ring->subbuf_size;
			if (ring->mode == RUT_RING_DISCARD)
				rut_ring_release(ring, *pos);
			n++;
		}
		if (rc < 0 && rc != -EAGAIN)
			return rut_err_errno(err, -rc, "cannot write to '%s'", w->path);
	}
	return n;
}

static void drain_for_room(void *arg)
{
	rut_writer_drain(arg, NULL);
}

static struct rut_statedump dump_into(struct rut_writer *w)
{
	int cpu = sched_getcpu();

	return (struct rut_statedump){
		.ring = &w->recorder->rings[cpu >= 0 && cpu < w->recorder->ncpus ? cpu : 0],
		.clock = rut_ring_clock,
		.contexts = w->recorder->conf.contexts,
		.make_room = drain_for_room,
		.arg = w,
	};
}

void rut_writer_statedump(struct rut_writer *w, pid_t only)
{
	struct rut_statedump s = dump_into(w);

	s.only = only;
	rut_statedump_write(&s);
}

void rut_writer_mappings(struct rut_writer *w, struct rut_mappings **follower)
{
	struct rut_recorder *r = w->recorder;
	struct rut_statedump s = dump_into(w);

	if (!rut_mappings_wanted(r) && !rut_rubies_wanted(r))
		return;
	if (!w->mapped) {
		rut_mappings_follow(follower, r);
		if (rut_mappings_wanted(r))
			rut_mappings_dump(&s, r);
	}
	w->mapped = true;
	if (*follower)
		rut_mappings_step(*follower, &s, r);
	rut_rubies_step(r);
	rut_unwind_step(r);
}

void rut_writer_new_stacks(struct rut_writer *w)
{
	struct rut_statedump s = dump_into(w);

	rut_stacks_write(&s, w->recorder, w->stacks_since, w->stacks);
}

static void last_stacks(struct rut_statedump *s, void *arg)
{
	const struct rut_writer *w = arg;

	rut_stacks_write(s, w->recorder, w->stacks_since, w->stacks);
}

int rut_writer_last_stacks(struct rut_writer *w, struct rut_err *err)
{
	int rc;

	if (!rut_stacks_new(w->recorder))
		return 0;
	rc = rut_writer_aside(w, w->begin_ns, last_stacks, w);
	if (!rc)
		return 0;
	/* What was marked as written is not: all of it comes again. */
	rut_writer_stacks_begin(w, w->stacks_since);
	return rut_err_errno(err, -rc, "cannot write to '%s'", w->path);
}

void rut_writer_stacks_begin(struct rut_writer *w, uint64_t since_ns)
{
	w->stacks_since = since_ns;
	rut_stacks_begin(w->recorder, since_ns, w->stacks);
}

/* Beside */

static int append_aside(const unsigned char *packet, uint64_t records, void *arg)
{
	struct rut_writer *w = arg;

	w->records += records;
	return rut_writer_append(w, w->recorder->ncpus, packet, NULL);
}

int rut_writer_aside(struct rut_writer *w, uint64_t at_ns,
		     void (*fn)(struct rut_statedump *s, void *arg), void *arg)
{
	struct rut_stream *stream = &w->streams[w->recorder->ncpus];
	const struct rut_aside aside = {
		.uuid = w->recorder->uuid,
		.contexts = w->recorder->conf.contexts,
		.ncpus = (uint32_t)w->recorder->ncpus,
		.at_ns = at_ns ? at_ns : rut_ring_clock(),
		.write = append_aside,
		.arg = w,
	};
	int rc = rut_aside_write(&aside, fn, arg);

	/* All or nothing: it may be tried again. */
	if (rc && !cut_stream(w, w->recorder->ncpus, 0))
		stream->end = 0;
	return rc;
}

void rut_writer_close(struct rut_writer *w)
{
	for (int cpu = 0; w->streams && cpu <= w->recorder->ncpus; cpu++)
		rut_closep(&w->streams[cpu].fd);
	rut_closep(&w->dir_fd);
	rut_closep(&w->parent_fd);
	free(w->streams);
	free(w->stacks);
	free(w->copy);
	free(w->path);
	*w = (struct rut_writer){.dir_fd = -1, .parent_fd = -1};
}
