/* SPDX-License-Identifier: MIT */
/*
 * What a trace is on NATS: messages to rutile.HOST.SESSION.PART.STREAM, and to
 * rutile.HOST.SESSION.begin|chunk, each with a head and a piece of content.
 *
 * A message says where in which file its content belongs, so that a receiver needs no memory of
 * earlier ones, may get them in any order, from several senders' attempts, and more than once. The
 * names are in the subject alone, since that is what the server's rights are about. There is no
 * socket here.
 */
#ifndef RUT_STREAM_NATS_WIRE_H
#define RUT_STREAM_NATS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RUT_NATS_PREFIX	     "rutile"
#define RUT_NATS_HEAD	     84		  /* bytes of a head */
#define RUT_NATS_NAME_MAX    255	  /* bytes of a name, decoded */
#define RUT_NATS_CONTENT_MAX (64u << 20)  /* bytes of a packet's content, or of metadata */
#define RUT_NATS_OFFSET_MAX  (1ull << 46) /* bytes of a file */
#define RUT_NATS_CHUNKS_MAX  1000000u
#define RUT_NATS_PART_MIN    4096u	  /* bytes of a piece that is not the last one */
#define RUT_NATS_PIECE	     (512u << 10) /* the same where the server's max_payload allows */

enum rut_nats_kind {
	RUT_NATS_BEGIN = 1, /* of a session; no content */
	RUT_NATS_PACKET,    /* PART.STREAM */
	RUT_NATS_METADATA,  /* PART.metadata; seq: its generation, the latest counts */
	RUT_NATS_END,	/* PART.STREAM; the packet at `offset` ends at the time `seq`; no content */
	RUT_NATS_CHUNK, /* a chunk is complete; content: lines "PART/STREAM BYTES" */
};

struct rut_nats_head {
	uint8_t kind;
	bool last;	    /* of a chunk: the session's last one */
	uint8_t uuid[16];   /* of this run of the session */
	uint64_t created_s; /* when that began; CLOCK_REALTIME */
	uint32_t chunk;	    /* trace directory, from 0 on */
	uint64_t seq;	    /* of the packet in its file, from 0 on */
	uint64_t offset;    /* of the packet in its file */
	uint64_t whole;	    /* bytes of the packet in its file: content, then zeros */
	uint64_t content;   /* bytes of content */
	uint64_t at;	    /* where in the content this piece begins, a multiple of `part` */
	uint32_t part;	    /* bytes of each piece but the last */
};

/* Appends RUT_NATS_HEAD bytes. */
void rut_nats_head_put(struct rut_buf *b, const struct rut_nats_head *h);

/*
 * Reads the head of a message of `len` bytes; the piece follows it. Returns 0, or -EBADMSG when it
 * is none or contradicts itself.
 */
int rut_nats_head_get(const void *data, size_t len, struct rut_nats_head *ret);

struct rut_nats_subject {
	char host[RUT_NATS_NAME_MAX + 1], session[RUT_NATS_NAME_MAX + 1];
	char part[RUT_NATS_NAME_MAX + 1];   /* or the name of the event: begin, chunk */
	char stream[RUT_NATS_NAME_MAX + 1]; /* "": it is an event */
};

/* Appends ".NAME" as one token: what cannot stand in one is written as %XX. */
void rut_nats_token_put(struct rut_buf *b, const char *name);

/*
 * Reads a subject. Returns 0, or -EBADMSG when it is none of ours. The names are any bytes but NUL:
 * they are to be checked before they become names of files.
 */
int rut_nats_subject_get(const char *subject, struct rut_nats_subject *ret);

#endif
