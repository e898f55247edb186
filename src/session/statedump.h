/* SPDX-License-Identifier: MIT */
/*
 * What was there before the trace began: processes, their descriptors, block devices, interrupts,
 * CPUs. Read from /proc and /sys, written as LTTng's lttng_statedump_* events into a ring.
 */
#ifndef RUT_SESSION_STATEDUMP_H
#define RUT_SESSION_STATEDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring/write.h"

struct rut_statedump {
	const struct rut_ring *ring;
	uint64_t (*clock)(void);
	uint64_t contexts; /* enum rut_context: records carry these fields too */
	/* Called when the ring is almost full, so that the reader can make room; may be NULL. */
	void (*make_room)(void *arg);
	void *arg;
	pid_t only; /* 0: all processes; else this one and its threads */
	uint64_t records;
	struct rut_user_maps *user_maps; /* owned; while it is being written */
	struct rut_open_files *files;	 /* the same */
};

/* Writes everything; what vanishes or cannot be read meanwhile is left out. */
void rut_statedump_write(struct rut_statedump *s);

/* Writes a record with a ready payload. Returns false when there was no room. */
bool rut_statedump_emit(struct rut_statedump *s, uint32_t id, const void *data, size_t len);

#endif
