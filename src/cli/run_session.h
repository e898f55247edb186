/* SPDX-License-Identifier: MIT */
/* What a script does to the session beside which it runs: snapshot("name"), stop(). */
#ifndef RUT_CLI_RUN_SESSION_H
#define RUT_CLI_RUN_SESSION_H

#include <stdint.h>
#include <sys/types.h>

struct rut_err;

struct rut_run_session {
	const char *name; /* of the session; NULL: there is none */
	pid_t running;	  /* what was asked for last; 0: it has ended */
	unsigned count;	  /* of snapshots */
	uint64_t skipped; /* snapshots that were asked for while one was being written */
};

/* -ENOENT: there is no session of that name. */
int rut_cli_run_session_check(const struct rut_run_session *s, struct rut_err *err);

/* A callback of rut_script_run(): the name of a snapshot, NULL: stop. Does not wait for it. */
void rut_cli_run_session_act(void *arg, const char *snapshot);

/* Waits for what was asked for last; says what was left out. */
void rut_cli_run_session_end(struct rut_run_session *s);

#endif
