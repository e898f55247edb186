/* SPDX-License-Identifier: MIT */
/* What the files of the tracer share. */
#ifndef RUT_RUBY_INTERNAL_H
#define RUT_RUBY_INTERNAL_H

#include "agent/abi.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "ruby/record.h"
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
	bool unseen;	/* known by its place only: there is no control page, and the PID is its own
			   view */
	bool over;	/* it has ended, and goes when everything is told */
	bool announced; /* the caller knows that it has begun */
	uint64_t met_ms;
	struct rut_agent_table *table;
	size_t table_bytes;
	struct rut_tracee_names *names; /* owned; by row, filled once */
	uint32_t names_cap;
	struct rut_events *events;  /* owned; trace and record mode */
	struct rut_record_out *out; /* owned; record mode, while its files are open */
	bool recorded;		    /* it has, or had, files */
	uint64_t lost_told;	    /* events lost that the files before told */
	struct rut_agent_row *rows; /* owned; time mode: as if what runs had ended */
	uint64_t pictured;	    /* ticks: when what runs was looked at last */
	struct rut_agent_row *last; /* owned; what was read then */
	uint32_t last_count;
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
};

/* A process of a tree that is not traced yet, or never will be. */
struct rut_candidate {
	pid_t pid;	/* 0: free */
	uint64_t start; /* of one that was traced and has executed another program: when it was
			   started. It may be nobody's child, and its number another's by now. */
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
	bool rows_folded;   /* a table was full */
	bool ending;	    /* the hooks are gone: what is left is told */
	uint64_t keep_ms;   /* when running calls are read again */
	uint64_t follow_ms; /* when the trees are looked at again */
	int watch_fd;	    /* borrowed; -1: none */
	rut_ruby_event_fn on_event;
	void *on_event_arg;
};

/* The agent as it was built: the bytes of the shared object. */
extern const unsigned char rut_agent_image[], rut_agent_image_end[];

/* root.c: completes the filter of a process that has said what its application is. */
void rut_root_apply(struct rut_tracer *t, struct rut_tracee *p);

/* limits.c: remembers which limits of this process are low. */
void rut_limits_read(struct rut_tracer *t, pid_t pid);

/* tracee.c */
int rut_tracee_open(struct rut_tracee **ret, struct rut_tracer *t, pid_t pid, bool inject,
		    struct rut_err *err);
void rut_tracee_detach(struct rut_tracee *p, bool wait);
void rut_tracee_free(struct rut_tracee *p);
/* It has exited. */
bool rut_tracee_is_gone(const struct rut_tracee *p);
/* It exited, or executed another program. */
bool rut_tracee_ended(struct rut_tracee *p);
/* Goes on with the start of the session if the process has answered what it was asked. */
void rut_tracee_go_on(struct rut_tracer *t, struct rut_tracee *p);
/* No hook is still to be set. */
bool rut_tracee_settled(struct rut_tracee *p);
/* Has this process an agent with a session of this number that nobody looks after? */
bool rut_tracee_has_session(pid_t pid, uint64_t session_id);

/* family.c */
/* Maps the tables of a process that has a session of ours. Returns 0 or -errno. */
int rut_family_join(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err);
void rut_family_leave(struct rut_tracee *p);
/* Meets children that nobody has seen, and buries the dead. Tracees may go. */
void rut_family_look(struct rut_tracer *t);
/* Have children been born since this was asked last? */
bool rut_family_grows(struct rut_tracer *t);
void rut_family_free_all(struct rut_tracer *t);

/* events.c */
int rut_events_open(struct rut_tracee *p, struct rut_err *err);
/* The ring is there in the file. */
int rut_events_open_at(struct rut_tracee *p, int fd, uint64_t off, uint64_t bytes,
		       struct rut_err *err);
/* Has everything been told that was taken out of its ring? */
bool rut_events_told(const struct rut_tracee *p);
void rut_events_close(struct rut_tracee *p);
/* Tells what has come, in order of time. */
int rut_events_round(struct rut_tracer *t, struct rut_err *err);
/* Tells all that a ring holds, in a copy of another process's memory; p->table is set. */
int rut_events_tell_memory(struct rut_tracer *t, struct rut_tracee *p, struct rut_ring_ctl *ctl,
			   unsigned char *data, size_t bytes, struct rut_err *err);
/* The ring of a process with events. */
const struct rut_ring *rut_events_ring(const struct rut_tracee *p);
/* Do events come fast? Then look again soon. */
bool rut_events_busy(const struct rut_tracer *t);

/* record.c: moves finished packets into the trace. Returns 0 or -errno. */
int rut_record_round(struct rut_tracer *t, struct rut_err *err);
/* Ends the files of a process; what is in its ring was moved before. */
void rut_record_close(struct rut_tracee *p);

/* rows.c: one row, also when it has not counted anything; false: there is none. */
bool rut_rows_get(struct rut_tracer *t, struct rut_tracee *p, uint32_t number,
		  struct rut_ruby_row *ret);
uint32_t rut_rows_count(const struct rut_tracee *p);
const struct rut_agent_row *rut_rows_at(const struct rut_tracee *p, uint32_t i);
/* Now, by the clock of its rows. */
uint64_t rut_rows_ticks(const struct rut_tracee *p);
/* Those that have counted something; `ret_count` is the room before. */
bool rut_rows_fill(struct rut_tracer *t, struct rut_tracee *p, struct rut_ruby_row *ret,
		   uint32_t *ret_count);
/* Reads what runs, of all processes: what ends without a word has at least that. Time mode. */
void rut_rows_keep(struct rut_tracer *t);
/* Frees the buckets of rows that are kept. */
void rut_gone_forget(struct rut_gone *g);
bool rut_rows_is_c(const struct rut_tracee *p, uint32_t number);
const char *rut_rows_string(struct rut_tracer *t, const struct rut_tracee *p, uint32_t off);

/* running.c: copies the first `count` rows, as if the calls that run ended now. */
void rut_running_add(struct rut_tracee *t, struct rut_agent_row *rows, uint32_t count);

/* spawn.c */
/* Has the command that was started ended? It is left to whoever waits for it. */
bool rut_spawn_ended(pid_t pid);
/* The tracer goes; the agent's file too, unless the command may still need it. */
void rut_spawn_fini(struct rut_tracer *t);

/* tree.c: notices ends, takes in new processes. */
void rut_tree_follow(struct rut_tracer *t);
void rut_tree_adopt_spawned(struct rut_tracer *t);
/* Tells of the beginning, once, or the end of a process. */
void rut_tree_announce(struct rut_tracer *t, struct rut_tracee *p, enum rut_ruby_event_type type);

/* tracer.c: takes the tracee. */
int rut_tracer_add(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err);

#endif
