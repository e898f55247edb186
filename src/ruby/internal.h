/* SPDX-License-Identifier: MIT */
/* What the files of the tracer share. */
#ifndef RUT_RUBY_INTERNAL_H
#define RUT_RUBY_INTERNAL_H

#include "agent/abi.h"
#include "base/err.h"
#include "base/hash.h"
#include "ruby/tracer.h"

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
	unsigned slot;
	struct rut_agent_table *table;
	size_t table_bytes;
	struct rut_tracee_names *names; /* owned; by row, filled once */
	uint32_t names_cap;
	struct rut_events *events;  /* owned; trace mode */
	struct rut_agent_row *base; /* owned; counters at the last reset */
	uint32_t base_count;
};

/* A process of a tree that is not traced yet, or never will be. */
struct rut_candidate {
	pid_t pid;  /* 0: free */
	bool again; /* it is no child of a traced one: ask for it by itself */
	unsigned tries;
	uint64_t seen_ms, next_ms;
};

#define RUT_CANDIDATES 64

struct rut_tracer {
	struct rut_tracer_config config;
	char *filter; /* owned; encoded for the agent */
	size_t filter_len;
	uint64_t session_id;
	struct rut_tracee **tracees; /* owned */
	size_t count, cap;
	struct rut_strtab strings;
	struct rut_ruby_row *rows; /* owned */
	size_t rows_cap;
	struct rut_candidate candidates[RUT_CANDIDATES];
	bool ending;	    /* the hooks are gone: what is left is told */
	uint64_t follow_ms; /* when the trees are looked at again */
	int watch_fd;	    /* borrowed; -1: none */
	rut_ruby_event_fn on_event;
	void *on_event_arg;
};

/* The agent as it was built: the bytes of the shared object. */
extern const unsigned char rut_agent_image[], rut_agent_image_end[];

/* tracee.c */
int rut_tracee_open(struct rut_tracee **ret, struct rut_tracer *t, pid_t pid, bool inject,
		    struct rut_err *err);
void rut_tracee_detach(struct rut_tracee *p, bool wait);
void rut_tracee_free(struct rut_tracee *p);
/* It exited, or executed another program. */
bool rut_tracee_ended(struct rut_tracee *p);
/* Has this process an agent with a session of this number that nobody looks after? */
bool rut_tracee_has_session(pid_t pid, uint64_t session_id);

/* events.c */
int rut_events_open(struct rut_tracee *p, struct rut_err *err);
void rut_events_close(struct rut_tracee *p);
/* Tells what has come, in order of time. */
int rut_events_round(struct rut_tracer *t, struct rut_err *err);
/* Do events come fast? Then look again soon. */
bool rut_events_busy(const struct rut_tracer *t);

/* rows.c: one row, also when it has not counted anything; false: there is none. */
bool rut_rows_get(struct rut_tracer *t, struct rut_tracee *p, uint32_t number,
		  struct rut_ruby_row *ret);
bool rut_rows_is_c(const struct rut_tracee *p, uint32_t number);
const char *rut_rows_string(struct rut_tracer *t, const struct rut_tracee *p, uint32_t off);

/* tree.c: notices ends, takes in new processes. */
void rut_tree_follow(struct rut_tracer *t);

/* tracer.c: takes the tracee. */
int rut_tracer_add(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err);

#endif
