/* SPDX-License-Identifier: MIT */
/* What a session records, and where to. Plain data: it is kept in shared memory as it is. */
#ifndef RUT_SESSION_CONF_H
#define RUT_SESSION_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/ring.h"
#include "session/events.h"

#define RUT_SESSION_NAME_MAX 64
#define RUT_PATH_MAX	     1024
#define RUT_PROBES_MAX	     24
#define RUT_LOG_BYTES	     (1u << 20)
#define RUT_LOG_KEEP	     4

/* What is to be recorded, and into what. */
struct rut_record_conf {
	char name[RUT_SESSION_NAME_MAX];
	struct rut_selection selection;
	uint64_t contexts;			/* enum rut_context */
	char perf[RUT_PERF_MAX][RUT_PERF_NAME]; /* counters of these contexts: "cpu:cycles" */
	/* Events that have a Ruby stack, as words, where not all have (context ruby_stack). */
	char rstack[512];
	bool rstack_all;
	enum rut_ring_mode mode;
	uint64_t buffer_bytes; /* of all rings together; rounded to what the rings can have */
	uint64_t subbuf_bytes; /* 0: chosen */
	uint32_t filters;      /* enum rut_filter_bits */
	uint32_t lean_stacks;  /* stacks of what a context switch leaves only */
	uint32_t string_bytes; /* limit of a string, with its NUL; 0: RUT_STR_DEFAULT */
	uint32_t budget_ppm;   /* --max-overhead: of a CPU's time; 0: none */
	bool include_self;     /* rutile's own processes too */
	bool strict;	       /* an event that the kernel lacks is an error */
	char comms[8][16];     /* process names to record; "" ends */
	char cgroup[256];      /* path of a cgroup to record; "": all */
	char probes[RUT_PROBES_MAX][252]; /* events added by name, see session/dynamic.h; "" ends */
	char filter[512];		  /* an expression that records must satisfy; "": all do */
	char events[1024]; /* the selection as it was asked for, for people and profiles */
	char ruby[1024];   /* the options of Ruby events, as lines of a profile */
};

/* Where finished packets go. */
struct rut_output_conf {
	char pattern[RUT_PATH_MAX]; /* strftime(3) pattern of the trace directory; "": memory only
				     */
	char to[512];		    /* URL of a collector that gets the trace; "": none */
	char spool[256];	    /* directory for what it has not taken yet; "": in memory */
	char tls[256];		    /* directory of certificates; "": the usual one */
	uint64_t spool_bytes;	    /* at most so much of that; 0: RUT_SENDER_LIMIT */
	bool drop_oldest;	    /* beyond that drop the oldest packets, not the newest events */
	uint64_t size_bytes;	    /* switch to the next directory at this size; 0: never */
	uint64_t every_ns;	    /* and after this time; 0: never */
	bool exact;    /* the first directory must have the very name, or opening it fails */
	uint32_t keep; /* remove the oldest directories beyond this number; 0: keep all */
	/* Where the session's process logs: DIR/NAME.log. "": to the system's log only. */
	char log_dir[256];
	uint64_t log_bytes; /* of one file; 0: RUT_LOG_BYTES */
	uint32_t log_keep;  /* old files; 0: RUT_LOG_KEEP */
};

/* Does a session with this output have a process that drains its rings? */
static inline bool rut_output_drains(const struct rut_output_conf *o)
{
	return o->pattern[0] || o->to[0];
}

#endif
