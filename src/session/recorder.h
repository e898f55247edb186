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
#include "bpf/ruby.h"
#include "bpf/stack.h"
#include "ring/read.h"
#include "session/conf.h"
#include "session/filter.h"
#include "session/kernel_names.h"
#include "session/meta.h"

struct rut_err;
struct bpf_object;
struct rut_budget;
struct bpf_link;

/* The maps of a session; their names are those in the eBPF objects and in the file system. */
enum rut_map_index {
	RUT_MAP_CTLS,
	RUT_MAP_RING,
	RUT_MAP_TRACED,
	RUT_MAP_GONE,
	RUT_MAP_COMMS,
	RUT_MAP_OWN,
	RUT_MAP_CGROUPS,
	RUT_MAP_STACKS,
	RUT_MAP_SYSCALLS,
	RUT_MAP_META,
	RUT_MAP_BUDGET,
	RUT_MAP_SPENDING,
	RUT_MAP_RUBIES,
	RUT_MAP_CODES,
	RUT_MAP_FRAME_CACHE,
	RUT_MAP_UNWIND_PROCS,
	RUT_MAP_UNWIND_RANGES,
	RUT_MAP_UNWIND_ROWS,
	RUT_MAP_UNWIND_CACHE,
	RUT_MAP_KNOWN_STACKS,
	RUT_MAP_PROBE_SCRATCH,
	RUT_MAP_PERF_COUNTERS,
	RUT_MAP_COUNT
};

extern const char *const rut_map_names[RUT_MAP_COUNT];

struct rut_link {
	struct bpf_link *link; /* owned */
	char name[80];
	int clock_fd;  /* of a sampling clock, the link's; 0: none */
	size_t object; /* index of its program's in `objects`; 0 for those of events added by name
			*/
	bool pinned;
};

struct rut_recorder {
	struct rut_record_conf conf;
	uint8_t uuid[16];
	int ncpus;
	/* descriptors; owned */
	int fds[RUT_MAP_COUNT];
	/* mappings; owned */
	struct rut_ring_ctl *ctls;
	unsigned char *data;
	size_t ctls_bytes, data_bytes, meta_bytes;
	struct rut_ring *rings; /* one a CPU; owned */
	struct rut_session_meta *meta;
	struct rut_budget *budget;    /* a mapping; owned */
	struct rut_stack_set *stacks; /* a mapping; owned */
	size_t nsets;
	struct rut_code_set *codes;	      /* a mapping; owned */
	size_t ncodes;			      /* sets; 1: the session has no Ruby stacks */
	struct rut_kernel_names kernel_names; /* of the stacks that are written */
	struct rut_rubies *rubies;	      /* rubies.c; owned */
	struct rut_unwinds *unwinds;	      /* unwind.c; owned */
	/* Added to the offset of the clock in what this process writes: of another machine's. */
	int64_t clock_correction_ns;
	bool drains; /* this thread drains the rings and calls rut_unwind_step(): it must not wait
		      */
	bool load_only;		     /* nothing is attached, by whatever is added */
	struct bpf_object **objects; /* owned */
	size_t nobjects;
	struct rut_filter_names filter_names;
	struct rut_link *links; /* owned */
	size_t nlinks;
};

/*
 * Makes maps, loads programs, maps the rings; nothing is recorded yet. An event that this kernel
 * lacks is logged, removed from ret->conf.selection and the rest is recorded (unless conf->strict).
 */
int rut_recorder_new(struct rut_recorder **ret, const struct rut_record_conf *conf,
		     struct rut_err *err);

/* Whether all that would succeed: loads every program into the verifier, attaches none. */
int rut_recorder_check(const struct rut_record_conf *conf, struct rut_err *err);

/* Writes the metadata text into the shared page, for later readers of the rings. */
int rut_recorder_publish(struct rut_recorder *r, struct rut_err *err);

/* Are processes that have ended noted, for what they had mapped? Only where there may be stacks. */
bool rut_recorder_keeps_gone(const struct rut_recorder *r);

/* Adds a process to the filter: now, or from its next execve on. */
int rut_recorder_trace_pid(struct rut_recorder *r, pid_t pid, enum rut_traced when);

/*
 * Adds a process and all that descends from it now. Called before the programs run and once more
 * after: what is forked in between is found then.
 */
int rut_recorder_trace_family(struct rut_recorder *r, pid_t pid);

struct rut_family_left {
	pid_t last; /* one that ran at the last look */
	unsigned int misses;
};

/*
 * Does one of the processes of the filter still run, or a child? Called in each round, with `left`
 * zeroed before the first: they have ended when two looks have found none, since one may fork and
 * end while the others are looked at. A zombie has ended.
 */
bool rut_recorder_family_left(struct rut_recorder *r, struct rut_family_left *left);

/* Records stored so far, the statedump's included. */
uint64_t rut_recorder_records(const struct rut_recorder *r);

/* Records lost so far for want of room; rut_recorder_missed() is not in it. */
uint64_t rut_recorder_lost(const struct rut_recorder *r);

/* Stacks that are not in the trace although records refer to them: not of a flight recorder. */
uint64_t rut_recorder_stacks_lost(const struct rut_recorder *r);

/*
 * Events lost so far because they were nested in an event of the same program, which the kernel
 * runs once a CPU at a time. It counts them by program, not by CPU.
 */
uint64_t rut_recorder_missed(const struct rut_recorder *r);

/*
 * Closes all packets that are being written. What rut_recorder_missed() found since the last time
 * is added to the lost events of one of them, so that every reader of the trace reports it.
 */
void rut_recorder_flush(const struct rut_recorder *r);

/* For session/pin.c: an empty one, and the mappings of its descriptors. */
struct rut_recorder *rut_recorder_alloc(void);
int rut_recorder_map(struct rut_recorder *r, struct rut_err *err);

/*
 * Appends the metadata text. With `compat` it describes calls of 32-bit programs too: half of the
 * text, which a trace needs only when there were some.
 */
void rut_recorder_metadata(const struct rut_recorder *r, bool compat, int64_t clock_offset_ns,
			   struct rut_buf *out);

void rut_recorder_free(struct rut_recorder *r);

#endif
