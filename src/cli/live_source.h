/* SPDX-License-Identifier: MIT */
/*
 * Where `view --live` and `top` take events from: a session that records already, a recorder of our
 * own for the processes that a word names, or a session that arrives at a relay daemon.
 */
#ifndef RUT_CLI_LIVE_SOURCE_H
#define RUT_CLI_LIVE_SOURCE_H

#include <signal.h>

#include "cli/cmd.h"
#include "session/live.h"
#include "session/session.h"
#include "stream/viewer.h"

struct rut_live_source {
	struct rut_recorder *r;	       /* owned */
	struct rut_session_live *live; /* owned */
	struct rut_viewer *viewer;     /* owned; then there is neither of the two above */
	const char *name;	       /* borrowed */
	pid_t pid;		       /* what is recorded for us; 0: a session */
	bool ended, said;
	uint64_t stepped_ns;
};

/*
 * `word`: the name of a session, or else a process id, or the name of processes, which are recorded
 * as long as we look, or relay://HOST/SESSION. `events`: what of processes, or NULL for the usual
 * events. `state`: the trace begins with the state of the machine. `stop`: not 0 ends the wait for
 * a session to begin. Returns 0, -EINVAL after a message of its own (err->code stays 0), or -errno.
 */
int rut_cli_live_source_open(struct rut_live_source *s, const struct rut_cmd *cmd, const char *word,
			     const char *events, bool state, const volatile sig_atomic_t *stop,
			     struct rut_err *err);

/* The trace's path, until rut_cli_live_source_fini(). */
const char *rut_cli_live_source_path(const struct rut_live_source *s);

/*
 * Takes what came, at most ten times a second: sleeps when it is called more often. Returns 0, 1
 * when nothing more will come (said once on standard error), or -errno. A struct rut_feed.
 */
int rut_cli_live_source_step(void *source, struct rut_err *err);

void rut_cli_live_source_fini(struct rut_live_source *s);

#endif
