/* SPDX-License-Identifier: MIT */
/*
 * What a receiver keeps on disk: DIR/HOST/SESSION-DATE-TIME/PART/STREAM, as LTTng's relay daemon
 * lays it out. When a session begins its second trace chunk, each chunk is moved to archives/N
 * below it.
 *
 * Names come from the network. Each component is checked and every directory is opened relative to
 * the one above without following links, so nothing outside of DIR is reached. A file is a sequence
 * of whole packets at each moment: a packet is written when all of it is there.
 */
#ifndef RUT_STREAM_STORE_H
#define RUT_STREAM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/proto.h"

struct rut_err;
struct rut_store;
struct rut_store_session;

struct rut_store_limits {
	uint64_t bytes;			/* of one client, in one run of the receiver */
	uint64_t rate;			/* bytes a second of one client; 0: any */
	uint32_t streams;		/* of one session */
	uint32_t sessions, connections; /* of one client at a time */
	uint64_t free_bytes;		/* of the disk, below which nothing is taken */
	bool no_clear;			/* no producer can have deleted what it has sent */
};

/* Opens DIR, which is made when it does not exist. */
int rut_store_new(struct rut_store **ret, const char *dir, const struct rut_store_limits *limits,
		  struct rut_err *err);
void rut_store_free(struct rut_store *s);

/*
 * Makes the directory of a session. `client`: the address of its sender. Returns 0, -EINVAL for a
 * name that cannot be one, -ENOSPC, -EDQUOT, -errno.
 */
int rut_store_session(struct rut_store *s, const char *client, const struct rut_relay_session *what,
		      struct rut_store_session **ret);

/* Its number, and where it is below DIR. */
uint64_t rut_store_session_id(const struct rut_store_session *ss);
const char *rut_store_session_path(const struct rut_store_session *ss);

/* The connection is closed: nothing more comes. */
void rut_store_end(struct rut_store_session *ss);

int rut_store_add(struct rut_store_session *ss, const struct rut_relay_stream *what,
		  uint64_t *ret_handle);
int rut_store_metadata(struct rut_store_session *ss, const struct rut_relay_metadata *m);
int rut_store_reset_metadata(struct rut_store_session *ss, uint64_t handle);

/*
 * A packet of a stream of any session of the client, with room for `padding` behind it: the
 * function sets that to zero.
 */
int rut_store_packet(struct rut_store *s, const char *client, const struct rut_relay_data *d,
		     unsigned char *packet);

/* Has the client a session? */
bool rut_store_knows(const struct rut_store *s, const char *client);

/* Is a stream of that number and client there? */
bool rut_store_has(const struct rut_store *s, const char *client, uint64_t handle);

/* The producer says that nothing came to the stream up to `end_ns`. */
void rut_store_idle(struct rut_store *s, const char *client, uint64_t handle, uint64_t end_ns);

/* Is the packet with that net_seq not stored yet? Returns 0, 1 or -ENOENT. */
int rut_store_pending(const struct rut_store_session *ss, uint64_t handle, uint64_t seq);

int rut_store_chunk(struct rut_store_session *ss, const struct rut_relay_chunk *c);
int rut_store_rotate(struct rut_store_session *ss, const struct rut_relay_rotation *r);
int rut_store_close_chunk(struct rut_store_session *ss, const struct rut_relay_chunk_end *c);
bool rut_store_may_clear(const struct rut_store *s);
bool rut_store_has_chunk(const struct rut_store_session *ss, uint64_t id);
int rut_store_close_stream(struct rut_store_session *ss, uint64_t handle);

/* Opens a directory below DIR, making it. Returns a descriptor, -EINVAL for bad names, or -errno.
 */
int rut_store_open(const struct rut_store *s, const char *path);

/* The same, but makes nothing: -ENOENT when it is not there. */
int rut_store_find(const struct rut_store *s, const char *path);

/* Makes other processes wait that lock the same file or directory, until it is closed. */
int rut_store_lock(int fd);

/*
 * May the client write so many bytes more? Returns 0; -EDQUOT, which here is the limit of the
 * client; -ENOSPC or -ENOMEM.
 */
int rut_store_room(struct rut_store *s, const char *client, uint64_t bytes);

/* Counts bytes of a client. Returns 0, -EDQUOT, with nothing counted, or -ENOMEM. */
int rut_store_charge(struct rut_store *s, const char *client, uint64_t bytes);

/* Can this be one component of a path? */
bool rut_store_safe_name(const char *name);

struct rut_store_stats {
	uint64_t sessions, streams, packets, bytes;
};
void rut_store_stats(const struct rut_store *s, struct rut_store_stats *ret);

#endif
