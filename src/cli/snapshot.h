/* SPDX-License-Identifier: MIT */
/* Snapshots of a session, as `rutile snapshot` takes them. */
#ifndef RUT_CLI_SNAPSHOT_H
#define RUT_CLI_SNAPSHOT_H

struct rut_err;
struct rut_recorder;
struct rut_session_verb;

/*
 * Writes one, with what the session's script has printed, and says so on standard output. Returns 0
 * or -errno.
 */
int rut_cli_snapshot(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err);

#endif
