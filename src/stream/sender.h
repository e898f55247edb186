/* SPDX-License-Identifier: MIT */
/*
 * Sends what a session records to a collector while it is recorded.
 *
 * The recorder writes trace directories as ever; where only the collector needs them they are in
 * memory or in a spool directory, and what the collector has stored is removed. Without a spool
 * directory, and where the oldest packets are not to be dropped, the packets of the rings are not
 * written into files: rut_sender_packet() copies them into memory that is used again and again.
 * After each of its steps it calls rut_sender_step(). A thread of the sender reads the packets and
 * sends them, so that a collector that hangs never delays the recorder. When more is waiting than
 * the limit allows, rut_sender_full() says so: the recorder leaves its rings alone then, and what
 * finds no room in them is counted in events_discarded, as always. With `drop_oldest` packets that
 * wait are dropped instead, the oldest first; their events are counted in events_discarded of what
 * follows.
 *
 * A connection that breaks is made again, with increasing pauses. The relay protocol ends a session
 * with its connection, so the collector stores what follows as another trace; packets that were not
 * confirmed are sent again. Nothing is lost between the two but what the limit made the recorder
 * lose.
 */
#ifndef RUT_STREAM_SENDER_H
#define RUT_STREAM_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stream/conn.h"

struct rut_err;
struct rut_packet;
struct rut_sender;

struct rut_sender_conf {
	const char *to;	     /* URL of the collector */
	const char *session; /* name, where the URL has none */
	const char *spool;   /* directory for what is not sent yet; NULL: in memory */
	const char *tls;     /* directory of certificates, for relays://; NULL: RUT_TLS_DIR */
	uint64_t limit;	     /* bytes waiting; 0: RUT_SENDER_LIMIT */
	/* Beyond that the oldest packets are dropped, which needs their counts (ring/append.h). */
	bool drop_oldest;
	bool keep; /* the directories are the user's: nothing is removed, no limit */
	/* The streams kernel/kernel_0 ... that exist from the begin, and their trace's uuid. */
	int ncpus;
	uint8_t uuid[16];
};

#define RUT_SENDER_LIMIT     (32ull << 20)
#define RUT_SENDER_MIN_LIMIT (256ull << 10) /* with less, a few packets are all that waits */

struct rut_sender_stats {
	uint64_t bytes, packets; /* stored by the collector */
	uint64_t waiting_bytes;
	uint64_t connects, breaks;
	uint64_t dropped_events, dropped_packets;
	bool connected;
	char path[4096]; /* where the collector stores it, in its own words */
};

/*
 * Checks the URL and that the collector answers; makes the spool. No thread runs yet, so that the
 * caller may fork. Returns 0 or -errno.
 */
int rut_sender_new(struct rut_sender **ret, const struct rut_sender_conf *conf,
		   struct rut_err *err);

/* The pattern for trace directories of a recorder whose output is nothing but this; else NULL. */
const char *rut_sender_pattern(const struct rut_sender *s);

/* Does it take packets from memory? Then they are not to be written into the directory. */
bool rut_sender_holds(const struct rut_sender *s);

/*
 * Appends a packet to kernel/kernel_STREAM of the directory that the last step named: `head`, and
 * behind it what is behind the head of `packet`, all of `len` bytes. It is sent after the next
 * step. Returns 0 or -errno.
 */
int rut_sender_packet(struct rut_sender *s, int stream, const struct rut_packet *head,
		      const unsigned char *packet, size_t len);

/* Takes back what was appended since the last step, from byte `from` on. */
void rut_sender_cut(struct rut_sender *s, int stream, off_t from);

/* The stream's last packet ends at that time. */
void rut_sender_end_stream(struct rut_sender *s, int stream, uint64_t end_ns);

/* Starts the thread. In the process that records. Returns 0 or -errno. */
int rut_sender_start(struct rut_sender *s, struct rut_err *err);

/*
 * The recorder writes to the directory `dir`, and nothing at this moment. Each record before
 * `complete_ns` is in the files. A new name ends the directory before at `begin_ns`. From the
 * recorder's thread, as the others here. Returns 0 or -errno.
 */
int rut_sender_step(struct rut_sender *s, const char *dir, uint64_t begin_ns, uint64_t complete_ns,
		    struct rut_err *err);

/* Before a step: of directories of processes (ruby-PID) each record before `ns` is in the files. */
void rut_sender_beside(struct rut_sender *s, uint64_t ns);

/*
 * The present directory is no longer wanted, once a step names the next one. What was not sent of
 * it is dropped; the collector deletes what it has of it. Returns 0, or -ENOTSUP when the collector
 * is known not to delete.
 */
int rut_sender_clear(struct rut_sender *s, struct rut_err *err);

/* There is no next directory: that is taken back. */
void rut_sender_keep(struct rut_sender *s);

/* Whether that is possible, without doing it. */
int rut_sender_clearable(struct rut_sender *s, struct rut_err *err);

/* Has that been done? Returns 0, -EAGAIN, or -EIO when something stays at the collector. */
int rut_sender_cleared(struct rut_sender *s, struct rut_err *err);

/* Is more waiting than allowed? Where the oldest packets are dropped: and cannot be. */
bool rut_sender_full(struct rut_sender *s);

/* How many events were dropped. *ret_now: and the collector has not caught up since. */
uint64_t rut_sender_dropped(struct rut_sender *s, bool *ret_now);

/*
 * The last directory is complete and ends at `end_ns`. Sends what is waiting, for as long as the
 * collector takes it. Returns 0, or -errno with how much could not be sent.
 */
int rut_sender_finish(struct rut_sender *s, uint64_t end_ns, struct rut_err *err);

void rut_sender_stats(struct rut_sender *s, struct rut_sender_stats *ret);

void rut_sender_free(struct rut_sender *s);

#endif
