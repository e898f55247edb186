/* SPDX-License-Identifier: MIT */
/*
 * What a session knows of itself: a map in the kernel beside its rings, shared by every rutile
 * process that has to do with the session, and still there when none is left. In a memory dump it
 * says where the rings are and what is in them.
 */
#ifndef RUT_SESSION_META_H
#define RUT_SESSION_META_H

#include <stdint.h>
#include <sys/types.h>

#include "bpf/stack.h"
#include "session/conf.h"

#define RUT_META_MAGIC		0x4154454d4c495452ull /* "RTILMETA" in memory */
#define RUT_META_VERSION	16
#define RUT_META_PAGES_OFFSET	(1u << 20)
#define RUT_META_TEXT_OFFSET	(128u << 10)
#define RUT_META_DYNAMIC_OFFSET (512u << 10)
#define RUT_PAGE		4096u
#define RUT_META_ANCHOR_PAGES	1000

#define RUT_META_DYNAMIC_MAX 256

/*
 * The first page: what `rutile recover` looks for in a memory dump. It lists the physical pages of
 * the whole description, which lists those of the control pages and of the rings: the memory of
 * maps never moves, so a list that was made once stays right, and no symbols are needed to read it.
 */
struct rut_anchor {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* of the description */
	uint8_t uuid[16];
	uint32_t npages; /* of the description; 0: not known */
	uint32_t _pad;
	uint32_t pfn[RUT_META_ANCHOR_PAGES];
	uint8_t _rest[RUT_PAGE - 40 - 4 * RUT_META_ANCHOR_PAGES];
};

_Static_assert(sizeof(struct rut_anchor) == RUT_PAGE, "one page");

struct rut_session_meta {
	struct rut_anchor anchor;
	uint32_t ncpus, shift, count, running;
	int64_t created_ns;	 /* CLOCK_REALTIME */
	int64_t clock_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC, when last measured */
	/* The process that drains the rings; 0: none. The start time identifies it, as PIDs are
	 * reused. */
	int32_t consumer;
	uint32_t _pad0;
	uint64_t consumer_start;
	/*
	 * The process that holds what a flight recorder's companions have in memory; 0: none. It
	 * copies that into copy_dir when copy_wanted goes up, and answers by copy_done.
	 */
	int32_t holder, copy_rc;
	uint64_t holder_start;
	uint32_t copy_wanted, copy_done;
	uint64_t copy_begin_ns, copy_end_ns; /* CLOCK_MONOTONIC */
	int64_t copy_offset_ns;
	char copy_dir[4096], copy_error[512];
	/*
	 * The companion's events change: the process that has the companions answers change_wanted
	 * by change_done.
	 */
	uint32_t ncompanions; /* in that process */
	uint32_t change_wanted, change_done, change_add;
	int32_t change_rc;
	uint32_t resuming; /* not 0: a resume has begun, which may have been killed */
	char change_what[512], change_error[512];
	/* What is recorded changes: the consumer answers `generation` by `acked`. */
	uint32_t generation, acked;
	/* `rutile clear` of a session with a collector: requests, and those answered. */
	uint32_t clear_wanted, clear_done;
	int32_t clear_rc;
	char clear_error[252];
	/* rotate requests and rotations done */
	uint32_t rotate_wanted, rotate_done;
	uint64_t bytes_written, packets_written, records_written;
	uint64_t missed;	 /* events nested in themselves, of programs that were removed */
	uint64_t missed_counted; /* such events, of all programs, that the rings count as lost */
	uint64_t dropped;	 /* events of packets that the sender has dropped */
	int32_t write_errno;
	uint32_t text_len;    /* metadata, at RUT_META_TEXT_OFFSET */
	uint32_t dynamic_len; /* ... of events added, at RUT_META_DYNAMIC_OFFSET */
	uint32_t next_dynamic;
	uint32_t ndynamic;
	/* The events added by name; an id of 0: removed. */
	struct {
		uint32_t id;
		char spec[252];
	} dynamic[RUT_META_DYNAMIC_MAX];
	char current[RUT_PATH_MAX];  /* the directory being written */
	struct rut_record_conf conf; /* its selection: everything ever selected */
	struct rut_selection active; /* what is recorded now */
	struct rut_output_conf output;
	/* At RUT_META_PAGES_OFFSET: page frame numbers (u32) of the control pages, then the rings,
	 * then the table of stacks. */
	uint32_t npages_ctl, npages_ring, npages_stacks;
	uint32_t nsets; /* of the table of stacks */
};

static inline uint32_t rut_meta_stack_pages(uint32_t nsets)
{
	return (uint32_t)((nsets * sizeof(struct rut_stack_set) + RUT_PAGE - 1) / RUT_PAGE);
}

_Static_assert(sizeof(struct rut_session_meta) <= RUT_META_TEXT_OFFSET,
	       "the metadata begins there");

#endif
