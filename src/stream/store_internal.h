/* SPDX-License-Identifier: MIT */
/* What the files of the store share: store.c, store_path.c, store_live.c. */
#ifndef RUT_STREAM_STORE_INTERNAL_H
#define RUT_STREAM_STORE_INTERNAL_H

#include <sys/types.h>

#include "base/hash.h"
#include "stream/store.h"

#define RUT_STORE_CLIENT_MAX 65 /* a host name, as long as they get, and its end */

struct rut_store_file;

struct rut_store_stream {
	struct rut_store_stream *next; /* of the session; owned */
	struct rut_store_session *session;
	uint64_t handle;
	char *path, *channel; /* owned */
	bool metadata;
	int fd; /* -1: no packet in this chunk yet */
	off_t end;
	bool any;
	uint64_t last_seq; /* net_seq of the last packet stored */
	/* Packets from this one on are of the present chunk; before, of the last one. */
	bool rotating;
	uint64_t rotate_at;
	/* For viewers: */
	uint64_t number;	     /* the handle is the producer's secret */
	struct rut_store_file *file; /* the present one; a reference; NULL: none yet */
	uint64_t idle_ns;	     /* nothing has come up to here; 0: not known */
};

struct rut_store_session {
	struct rut_store_session *next;
	struct rut_store *store;
	uint64_t id;
	char client[RUT_STORE_CLIENT_MAX], path[RUT_RELAY_PATH_MAX];
	char name[RUT_RELAY_NAME_MAX + 1], host[RUT_RELAY_NAME_MAX + 1];
	uint32_t live_us;
	int fd;	      /* its directory */
	int chunk_fd; /* of the present chunk; -1: none */
	int old_fd;   /* of the chunk before, for packets that come late; -1: none */
	uint64_t old_chunk, old_number;
	bool has_chunk, archived; /* archived: chunks have directories of their own */
	bool kept;		  /* a chunk was closed that stays */
	uint64_t chunk, chunk_number;
	struct rut_store_stream *streams;
	uint32_t n_streams;
	bool chunk_closed;
	bool ours; /* rutile's packets, which can be written step by step */
};

/* What a client has used, also by closed connections. */
struct rut_store_client {
	struct rut_store_client *next;
	char name[RUT_STORE_CLIENT_MAX];
	uint64_t bytes;
	uint32_t sessions;
};

struct rut_store {
	int fd;
	struct rut_store_limits limits;
	struct rut_store_session *sessions;
	struct rut_store_client *clients;
	struct rut_map streams; /* handle -> struct rut_store_stream */
	uint64_t last_id, last_number;
	bool live; /* files are kept for viewers */
	uint64_t last_file;
	struct rut_store_file *all_files;
	size_t files, current_files; /* that are open for viewers; those that streams have */
	struct rut_store_stats stats;
};

/* Has the disk less than the store wants to leave? */
bool rut_store_disk_full(const struct rut_store *s);

/* Opens DIR/NAME below `at`, making it. Returns a descriptor or -errno. */
int rut_store_dir(int at, const char *name);

/* The same of a path with components, each of which must be a safe name. */
int rut_store_path(int at, const char *path);

bool rut_store_safe_path(const char *path);

/* store_live.c: the stream has opened its file; a packet was added; metadata has grown; the stream
 * ends. What cannot be kept for want of memory no viewer sees. */
void rut_store_live_open(struct rut_store_stream *st);
void rut_store_live_packet(struct rut_store_stream *st, uint64_t at, uint32_t len);
void rut_store_live_metadata(struct rut_store_stream *st);
void rut_store_live_end(struct rut_store_stream *st);

#endif
