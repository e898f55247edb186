/* SPDX-License-Identifier: MIT */
#include "session/consumer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "session/mappings.h"
#include "session/rubies.h"
#include "session/stacks.h"
#include "session/unwind.h"
#include "stream/sender.h"

#define FLUSH_NS      1000000000ull
#define RETRY_NS      1000000000ull
#define LOOK_NS	      100000000ull
#define CLOCK_STEP_NS 10000000ll
#define STACKS_NS     10000000000ull
#define SLACK_NS      10000000ull /* a producer may be interrupted between its clock and its slot */

/* The pattern is the user's; strftime() writes no more than the size says. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static size_t expand(char *to, size_t size, const char *pattern, const struct tm *tm)
{
	return strftime(to, size, pattern, tm);
}
#pragma GCC diagnostic pop

/* The first free name with a number from `first` on. */
static int free_path(const struct rut_output_conf *conf, unsigned int first, char *ret, size_t size,
		     struct rut_err *err)
{
	char base[RUT_PATH_MAX];
	time_t now = time(NULL);
	struct tm tm;
	struct stat st;

	if (!localtime_r(&now, &tm) || !expand(base, sizeof(base), conf->pattern, &tm))
		return rut_err_set(err, EINVAL, "'%s' makes no name of a directory", conf->pattern);
	for (unsigned int i = first; i < first + 1000000; i++) {
		int n = i ? snprintf(ret, size, "%s-%u", base, i) : snprintf(ret, size, "%s", base);

		if (n < 0 || (size_t)n >= size)
			return rut_err_set(err, ENAMETOOLONG, "the name '%s' is too long", base);
		if ((lstat(ret, &st) < 0 && errno == ENOENT) || (conf->exact && !first))
			return 0;
	}
	return rut_err_set(err, EEXIST, "'%s' and a million names like it exist", base);
}

int rut_output_path(const struct rut_output_conf *conf, char *ret, size_t size, struct rut_err *err)
{
	return free_path(conf, 0, ret, size, err);
}

/* The number that a name has beyond the pattern's expansion: the next directory gets a higher one.
 */
static unsigned int number_of(const struct rut_output_conf *conf, const char *path)
{
	char base[RUT_PATH_MAX];
	time_t now = time(NULL);
	struct tm tm;
	size_t len;

	if (!path || !localtime_r(&now, &tm) || !expand(base, sizeof(base), conf->pattern, &tm))
		return 0;
	len = strlen(base);
	if (strncmp(path, base, len) != 0)
		return 0;
	return path[len] == '-' ? (unsigned int)atoi(path + len + 1) + 1 : 1;
}

static int remember_dir(struct rut_consumer *c, const char *path)
{
	char **more = reallocarray(c->directories, c->n_dirs + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	c->directories = more;
	more[c->n_dirs] = strdup(path);
	if (!more[c->n_dirs])
		return -ENOMEM;
	c->n_dirs++;
	return 0;
}

static void remove_oldest(struct rut_consumer *c)
{
	while (c->conf.keep && c->n_dirs > c->conf.keep) {
		int rc = rut_trace_remove(c->directories[0]);

		if (rc < 0)
			rut_warn("cannot remove the old trace '%s': %s", c->directories[0],
				 strerror(-rc));
		free(c->directories[0]);
		c->n_dirs--;
		memmove(c->directories, c->directories + 1, c->n_dirs * sizeof(*c->directories));
	}
}

/* What all directories have together. */
static void add_up(struct rut_consumer *c)
{
	struct rut_session_meta *m = c->recorder->meta;

	m->bytes_written = c->total_bytes = c->closed_bytes + c->writer.bytes;
	m->packets_written = c->total_packets = c->closed_packets + c->writer.packets;
	m->records_written = c->total_records = c->closed_records + c->writer.records;
}

/* How long the machine has been suspended. */
static int64_t slept_ns(void)
{
	return (int64_t)(rut_clock_ns(CLOCK_BOOTTIME) - rut_clock_ns(CLOCK_MONOTONIC));
}

/* No record that is not drained yet is older. */
static uint64_t first_record_ns(const struct rut_writer *w)
{
	uint64_t first = rut_ring_clock();

	for (int cpu = 0; cpu < w->recorder->ncpus; cpu++) {
		const struct rut_ring *ring = &w->recorder->rings[cpu];
		uint64_t pos = w->streams[cpu].pos;
		const struct rut_packet *p = (const void *)rut_ring_subbuf(ring, pos);

		if (__atomic_load_n(&ring->ctl->pos, __ATOMIC_ACQUIRE) > pos &&
		    p->timestamp_begin < first)
			first = p->timestamp_begin;
	}
	return first;
}

void rut_consumer_log_dirs(struct rut_consumer *c)
{
	c->log_dirs = true;
	rut_info("writes to '%s'", c->writer.path);
}

/* The sender hears of a directory before it gets packets. */
static int tell_sender(struct rut_consumer *c, struct rut_err *err)
{
	int rc = c->sender ? rut_sender_step(c->sender, c->writer.path, c->clock.begin_ns, 0, err)
			   : 0;

	c->untold = rc < 0;
	return rc;
}

static int open_dir(struct rut_consumer *c, const char *path, struct rut_err *err)
{
	struct rut_session_meta *m = c->recorder->meta;
	struct rut_writer next;
	uint64_t begin;
	int64_t offset;
	int rc;

	c->generation = __atomic_load_n(&m->generation, __ATOMIC_ACQUIRE);
	offset = rut_clock_offset_ns();
	begin = rut_ring_clock();
	rc = rut_writer_open(&next, c->recorder, path, err);
	if (rc < 0)
		return rc;
	if (c->writer.path) {
		rut_writer_continue(&next, &c->writer);
		add_up(c);
		c->closed_bytes = c->total_bytes;
		c->closed_packets = c->total_packets;
		c->closed_records = c->total_records;
		rut_writer_finish(&c->writer, c->end_ns);
		if (c->log_dirs)
			rut_info("ended '%s'", c->writer.path);
		rut_writer_close(&c->writer);
	}
	if (c->recorder->conf.mode == RUT_RING_DISCARD)
		next.begin_ns = c->end_ns ? c->end_ns : begin;
	rut_writer_stacks_begin(&next, first_record_ns(&next));
	c->end_ns = 0;
	if (c->sender && rut_sender_holds(c->sender))
		next.sender = c->sender;
	c->writer = next;
	if (c->log_dirs)
		rut_info("writes to '%s'", path);
	c->clock.begin_ns = next.begin_ns ? next.begin_ns : begin;
	c->clock.offset_ns = m->clock_offset_ns;
	for (size_t i = 0; i < c->ncompanions; i++) {
		struct rut_err why = RUT_ERR_INIT;

		if (c->companions[i].open(c->companions[i].arg, path, &c->clock, &why) < 0)
			rut_warn("%s", why.msg);
	}
	c->opened_ns = c->looked_ns = rut_ring_clock();
	c->clock_offset_ns = offset;
	c->slept_ns = slept_ns();
	snprintf(m->current, sizeof(m->current), "%s", path);
	__atomic_store_n(&m->acked, c->generation, __ATOMIC_RELEASE);
	rc = remember_dir(c, path);
	return rc < 0 ? rut_err_set(err, ENOMEM, "out of memory") : tell_sender(c, err);
}

static int open_next(struct rut_consumer *c, struct rut_err *err)
{
	char path[RUT_PATH_MAX];
	int rc = free_path(&c->conf, number_of(&c->conf, c->writer.path), path, sizeof(path), err);

	return rc < 0 ? rc : open_dir(c, path, err);
}

/*
 * The directory is no longer at its path: removed, moved away, or its file system was unmounted.
 * What would be written to it could not be found.
 */
static bool has_vanished(struct rut_consumer *c, uint64_t now)
{
	struct stat open, named;

	if (fstat(c->writer.dir_fd, &open) < 0 || !open.st_nlink)
		return true;
	if (now - c->looked_ns < LOOK_NS)
		return false;
	c->looked_ns = now;
	for (int cpu = 0; cpu < c->recorder->ncpus; cpu++)
		if (c->writer.streams[cpu].fd >= 0 &&
		    (fstat(c->writer.streams[cpu].fd, &open) < 0 || !open.st_nlink))
			return true;
	return fstat(c->writer.parent_fd, &open) < 0 || lstat(c->writer.path, &named) < 0 ||
	       open.st_dev != named.st_dev || open.st_ino != named.st_ino;
}

static void dump_state(struct rut_consumer *c)
{
	if (!c->bare)
		rut_writer_statedump(&c->writer, 0);
}

/* Continues in a directory of the same name where possible, else in the next one. */
static int replace_vanished(struct rut_consumer *c, struct rut_err *err)
{
	_cleanup_free_ char *gone = strdup(c->writer.path);
	size_t i = 0;
	int rc;

	c->vanished = true;
	if (!gone)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = open_dir(c, gone, err);
	if (rc == -EEXIST)
		rc = open_next(c, err);
	if (rc < 0)
		return rc;
	c->vanished = false;
	/* It is no longer ours to remove. */
	while (i < c->n_dirs && strcmp(c->directories[i], gone) != 0)
		i++;
	if (i + 1 < c->n_dirs) {
		free(c->directories[i]);
		c->n_dirs--;
		memmove(c->directories + i, c->directories + i + 1,
			(c->n_dirs - i) * sizeof(*c->directories));
	}
	rut_warn("'%s' no longer exists: recording continues in a new directory '%s'", gone,
		 c->writer.path);
	dump_state(c);
	return 0;
}

static int open_sender(struct rut_consumer *c, struct rut_err *err)
{
	struct rut_sender_conf to = {
		.to = c->conf.to,
		.session = c->recorder->conf.name,
		.spool = c->conf.spool[0] ? c->conf.spool : NULL,
		.tls = c->conf.tls[0] ? c->conf.tls : NULL,
		.limit = c->conf.spool_bytes,
		.drop_oldest = c->conf.drop_oldest,
		.keep = c->conf.pattern[0],
		.ncpus = c->recorder->ncpus,
	};
	int rc;

	memcpy(to.uuid, c->recorder->uuid, sizeof(to.uuid));
	rc = rut_sender_new(&c->sender, &to, err);
	if (!rc && !to.keep)
		snprintf(c->conf.pattern, sizeof(c->conf.pattern), "%s",
			 rut_sender_pattern(c->sender));
	return rc;
}

int rut_consumer_open(struct rut_consumer *c, struct rut_recorder *r,
		      const struct rut_output_conf *conf, struct rut_err *err)
{
	*c = (struct rut_consumer){.recorder = r, .conf = *conf, .sleep_ms = 10};
	c->writer.dir_fd = -1;
	c->drained_ns = c->flushed_ns = c->stacks_ns = rut_ring_clock();
	r->meta->output = *conf;
	if (conf->to[0]) {
		int rc = open_sender(c, err);

		if (rc)
			return rc;
	}
	return open_next(c, err);
}

int rut_consumer_accompany(struct rut_consumer *c, const struct rut_companion *companion,
			   struct rut_err *err)
{
	c->companions[c->ncompanions++] = *companion;
	return companion->open(companion->arg, c->writer.path, &c->clock, err);
}

/* What they cannot write they keep: the first problem is returned, and all are served. */
static int step_companions(struct rut_consumer *c, struct rut_err *err)
{
	int first = 0;

	for (size_t i = 0; i < c->ncompanions; i++) {
		int rc = c->companions[i].step(c->companions[i].arg, err);

		first = first ? first : rc;
	}
	return first;
}

int rut_consumer_rotate(struct rut_consumer *c, struct rut_err *err)
{
	int rc;

	rut_writer_mappings(&c->writer, &c->mappings);
	rut_recorder_flush(c->recorder);
	c->end_ns = rut_ring_clock();
	rc = (int)rut_writer_drain(&c->writer, err);
	if (rc >= 0)
		rc = rut_writer_last_stacks(&c->writer, err);
	if (rc < 0)
		return rc;
	rc = open_next(c, err);
	if (rc < 0)
		return rc;
	c->rotate_failed_ns = 0;
	dump_state(c);
	remove_oldest(c);
	return 0;
}

static bool must_rotate(const struct rut_consumer *c, uint64_t now)
{
	/* A next directory that cannot be made is tried once a second; this one grows meanwhile. */
	if (c->rotate_failed_ns && now - c->rotate_failed_ns < RETRY_NS)
		return false;
	/* Directories whose packets are dropped would remain, with their metadata. */
	if (c->dropping)
		return false;
	return c->rotate_failed_ns ||
	       (c->conf.size_bytes && c->writer.bytes >= c->conf.size_bytes) ||
	       (c->conf.every_ns && now - c->opened_ns >= c->conf.every_ns);
}

/* Wakes up when about an eighth of the fullest ring will have come, by what came last. */
static int next_sleep_ms(struct rut_consumer *c, uint64_t bytes, uint64_t elapsed_ns)
{
	const struct rut_ring *ring = &c->recorder->rings[0];
	uint64_t eighth = ((uint64_t)ring->count << ring->shift) / 8;
	uint64_t ms = bytes ? eighth * (elapsed_ns / 1000) / bytes / 1000 : 100;

	return ms < 1 ? 1 : ms > 50 ? 50 : (int)ms;
}

/* Events were added: describe them before their first packet is written. */
static int follow_generation(struct rut_consumer *c, struct rut_err *err)
{
	struct rut_session_meta *m = c->recorder->meta;
	uint32_t generation = __atomic_load_n(&m->generation, __ATOMIC_ACQUIRE);
	int rc;

	if (generation == c->generation)
		return 0;
	rc = rut_writer_update_metadata(&c->writer, err);
	if (rc < 0)
		return rc;
	c->generation = generation;
	__atomic_store_n(&m->acked, generation, __ATOMIC_RELEASE);
	return 0;
}

/* Without a next directory the one that there is goes on. */
static int try_rotate(struct rut_consumer *c, uint64_t now, struct rut_err *err)
{
	struct rut_err why = RUT_ERR_INIT;
	bool first = !c->rotate_failed_ns;
	int rc = rut_consumer_rotate(c, &why);

	if (rc >= 0)
		return rc;
	/* Not even this one can be written to. */
	if (c->writer.write_errno)
		return rut_err_set(err, why.code, "%s", why.msg);
	c->rotate_failed_ns = now;
	if (first)
		rut_warn("%s; recording continues in '%s'", why.msg, c->writer.path);
	return 0;
}

/*
 * Events carry CLOCK_MONOTONIC, and the metadata says how far from it the time of day is, once for
 * a whole directory. When the time of day is set, or the machine has slept (which is no time
 * for CLOCK_MONOTONIC), it is right in the next directory only. Measurements of one difference
 * differ a little.
 */
static void follow_clock(struct rut_consumer *c, uint64_t now)
{
	int64_t slept = slept_ns();
	int64_t offset = rut_clock_offset_ns(), step = offset - c->clock_offset_ns;
	bool was_asleep = slept - c->slept_ns >= CLOCK_STEP_NS;
	struct rut_err err = RUT_ERR_INIT;

	if (c->rotate_failed_ns)
		return; /* it is tried again anyhow */
	if (llabs(step) < CLOCK_STEP_NS) {
		c->clock_offset_ns = offset;
		return;
	}
	/* The step is still there when the collector has caught up: must_rotate(). */
	if (c->dropping)
		return;
	if (try_rotate(c, now, &err) < 0 || c->rotate_failed_ns)
		return;
	rut_warn("the %s %+.3f s: recording continues in '%s'",
		 was_asleep ? "machine has slept, time of day differs by"
			    : "time of day was set by",
		 (double)step / 1e9, c->writer.path);
	/* For whoever finds the session in a memory dump. */
	rut_recorder_publish(c->recorder, NULL);
}

/* The directory that can be written to: the one before, or a new one. */
static int ensure_dir(struct rut_consumer *c, uint64_t now, struct rut_err *err)
{
	int rc = c->untold ? tell_sender(c, err) : 0;

	/* Nobody else finds the directory of a sender that holds the packets. */
	if (!rc && !c->writer.sender && (c->vanished || has_vanished(c, now)))
		rc = replace_vanished(c, err);
	return rc < 0 ? rc : follow_generation(c, err);
}

void rut_consumer_follow_mappings(struct rut_consumer *c)
{
	if (rut_mappings_wanted(c->recorder) || rut_rubies_wanted(c->recorder))
		rut_mappings_follow(&c->mappings, c->recorder);
}

void rut_consumer_statedump(struct rut_consumer *c)
{
	dump_state(c);
	rut_writer_mappings(&c->writer, &c->mappings);
}

/* Now and then, and before the table could evict what is not written. */
static void write_new_stacks(struct rut_consumer *c, uint64_t now)
{
	uint64_t n = rut_stacks_new(c->recorder);

	if (n == c->stacks_seen || (now - c->stacks_ns < STACKS_NS &&
				    n - c->stacks_seen < c->recorder->nsets * RUT_STACK_WAYS / 8))
		return;
	c->stacks_seen = n;
	c->stacks_ns = now;
	rut_writer_new_stacks(&c->writer);
}

int rut_consumer_send(struct rut_consumer *c, struct rut_err *err)
{
	return c->sender ? rut_sender_start(c->sender, err) : 0;
}

/* What is in the files now may be sent; records before `complete_ns` are all there. */
static int offer(struct rut_consumer *c, uint64_t complete_ns, struct rut_err *err)
{
	uint64_t beside_ns = UINT64_MAX;
	int rc;

	if (!c->sender)
		return 0;
	for (size_t i = 0; i < c->ncompanions; i++)
		if (c->companions[i].complete) {
			uint64_t ns = c->companions[i].complete(c->companions[i].arg);

			beside_ns = ns < beside_ns ? ns : beside_ns;
		}
	rut_sender_beside(c->sender, beside_ns);
	rc = rut_sender_step(c->sender, c->writer.path, c->clock.begin_ns, complete_ns, err);
	__atomic_store_n(&c->recorder->meta->dropped, rut_sender_dropped(c->sender, &c->dropping),
			 __ATOMIC_RELAXED);
	return rc;
}

int rut_consumer_clear(struct rut_consumer *c, struct rut_err *err)
{
	int rc = c->sender ? rut_sender_clear(c->sender, err)
			   : rut_err_set(err, EINVAL,
					 "it writes files: nothing stays in its buffers");

	if (rc)
		return rc;
	rc = rut_consumer_rotate(c, err);
	if (rc < 0)
		rut_sender_keep(c->sender);
	return rc;
}

int rut_consumer_cleared(struct rut_consumer *c, struct rut_err *err)
{
	return rut_sender_cleared(c->sender, err);
}

/* The rings keep what the sender has no room for, and count what they have no room for. */
static bool no_room(struct rut_consumer *c, struct rut_err *err)
{
	c->full = c->sender && rut_sender_full(c->sender);
	if (c->full)
		rut_err_set(err, ENOBUFS, "the collector does not keep up");
	return c->full;
}

int rut_consumer_step(struct rut_consumer *c, struct rut_err *err)
{
	uint64_t now = rut_ring_clock(), before, complete_ns = c->flushed_ns - SLACK_NS;
	struct rut_session_meta *m = c->recorder->meta;
	int64_t n = no_room(c, err) ? -ENOBUFS : ensure_dir(c, now, err);
	int beside, rc;

	c->followed = n >= 0;
	if (n < 0) {
		m->write_errno = (int)-n;
		c->sleep_ms = 50;
		return (int)n;
	}
	before = c->writer.bytes;
	write_new_stacks(c, now);
	rut_writer_mappings(&c->writer, &c->mappings);
	n = rut_writer_drain(&c->writer, err);
	m->write_errno = c->writer.write_errno;
	c->sleep_ms = n < 0 ? 50 : next_sleep_ms(c, c->writer.bytes - before, now - c->drained_ns);
	add_up(c);
	c->drained_ns = now;
	if (n < 0)
		return (int)n;
	beside = step_companions(c, err);
	rc = offer(c, complete_ns, err);
	if (rc < 0)
		return rc;
	if (now - c->flushed_ns >= FLUSH_NS) {
		rut_recorder_flush(c->recorder);
		c->flushed_ns = now;
	}
	if (now - c->clock_looked_ns >= LOOK_NS) {
		c->clock_looked_ns = now;
		follow_clock(c, now);
	}
	rc = must_rotate(c, now) ? try_rotate(c, now, err) : 0;
	return rc < 0 ? rc : beside;
}

/* When the code of a process has to be read next: what is due stays so where it cannot be. */
static uint64_t next_due_ns(const struct rut_consumer *c)
{
	uint64_t unwind, ruby;

	if (!c->followed)
		return UINT64_MAX;
	unwind = rut_unwind_due_ns(c->recorder);
	ruby = rut_rubies_due_ns(c->recorder);
	return unwind < ruby ? unwind : ruby;
}

void rut_consumer_wait(struct rut_consumer *c, int ms)
{
	uint64_t now = rut_ring_clock(), due = next_due_ns(c);

	if (ms > c->sleep_ms)
		ms = c->sleep_ms;
	if (due < now + (uint64_t)ms * 1000000)
		ms = due > now ? (int)((due - now + 999999) / 1000000) : 1;
	if (c->mappings && c->followed)
		rut_mappings_wait(c->mappings, ms);
	else
		poll(NULL, 0, ms);
}

void rut_consumer_abandon(struct rut_consumer *c)
{
	if (c->writer.path)
		rut_writer_close(&c->writer);
	for (size_t i = 0; i < c->n_dirs; i++)
		free(c->directories[i]);
	rut_mappings_free(c->mappings);
	c->mappings = NULL;
	rut_sender_free(c->sender);
	c->sender = NULL;
	free(c->directories);
	c->directories = NULL;
	c->n_dirs = 0;
}

void rut_consumer_discard(struct rut_consumer *c)
{
	if (c->writer.path)
		rut_writer_discard(&c->writer);
	rut_consumer_abandon(c);
}

/* All is written: sends what is left of it. */
static int send_rest(struct rut_consumer *c, struct rut_err *err)
{
	struct rut_sender_stats st;
	int rc;

	if (!c->sender)
		return 0;
	rc = rut_sender_step(c->sender, c->writer.path, c->clock.begin_ns, c->end_ns, err);
	if (!rc)
		rc = rut_sender_finish(c->sender, c->end_ns, err);
	rut_sender_stats(c->sender, &st);
	c->recorder->meta->dropped = st.dropped_events;
	rut_info("sent %.1f MiB in %llu packets to '%s'", (double)st.bytes / 1048576,
		 (unsigned long long)st.packets, c->conf.to);
	return rc;
}

int rut_consumer_close(struct rut_consumer *c, struct rut_err *err)
{
	int64_t n;

	if (!c->writer.path)
		return 0;
	n = ensure_dir(c, rut_ring_clock(), err);
	if (n >= 0) {
		rut_writer_mappings(&c->writer, &c->mappings);
		rut_recorder_flush(c->recorder);
		c->end_ns = rut_ring_clock();
		n = rut_writer_drain(&c->writer, err);
		if (n >= 0)
			n = rut_writer_last_stacks(&c->writer, err);
		rut_writer_finish(&c->writer, c->end_ns);
		for (size_t i = 0; i < c->ncompanions; i++) {
			const struct rut_companion *side = &c->companions[i];
			int rc = side->close(side->arg, c->end_ns, err);

			n = n < 0 ? n : rc;
		}
		if (c->log_dirs)
			rut_info("ended '%s'", c->writer.path);
	}
	add_up(c);
	if (n >= 0)
		n = send_rest(c, err);
	rut_consumer_abandon(c);
	return n < 0 ? (int)n : 0;
}
