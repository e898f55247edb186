/* SPDX-License-Identifier: MIT */
/* The state of a tracer, which its files share. */
#ifndef RUT_RUBY_INTERNAL_H
#define RUT_RUBY_INTERNAL_H

#include "agent/abi.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "ruby/record.h"
#include "ruby/requests.h"
#include "ruby/tracer.h"

struct rut_ring;
struct rut_ring_ctl;

struct rut_tracee_names {
	const char *path, *class_name, *method; /* borrowed from the tracer's strings */
};

/* One process and the session in it. */
struct rut_tracee {
	pid_t pid;
	bool tree;   /* follow its children */
	bool exited; /* its memory is still mapped here: the counters stay */
	int pidfd;
	int target_fd; /* the number of the control page's descriptor in the process */
	uint64_t exec_check_ms;
	int ctl_fd; /* the lock on it is our sign of life */
	struct rut_agent_ctl *ctl;
	unsigned slot; /* ours, when it is held */
	bool holds_slot;
	struct rut_family *family; /* borrowed from the tracer; NULL before its tables are mapped */
	uint32_t member;	   /* its place there */
	bool unseen; /* known by its place only: there is no control page, and the PID is its own
			view */
	bool over;   /* it has ended, and is freed when everything is reported */
	uint64_t over_number; /* in the order of their ends */
	bool announced;	      /* the caller knows that it has begun */
	uint64_t met_ms;
	struct rut_agent_table *table;
	size_t table_bytes;
	struct rut_tracee_names *names; /* owned; by row, filled once */
	uint32_t names_cap;
	struct rut_events *events;	      /* owned; trace and record mode */
	struct rut_record_out *out;	      /* owned; record mode, while its files are open */
	bool recorded;			      /* it has, or had, files */
	uint64_t lost_told;		      /* lost events that earlier files reported */
	struct rut_record_allocs allocs_told; /* likewise */
	pid_t request_tid;		      /* live requests: the thread of the last records */
	uint32_t request_fiber;
	bool requests_over;	    /* the caller knows that it has ended */
	struct rut_agent_row *rows; /* owned; time mode: as if what runs had ended */
	uint64_t pictured;	    /* ticks: when running calls were read last */
	struct rut_agent_row *last; /* owned; what was read then */
	uint32_t last_count;
	uint32_t heap_asked;	    /* the look that was asked for; 0: none */
	struct rut_agent_row *base; /* owned; counters at the last reset */
	uint32_t base_count;
	struct rut_ruby_buckets *buckets;      /* owned; by row, as read last */
	struct rut_agent_buckets *bucket_base; /* owned; at the last reset, base_count of them */
};

/* Processes that count into one file: family.c. */
struct rut_family {
	uint64_t ino;
	int fd;
	struct rut_agent_family *map;
	uint64_t table_bytes, ring_bytes;
	uint32_t members, births;
	int ring_fd; /* of trace mode, or -1 */
	bool follow; /* a process of it is traced with its children */
	bool same_ns;
	char pid_ns[64]; /* as /proc names the PID namespace of the first process */
	struct rut_tracee *known[RUT_FAMILY_MEMBERS]; /* borrowed from the tracer */
};

/* What processes have counted that have ended. */
struct rut_gone {
	struct rut_ruby_row *rows; /* owned; the names are the tracer's */
	size_t count, cap, limit;
};

/* Record mode: where the events go. */
struct rut_record_to {
	char *dir; /* owned; NULL: nowhere, they stay in the rings */
	struct rut_trace_clock clock;
	struct rut_record_totals totals;
	/* Of processes that have exited: complete but for the end of the trace. Owned. */
	struct rut_record_out **retired;
	size_t nretired;
	unsigned char *copy; /* of a packet; owned, for the processes in turn */
	size_t copy_bytes;
};

/* A process of a tree that is not traced yet, or never will be. */
struct rut_candidate {
	pid_t pid;	/* 0: free */
	uint64_t start; /* of one that was traced and has executed another program: when it was
			   started. It may be no child of ours, and its PID reused by now. */
	unsigned tries;
	uint64_t seen_ms, next_ms;
};

#define RUT_CANDIDATES 64

struct rut_tracer {
	struct rut_tracer_config config;
	char *filter; /* owned; encoded for the agent */
	size_t filter_len;
	size_t filter_fixed; /* so much of it holds for every process: the application comes last */
	char *root;	     /* owned; what the process asked last said */
	bool command, any;   /* a command was started; a process was traced */
	char *refusal;	     /* owned; why the last process of the command could not be */
	char *limits;	     /* owned; those of the command that are low */
	uint64_t session_id;
	struct rut_tracee **tracees; /* owned */
	size_t count, cap;
	struct rut_strtab strings;
	struct rut_strtab messages; /* those of exceptions */
	bool forget_messages;
	struct rut_ruby_row *rows; /* owned */
	size_t rows_cap;
	struct rut_candidate candidates[RUT_CANDIDATES];
	/* The command that was started, while it runs: what it starts has the agent preloaded. */
	pid_t spawned;
	struct rut_family **families; /* owned */
	size_t family_count;
	struct rut_gone gone;
	uint64_t search_ms; /* when processes are looked for the hard way again */
	uint32_t ractors;   /* RUT_RACTORS_* of those that have ended, too */
	struct rut_record_to record;
	uint32_t heap_looks;  /* asked for so far */
	bool rows_folded;     /* a table was full */
	uint64_t ended;	      /* processes of families that have exited so far */
	bool ending;	      /* the hooks are removed: what is left is reported */
	uint64_t keep_ms;     /* when running calls are read again */
	uint64_t complete_ns; /* rut_tracer_complete_ns() */
	uint64_t follow_ms;   /* when the trees are inspected again */
	int watch_fd;	      /* borrowed; -1: none */
	rut_ruby_event_fn on_event;
	void *on_event_arg;
	rut_ruby_request_fn on_request; /* live requests */
	void *on_request_arg;
};

/* The agent as it was built: the bytes of the shared object. */
extern const unsigned char rut_agent_image[], rut_agent_image_end[];

#endif
