/* SPDX-License-Identifier: MIT */
/* The life of a named session: what `rutile start`, `stop`, `add` and the other verbs do. */
#ifndef RUT_SESSION_SESSION_H
#define RUT_SESSION_SESSION_H

#include "session/consumer.h"
#include "session/pin.h"

struct rut_start {
	struct rut_record_conf conf;
	struct rut_output_conf output; /* an empty pattern: a flight recorder */
	const pid_t *pids;
	size_t npids;
	const struct rut_companion *companions; /* borrowed; they run in the session's process */
	size_t ncompanions;
	struct rut_guest guest; /* pinned beside it */
};

/*
 * Makes and starts a session; it is pinned, and with an output has a daemon of its own. Remains of
 * a session of that name with a killed daemon are removed first; a live one gives -EEXIST.
 * With ret_pid the daemon's process (0: none).
 */
int rut_session_start(const struct rut_start *start, pid_t *ret_pid, struct rut_err *err);

/* Detaches the programs, and waits until the daemon has written what is left. */
int rut_session_stop(struct rut_recorder *r, struct rut_err *err);

/* Attaches them again, after a stop, and a guest (NULL: none). It is stopped again when that fails.
 */
int rut_session_resume(struct rut_recorder *r, const struct rut_guest *guest, struct rut_err *err);

/* Events come and go while it runs. `spec` as for rut_selection_add(). */
int rut_session_add(struct rut_recorder *r, const char *spec, struct rut_err *err);
int rut_session_remove(struct rut_recorder *r, const char *spec, struct rut_err *err);

/*
 * The same for Ruby events: `what` is the argument of --ruby. A flight recorder that has none yet
 * gets a process that holds them, with `companion`, which is borrowed and without targets so far.
 */
int rut_session_change_ruby(struct rut_recorder *r, bool add, const char *what,
			    const struct rut_companion *companion, struct rut_err *err);

/* The daemon switches to the next directory; waits until it has. */
int rut_session_rotate(struct rut_recorder *r, struct rut_err *err);

/*
 * Of a flight recorder: what is in the rings now is no longer shown by snapshots. Of a session that
 * sends: the collector deletes what it has since the last rotation; waits until it has. Returns 0
 * or -errno.
 */
int rut_session_clear(struct rut_recorder *r, struct rut_err *err);

/* Ends the daemon in order, removes every pin. */
int rut_session_destroy(const char *name, struct rut_err *err);

/* Removes the pins of sessions with a killed daemon. Calls fn, if any, with each name. */
int rut_session_clean(void (*fn)(const char *name, void *arg), void *arg, struct rut_err *err);

#endif
