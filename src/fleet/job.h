/* SPDX-License-Identifier: MIT */
/* A verb that a host runs because it was asked: this program again, as a child. */
#ifndef RUT_FLEET_JOB_H
#define RUT_FLEET_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct rut_err;

struct rut_fleet_job {
	pid_t pid;
	int pid_fd, out_fd, err_fd; /* -1: closed */
	uint64_t deadline_ns;	    /* CLOCK_MONOTONIC */
	bool killed;
	char reply[256]; /* subject of the request's answers */
	uint32_t n_out, n_err;
	uint64_t bytes; /* of output so far */
};

/*
 * Starts a program with these words as its arguments, in a process group of its own, without
 * standard input. Returns 0 or -errno.
 */
int rut_fleet_job_start(struct rut_fleet_job *j, const char *program, char *const *words,
			uint64_t timeout_ns, struct rut_err *err);

/* Reads what there is, without waiting, into `b`. Returns false when the descriptor was closed. */
bool rut_fleet_job_read(int *fd, struct rut_buf *b, size_t max);

/* Ends a job that exceeds its time. */
void rut_fleet_job_check(struct rut_fleet_job *j, uint64_t now_ns);

/* Has it ended? Then *ret_code is its exit code, 128 and the signal that ended it, or 124. */
bool rut_fleet_job_ended(struct rut_fleet_job *j, int *ret_code);

/* Kills it if it runs, and closes its descriptors. */
void rut_fleet_job_fini(struct rut_fleet_job *j);

#endif
