/* SPDX-License-Identifier: MIT */
/*
 * What viewers see of the store while it is written: sessions, their streams, and the files of each
 * stream, in which the packets are listed. A file is counted by those who use it, so that a viewer
 * reads to its end what a session has left that is over, or has begun its next chunk.
 */
#ifndef RUT_STREAM_STORE_LIVE_H
#define RUT_STREAM_STORE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/store.h"

struct rut_store_place {
	uint64_t at;
	uint32_t len;
};

struct rut_store_file {
	struct rut_store *store;		    /* borrowed: it outlives its viewers */
	struct rut_store_file *all_prev, *all_next; /* those of the store */
	uint64_t number;			    /* in the order in which they were opened */
	unsigned refs;
	int fd;				/* owned */
	bool closed;			/* nothing more comes to it */
	struct rut_store_file *next;	/* of the next chunk; a reference */
	uint64_t bytes;			/* of metadata */
	struct rut_store_place *places; /* owned; of packets */
	size_t n, cap;
};

/* From now on viewers can be served. */
void rut_store_serve(struct rut_store *s);

/* Finished files that are open only because viewers have not read them to their end. */
size_t rut_store_held(const struct rut_store *s);

/* Viewers hold space of files that were deleted, while the disk has less than the store wants. */
bool rut_store_must_release(const struct rut_store *s);

struct rut_store_live_session {
	uint64_t id;
	const char *host, *name; /* borrowed */
	uint32_t live_us, streams;
};

/* All sessions that are being received. `fn` returns false to end. */
void rut_store_each_session(const struct rut_store *s,
			    bool (*fn)(void *arg, const struct rut_store_live_session *what),
			    void *arg);
bool rut_store_is_live(const struct rut_store *s, uint64_t session);

struct rut_store_live_stream {
	uint64_t number;
	const char *path, *channel; /* borrowed */
	bool metadata;
	uint64_t idle_ns;	     /* nothing has come up to then; 0: not known */
	struct rut_store_file *file; /* borrowed; NULL: none yet */
};

/* The streams of a session. */
void rut_store_each_stream(const struct rut_store *s, uint64_t session,
			   bool (*fn)(void *arg, const struct rut_store_live_stream *what),
			   void *arg);

struct rut_store_file *rut_store_file_ref(struct rut_store_file *f);
void rut_store_file_unref(struct rut_store_file *f);

#endif
