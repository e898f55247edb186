/* SPDX-License-Identifier: MIT */
/* A snapshot: the rings of a running session, copied into a trace directory; the session continues.
 */
#ifndef RUT_SESSION_SNAPSHOT_H
#define RUT_SESSION_SNAPSHOT_H

#include "session/companion.h"
#include "session/recorder.h"

struct rut_snapshot {
	uint64_t bytes, packets, records;
	uint64_t lapped; /* packets reused while they were copied, or with an unfinished record */
	uint64_t begin_ns, end_ns;
};

/*
 * Writes DIR, which must not exist or be empty. Everything that the rings hold is in it, each
 * CPU's packets in an unbroken row up to now, and a statedump. `beside` (NULL: none) adds what
 * another module keeps in the session: its snapshot() is called.
 */
int rut_snapshot_write(struct rut_recorder *r, const char *dir, const struct rut_companion *beside,
		       struct rut_snapshot *ret, struct rut_err *err);

/*
 * The same to a collector (relay://HOST[:PORT][/SESSION]), by way of a directory in `spool`, where
 * it stays when it could not be sent.
 */
int rut_snapshot_send(struct rut_recorder *r, const char *to, const char *spool, const char *tls,
		      const struct rut_companion *beside, struct rut_snapshot *ret,
		      struct rut_err *err);

#endif
