/* SPDX-License-Identifier: MIT */
/*
 * The processes that sessions have: one that writes to files has a consumer; a flight recorder with
 * companions has a holder, because what they record is in memory of theirs and not in the kernel's.
 * Both are forked from the process that starts the session, which has opened everything, so that
 * errors are its to report. SIGTERM ends them in order.
 */
#ifndef RUT_SESSION_DAEMON_H
#define RUT_SESSION_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "session/companion.h"
#include "session/consumer.h"
#include "session/meta.h"

/*
 * Forks the consumer, which continues with `c` and its companions; the caller has none of it any
 * more. The child holds `lock` (rut_session_lock()) too until it has said that it is there, so that
 * a session whose start is killed meanwhile is not taken for a dead one. Returns when it consumes:
 * 0 or -errno.
 */
int rut_daemon_start(struct rut_consumer *c, int lock, pid_t *ret_pid, struct rut_err *err);

/* Forks the holder, in the same way. */
int rut_holder_start(struct rut_recorder *r, const struct rut_companion *companions, size_t count,
		     int lock, struct rut_err *err);

bool rut_holder_alive(const struct rut_session_meta *m);

/* Sends SIGTERM and waits a bounded time for the exit. Does nothing without a holder. */
void rut_holder_end(const struct rut_session_meta *m);

/*
 * Has the holder copy what the companions have in memory into `dir` (absolute, it exists). Returns
 * 0, also when there is no holder, or -errno.
 */
int rut_holder_copy(struct rut_session_meta *m, const char *dir,
		    const struct rut_trace_clock *clock, uint64_t end_ns, struct rut_err *err);

/* Waits, a bounded time, until the session's process has seen that the session runs or not. */
void rut_daemon_sync(struct rut_session_meta *m);

/*
 * Has the session's process (consumer or holder) change what its companion records. The caller has
 * the session's lock. Returns 0 or -errno with the reason.
 */
int rut_daemon_change(struct rut_session_meta *m, bool add, const char *what, struct rut_err *err);

#endif
