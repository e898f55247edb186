/* SPDX-License-Identifier: MIT */
/*
 * A log that keeps within limits by itself: when the file has reached its size it becomes FILE.1,
 * FILE.1 becomes FILE.2, and the oldest is removed. Any number of processes may write to one: each
 * message opens the file again, under a lock.
 */
#ifndef RUT_BASE_LOGFILE_H
#define RUT_BASE_LOGFILE_H

#include <stdint.h>

#include "base/log.h"

struct rut_logfile {
	char path[512];
	char who[72];	     /* stands in each line, with the process */
	uint64_t size_bytes; /* of one file, about; 0: no limit */
	uint32_t keep;	     /* old files besides the current one */
};

/* Appends "TIME WHO[PID] LEVEL: MESSAGE". A link at the path is not followed. 0 or -errno. */
int rut_logfile_append(const struct rut_logfile *log, enum rut_log_level level, const char *msg);

#endif
