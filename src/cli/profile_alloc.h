/* SPDX-License-Identifier: MIT */
/* `rutile profile --alloc`: recording samples of the allocations of Ruby processes. */
#ifndef RUT_CLI_PROFILE_ALLOC_H
#define RUT_CLI_PROFILE_ALLOC_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_cmd;
struct rut_err;

struct rut_profile_alloc {
	char **targets; /* as on the command line; borrowed */
	size_t ntargets;
	char every[24];	      /* "1000" objects or "512k" bytes for one sample */
	const char *dir;      /* of the trace, or of the first of its parts */
	uint64_t duration_ns; /* 0: until stopped */
	uint64_t interval_ns; /* each one is a part; 0: one for all */
	volatile sig_atomic_t *stop;
	/* A part of the trace is complete. 0 or -errno. */
	int (*part)(void *arg, const char *dir, bool last, struct rut_err *err);
	void (*idle)(void *arg); /* called between; NULL: nothing */
	void *arg;
	uint64_t lost; /* samples */
};

/*
 * "1000" or "64K": objects, or bytes for one sample, into `ret` of `size` bytes as the agent reads
 * it; *ret_bytes says which. 0 or -EINVAL.
 */
int rut_cli_profile_every(const char *value, char *ret, size_t size, bool *ret_bytes);

/* Records until the time is over, the signal comes or all processes have ended. 0 or -errno. */
int rut_cli_profile_allocs(struct rut_profile_alloc *a, const struct rut_cmd *cmd,
			   struct rut_err *err);

#endif
