/* SPDX-License-Identifier: MIT */
/*
 * The consumer of a session: drains the rings into trace directories, switches to the next
 * directory by size, by time or when told, and removes the oldest ones. One process has one
 * consumer.
 */
#ifndef RUT_SESSION_CONSUMER_H
#define RUT_SESSION_CONSUMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "session/companion.h"
#include "session/writer.h"

#define RUT_COMPANIONS 2

struct rut_sender;

struct rut_consumer {
	struct rut_recorder *recorder; /* borrowed */
	struct rut_sender *sender;     /* sends what is written to a collector; NULL: none; owned */
	bool untold;		       /* the sender does not know the present directory */
	bool full;		       /* the sender has no room: nothing is drained */
	bool dropping;		       /* it drops packets */
	bool followed;		       /* the last round read what code was mapped */
	struct rut_output_conf conf;
	struct rut_writer writer;
	uint64_t opened_ns, flushed_ns, drained_ns, looked_ns;
	uint64_t rotate_failed_ns; /* when the next directory could not be made; 0: it could */
	uint64_t clock_looked_ns;
	int64_t clock_offset_ns, slept_ns; /* at the last look */
	bool vanished; /* the directory is gone, and a new one could not be made yet */
	uint64_t closed_bytes, closed_packets,
		closed_records; /* of the directories before this one */
	uint64_t end_ns; /* when the rings were flushed for the last time in this directory */
	uint64_t total_bytes, total_packets, total_records;
	uint64_t stacks_seen, stacks_ns; /* when stacks were written last: how many, when */
	uint32_t generation;		 /* of the events that the metadata describes */
	struct rut_mappings *mappings;	 /* NULL: not followed; owned */
	struct rut_companion companions[RUT_COMPANIONS];
	size_t ncompanions;
	struct rut_trace_clock clock; /* of this directory */
	char **directories;	      /* those written, oldest first; owned */
	size_t n_dirs;
	bool log_dirs;
	/* The directories have no state of the machine (processes, descriptors, devices): for
	 * those that are only read for the stacks in them. Set it after rut_consumer_open(). */
	bool bare;
	int sleep_ms;
};

/*
 * The directory that the pattern means now: strftime(3), and "-1", "-2" ... behind it while the
 * name exists. Returns 0 or -errno.
 */
int rut_output_path(const struct rut_output_conf *conf, char *ret, size_t size,
		    struct rut_err *err);

/* Opens the first directory. Where conf->to names a collector it must answer. */
int rut_consumer_open(struct rut_consumer *c, struct rut_recorder *r,
		      const struct rut_output_conf *conf, struct rut_err *err);

/*
 * From now on this is written into the same directories. Returns 0 or -errno, when the present one
 * cannot be opened.
 */
int rut_consumer_accompany(struct rut_consumer *c, const struct rut_companion *companion,
			   struct rut_err *err);

/* Where conf->to names a collector: starts sending, in the process that consumes. */
int rut_consumer_send(struct rut_consumer *c, struct rut_err *err);

/* From now on each directory that is begun or ended is logged; the present one is begun. */
void rut_consumer_log_dirs(struct rut_consumer *c);

/* From now on what programs map is noticed, where stacks are recorded. */
void rut_consumer_follow_mappings(struct rut_consumer *c);

/* Writes the statedump, and what is mapped where stacks are recorded. Once, at the begin. */
void rut_consumer_statedump(struct rut_consumer *c);

/*
 * One round: moves what is finished, switches directories when it is time. Afterwards c->sleep_ms
 * says how long nothing needs to be done. On an error (a full disk) everything stays in memory;
 * call on.
 */
int rut_consumer_step(struct rut_consumer *c, struct rut_err *err);

/* Sleeps until the next round is due, for `ms` at most. */
void rut_consumer_wait(struct rut_consumer *c, int ms);

/* Switches to the next directory now. */
int rut_consumer_rotate(struct rut_consumer *c, struct rut_err *err);

/*
 * Where a collector gets the trace: it deletes what it has since the last rotation, and nothing of
 * that is sent any more. Returns 0 when that was begun; rut_consumer_cleared() says when it is
 * done: 0, -EAGAIN, or another -errno.
 */
int rut_consumer_clear(struct rut_consumer *c, struct rut_err *err);
int rut_consumer_cleared(struct rut_consumer *c, struct rut_err *err);

/* Closes without draining: another process continues with it. */
void rut_consumer_abandon(struct rut_consumer *c);

/* The recording did not begin: removes the directory that was made for it. */
void rut_consumer_discard(struct rut_consumer *c);

/* Writes all that is left, the packets being written included, and closes. */
int rut_consumer_close(struct rut_consumer *c, struct rut_err *err);

#endif
