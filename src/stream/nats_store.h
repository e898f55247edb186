/* SPDX-License-Identifier: MIT */
/*
 * What a collector of NATS messages keeps: DIR/HOST/SESSION-DATE-TIME-ID/PART/STREAM, where the
 * files are as they were on the host, byte for byte. The session's second trace directory is
 * archives/2 below that, and so on; the hidden file .complete lists what a directory consists of
 * when all of it is there (nats_complete.h).
 *
 * Any number of processes may store into one DIR: where a packet belongs is in its message. There
 * is no socket here.
 */
#ifndef RUT_STREAM_NATS_STORE_H
#define RUT_STREAM_NATS_STORE_H

#include <stddef.h>

#include "stream/store.h"

struct rut_err;
struct rut_nats_store;

/* Opens DIR, which is made when it does not exist. Returns 0 or -errno. */
int rut_nats_store_new(struct rut_nats_store **ret, const char *dir,
		       const struct rut_store_limits *limits, struct rut_err *err);
void rut_nats_store_free(struct rut_nats_store *s);

/* No errno: a file system has limits of its own, which do not stay. */
#define RUT_NATS_OVER_LIMIT (-4096)

/*
 * Stores a message. Returns 0, or 1 when it was stored before. It never can be stored:
 * RUT_NATS_OVER_LIMIT, its host has written all that it may; -E2BIG, too many packets before it are
 * missing; -EBADMSG, it is none of ours, or its names lead elsewhere. It may later: -EAGAIN, the
 * packet that it is about is not there; another -errno.
 */
int rut_nats_store_put(struct rut_nats_store *s, const char *subject, const void *data, size_t len);

/* Waits until what was stored is on the disk. Returns 0 or -errno. */
int rut_nats_store_sync(struct rut_nats_store *s);

struct rut_nats_store_stats {
	uint64_t packets, bytes, duplicates, complete; /* complete: trace directories */
};
void rut_nats_store_stats(const struct rut_nats_store *s, struct rut_nats_store_stats *ret);

#endif
