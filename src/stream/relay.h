/* SPDX-License-Identifier: MIT */
/*
 * A session at a relay daemon, seen from the producer: two connections, one trace chunk at a time.
 *
 * Commands with the same reply each time are pipelined: they are collected, sent
 * together, and their replies are read by rut_relay_confirm(). So a batch of packets costs one
 * round trip however far the collector is.
 *
 * Every function returns 0 or -errno; after an error the session is of no further use.
 */
#ifndef RUT_STREAM_RELAY_H
#define RUT_STREAM_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stream/conn.h"
#include "stream/proto.h"

struct rut_packet;
struct rut_relay;

struct rut_relay_conf {
	const struct rut_url *url;  /* borrowed during rut_relay_open() */
	struct rut_tls_conf *tls;   /* of a URL with TLS; borrowed */
	const char *session, *host; /* names, likewise */
	uint8_t uuid[16];	    /* of this producer */
	uint64_t id;		    /* the producer's number of the session */
	uint32_t live_us;
	bool snapshot;
	int timeout_ms;
	uint32_t minor_max; /* 0: RUT_RELAY_MINOR_MAX */
};

/* Connects, agrees on a version, makes the session and its first chunk. */
int rut_relay_open(struct rut_relay **ret, const struct rut_relay_conf *conf, struct rut_err *err);

/* Connects and agrees on a version, and no more: is it there, and does it take us? */
int rut_relay_probe(const struct rut_relay_conf *conf, struct rut_err *err);

/* Where the collector stores the session, in its own words. */
const char *rut_relay_path(const struct rut_relay *r);

/* Adds a stream; "metadata" is the channel of a directory's metadata. */
int rut_relay_add(struct rut_relay *r, const char *path, const char *channel, uint64_t *ret_stream,
		  struct rut_err *err);

/* The streams that were added become visible to live viewers. */
int rut_relay_publish(struct rut_relay *r, struct rut_err *err);

/* Appends text to a metadata stream. It has no reply; errors come later. */
int rut_relay_metadata(struct rut_relay *r, uint64_t stream, const char *text, size_t len);

/* A packet: its head, then `len` bytes in memory or of a file, then `padding` zeros. */
struct rut_relay_content {
	const struct rut_packet *head;
	const void *data; /* NULL: in the file, at `at` */
	int fd;
	off_t at;
	size_t len;
	uint32_t padding;
};

/* Sends one packet, which `index` describes. Pipelined. */
int rut_relay_packet(struct rut_relay *r, const struct rut_relay_index *index,
		     const struct rut_relay_content *content);

/* Nothing happened in the stream up to `end_ns`. Pipelined. */
int rut_relay_beacon(struct rut_relay *r, uint64_t stream, uint64_t class_id, uint64_t end_ns);

/* One stream; its packets up to and with `seq` were sent. */
struct rut_relay_sent {
	uint64_t stream, seq;
};

/*
 * Reads the replies, and waits until the collector has stored what was sent. -ETIMEDOUT when
 * neither a stream completes nor the socket drains for `timeout_ms`.
 */
int rut_relay_confirm(struct rut_relay *r, const struct rut_relay_sent *sent, size_t count,
		      struct rut_err *err);

/* Begins the next chunk; each stream continues in it at the given packet_seq. */
int rut_relay_rotate(struct rut_relay *r, const struct rut_relay_position *positions,
		     uint32_t count, struct rut_err *err);

/* May what is stored be deleted? */
bool rut_relay_clearable(const struct rut_relay *r);

/* The same as rut_relay_rotate(), and the chunk before is deleted. */
int rut_relay_clear(struct rut_relay *r, const struct rut_relay_position *positions, uint32_t count,
		    struct rut_err *err);

/* Closes the streams and the chunk. */
int rut_relay_finish(struct rut_relay *r, const struct rut_relay_sent *sent, size_t count,
		     struct rut_err *err);

/* Bytes of packets that the peer's machine has not acknowledged. From any thread. */
uint64_t rut_relay_queued(const struct rut_relay *r);

/* Makes calls of other threads fail. */
void rut_relay_abort(const struct rut_relay *r);

void rut_relay_free(struct rut_relay *r);

#endif
