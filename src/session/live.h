/* SPDX-License-Identifier: MIT */
/*
 * What a session records, as it comes, without a directory on any disk: a watcher copies records
 * out of the rings into stream files of a file system in memory that is mounted nowhere and removed
 * with the process. The usual reader follows them, and gives back the memory of what it has read.
 *
 * The session does not notice: no position of its consumer moves, no packet is closed early. What
 * a ring overwrites before the watcher has come to it is missing, and the numbers of the packets
 * tell so.
 */
#ifndef RUT_SESSION_LIVE_H
#define RUT_SESSION_LIVE_H

#include <stdint.h>

#include "session/recorder.h"

struct rut_session_live;

/*
 * Begins to watch the recorder, which is borrowed: what is recorded from now on, behind the state
 * of the machine now, if that is wanted. -EPERM: file systems may not be mounted.
 */
int rut_live_open(struct rut_session_live **ret, struct rut_recorder *r, bool state,
		  struct rut_err *err);

/* The trace's path, for as long as the watcher lives. */
const char *rut_live_path(const struct rut_session_live *l);

/* Copies what has come, and the metadata of what was added. Returns 0 or -errno. */
int rut_live_step(struct rut_session_live *l, struct rut_err *err);

void rut_live_free(struct rut_session_live *l);

#endif
