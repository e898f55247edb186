/* SPDX-License-Identifier: MIT */
/*
 * Writes the finished packets of a recorder's rings into a trace directory: DIR/kernel/metadata and
 * one file a CPU. The directory is readable at any moment, whenever the writer is killed: the
 * metadata comes first, and files are rows of whole packets at every instant.
 */
#ifndef RUT_SESSION_WRITER_H
#define RUT_SESSION_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "session/recorder.h"

struct rut_stream {
	int fd;			    /* -1: no packet yet; owned */
	off_t end;		    /* bytes of whole packets in the file */
	off_t last;		    /* the last packet */
	uint64_t last_end_ns;	    /* ... and its end */
	uint64_t pos;		    /* the next position in the ring */
	uint64_t lost, lost_before; /* events, up to the last packet; before the file */
};

struct rut_mappings;
struct rut_sender;
struct rut_statedump;

struct rut_writer {
	struct rut_recorder *recorder; /* borrowed */
	struct rut_sender *sender; /* gets the packets, which no file does; borrowed; NULL: files */
	char *path;		   /* DIR; owned */
	int parent_fd, dir_fd;	   /* DIR and DIR/kernel */
	bool made;		   /* DIR was not there before */
	bool compat;		   /* the metadata describes calls of 32-bit programs */
	int64_t clock_offset_ns;   /* in the metadata; measured once for a directory */
	bool published;		   /* DIR/kernel has its name */
	struct rut_stream *streams; /* one a CPU and one more; owned */
	unsigned char *copy;	    /* of a packet in an overwrite ring; owned */
	uint64_t begin_ns; /* of every stream's first packet, if that is complete; 0: as it is */
	uint64_t stacks_since; /* rut_writer_stacks_begin() */
	uint64_t *stacks;      /* by place of the table: what is in this directory; owned */
	uint64_t bytes, packets, records;
	bool mapped;	 /* rut_writer_mappings() has written what there was */
	uint64_t lapped; /* packets overwritten before they were read */
	int write_errno; /* of the last attempt; 0: writing works */
};

/* Makes the directory, which must not exist or be empty, with its metadata. */
int rut_writer_open(struct rut_writer *w, struct rut_recorder *r, const char *dir,
		    struct rut_err *err);

/* The same, but readers see no trace before rut_writer_publish(): a writer that is killed leaves
 * none. */
int rut_writer_open_hidden(struct rut_writer *w, struct rut_recorder *r, const char *dir,
			   struct rut_err *err);
int rut_writer_publish(struct rut_writer *w, struct rut_err *err);

/* The positions and what was lost: this directory follows another one of the same recorder. */
void rut_writer_continue(struct rut_writer *w, const struct rut_writer *last);

/*
 * Moves finished packets from the rings into the files. Returns the number of packets or -errno; on
 * an error (a full disk) nothing is lost: the packets stay in the rings, and a later call
 * continues.
 */
int64_t rut_writer_drain(struct rut_writer *w, struct rut_err *err);

/*
 * Appends one packet to the file of a CPU (or, at ncpus, to a file beside them). Its unused rest is
 * cut off. A write that fails half-way is taken back. `records`: how many it has; NULL: a sender
 * must not drop it. Returns 0 or -errno.
 */
int rut_writer_append(struct rut_writer *w, int cpu, const unsigned char *packet,
		      const uint64_t *records);

/*
 * After the last drain: every stream ends at `end_ns`, when the rings were flushed. Readers look at
 * the time during which all streams record (lttng-analyses at nothing else), and a CPU on which
 * nothing happens would cut it short; so it would at the begin, see begin_ns.
 */
void rut_writer_finish(struct rut_writer *w, uint64_t end_ns);

/* Writes a statedump through a ring, draining it as needed. `only`: one process, or 0 for all. */
void rut_writer_statedump(struct rut_writer *w, pid_t only);

/* Writes what is mapped in the processes' memory, and follows what will be, where stacks are
 * wanted. */
void rut_writer_mappings(struct rut_writer *w, struct rut_mappings **follower);

/* This directory has the records from `since_ns` on; their stacks are written into it. */
void rut_writer_stacks_begin(struct rut_writer *w, uint64_t since_ns);

/* Writes those that came since the last call through a ring. */
void rut_writer_new_stacks(struct rut_writer *w);

/* After the last drain: writes those that are left beside the rings. Returns 0 or -errno. */
int rut_writer_last_stacks(struct rut_writer *w, struct rut_err *err);

/*
 * Writes what `fn` emits, all of it at the time `at_ns` (0: now), into a stream of its own that
 * ends now. Readers want it at the begin although it is known at the end only. All or nothing;
 * returns 0 or -errno.
 */
int rut_writer_aside(struct rut_writer *w, uint64_t at_ns,
		     void (*fn)(struct rut_statedump *s, void *arg), void *arg);

/* Rewrites the metadata after events were added. */
int rut_writer_update_metadata(struct rut_writer *w, struct rut_err *err);

/* Rewrites it when calls of 32-bit programs were recorded that it does not describe yet. */
int rut_writer_describe_compat(struct rut_writer *w, struct rut_err *err);

void rut_writer_close(struct rut_writer *w);

/* Closes it and removes all that it has made. */
void rut_writer_discard(struct rut_writer *w);

/*
 * Removes a trace directory: only what rutile writes is removed, and no link is followed. Returns 0
 * or -errno.
 */
int rut_trace_remove(const char *path);

#endif
