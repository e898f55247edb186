/* SPDX-License-Identifier: MIT */
/*
 * Writes the finished packets of a recorder's rings into a trace folder: DIR/kernel/metadata and
 * one file a CPU. The folder is readable at any moment: the metadata comes first, and files only
 * ever grow by whole packets.
 */
#ifndef RUT_SESSION_WRITER_H
#define RUT_SESSION_WRITER_H

#include <stdint.h>
#include <sys/types.h>

#include "session/recorder.h"

struct rut_writer {
	struct rut_recorder *recorder; /* borrowed */
	char *path;		       /* DIR; owned */
	int dir_fd;		       /* DIR/kernel */
	int *fds;		       /* one a CPU; -1: no packet yet; owned */
	off_t *ends;		       /* bytes of whole packets in each file; owned */
	uint64_t *pos;		       /* the next position in each ring; owned */
	uint64_t bytes, packets;
	int write_errno; /* of the last attempt; 0: writing works */
};

/* Makes the folder, which must not exist or be empty, with its metadata. */
int rut_writer_open(struct rut_writer *w, struct rut_recorder *r, const char *dir,
		    struct rut_err *err);

/*
 * Moves finished packets from the rings into the files. Returns the number of packets or -errno; on
 * an error (a full disk) nothing is lost: the packets stay in the rings, and a later call goes on.
 */
int64_t rut_writer_drain(struct rut_writer *w, struct rut_err *err);

/* Writes a statedump through a ring, draining it as needed. `only`: one process, or 0 for all. */
void rut_writer_statedump(struct rut_writer *w, pid_t only);

void rut_writer_close(struct rut_writer *w);

#endif
