/* SPDX-License-Identifier: MIT */
#include "stream/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memfs.h"
#include "stream/sender_internal.h"
#include "stream/tls.h"

#define LINGER_NS   30000000000ull /* without progress, at the end */
#define BATCH_BYTES (8ull << 20)
#define WAKE_BYTES  (1ull << 20)   /* fewer wait until the thread looks, ten times a second */
#define NO_PEER_NS  10000000000ull /* the same while there is no connection */

static void set_lock(void *arg, bool on)
{
	struct rut_sender *s = arg;

	if (on)
		pthread_mutex_lock(&s->lock);
	else
		pthread_mutex_unlock(&s->lock);
}

static int make_spool(struct rut_sender *s, const char *spool, struct rut_err *err)
{
	if (s->keep)
		return 0;
	if (!spool) {
		s->mount_fd = rut_memfs_mount(false, err);
		if (s->mount_fd < 0)
			return s->mount_fd;
		snprintf(s->pattern, sizeof(s->pattern), "/proc/self/fd/%d/trace", s->mount_fd);
		return 0;
	}
	if (mkdir(spool, 0750) < 0 && errno != EEXIST)
		return rut_err_errno(err, errno, "cannot make the spool directory '%s'", spool);
	if ((size_t)snprintf(s->spool, sizeof(s->spool), "%s", spool) >= sizeof(s->spool) ||
	    (size_t)snprintf(s->pattern, sizeof(s->pattern), "%s/%.64s", spool, s->session) >=
		    sizeof(s->pattern))
		return rut_err_set(err, ENAMETOOLONG, "the spool's name '%s' is too long", spool);
	return 0;
}

/* A wrong name, port or certificate should be found now, not in a log. */
static int probe(const struct rut_sender *s, struct rut_err *err)
{
	sigset_t pipe, before;
	int rc;

	/* The peer may close while TLS still writes. */
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	rc = s->link->probe(s, err);
	sigtimedwait(&pipe, NULL, &(struct timespec){0});
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/* At least 1: a batch has a packet. */
static uint64_t at_most(uint64_t bytes, uint64_t most)
{
	return bytes > most ? most : bytes ? bytes : 1;
}

int rut_sender_new(struct rut_sender **ret, const struct rut_sender_conf *conf, struct rut_err *err)
{
	struct rut_sender *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	s->mount_fd = -1;
	s->limit = conf->limit ? conf->limit : RUT_SENDER_LIMIT;
	s->keep = conf->keep;
	s->drop_oldest = conf->drop_oldest && !conf->keep;
	/* What was sent is not dropped: most of what is waiting must not have been. */
	s->batch = s->drop_oldest ? at_most(s->limit / 4, BATCH_BYTES) : BATCH_BYTES;
	s->wake_bytes = at_most(s->limit / 4, WAKE_BYTES);
	s->ncpus = conf->ncpus;
	s->beside_ns = UINT64_MAX;
	memcpy(s->packet_uuid, conf->uuid, sizeof(s->packet_uuid));
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	snprintf(s->to, sizeof(s->to), "%s", conf->to);
	rc = rut_url_parse(conf->to, &s->url, err);
	s->link = s->url.nats ? &rut_sender_nats : &rut_sender_relay;
	snprintf(s->session, sizeof(s->session), "%s",
		 s->url.session[0] ? s->url.session : conf->session);
	if (gethostname(s->host, sizeof(s->host) - 1) < 0 || !s->host[0])
		strcpy(s->host, "localhost");
	/* The collector refuses a producer without an identity. */
	if (getrandom(s->uuid, sizeof(s->uuid), 0) < 0)
		memcpy(s->uuid, conf->uuid, sizeof(s->uuid));
	s->uuid[0] |= 1;
	if (conf->tls) {
		snprintf(s->tls_buf, sizeof(s->tls_buf), "%s", conf->tls);
		s->tls_dir = s->tls_buf;
	}
	if (!rc && s->url.tls)
		rc = rut_tls_conf_new(&s->tls, conf->tls ? conf->tls : RUT_TLS_DIR, false, err);
	if (!rc)
		rc = probe(s, err);
	if (!rc)
		rc = make_spool(s, conf->spool, err);
	if (rc)
		rut_sender_free(s);
	else
		*ret = s;
	return rc;
}

const char *rut_sender_pattern(const struct rut_sender *s)
{
	return s->keep ? NULL : s->pattern;
}

int rut_sender_start(struct rut_sender *s, struct rut_err *err)
{
	sigset_t all, before;
	int rc;

	/* Signals are the recorder's; SIGPIPE of a socket must not end it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&s->thread, NULL, rut_sender_run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return rut_err_errno(err, rc, "cannot start the sender's thread");
	s->started = true;
	return 0;
}

/* The directory that was written to is complete. */
static void end_chunk(struct rut_sender *s, uint64_t end_ns)
{
	uint64_t bytes = rut_chunk_scan(s->last, set_lock, s);

	set_lock(s, true);
	s->waiting += bytes;
	s->last->end_ns = end_ns;
	s->last->closed = true;
	pthread_cond_signal(&s->wake);
	set_lock(s, false);
	s->last = NULL;
}

static int begin_chunk(struct rut_sender *s, const char *dir, uint64_t begin_ns,
		       struct rut_err *err)
{
	struct rut_chunk **end = &s->chunks;
	int rc = rut_chunk_new(&s->last, dir, err);

	if (rc)
		return rc;
	s->last->begin_ns = begin_ns;
	set_lock(s, true);
	while (*end)
		end = &(*end)->next;
	*end = s->last;
	set_lock(s, false);
	return 0;
}

int rut_sender_step(struct rut_sender *s, const char *dir, uint64_t begin_ns, uint64_t complete_ns,
		    struct rut_err *err)
{
	uint64_t bytes;
	int rc = 0;

	if (s->last && strcmp(s->last->path, dir) != 0)
		end_chunk(s, begin_ns);
	if (!s->last)
		rc = begin_chunk(s, dir, begin_ns, err);
	if (rc)
		return rc;
	bytes = rut_chunk_scan(s->last, set_lock, s);
	set_lock(s, true);
	s->waiting += bytes;
	if (complete_ns > s->complete_ns)
		s->complete_ns = complete_ns;
	if (s->waiting >= s->wake_bytes)
		pthread_cond_signal(&s->wake);
	set_lock(s, false);
	rut_sender_full(s);
	return 0;
}

bool rut_sender_holds(const struct rut_sender *s)
{
	return !s->keep && !s->spool[0] && !s->drop_oldest;
}

static struct rut_stream_file *held_file(struct rut_sender *s, int stream)
{
	char name[32];

	snprintf(name, sizeof(name), "kernel_%d", stream);
	return s->last ? rut_chunk_held(s->last, "kernel", name, set_lock, s) : NULL;
}

int rut_sender_packet(struct rut_sender *s, int stream, const struct rut_packet *head,
		      const unsigned char *packet, size_t len)
{
	struct rut_stream_file *f = held_file(s, stream);
	const size_t content = head->content_size / 8, h = sizeof(*head);
	struct rut_held_block *b;

	if (!f)
		return -EIO;
	set_lock(s, true);
	b = rut_held_new(&s->pool, len);
	set_lock(s, false);
	if (!b)
		return -ENOMEM;
	/* What is behind the content is never sent. */
	memcpy(rut_held_data(b), head, h);
	memcpy(rut_held_data(b) + h, packet + h, content - h);
	set_lock(s, true);
	rut_held_append(&f->held, b);
	set_lock(s, false);
	return 0;
}

void rut_sender_cut(struct rut_sender *s, int stream, off_t from)
{
	struct rut_stream_file *f = held_file(s, stream);

	if (!f || from < f->size)
		return;
	set_lock(s, true);
	rut_held_cut(&f->held, &s->pool, from);
	set_lock(s, false);
}

void rut_sender_end_stream(struct rut_sender *s, int stream, uint64_t end_ns)
{
	struct rut_stream_file *f = held_file(s, stream);

	set_lock(s, true);
	if (f)
		f->end_ns = end_ns;
	set_lock(s, false);
}

void rut_sender_beside(struct rut_sender *s, uint64_t ns)
{
	set_lock(s, true);
	s->beside_ns = ns;
	set_lock(s, false);
}

int rut_sender_clearable(struct rut_sender *s, struct rut_err *err)
{
	bool refused;

	if (!s->link->clear)
		return rut_err_set(err, ENOTSUP, "messages published to NATS cannot be taken back");
	set_lock(s, true);
	refused = s->no_clear;
	set_lock(s, false);
	return refused ? rut_err_set(err, ENOTSUP,
				     "the collector does not let traces be cleared: it is older "
				     "than 2.12, or forbids it (--disallow-clear)")
		       : 0;
}

int rut_sender_clear(struct rut_sender *s, struct rut_err *err)
{
	int rc = rut_sender_clearable(s, err);

	if (rc || !s->last)
		return rc;
	set_lock(s, true);
	s->last->cleared = true;
	s->clears++;
	s->clear_failed = false;
	set_lock(s, false);
	return 0;
}

void rut_sender_keep(struct rut_sender *s)
{
	set_lock(s, true);
	if (s->last && s->last->cleared) {
		s->last->cleared = false;
		s->clears--;
	}
	set_lock(s, false);
}

int rut_sender_cleared(struct rut_sender *s, struct rut_err *err)
{
	int rc;

	set_lock(s, true);
	rc = s->clears ? -EAGAIN : s->clear_failed ? -EIO : 0;
	set_lock(s, false);
	return rc != -EIO ? rc
			  : rut_err_set(err, EIO,
					"what the collector stored before the connection broke "
					"stays there");
}

static bool over_limit(const struct rut_sender *s)
{
	return !s->keep && __atomic_load_n(&s->waiting, __ATOMIC_RELAXED) >= s->limit;
}

bool rut_sender_full(struct rut_sender *s)
{
	if (s->drop_oldest && over_limit(s))
		rut_sender_drop_oldest(s);
	return over_limit(s);
}

uint64_t rut_sender_dropped(struct rut_sender *s, bool *ret_now)
{
	uint64_t events;

	if (!s->drop_oldest) {
		*ret_now = false;
		return 0;
	}
	set_lock(s, true);
	events = s->stats.dropped_events;
	*ret_now = s->dropping;
	set_lock(s, false);
	return events;
}

/*
 * Bytes that the collector's machine does not have yet. A connection that breaks raises it again,
 * so sending the same packets over and over is not progress. Under the lock.
 */
static uint64_t to_send(const struct rut_sender *s)
{
	uint64_t sent = __atomic_load_n(&s->in_flight, __ATOMIC_RELAXED);

	return (s->waiting > sent ? s->waiting - sent : 0) + s->link->queued(s);
}

/*
 * Until the thread has sent all, or nothing has moved for a while. A collector that comes and goes
 * without taking anything does not extend that.
 */
static void wait_for_end(struct rut_sender *s)
{
	uint64_t moved_ns = rut_now_ns(), peer_ns = moved_ns, least = UINT64_MAX, now;

	set_lock(s, true);
	while (now = rut_now_ns(),
	       !s->ended && now - moved_ns < LINGER_NS && now - peer_ns < NO_PEER_NS) {
		struct timespec until;

		if (to_send(s) < least) {
			least = to_send(s);
			moved_ns = peer_ns = now;
		}
		if (s->stats.connected)
			peer_ns = now;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 50000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&s->wake, &s->lock, &until);
	}
	s->cancelled = true;
	s->link->abort(s);
	pthread_cond_broadcast(&s->wake);
	set_lock(s, false);
}

int rut_sender_finish(struct rut_sender *s, uint64_t end_ns, struct rut_err *err)
{
	bool ended;

	if (!s->started)
		return 0;
	if (s->last)
		end_chunk(s, end_ns);
	set_lock(s, true);
	s->ending = true;
	pthread_cond_broadcast(&s->wake);
	set_lock(s, false);
	wait_for_end(s);
	pthread_join(s->thread, NULL);
	s->started = false;
	ended = s->ended;
	if (ended)
		return 0;
	if (s->spool[0])
		rut_sender_leave(s);
	return rut_err_set(err, EIO, "%.1f MiB could not be sent to '%s'%s%s",
			   (double)s->waiting / 1048576, s->to,
			   s->keep	 ? "; the trace is in the output directory"
			   : s->spool[0] ? "; they are in "
					 : " and are lost",
			   !s->keep ? s->spool : "");
}

void rut_sender_stats(struct rut_sender *s, struct rut_sender_stats *ret)
{
	set_lock(s, true);
	*ret = s->stats;
	ret->waiting_bytes = s->waiting;
	set_lock(s, false);
}

void rut_sender_free(struct rut_sender *s)
{
	if (!s)
		return;
	if (s->started) {
		set_lock(s, true);
		s->ending = s->cancelled = true;
		s->link->abort(s);
		pthread_cond_broadcast(&s->wake);
		set_lock(s, false);
		pthread_join(s->thread, NULL);
	}
	for (struct rut_stream_out *o = s->streams, *next; o; o = next) {
		next = o->next;
		free(o->part);
		free(o->channel);
		free(o->text);
		free(o);
	}
	for (struct rut_chunk *c = s->chunks, *next; c; c = next) {
		next = c->next;
		rut_chunk_free(c);
	}
	rut_held_pool_free(&s->pool);
	if (s->link && s->link->free)
		s->link->free(s);
	rut_tls_conf_free(s->tls);
	rut_closep(&s->mount_fd);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	free(s);
}
