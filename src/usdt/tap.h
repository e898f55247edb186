/* SPDX-License-Identifier: MIT */
/* Recording static tracepoints without the kernel: see the essay in tap.c. */
#ifndef RUT_USDT_TAP_H
#define RUT_USDT_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;
struct rut_usdt_taps;

/* The prefix of an event that this records: "ruby_static:PROVIDER:NAME", both may be globs. */
#define RUT_USDT_EVENT_PREFIX "ruby_static:"

/*
 * Nothing is recorded yet. `globs` are PROVIDER:NAME without the prefix, borrowed. Until a process
 * is added, every process of this machine that lets us is recorded. The caller frees *ret.
 */
int rut_usdt_taps_new(struct rut_usdt_taps **ret, const char *const *globs, size_t nglobs,
		      struct rut_err *err);

/*
 * The value of RUT_USDT_RECORD_ENV (ctl.h) for a command to record from its first
 * instruction; NULL: that is not possible, it has to be found. Borrowed.
 */
const char *rut_usdt_taps_env(const struct rut_usdt_taps *taps);

/* Records this process and its children, and no others but those added too. */
int rut_usdt_taps_add_pid(struct rut_usdt_taps *taps, pid_t pid, struct rut_err *err);

/* Takes NULL; ends first, if that was not done. */
void rut_usdt_taps_free(struct rut_usdt_taps *taps);

/*
 * Begins to record into directories DIR/ruby_static-PID, one a process, made as they are found.
 * Called again it continues in another DIR.
 */
int rut_usdt_taps_open(struct rut_usdt_taps *taps, const char *dir, struct rut_err *err);

/*
 * One round: looks for new tracepoints and processes (every 200 ms, every second when all are
 * meant), moves finished packets into the files. Call it several times a second. Returns the
 * packets moved, or -errno when a file cannot be written; they stay in memory then.
 */
int64_t rut_usdt_taps_step(struct rut_usdt_taps *taps, struct rut_err *err);

/*
 * Stops recording and writes what is left. Returns how many processes were recorded, how many
 * events were lost, bytes and packets written.
 */
void rut_usdt_taps_end(struct rut_usdt_taps *taps, size_t *ret_processes, uint64_t *ret_lost,
		       uint64_t *ret_bytes, uint64_t *ret_packets);

#endif
