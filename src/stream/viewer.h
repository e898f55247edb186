/* SPDX-License-Identifier: MIT */
/*
 * Reading a session from LTTng's relay daemon while it arrives there, by the protocol of its live
 * viewers (2.4 and later; LTTng's doc/live-reading-protocol.txt). What was recorded is copied into
 * a file system in memory, where a reader of traces follows it and gives back what it has read.
 */
#ifndef RUT_STREAM_VIEWER_H
#define RUT_STREAM_VIEWER_H

#include <signal.h>

struct rut_err;
struct rut_live_url;
struct rut_viewer;

/*
 * Connects and attaches to the session, and to all that it has of the trace. Waits until the
 * session has its first metadata. Returns 0 or -errno; -ENOENT names the sessions that there are.
 * `stop`, borrowed for as long as the viewer lives: when it is not 0 this and rut_viewer_step()
 * return -EINTR.
 */
int rut_viewer_open(struct rut_viewer **ret, const struct rut_live_url *url,
		    const volatile sig_atomic_t *stop, struct rut_err *err);

/* The directory of the traces, for as long as the viewer lives. */
const char *rut_viewer_path(const struct rut_viewer *v);

/*
 * Copies what has come, a bounded amount. Returns 0, 1 when the session is closed and all of it was
 * copied, or -errno, after which the viewer is of no further use.
 */
int rut_viewer_step(struct rut_viewer *v, struct rut_err *err);

void rut_viewer_free(struct rut_viewer *v);

/* For tests: over a connection that exists, which becomes the viewer's. */
struct rut_conn;
int rut_viewer_attach(struct rut_viewer **ret, struct rut_conn *conn,
		      const struct rut_live_url *url, const volatile sig_atomic_t *stop,
		      struct rut_err *err);

#endif
