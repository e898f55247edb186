/* SPDX-License-Identifier: MIT */
/* What the parts of a script's session share (making, pins, Ruby processes, output). */
#ifndef RUT_SCRIPT_SESSION_PRIV_H
#define RUT_SCRIPT_SESSION_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "script/journal.h"
#include "script/output.h"
#include "script/run_names.h"
#include "script/session.h"

struct rut_script_links;
struct rut_script_symbols;
struct rut_script_trace;
struct rut_script_tracer;

/* A process that could not be attached to. */
struct rut_script_miss {
	pid_t pid;
	uint32_t fails;
	uint64_t start, next_ms; /* when it was started; when it is tried again */
	bool never;		 /* it is not */
};

struct rut_script_session {
	struct rut_script_program *p; /* owned */
	char *text, *params_text;     /* owned */
	struct rut_buf file;	      /* of a script that is compiled; empty: of one that is not */
	const char **params;	      /* owned; into params_text */
	char name[256], targets[512];
	struct rut_script_symbols *symbols; /* owned */
	struct rut_script_names names;
	struct rut_script_style style;
	/* Of what is written or shown: */
	struct rut_script_journal journal;
	struct rut_script_out *out;
	struct rut_script_trace *trace;
	struct rut_buf filled; /* an event with its percentiles */
	FILE *nowhere;	       /* owned */
	uint64_t *next_ns;     /* by program: when an interval probe runs; owned */
	uint64_t told;	       /* lost records that the traces before this one count */
	bool paused;
	int rc;
	struct rut_err *err;
	/* Of probes of Ruby, in the session's process: */
	struct rut_script_tracer *tracer; /* owned */
	struct rut_script_links *links;	  /* owned; what is attached to the agent's file */
	int (*find)(void *arg, pid_t **ret_pids, size_t *ret_n, struct rut_err *err);
	void *find_arg;
	uint64_t looked_ms;
	struct rut_script_miss *misses; /* owned */
	size_t nmisses;
	struct rut_script_follower *follower; /* owned; NULL: not in this process */
};

/* session.c: a session of that name, empty; NULL: no memory. */
struct rut_script_session *rut_script_session_make(const char *name);

/* Compiles its text, or decodes its file (portable.h). 0 or -errno; -EINVAL: see its messages. */
int rut_script_session_compile(struct rut_script_session *s, const char *text, size_t len,
			       const struct rut_script_opts *opts, struct rut_err *err);

/* Its symbols and how values are printed, after it was compiled. 0 or -errno. */
int rut_script_session_prepare(struct rut_script_session *s, struct rut_err *err);

/* session_pins.c: runs the probes of that kind, now. 0 or -errno. */
int rut_script_session_run_kind(struct rut_script_session *s, enum rut_probe_kind kind,
				struct rut_err *err);

/*
 * session_ruby.c: attaches to the Ruby processes that its probes are for, if it has such probes; 0
 * or -errno. From the first rut_script_session_rubies_follow() on a thread of its own does so, and
 * follows those that come: an attempt takes seconds where a process does not answer, and who calls
 * that reads the session's rings. 0 or -errno: there is no thread.
 */
int rut_script_session_rubies_begin(struct rut_script_session *s, struct rut_err *err);
int rut_script_session_rubies_follow(struct rut_script_session *s, struct rut_err *err);
/*
 * Counts what was hit up to now. 0 or -errno; while an attempt lasts it waits for its end, or
 * counts nothing and returns RUT_SCRIPT_RUBIES_BUSY.
 */
enum { RUT_SCRIPT_RUBIES_BUSY = 1 };
int rut_script_session_rubies_take(struct rut_script_session *s, bool wait, struct rut_err *err);
/* Lets all of them go, for good; while the session is stopped. Both wait for an attempt, too. */
void rut_script_session_rubies_end(struct rut_script_session *s);
void rut_script_session_rubies_pause(struct rut_script_session *s, bool pause);

#endif
