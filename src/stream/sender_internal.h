/* SPDX-License-Identifier: MIT */
/* What the recorder's side of a sender (sender.c) and its thread (pump.c) share. */
#ifndef RUT_STREAM_SENDER_INTERNAL_H
#define RUT_STREAM_SENDER_INTERNAL_H

#include <pthread.h>

#include "ring/ring.h"
#include "stream/follow.h"
#include "stream/relay.h"
#include "stream/sender.h"

#define RUT_STREAM_PACKET     ((size_t)4096) /* bytes of a packet without events */
#define RUT_SENDER_TIMEOUT_MS 10000
#define RUT_SENDER_PROBE_MS   3000

/* How far a stream is, in the numbers that the collector sees. */
struct rut_stream_place {
	uint64_t out_seq;   /* of the next packet */
	uint64_t in_seq;    /* of the next packet in the files */
	uint64_t discarded; /* of the last packet */
	uint64_t last_ns;   /* end of the last packet or beacon */
	bool any;	    /* a packet was sent */
};

struct rut_stream_out {
	struct rut_stream_out *next;	   /* owned */
	char *part, *channel;		   /* owned */
	struct rut_packet head;		   /* of a packet without events; magic 0: not known yet */
	struct rut_stream_place now, safe; /* safe: what the collector has confirmed */
	/* In the present connection. */
	bool open, metadata;
	uint64_t handle, net_seq;
	char *text; /* metadata: what the collector has of the present chunk; owned */
	size_t text_len;
	uint32_t generation;
};

/*
 * A protocol to a collector. All but the last three are called by the sender's thread. Each int is
 * 0 or -errno with the reason; what fails ends the connection.
 */
struct rut_sender_link {
	/* Is the collector there, and does it take us? Before there is a thread. */
	int (*probe)(const struct rut_sender *s, struct rut_err *err);
	/* Connects, and begins with the chunk. */
	int (*open)(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err);
	/* Sends metadata and streams of the chunk that are new. */
	int (*update)(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err);
	/* Sends the packet at f->sent, with this header. 1: its stream is not open yet. */
	int (*packet)(struct rut_sender *s, struct rut_stream_file *f, struct rut_packet *p);
	/* Nothing is to be sent; all records before these times were. NULL: not wanted. */
	void (*idle)(struct rut_sender *s, uint64_t complete_ns, uint64_t beside_ns);
	/* Waits until the collector has what was sent. */
	int (*confirm)(struct rut_sender *s, struct rut_err *err);
	/* The chunk was sent; `next` follows, or, NULL, the session's end. */
	int (*end)(struct rut_sender *s, struct rut_chunk *c, const struct rut_chunk *next,
		   struct rut_err *err);
	/* The chunk is not wanted: the collector deletes it. NULL: it cannot. */
	int (*clear)(struct rut_sender *s, struct rut_chunk *c, struct rut_err *err);
	/* Disconnects, if connected. */
	void (*close)(struct rut_sender *s);
	/* Bytes that the peer's machine does not have yet. Under the lock, from any thread. */
	uint64_t (*queued)(const struct rut_sender *s);
	/* Makes the thread's calls fail. Likewise. */
	void (*abort)(const struct rut_sender *s);
	/* Frees what the link has made; the thread has ended. NULL: nothing to do. */
	void (*free)(struct rut_sender *s);
};

extern const struct rut_sender_link rut_sender_relay, rut_sender_nats;

struct rut_sender {
	const struct rut_sender_link *link;
	/* Set once. */
	struct rut_url url;
	char to[600], session[256], host[256];
	char pattern[256], spool[256];
	uint64_t limit, batch; /* bytes waiting; bytes sent before they are confirmed */
	uint64_t wake_bytes;   /* with so many waiting the thread is woken */
	bool keep, drop_oldest;
	int ncpus;
	uint8_t uuid[16], packet_uuid[16];
	int mount_fd;
	struct rut_tls_conf *tls; /* owned; NULL: none */
	char tls_buf[256];
	const char *tls_dir; /* of a NATS link; NULL: RUT_TLS_DIR */
	/* The recorder's thread. */
	struct rut_chunk *last; /* of `chunks`: what is being written */
	bool started;
	pthread_t thread;
	/* Both, under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct rut_chunk *chunks; /* oldest first; owned */
	struct rut_held_pool pool;
	uint64_t complete_ns, beside_ns; /* of the kernel; of processes, at most the former */
	uint64_t waiting;		 /* bytes; read without the lock */
	/* Of `waiting`: sent but not confirmed. The thread writes it; atomic, without the lock. */
	uint64_t in_flight;
	bool dropping; /* packets were dropped, and the collector has not caught up yet */
	bool ending, ended, cancelled;
	uint32_t clears;	      /* chunks that are still to be cleared */
	bool clear_failed;	      /* of the last one something stays at the collector */
	bool no_clear;		      /* the collector says that it does not delete */
	struct rut_relay *relay;      /* of a relay link, owned by the thread; NULL: none */
	struct rut_nats_sender *nats; /* of a NATS link, likewise */
	struct rut_sender_stats stats;
	/* The thread. */
	struct rut_stream_out *streams;
	uint64_t retry_at_ns, pause_ns;
	uint64_t beacon_ns;
	unsigned int first; /* file of the next round */
	bool said_broken, said_metadata;
};

/* Drops the oldest packets until no more is waiting than allowed. The recorder's thread. */
void rut_sender_drop_oldest(struct rut_sender *s);

/* The thread has ended: files that stay in the spool get all that a reader needs. */
void rut_sender_leave(struct rut_sender *s);

/*
 * Of a stream in memory: `len` bytes at f->sent, which are there until they are confirmed. NULL:
 * there are not so many.
 */
const unsigned char *rut_sender_held(struct rut_sender *s, const struct rut_stream_file *f,
				     size_t len);

/* The thread's function. */
void *rut_sender_run(void *sender);

#endif
