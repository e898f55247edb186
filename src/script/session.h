/* SPDX-License-Identifier: MIT */
/*
 * A script in a session: its maps, its links and what it prints (journal.h) are pinned in the
 * session's directory, so that it runs without a process. There stands also its text, which every
 * process that reads the maps compiles again: types and formats follow from it.
 */
#ifndef RUT_SCRIPT_SESSION_H
#define RUT_SCRIPT_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "session/companion.h"
#include "session/guest.h"

struct rut_buf;
struct rut_err;
struct rut_script_program;
struct rut_script_session;

struct rut_script_session_conf {
	const char *name; /* of its file */
	const char *const *params;
	size_t nparams;
	bool flight; /* the session has no process but for Ruby */
	/*
	 * The processes of probes of Ruby, at this time (allocated); called once a second. NULL:
	 * none were named. Returns 0 or -errno; -ESRCH, -ENOENT: there are none yet.
	 */
	int (*find)(void *arg, pid_t **ret_pids, size_t *ret_n, struct rut_err *err);
	void *find_arg;	     /* borrowed */
	const char *targets; /* their names, each with its line end, to be kept; NULL: none */
	bool portable;	     /* it is compiled for other machines (portable.h), and not started */
};

/*
 * Compiles and loads a script for a session; nothing is attached. *messages gets what the compiler
 * says, also when it succeeds. 0, -EINVAL with messages, or -errno with *err.
 */
int rut_script_session_new(struct rut_script_session **ret, const char *text, size_t len,
			   const struct rut_script_session_conf *conf, struct rut_buf *messages,
			   struct rut_err *err);

/* What was compiled. */
struct rut_script_program *rut_script_session_program(struct rut_script_session *s);

/* The script of a session, by its directory. -ENOENT: it has none. */
int rut_script_session_open(struct rut_script_session **ret, const char *dir, struct rut_err *err);
void rut_script_session_free(struct rut_script_session *s);

/* Pins it, and attaches it. */
struct rut_guest rut_script_session_guest(struct rut_script_session *s);

/* Opens its programs, for the guest that rut_session_resume() attaches again. 0 or -errno. */
int rut_script_session_reopen(struct rut_script_session *s, const char *dir, struct rut_err *err);

/*
 * What it prints, as a trace (trace.h) in the session's directories: written by the session's
 * process, or at a snapshot.
 */
struct rut_companion rut_script_session_companion(struct rut_script_session *s);

/*
 * The same for another process than the session's, of a flight recorder's script that it has
 * opened: from what the journal holds on, and the maps at the end. It runs no probe.
 */
struct rut_companion rut_script_session_reader(struct rut_script_session *s);

/* Prints what it has printed and what its maps hold. */
int rut_script_session_show(struct rut_script_session *s, FILE *out, bool json,
			    struct rut_err *err);

/*
 * Does it need a process, also in a flight recorder? For that: rut_script_session_companion() of a
 * session that writes, or this one, which keeps the probes of Ruby.
 */
bool rut_script_session_needs_process(const struct rut_script_session *s);
struct rut_companion rut_script_session_holder(struct rut_script_session *s);

/* Forgets what the session's process continues with, without detaching it. */
void rut_script_session_leave(struct rut_script_session *s);

struct rut_script_session_status {
	char path[256];	   /* of its file */
	char targets[512]; /* processes of its probes of Ruby: a line each */
	uint64_t printed;  /* records */
	bool ended;	   /* it has called exit() */
};

/* Without compiling it. -ENOENT: the session has no script. */
int rut_script_session_status(struct rut_script_session_status *ret, const char *dir);

#endif
