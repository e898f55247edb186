/* SPDX-License-Identifier: MIT */
#include "ruby/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/record.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "ring/append.h"
#include "ring/read.h"
#include "ruby/events.h"
#include "ruby/record_out.h"
#include "ruby/rows.h"
#include "ruby/table.h"
#include "ruby/record_grow.h"
#include "ruby/record_meta.h"

#define FLUSH_NS    1000000000ull /* a packet that does not fill up is written after that */
#define DESCRIBE_NS 5000000000ull /* the metadata gets new names that often */
#define SLACK_NS    10000000ull	  /* a producer may be interrupted between its clock and its slot */
#define NAMES_BYTES (1u << 20)	  /* of a packet of names */

/* A stream's file: whole packets at every moment. */
struct stream {
	int fd; /* -1: not there */
	off_t end;
	uint64_t seq;	  /* of the next packet */
	uint64_t last_ns; /* end of the last packet */
};

/* The files of one process, DIR/ruby-PID. */
struct rut_record_out {
	char *path; /* owned */
	int dir_fd;
	uint8_t uuid[16];
	int64_t clock_offset_ns;
	char ruby_version[16];
	pid_t pid;
	struct stream events, names;
	uint64_t pos;	       /* of the next packet in the ring */
	uint64_t lost_before;  /* events lost before these files began */
	uint64_t lost;	       /* in them, once the ring is in the files */
	uint64_t flushed_ns;   /* when the ring was flushed last */
	uint32_t rows;	       /* with written names */
	uint64_t rows_ns;      /* later rows came after that */
	struct rut_buf labels; /* of the enumeration in the metadata */
	uint32_t described;    /* rows that the metadata names */
	/* Where the metadata grows: all of it, how many bytes of labels are in it, the generations.
	 */
	struct rut_buf text;
	size_t labelled;
	struct rut_record_generations generations;
	bool full;	      /* there will be no more of them */
	uint64_t complete_ns; /* earlier records are all there */
	uint64_t described_ns;
};

/* ---- packets ---- */

static int write_at(const struct stream *s, struct iovec *v, int n, size_t bytes)
{
	off_t at = s->end;

	while (bytes) {
		ssize_t done = pwritev(s->fd, v, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			int rc = -errno;

			/* Never half a packet. */
			return ftruncate(s->fd, s->end) ? -errno : rc;
		}
		at += done;
		bytes -= (size_t)done;
		for (; n && (size_t)done >= v->iov_len; v++, n--)
			done -= (ssize_t)v->iov_len;
		if (n) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= (size_t)done;
		}
	}
	return 0;
}

/*
 * Appends a packet with this head and `bytes` of records behind it. `count`: how many these are,
 * for a sender that may drop the packet; NULL: it may not.
 */
static int append(struct rut_record_out *o, struct stream *s, struct rut_packet *head,
		  const void *records, size_t bytes, const uint64_t *count)
{
	struct rut_packet_foot foot = {RUT_PACKET_COUNTED, count ? *count : 0};
	struct iovec v[3] = {
		{head, sizeof(*head)}, {(void *)(uintptr_t)records, bytes}, {&foot, sizeof(foot)}};
	const size_t whole = sizeof(*head) + bytes + (count ? sizeof(foot) : 0);
	int rc;

	memcpy(head->uuid, o->uuid, sizeof(head->uuid));
	head->packet_seq_num = s->seq;
	head->content_size = (sizeof(*head) + bytes) * 8;
	head->packet_size = whole * 8;
	rc = write_at(s, v, count ? 3 : bytes ? 2 : 1, whole);
	if (rc)
		return rc;
	s->end += (off_t)whole;
	s->seq++;
	s->last_ns = head->timestamp_end;
	return 0;
}

/* A packet without records: from the last one's end to `end_ns` nothing happened. */
static int append_empty(struct rut_record_out *o, struct stream *s, uint32_t stream_id,
			uint64_t end_ns, uint64_t lost)
{
	struct rut_packet head = {
		.magic = RUT_CTF_PACKET_MAGIC,
		.stream_id = stream_id,
		.stream_instance_id = (uint64_t)o->pid,
		.timestamp_begin = s->last_ns,
		.timestamp_end = end_ns > s->last_ns ? end_ns : s->last_ns,
		.events_discarded = lost,
		.pid = (uint32_t)o->pid,
	};

	return append(o, s, &head, NULL, 0, NULL);
}

static uint64_t lost_of(const struct rut_record_out *o, const struct rut_ring *r)
{
	return __atomic_load_n(&r->ctl->lost, __ATOMIC_RELAXED) - o->lost_before;
}

/* A copy of the packet whose records have the numbers of their generations; NULL: no memory. */
static const unsigned char *renumbered(struct rut_record_to *to, const struct rut_record_out *o,
				       const unsigned char *packet, size_t content)
{
	const size_t head = sizeof(struct rut_packet);

	if (content > to->copy_bytes) {
		unsigned char *more = realloc(to->copy, content);

		if (!more)
			return NULL;
		to->copy = more;
		to->copy_bytes = content;
	}
	memcpy(to->copy, packet, content);
	rut_record_renumber(to->copy + head, content - head, &o->generations);
	return to->copy;
}

/* `packet`, of so many records: in the ring, or a copy that does not change. */
static int append_events(struct rut_tracer *t, struct rut_record_out *o, const struct rut_ring *r,
			 const unsigned char *packet, uint64_t records)
{
	struct rut_record_totals *sum = &t->record.totals;
	size_t content;
	struct rut_packet head;
	int rc;

	memcpy(&head, packet, sizeof(head));
	content = head.content_size / 8;
	if (head.magic != RUT_CTF_PACKET_MAGIC || content < sizeof(head) ||
	    content > r->subbuf_size)
		return 0; /* the process wrote over it */
	if (t->config.grows) {
		packet = renumbered(&t->record, o, packet, content);
		if (!packet)
			return -ENOMEM;
	}
	head.stream_id = RUT_RECORD_STREAM;
	head.events_discarded -= o->lost_before;
	/* The stream begins with the trace, whenever its first record comes. */
	rc = o->events.seq || head.timestamp_begin <= o->events.last_ns
		     ? 0
		     : append_empty(o, &o->events, RUT_RECORD_STREAM, o->events.last_ns, 0);
	if (rc)
		return rc;
	rc = append(o, &o->events, &head, packet + sizeof(head), content - sizeof(head),
		    t->config.counts ? &records : NULL);
	if (rc)
		return rc;
	sum->packets++;
	sum->bytes += content;
	return 0;
}

/* ---- names ---- */

static int flush_names(struct rut_record_out *o, const struct rut_buf *b, uint64_t begin_ns,
		       uint64_t end_ns)
{
	struct rut_packet head = {
		.magic = RUT_CTF_PACKET_MAGIC,
		.stream_id = RUT_RECORD_NAMES_STREAM,
		.stream_instance_id = (uint64_t)o->pid,
		.timestamp_begin = begin_ns,
		.timestamp_end = end_ns,
		.pid = (uint32_t)o->pid,
	};

	if (b->failed)
		return -ENOMEM;
	return b->len ? append(o, &o->names, &head, b->data, b->len, NULL) : 0;
}

/*
 * Writes the names of rows that came since the last call. A row that was not there then is used by
 * later records only, so its name is given that time: readers have it before they need it.
 */
static int write_names(struct rut_tracer *t, struct rut_tracee *p, struct rut_record_out *o)
{
	uint64_t now = rut_ring_clock(), since = o->rows_ns;
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	uint32_t count = rut_ruby_table_count(p), done = o->rows, i;
	int rc = 0;

	for (i = o->rows; i < count && !rc; i++) {
		uint32_t flags =
			__atomic_load_n(&rut_ruby_table_row(p, i)->flags, __ATOMIC_ACQUIRE);
		struct rut_ruby_row row;

		if (!(flags & RUT_ROW_NAMED) || !rut_tracee_rows_get(t, p, i, &row))
			break;
		rut_record_name(&b, since, i, &row, flags);
		if (b.len >= NAMES_BYTES) {
			rc = flush_names(o, &b, since, since);
			rut_buf_clear(&b);
			done = rc ? done : i + 1;
		}
	}
	if (!rc)
		rc = flush_names(o, &b, since, since);
	if (rc)
		i = done;
	for (; o->rows < i; o->rows++) {
		struct rut_ruby_row row;

		if (rut_tracee_rows_get(t, p, o->rows, &row))
			rut_record_label(&o->labels, o->rows, &row);
	}
	if (!rc && i == count)
		o->rows_ns = now;
	return rc;
}

/* The file is replaced whole: readers have the old one or the new one. */
static int write_metadata(const struct rut_record_out *o, const struct rut_buf *b)
{
	static const char hidden[] = ".metadata", name[] = "metadata";
	_cleanup_close_ int fd = -1;
	int rc;

	if (b->failed)
		return -ENOMEM;
	fd = openat(o->dir_fd, hidden, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	rc = rut_file_write(fd, b->data, b->len);
	if (!rc && renameat(o->dir_fd, hidden, o->dir_fd, name))
		rc = -errno;
	if (rc)
		unlinkat(o->dir_fd, hidden, 0);
	return rc;
}

/* Adds a generation of names to metadata that is only continued. */
static int grow(const struct rut_tracer *t, struct rut_record_out *o)
{
	const uint32_t several = 1u << RUT_KIND_REQUEST | 1u << RUT_KIND_ALLOC_SAMPLE;
	const uint32_t number = (uint32_t)o->generations.n;
	const size_t before = o->text.len;
	int rc;

	rut_record_metadata_more(&o->text, number, &o->labels, o->labelled,
				 t->config.kinds & several);
	rc = write_metadata(o, &o->text);
	if (!rc)
		rc = rut_record_generations_add(&o->generations, o->rows);
	if (rc && !o->text.failed)
		o->text.len = before;
	if (!rc)
		o->labelled = o->labels.len;
	return rc;
}

static int describe(const struct rut_tracer *t, struct rut_record_out *o)
{
	struct rut_record_about about = {o->pid, o->uuid, o->clock_offset_ns, o->ruby_version};
	int rc;

	if (t->config.grows && o->generations.n) {
		rc = grow(t, o);
	} else {
		rut_buf_clear(&o->text);
		rut_record_metadata(&o->text, &about, &o->labels);
		rc = write_metadata(o, &o->text);
		if (!rc && t->config.grows)
			rc = rut_record_generations_add(&o->generations, 0);
		if (!t->config.grows)
			rut_buf_fini(&o->text);
	}
	if (rc)
		return rc;
	o->described = o->rows;
	o->described_ns = rut_ring_clock();
	return 0;
}

/* ---- files ---- */

/* What its process needs while it runs. */
static void out_release(struct rut_record_out *o)
{
	rut_closep(&o->events.fd);
	rut_closep(&o->names.fd);
	rut_closep(&o->dir_fd);
	rut_buf_fini(&o->labels);
	rut_buf_fini(&o->text);
	free(o->generations.ends);
	o->generations = (struct rut_record_generations){0};
}

static void out_free(struct rut_record_out *o)
{
	if (!o)
		return;
	out_release(o);
	free(o->path);
	free(o);
}

static int open_files(const struct rut_tracer *t, struct rut_record_out *o, const char *dir)
{
	char path[PATH_MAX], name[32];
	int rc;

	snprintf(name, sizeof(name), RUT_RECORD_DIR "%d", (int)o->pid);
	rc = rut_file_new_dir(path, sizeof(path), dir, name);
	if (rc)
		return rc;
	o->path = strdup(path);
	if (!o->path)
		return -ENOMEM;
	o->dir_fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (o->dir_fd < 0)
		return -errno;
	rc = describe(t, o);
	if (rc)
		return rc;
	o->events.fd = openat(o->dir_fd, "events", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (o->events.fd < 0)
		return -errno;
	o->names.fd = openat(o->dir_fd, "names", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return o->names.fd < 0 ? -errno : 0;
}

static const char *const trace_files[] = {"events", "names", "metadata", ".metadata"};

void rut_record_remove(int parent, const char *name)
{
	_cleanup_close_ int fd =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; i < sizeof(trace_files) / sizeof(*trace_files) && fd >= 0; i++)
		unlinkat(fd, trace_files[i], 0);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* It could not be begun: the next try finds nothing in its way. */
static void discard(struct rut_record_out *o)
{
	for (size_t i = 0; i < sizeof(trace_files) / sizeof(*trace_files) && o->dir_fd >= 0; i++)
		unlinkat(o->dir_fd, trace_files[i], 0);
	if (o->path)
		rmdir(o->path);
	out_free(o);
}

/* Makes DIR/ruby-PID. Its streams begin with the trace. */
static int out_new(const struct rut_tracer *t, struct rut_record_out **ret,
		   const struct rut_tracee *p, const char *dir, const struct rut_trace_clock *clock)
{
	struct rut_record_out *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return -ENOMEM;
	*o = (struct rut_record_out){.dir_fd = -1,
				     .pid = p->pid,
				     .events = {.fd = -1, .last_ns = clock->begin_ns},
				     .names = {.fd = -1, .last_ns = clock->begin_ns},
				     .rows_ns = clock->begin_ns,
				     .flushed_ns = rut_ring_clock(),
				     .clock_offset_ns = clock->offset_ns};
	/* Shared memory: each character is read once. */
	for (size_t i = 0; p->ctl && i + 1 < sizeof(o->ruby_version); i++) {
		char c = *(const volatile char *)&p->ctl->ruby_version[i];

		if (!c)
			break;
		o->ruby_version[i] = strchr("\"\\\n", c) ? '_' : c;
	}
	if (getrandom(o->uuid, sizeof(o->uuid), 0) < 0)
		memcpy(o->uuid, &clock->begin_ns, sizeof(clock->begin_ns));
	rc = open_files(t, o, dir);
	if (!rc)
		rc = append_empty(o, &o->names, RUT_RECORD_NAMES_STREAM, clock->begin_ns, 0);
	if (rc) {
		discard(o);
		return rc;
	}
	*ret = o;
	return 0;
}

/* Where the packets end that are finished now. */
static uint64_t finished_to(const struct rut_ring *r)
{
	return __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE) & ~(r->subbuf_size - 1);
}

/* Those before `end`. */
static int move_packets(struct rut_tracer *t, const struct rut_tracee *p, uint64_t end)
{
	const struct rut_ring *r = rut_events_ring(p);
	struct rut_record_out *o = p->out;
	const unsigned char *packet;
	uint32_t n = 0;

	/* No more than it can hold: what it says of its positions may be untrue. */
	while (n++ < r->count && o->pos < end && (packet = rut_ring_next(r, &o->pos))) {
		uint64_t records = rut_ring_packet_records(r, o->pos);
		int rc = append_events(t, o, r, packet, records);

		if (rc)
			return rc;
		t->record.totals.events += records;
		o->pos += r->subbuf_size;
		rut_ring_release(r, o->pos);
	}
	return 0;
}

/* With samples of allocations: what was allocated since these files began, all of it. */
static int write_allocated(struct rut_tracee *p, struct rut_record_out *o)
{
	const volatile struct rut_agent_table *table = p->table;
	struct rut_record_allocs now, since, *told = &p->allocs_told;
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	if (!table || !table->allocs)
		return 0;
	now = (struct rut_record_allocs){table->allocs, table->alloc_bytes, table->allocs_internal};
	since = (struct rut_record_allocs){now.objects - told->objects, now.bytes - told->bytes,
					   now.internal - told->internal};
	*told = now;
	rut_record_allocated(&b, o->names.last_ns, &since);
	return flush_names(o, &b, o->names.last_ns, o->names.last_ns);
}

static struct rut_record_grown grown_of(const struct rut_record_out *o)
{
	return (struct rut_record_grown){o->generations.n, o->text.len, o->labels.len, o->labelled};
}

/*
 * Where the metadata grows: moves the packets that are finished now, once it has the names that
 * they use. New names wait a little for others, unless the ring fills or `all` is to be written.
 */
static int move_named(struct rut_tracer *t, struct rut_tracee *p, bool all)
{
	struct rut_record_out *o = p->out;
	const struct rut_ring *r = rut_events_ring(p);
	const uint64_t end = finished_to(r), size = (uint64_t)r->count << r->shift;
	const uint64_t age_ns = rut_ring_clock() - o->described_ns;
	int rc = write_names(t, p, o);

	if (!rc && o->described != o->rows && !o->full) {
		struct rut_record_grown grown = grown_of(o);

		if (!all && !rut_record_generation_due(&grown, age_ns) && end - o->pos < size / 2)
			return 0;
		rc = describe(t, o);
		grown = grown_of(o);
		o->full = !rc && rut_record_generations_full(&grown);
		if (o->full)
			rut_warn("process %d has new methods all the time: those from here on have "
				 "no names at the collector until the trace is rotated",
				 (int)p->pid);
	}
	if (!rc)
		rc = move_packets(t, p, end);
	if (!rc && o->pos >= end) {
		o->complete_ns = o->flushed_ns - SLACK_NS;
		if (o->rows_ns < o->complete_ns)
			o->complete_ns = o->rows_ns;
	}
	return rc;
}

/* Writes all that the ring and the table still have. */
static int complete(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_record_out *o = p->out;
	int rc;

	rut_ring_flush(rut_events_ring(p));
	rc = t->config.grows ? move_named(t, p, true) : move_packets(t, p, UINT64_MAX);
	if (!rc && !t->config.grows)
		rc = write_names(t, p, o);
	if (!rc)
		rc = write_allocated(p, o);
	if (!rc && !t->config.grows && o->described != o->rows)
		rc = describe(t, o);
	o->lost = lost_of(o, rut_events_ring(p));
	return rc;
}

/* Every stream ends with the trace. */
static int end_streams(struct rut_record_out *o, uint64_t end_ns)
{
	int rc = append_empty(o, &o->events, RUT_RECORD_STREAM, end_ns, o->lost);

	return rc ? rc : append_empty(o, &o->names, RUT_RECORD_NAMES_STREAM, end_ns, 0);
}

/* A process has exited. Its files are closed until the trace ends, because there may be many. */
static int retire(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_record_to *to = &t->record;
	struct rut_record_out **more;
	int rc = complete(t, p);

	if (rc)
		return rc;
	more = realloc(to->retired, (to->nretired + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	to->retired = more;
	more[to->nretired++] = p->out;
	out_release(p->out);
	p->out = NULL;
	return 0;
}

static int end_retired(struct rut_record_out *o, uint64_t end_ns)
{
	o->dir_fd = open(o->path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (o->dir_fd < 0)
		return -errno;
	o->events.fd = openat(o->dir_fd, "events", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	o->names.fd = openat(o->dir_fd, "names", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (o->events.fd < 0 || o->names.fd < 0)
		return -errno;
	return end_streams(o, end_ns);
}

void rut_record_close(struct rut_tracee *p)
{
	out_free(p->out);
	p->out = NULL;
}

/*
 * When the streams of a process begin: with the trace. A live viewer is further and takes nothing
 * older, so there it is with the process's first record; nothing is shown beyond that yet.
 */
static struct rut_trace_clock begin_of(const struct rut_tracer *t, const struct rut_ring *r)
{
	struct rut_trace_clock clock = t->record.clock;
	uint64_t pos = __atomic_load_n(&r->ctl->consumed, __ATOMIC_ACQUIRE), ns = rut_ring_clock();
	struct rut_packet first;

	if (!t->config.grows)
		return clock;
	rut_ring_flush(r);
	if (pos < finished_to(r)) {
		memcpy(&first, rut_ring_subbuf(r, pos), sizeof(first));
		ns = first.timestamp_begin < ns ? first.timestamp_begin : ns;
	}
	clock.begin_ns = ns > clock.begin_ns ? ns : clock.begin_ns;
	return clock;
}

static int round_of(struct rut_tracer *t, struct rut_tracee *p)
{
	const struct rut_ring *r = rut_events_ring(p);
	uint64_t now = rut_ring_clock();
	struct rut_record_out *o = p->out;
	int rc = 0;

	if (!o) {
		const struct rut_trace_clock clock = begin_of(t, r);

		rc = out_new(t, &o, p, t->record.dir, &clock);
		if (rc || !o)
			return rc;
		p->out = o;
		o->pos = __atomic_load_n(&r->ctl->consumed, __ATOMIC_ACQUIRE);
		o->lost_before = p->lost_told;
		t->record.totals.processes += !p->recorded;
		p->recorded = true;
	}
	if (now - o->flushed_ns >= FLUSH_NS) {
		rut_ring_flush(r);
		o->flushed_ns = now;
	}
	if (t->config.grows)
		return move_named(t, p, false);
	rc = move_packets(t, p, UINT64_MAX);
	if (!rc)
		rc = write_names(t, p, o);
	if (!rc && o->described != o->rows && now - o->described_ns >= DESCRIBE_NS)
		rc = describe(t, o);
	return rc;
}

int rut_record_round(struct rut_tracer *t, struct rut_err *err)
{
	int first = 0;

	if (!t->record.dir || t->config.overwrite)
		return 0;
	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];
		bool gone = p->over || (p->exited && !p->unseen);
		int rc;

		if (!p->events || (gone && p->recorded && !p->out))
			continue;
		rc = round_of(t, p);
		if (!rc && gone)
			rc = retire(t, p);
		first = first ? first : rc;
	}
	return first ? rut_err_errno(err, -first, "cannot write to '%s'", t->record.dir) : 0;
}

/* Ends all files at `end_ns`. */
static int end_all(struct rut_tracer *t, uint64_t end_ns)
{
	int first = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct rut_tracee *p = t->tracees[i];
		int rc;

		if (!p->out)
			continue;
		rc = complete(t, p);
		if (!rc)
			rc = end_streams(p->out, end_ns);
		t->record.totals.lost += p->out->lost;
		p->lost_told = p->out->lost_before + p->out->lost;
		rut_record_close(p);
		first = first ? first : rc;
	}
	for (size_t i = 0; i < t->record.nretired; i++) {
		struct rut_record_out *o = t->record.retired[i];
		int rc = end_retired(o, end_ns);

		t->record.totals.lost += o->lost;
		out_free(o);
		first = first ? first : rc;
	}
	free(t->record.retired);
	t->record.retired = NULL;
	t->record.nretired = 0;
	free(t->record.copy);
	t->record.copy = NULL;
	t->record.copy_bytes = 0;
	return first;
}

int rut_tracer_record_to(struct rut_tracer *t, const char *dir, const struct rut_trace_clock *clock,
			 struct rut_err *err)
{
	char *copy = strdup(dir);
	int rc;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = end_all(t, clock->begin_ns);
	if (rc)
		rut_warn("cannot write to '%s': %s", t->record.dir, strerror(-rc));
	free(t->record.dir);
	t->record.dir = copy;
	t->record.clock = *clock;
	return rut_record_round(t, err);
}

int rut_tracer_record_end(struct rut_tracer *t, uint64_t end_ns, struct rut_err *err)
{
	int rc = rut_record_round(t, err), ended = end_all(t, end_ns);

	if (!rc && ended)
		rc = rut_err_errno(err, -ended, "cannot write to '%s'", t->record.dir);
	free(t->record.dir);
	t->record.dir = NULL;
	return rc;
}

/* ---- flight recorders ---- */

static int copy_ring(struct rut_tracer *t, struct rut_tracee *p, struct rut_record_out *o,
		     unsigned char *buf)
{
	const struct rut_ring *r = rut_events_ring(p);
	uint64_t end, pos;

	uint32_t n = 0;

	rut_ring_flush(r);
	end = __atomic_load_n(&r->ctl->pos, __ATOMIC_ACQUIRE) & ~(r->subbuf_size - 1);
	/* No more than it can hold: what it says of its positions may be untrue. */
	for (pos = rut_ring_oldest(r); pos < end && n++ <= r->count; pos += r->subbuf_size) {
		uint64_t records = rut_ring_packet_records(r, pos);
		int rc = rut_ring_copy(r, pos, buf);

		if (rc == -ESTALE || rc == -EAGAIN)
			continue; /* overwritten meanwhile, or by a thread that was interrupted */
		if (!rc)
			rc = append_events(t, o, r, buf, records);
		if (rc)
			return rc;
		t->record.totals.events += records;
	}
	return 0;
}

static int snapshot_of(struct rut_tracer *t, struct rut_tracee *p, const char *dir,
		       const struct rut_trace_clock *clock, uint64_t end_ns)
{
	const struct rut_ring *r = rut_events_ring(p);
	_cleanup_free_ unsigned char *buf = malloc(r->subbuf_size);
	struct rut_trace_clock own = *clock;
	struct rut_record_out *o = NULL;
	uint64_t oldest = rut_ring_oldest(r);
	int rc;

	if (!buf)
		return -ENOMEM;
	/* What came before the oldest packet is not known: the stream begins with that. */
	if (oldest && !rut_ring_copy(r, oldest, buf)) {
		const struct rut_packet *first = (const void *)buf;

		if (first->timestamp_begin > own.begin_ns && first->timestamp_begin < end_ns)
			own.begin_ns = first->timestamp_begin;
	}
	rc = out_new(t, &o, p, dir, &own);
	if (!rc)
		rc = copy_ring(t, p, o, buf);
	if (!rc)
		rc = write_names(t, p, o);
	if (!rc)
		rc = append_empty(o, &o->events, RUT_RECORD_STREAM, end_ns,
				  lost_of(o, rut_events_ring(p)));
	if (!rc)
		rc = append_empty(o, &o->names, RUT_RECORD_NAMES_STREAM, end_ns, 0);
	if (!rc)
		rc = describe(t, o);
	out_free(o);
	return rc;
}

int rut_tracer_record_snapshot(struct rut_tracer *t, const char *dir,
			       const struct rut_trace_clock *clock, uint64_t end_ns,
			       struct rut_err *err)
{
	for (size_t i = 0; i < t->count; i++) {
		int rc = t->tracees[i]->events ? snapshot_of(t, t->tracees[i], dir, clock, end_ns)
					       : 0;

		if (rc)
			return rut_err_errno(err, -rc, "cannot write to '%s'", dir);
	}
	return 0;
}

uint64_t rut_tracer_record_complete(const struct rut_tracer *t)
{
	uint64_t ns = UINT64_MAX;

	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->out && t->tracees[i]->out->complete_ns < ns)
			ns = t->tracees[i]->out->complete_ns;
	return ns;
}

void rut_tracer_record_totals(const struct rut_tracer *t, struct rut_record_totals *ret)
{
	*ret = t->record.totals;
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i]->out)
			ret->lost += lost_of(t->tracees[i]->out, rut_events_ring(t->tracees[i]));
}
