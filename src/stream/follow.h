/* SPDX-License-Identifier: MIT */
/*
 * The trace directories of a recording session as a sender sees them: a list of chunks, oldest
 * first, each with parts (directories with metadata) and files (streams of packets).
 *
 * The recorder's thread is the only one that writes to these files. Between its steps each file
 * consists of whole packets; rut_chunk_scan(), called then, notes the sizes. Up to there another
 * thread may read. Streams whose packets are in memory have no file; the same holds for them.
 */
#ifndef RUT_STREAM_FOLLOW_H
#define RUT_STREAM_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "ring/ring.h"
#include "stream/held.h"

struct rut_err;

struct rut_stream_file {
	struct rut_stream_file *next; /* owned */
	char *name;		      /* owned */
	int fd;			      /* -1: the packets are in memory */
	struct rut_held held;
	uint64_t end_ns; /* in memory: of the last packet, in place of its own; 0: its own */
	/* Bytes: found at the last scan, sent, stored by the collector. */
	off_t size, sent, confirmed;
	off_t last; /* of the last packet that was sent, which ends at: */
	uint64_t last_ns;
	off_t punched;	  /* given back to the file system */
	uint64_t waiting; /* bytes that are neither confirmed nor dropped */
	uint64_t batch;	  /* of these: sent since the last confirmation */
	bool bad;	  /* not a sequence of packets from `size` on: what follows is left out */
	uint64_t discarded_base; /* of the stream before this file */
	void *stream;		 /* of the sender; borrowed */
	/*
	 * Where the oldest packets are dropped (room.c). Those that begin before `claimed` are the
	 * sending thread's. Events that were dropped before `sent` and `confirmed`; how much larger
	 * what was dropped is than what is sent for it.
	 */
	off_t claimed;
	uint64_t dropped, dropped_ok;
	off_t cut, cut_ok;
	/* Of the recorder's thread: the next packet to drop, if known, and the one that stands for
	 * those before it, if there are some. */
	off_t drop_at, filler_at;
	bool known, filling;
	off_t searched; /* of this size, it has no packet to drop */
	struct rut_packet oldest, filler;
	uint64_t oldest_records, filler_records;
};

struct rut_stream_part {
	struct rut_stream_part *next; /* owned */
	char *name;		      /* directory below the trace's; owned */
	int fd;
	struct timespec seen; /* the directory's time at the last scan */
	char *text;	      /* metadata; owned */
	size_t text_len;
	uint32_t generation;	  /* of the text */
	uint32_t sent_generation; /* by the sender, in the present connection */
	struct rut_stream_file *files;
};

struct rut_chunk {
	struct rut_chunk *next; /* owned by the list */
	char *path;		/* owned */
	int fd;
	struct timespec seen;
	struct rut_stream_part *parts;
	bool closed;  /* nothing is added any more */
	bool cleared; /* what is not sent is dropped, and the collector deletes what it has of it */
	bool skips;   /* the one behind it was cleared before anything of that was sent */
	bool split;   /* something of it was sent in a connection that broke */
	uint64_t begin_ns, end_ns;
};

/* Opens a trace directory. Returns 0 or -errno. */
int rut_chunk_new(struct rut_chunk **ret, const char *path, struct rut_err *err);
void rut_chunk_free(struct rut_chunk *c);

/*
 * Finds new directories, files, metadata and packets. Not while anything is written to them.
 * `lock` is held while what another thread reads is changed. Returns the number of new bytes.
 */
uint64_t rut_chunk_scan(struct rut_chunk *c, void (*lock)(void *arg, bool on), void *arg);

/*
 * The header of the packet at `at`, in a file of `size` bytes. Where the packets are in memory the
 * lock is held. Returns 0 or -EBADMSG.
 */
int rut_stream_file_head(const struct rut_stream_file *f, off_t at, off_t size,
			 struct rut_packet *ret);

/*
 * The stream NAME of the part PART, whose packets are in memory; made if there is none. NULL: no
 * memory, or the part was not found. By the recorder's thread.
 */
struct rut_stream_file *rut_chunk_held(struct rut_chunk *c, const char *part, const char *name,
				       void (*lock)(void *arg, bool on), void *arg);

/* Removes the files, which were all read, and the directories that are empty then. */
void rut_chunk_remove(const struct rut_chunk *c);

#endif
