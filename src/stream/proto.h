/* SPDX-License-Identifier: MIT */
/*
 * The messages of LTTng's relay protocol, versions 2.11 to 2.15, between a producer and a relay
 * daemon. This file knows bytes only: no sockets, no files.
 *
 * A producer has two connections. On the control connection each command is a 24-byte header and a
 * payload, and most commands have a reply. On the data connection each packet is a 32-byte header
 * and the packet. All integers are big-endian and unaligned; texts end with a NUL that their length
 * counts.
 *
 * The put functions append to a buffer, the get functions decode one whole payload: they return 0,
 * or -EPROTO when the payload is too short or contradicts itself. Texts they return are borrowed
 * from the payload.
 */
#ifndef RUT_STREAM_PROTO_H
#define RUT_STREAM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RUT_RELAY_MAJOR	    2
#define RUT_RELAY_MINOR_MIN 11
#define RUT_RELAY_MINOR_MAX 15
#define RUT_RELAY_PORT_CTL  5342
#define RUT_RELAY_PORT_DATA 5343
#define RUT_RELAY_PORT_LIVE 5344
#define RUT_RELAY_HEADER    24 /* bytes before a command's payload */
#define RUT_RELAY_DATA	    32 /* bytes before a packet */
#define RUT_RELAY_OK	    10 /* the status of success */
/* Plus an errno: why `rutile collect` refuses. To other producers it is an unknown error. */
#define RUT_RELAY_ERRNO	    0x52550000u
#define RUT_RELAY_NAME_MAX  255
#define RUT_RELAY_PATH_MAX  4096
#define RUT_RELAY_POSITIONS 65536 /* streams in one rotation */
#define RUT_RELAY_NO_SEQ    UINT64_MAX
/* From this version on a daemon says what it allows, and chunks can be deleted. */
#define RUT_RELAY_MINOR_CLEAR	12
#define RUT_RELAY_CLEAR_ALLOWED 1ull

enum rut_relay_command {
	RUT_RELAY_ADD_STREAM = 1,
	RUT_RELAY_CREATE_SESSION = 2,
	RUT_RELAY_START_DATA = 3,
	RUT_RELAY_VERSION = 5,
	RUT_RELAY_SEND_METADATA = 6,
	RUT_RELAY_CLOSE_STREAM = 7,
	RUT_RELAY_DATA_PENDING = 8,
	RUT_RELAY_QUIESCENT = 9,
	RUT_RELAY_BEGIN_PENDING = 10,
	RUT_RELAY_END_PENDING = 11,
	RUT_RELAY_SEND_INDEX = 13,
	RUT_RELAY_STREAMS_SENT = 16,
	RUT_RELAY_RESET_METADATA = 17,
	RUT_RELAY_ROTATE_STREAMS = 18,
	RUT_RELAY_CREATE_CHUNK = 19,
	RUT_RELAY_CLOSE_CHUNK = 20,
	RUT_RELAY_CHUNK_EXISTS = 21,
	RUT_RELAY_GET_CONFIG = 22,
};

/* What becomes of a chunk that is closed. */
enum rut_relay_close {
	RUT_RELAY_CLOSE_MOVE = 0, /* into the directory of completed chunks */
	RUT_RELAY_CLOSE_NOTHING = 1,
	RUT_RELAY_CLOSE_DELETE = 2,
	RUT_RELAY_CLOSE_UNSET = -1,
};

struct rut_relay_header {
	uint64_t size; /* of the payload */
	uint32_t command;
};

struct rut_relay_data {
	uint64_t stream, seq;
	uint32_t size;	  /* bytes that follow */
	uint32_t padding; /* zeros that the receiver adds */
};

struct rut_relay_session {
	const char *name, *host, *base_path;
	uint32_t live_us; /* interval of the live timer; 0: not live */
	bool snapshot;
	bool name_has_time;
	uint8_t uuid[16]; /* of the producer; not all zero */
	uint64_t id;	  /* the producer's number of the session */
	uint64_t created_s;
	bool has_chunk;
	uint64_t chunk;
	uint32_t format; /* 2.15: 1 is CTF 1.8 */
};

struct rut_relay_stream {
	const char *channel, *path; /* "metadata" is the channel of the metadata */
	uint64_t file_bytes, file_count;
	uint64_t chunk;
};

struct rut_relay_metadata {
	uint64_t stream;
	uint32_t padding;
	const void *text;
	size_t len;
};

/* A packet's entry in the index. packet_bits 0: a beacon, nothing happened up to end_ns. */
struct rut_relay_index {
	uint64_t stream, seq;
	uint64_t packet_bits, content_bits;
	uint64_t begin_ns, end_ns;
	uint64_t discarded;
	uint64_t class_id, instance_id;
	uint64_t packet_seq;
};

struct rut_relay_position {
	uint64_t stream;
	uint64_t seq; /* packet_seq of the first packet in the new chunk */
};

struct rut_relay_rotation {
	bool has_chunk;
	uint64_t chunk;
	uint32_t count;
	const uint8_t *positions; /* encoded; see rut_relay_get_position() */
};

struct rut_relay_chunk {
	uint64_t id, created_s;
	const char *name; /* "": chosen by the receiver */
};

struct rut_relay_chunk_end {
	uint64_t id, closed_s;
	int how; /* enum rut_relay_close */
};

/* ---- headers ---- */

void rut_relay_put_header(struct rut_buf *b, enum rut_relay_command command, uint64_t size);
void rut_relay_get_header(const void *data, struct rut_relay_header *ret);
void rut_relay_put_data(struct rut_buf *b, const struct rut_relay_data *d);
void rut_relay_get_data(const void *data, struct rut_relay_data *ret);

/* ---- commands: each put appends the header too ---- */

void rut_relay_put_version(struct rut_buf *b, uint32_t major, uint32_t minor);
int rut_relay_get_version(const void *data, size_t len, uint32_t *ret_major, uint32_t *ret_minor);

/* `minor`: the negotiated version. */
void rut_relay_put_session(struct rut_buf *b, uint32_t minor, const struct rut_relay_session *s);
int rut_relay_get_session(const void *data, size_t len, uint32_t minor,
			  struct rut_relay_session *ret);

void rut_relay_put_stream(struct rut_buf *b, const struct rut_relay_stream *s);
int rut_relay_get_stream(const void *data, size_t len, struct rut_relay_stream *ret);

void rut_relay_put_metadata(struct rut_buf *b, const struct rut_relay_metadata *m);
int rut_relay_get_metadata(const void *data, size_t len, struct rut_relay_metadata *ret);

void rut_relay_put_index(struct rut_buf *b, const struct rut_relay_index *i);
int rut_relay_get_index(const void *data, size_t len, struct rut_relay_index *ret);

/* CLOSE_STREAM, DATA_PENDING and RESET_METADATA: a stream and a number. */
void rut_relay_put_pair(struct rut_buf *b, enum rut_relay_command command, uint64_t stream,
			uint64_t number);
int rut_relay_get_pair(const void *data, size_t len, uint64_t *ret_stream, uint64_t *ret_number);

/* QUIESCENT, BEGIN_PENDING, END_PENDING, CHUNK_EXISTS and GET_CONFIG: one number. */
void rut_relay_put_number(struct rut_buf *b, enum rut_relay_command command, uint64_t number);
int rut_relay_get_number(const void *data, size_t len, uint64_t *ret);

void rut_relay_put_rotation(struct rut_buf *b, uint64_t chunk,
			    const struct rut_relay_position *positions, uint32_t count);
int rut_relay_get_rotation(const void *data, size_t len, struct rut_relay_rotation *ret);
void rut_relay_get_position(const struct rut_relay_rotation *r, uint32_t i,
			    struct rut_relay_position *ret);

void rut_relay_put_chunk(struct rut_buf *b, const struct rut_relay_chunk *c);
int rut_relay_get_chunk(const void *data, size_t len, struct rut_relay_chunk *ret);

void rut_relay_put_chunk_end(struct rut_buf *b, const struct rut_relay_chunk_end *c);
int rut_relay_get_chunk_end(const void *data, size_t len, struct rut_relay_chunk_end *ret);

/* ---- replies: without a header ---- */

#define RUT_RELAY_REPLY_STATUS	4
#define RUT_RELAY_REPLY_VERSION 8
#define RUT_RELAY_REPLY_STREAM	12
#define RUT_RELAY_REPLY_SESSION 16 /* a path follows */
#define RUT_RELAY_REPLY_CHUNK	8  /* a path follows */
#define RUT_RELAY_REPLY_EXISTS	5
#define RUT_RELAY_REPLY_CONFIG	12

void rut_relay_put_status(struct rut_buf *b, uint32_t status);
uint32_t rut_relay_get_status(const void *data);
void rut_relay_put_version_reply(struct rut_buf *b, uint32_t major, uint32_t minor);
void rut_relay_put_stream_reply(struct rut_buf *b, uint64_t handle, uint32_t status);
uint64_t rut_relay_get_stream_reply(const void *data, uint32_t *ret_status);
/* `path`: NULL when the session was refused. */
void rut_relay_put_session_reply(struct rut_buf *b, uint64_t id, uint32_t status, const char *path);
uint64_t rut_relay_get_session_reply(const void *data, uint32_t *ret_status,
				     uint32_t *ret_path_len);
void rut_relay_put_chunk_reply(struct rut_buf *b, uint32_t status, const char *path);
uint32_t rut_relay_get_chunk_reply(const void *data, uint32_t *ret_path_len);
void rut_relay_put_exists_reply(struct rut_buf *b, uint32_t status, bool exists);
uint64_t rut_relay_get_config_reply(const void *data, uint32_t *ret_status);
void rut_relay_put_config_reply(struct rut_buf *b, uint32_t status, uint64_t flags);

#endif
