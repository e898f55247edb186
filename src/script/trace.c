/* SPDX-License-Identifier: MIT */
#include "script/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "ring/append.h"
#include "ring/write.h"
#include "script/load.h"
#include "script/trace_class.h"

/* A packet is written at this size, or when this time has passed in it. */
enum { PACKET_BYTES = 60 << 10, PAGE = 4096 };

#define PACKET_NS 1000000000ull

struct stream {
	int fd; /* -1: nothing was written yet; owned */
	off_t end, last;
	struct rut_buf packet; /* header and records; empty: none */
	uint64_t begin_ns, last_ns, number;
};

struct rut_script_trace {
	struct rut_script_classes *classes; /* owned */
	const struct rut_script_program *p; /* borrowed */
	const struct rut_script_style *style;
	char *path; /* DIR/script; owned */
	uint8_t uuid[16];
	struct stream *streams; /* by CPU; owned */
	uint32_t ncpus;
	uint64_t begin_ns;
	/* The record being written. */
	uint64_t ns;
	uint32_t cpu, class;
	struct rut_buf fields; /* reused */
	bool structured;       /* its text is not written too */
	bool failed;	       /* out of memory: something is missing */
	uint64_t missing;
};

static void free_trace(struct rut_script_trace *t)
{
	for (uint32_t i = 0; t->streams && i < t->ncpus; i++) {
		rut_closep(&t->streams[i].fd);
		rut_buf_fini(&t->streams[i].packet);
	}
	free(t->streams);
	free(t->path);
	rut_buf_fini(&t->fields);
	rut_script_classes_free(t->classes);
	free(t);
}

static int write_metadata(struct rut_script_trace *t, int64_t clock_offset_ns)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	_cleanup_close_ int fd = -1;
	char hidden[PATH_MAX], path[PATH_MAX];

	rut_script_classes_describe(t->classes, t->uuid, clock_offset_ns, &text);
	if (text.failed)
		return -ENOMEM;
	if ((size_t)snprintf(hidden, sizeof(hidden), "%s/.metadata", t->path) >= sizeof(hidden))
		return -ENAMETOOLONG;
	snprintf(path, sizeof(path), "%s/metadata", t->path);
	fd = open(hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	if (rut_file_write(fd, text.data, text.len) || rename(hidden, path) < 0)
		return -errno;
	return 0;
}

static int make_directory(struct rut_script_trace *t, const char *dir)
{
	if (asprintf(&t->path, "%s/script", dir) < 0) {
		t->path = NULL;
		return -ENOMEM;
	}
	if (mkdir(dir, 0750) < 0 && errno != EEXIST)
		return -errno;
	return mkdir(t->path, 0750) < 0 ? -errno : 0;
}

int rut_script_trace_open(struct rut_script_trace **ret, const char *dir,
			  const struct rut_script_program *p, const struct rut_script_style *style,
			  const struct rut_trace_clock *clock, struct rut_err *err)
{
	struct rut_script_trace *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return rut_err_set(err, ENOMEM, "out of memory");
	t->p = p;
	t->style = style;
	t->ncpus = (uint32_t)rut_script_cpus();
	t->streams = calloc(t->ncpus, sizeof(*t->streams));
	for (uint32_t i = 0; t->streams && i < t->ncpus; i++)
		t->streams[i].fd = -1;
	t->begin_ns = clock ? clock->begin_ns : rut_ring_clock();
	rc = t->streams ? rut_script_classes_new(&t->classes, p) : -ENOMEM;
	if (!rc && getrandom(t->uuid, sizeof(t->uuid), 0) != sizeof(t->uuid))
		rc = -errno;
	if (!rc)
		rc = make_directory(t, dir);
	if (!rc)
		rc = write_metadata(t, clock ? clock->offset_ns : rut_clock_offset_ns());
	if (rc) {
		rut_err_errno(err, -rc, "cannot make the trace '%s/script'", dir);
		free_trace(t);
		return rc;
	}
	*ret = t;
	return 0;
}

/* ---- Packets ---- */

static int open_stream(struct rut_script_trace *t, uint32_t cpu)
{
	struct stream *s = &t->streams[cpu];
	char path[PATH_MAX];

	if (s->fd >= 0)
		return 0;
	if ((size_t)snprintf(path, sizeof(path), "%s/script_%u", t->path, cpu) >= sizeof(path))
		return -ENAMETOOLONG;
	s->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	return s->fd < 0 ? -errno : 0;
}

static int write_packet(struct rut_script_trace *t, uint32_t cpu)
{
	struct stream *s = &t->streams[cpu];
	size_t content = s->packet.len, bytes = (content + PAGE - 1) / PAGE * PAGE;
	struct rut_packet head = {
		.magic = RUT_CTF_PACKET_MAGIC,
		.stream_instance_id = cpu,
		.timestamp_begin = s->begin_ns,
		.timestamp_end = s->last_ns,
		.content_size = content * 8,
		.packet_size = bytes * 8,
		.packet_seq_num = s->number,
		.cpu_id = cpu,
	};
	int rc = open_stream(t, cpu);

	if (!rc)
		rc = rut_buf_reserve(&s->packet, bytes - content);
	if (rc)
		return rc;
	memcpy(head.uuid, t->uuid, sizeof(head.uuid));
	memset(s->packet.data + content, 0, bytes - content);
	rc = rut_packet_append(s->fd, &head, (const unsigned char *)s->packet.data, bytes, s->end);
	if (rc) {
		/* What was written is cut off; it is tried again. */
		return ftruncate(s->fd, s->end) < 0 ? -errno : rc;
	}
	s->last = s->end;
	s->end += (off_t)bytes;
	s->number++;
	rut_buf_clear(&s->packet);
	return 0;
}

int rut_script_trace_flush(struct rut_script_trace *t, struct rut_err *err)
{
	int rc = 0;

	for (uint32_t cpu = 0; cpu < t->ncpus; cpu++) {
		int one = t->streams[cpu].packet.len ? write_packet(t, cpu) : 0;

		rc = rc ? rc : one;
	}
	return rc ? rut_err_errno(err, -rc, "cannot write '%s'", t->path) : 0;
}

/* ---- Records ---- */

static void begin_packet(struct rut_script_trace *t, struct stream *s)
{
	static const struct rut_packet none;

	rut_buf_add(&s->packet, &none, sizeof(none));
	/* A snapshot may begin later than the oldest record that is left. */
	s->begin_ns = s->number || t->ns < t->begin_ns ? t->ns : t->begin_ns;
	if (s->last_ns > s->begin_ns)
		s->begin_ns = s->last_ns;
}

/* The record of the collected fields. */
static void put_record(void *arg)
{
	struct rut_script_trace *t = arg;
	struct stream *s = &t->streams[t->cpu];
	uint64_t header;

	if (s->packet.len &&
	    (s->packet.len + t->fields.len > PACKET_BYTES || t->ns > s->begin_ns + PACKET_NS) &&
	    write_packet(t, t->cpu) < 0 && s->packet.len > 64 * PACKET_BYTES) {
		/* A disk that stays full must not become memory that fills. */
		t->missing++;
		rut_buf_clear(&t->fields);
		return;
	}
	if (!s->packet.len)
		begin_packet(t, s);
	if (t->ns > s->last_ns)
		s->last_ns = t->ns;
	if (s->last_ns < s->begin_ns)
		s->last_ns = s->begin_ns;
	header = RUT_RECORD_HEADER(t->class, s->last_ns);
	rut_buf_add(&s->packet, &header, sizeof(header));
	rut_buf_add(&s->packet, t->fields.data, t->fields.len);
	t->failed |= t->fields.failed || s->packet.failed;
	rut_buf_clear(&t->fields);
}

void rut_script_trace_event(struct rut_script_trace *t, const struct rut_script_event *e,
			    const struct rut_script_action *a)
{
	uint32_t class = rut_script_class_of(t->classes, a);

	t->ns = e->time_ns;
	t->cpu = e->cpu < t->ncpus ? e->cpu : 0;
	t->structured = class != RUT_SCRIPT_CLASS_PRINT;
	if (!t->structured)
		return;
	t->class = class;
	rut_script_class_put(t->style, a, e->data, &t->fields);
	put_record(t);
}

void rut_script_trace_at(struct rut_script_trace *t, uint64_t ns)
{
	t->ns = ns ? ns : rut_ring_clock();
	t->cpu = 0;
	t->structured = false;
}

static void on_text(void *arg, const char *text, size_t len)
{
	struct rut_script_trace *t = arg;

	if (t->structured)
		return;
	/* A trace shows events in lines of its own. */
	while (len && text[len - 1] == '\n')
		len--;
	t->class = RUT_SCRIPT_CLASS_PRINT;
	rut_script_class_put_text(text, len, &t->fields);
	put_record(t);
}

static void on_row(void *arg, const struct rut_script_map *m, const struct rut_script_row *row)
{
	struct rut_script_trace *t = arg;

	t->class = rut_script_class_of_map(t->classes, m);
	rut_script_class_put_row(t->style, m, row, &t->fields, put_record, t);
}

struct rut_script_tap rut_script_trace_tap(struct rut_script_trace *t)
{
	return (struct rut_script_tap){.text = on_text, .row = on_row, .arg = t};
}

/* Readers use the time in which all streams record: each ends with the trace. */
static int finish(struct rut_script_trace *t, uint64_t end_ns, uint64_t lost)
{
	int rc = 0;

	for (uint32_t cpu = 0; cpu < t->ncpus && !rc; cpu++) {
		struct stream *s = &t->streams[cpu];

		if (s->fd < 0)
			continue;
		if (end_ns > s->last_ns)
			rc = rut_packet_write(
				s->fd, &end_ns, sizeof(end_ns),
				s->last + (off_t)offsetof(struct rut_packet, timestamp_end));
		if (!rc && lost)
			rc = rut_packet_write(
				s->fd, &lost, sizeof(lost),
				s->last + (off_t)offsetof(struct rut_packet, events_discarded));
		lost = 0;
	}
	return rc;
}

int rut_script_trace_close(struct rut_script_trace *t, uint64_t end_ns, uint64_t lost,
			   struct rut_err *err)
{
	int rc;

	if (!t)
		return 0;
	rc = rut_script_trace_flush(t, err);
	if (!rc) {
		rc = finish(t, end_ns ? end_ns : rut_ring_clock(), lost + t->missing);
		if (rc)
			rut_err_errno(err, -rc, "cannot write '%s'", t->path);
	}
	if (!rc && t->failed)
		rc = rut_err_set(err, ENOMEM, "out of memory: events are missing in '%s'", t->path);
	free_trace(t);
	return rc;
}
