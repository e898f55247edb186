/* SPDX-License-Identifier: MIT */
/*
 * A recorder: the maps and programs of one session in the kernel, and the rings mapped here.
 *
 * It can be made new, or found again in the BPF file system, where a flight recorder lives on
 * without any process: every map and link is pinned below /sys/fs/bpf/rutile/NAME.
 */
#ifndef RUT_SESSION_RECORDER_H
#define RUT_SESSION_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "ring/read.h"
#include "session/events.h"

struct rut_err;
struct bpf_object;
struct bpf_link;

#define RUT_SESSION_NAME_MAX 64

/* What is to be recorded, and into what. */
struct rut_record_conf {
	char name[RUT_SESSION_NAME_MAX];
	struct rut_selection selection;
	uint32_t contexts; /* enum rut_context */
	enum rut_ring_mode mode;
	uint64_t buffer_bytes; /* of all rings together; rounded to what the rings can have */
	uint64_t subbuf_bytes; /* 0: chosen */
	uint32_t filters;      /* enum rut_filter_bits */
	bool strict;	       /* an event that the kernel lacks is an error */
};

struct rut_recorder {
	struct rut_record_conf conf;
	uint8_t uuid[16];
	int ncpus;
	/* descriptors; owned */
	int fd_ctls, fd_ring, fd_traced, fd_comms, fd_cgroups, fd_stacks, fd_syscalls;
	/* mappings; owned */
	struct rut_ring_ctl *ctls;
	unsigned char *data;
	size_t ctls_bytes, data_bytes;
	struct rut_ring *rings; /* one a CPU; owned */
	struct bpf_object *kernel;
	void *skeleton; /* owned */
	struct bpf_link **links;
	size_t nlinks;
};

/*
 * Makes maps, loads programs, maps the rings; nothing is recorded yet. An event that this kernel
 * lacks is logged, removed from ret->conf.selection and the rest goes on (unless conf->strict).
 */
int rut_recorder_new(struct rut_recorder **ret, const struct rut_record_conf *conf,
		     struct rut_err *err);

/* Attaches the programs: recording begins. */
int rut_recorder_start(struct rut_recorder *r, struct rut_err *err);

/* Detaches them. What is in the rings stays. */
void rut_recorder_stop(struct rut_recorder *r);

/* Adds a process to the filter: now, or from its next execve on. */
int rut_recorder_trace_pid(struct rut_recorder *r, pid_t pid, enum rut_traced when);

/* Records lost so far: for want of room, and because an event nested in itself. */
uint64_t rut_recorder_lost(const struct rut_recorder *r, uint64_t *ret_missed);

/* Appends the metadata text. */
void rut_recorder_metadata(const struct rut_recorder *r, struct rut_buf *out);

void rut_recorder_free(struct rut_recorder *r);

#endif
