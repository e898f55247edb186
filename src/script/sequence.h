/* SPDX-License-Identifier: MIT */
/*
 * Output of a script of which some hits are deferred and print (defer.h). What the kernel's
 * programs send is kept here until the hits before it have been run, so that both are shown in
 * order of time as if no hit had been deferred: every record has the time of its program, every hit
 * that at which the agent wrote it.
 *
 * A hit that had not ended when the process's ring was read comes later than a record with a
 * later time. Both happened at once, so either order is right.
 */
#ifndef RUT_SCRIPT_SEQUENCE_H
#define RUT_SCRIPT_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct rut_err;
struct rut_script_event;
struct rut_script_tracer;

struct rut_script_sequence {
	struct rut_script_tracer *tracer; /* borrowed; NULL: no hit prints, this is not used */
	uint32_t room_bytes;		  /* of the ring that programs may fill */
	/* Shows a record; reads the ring, of which it gives records back to
	 * rut_script_sequence_keep() or shows them. */
	void (*show)(void *arg, const struct rut_script_event *e, size_t size);
	void (*read)(void *arg);
	void *arg;
	struct rut_buf kept; /* records, each behind its size */
};

void rut_script_sequence_fini(struct rut_script_sequence *o);

/* Keeps a copy. False: there is no memory; it is to be shown at once, and the next round reports
 * -ENOMEM. */
bool rut_script_sequence_keep(struct rut_script_sequence *o, const struct rut_script_event *e,
			      size_t size);

/*
 * Runs the hits up to now and shows what was kept up to now. `all`: shows all that was kept before
 * the call, and waits up to 50 ms for hits that are being written. More than 64 MiB are not kept:
 * what is older is shown in any case. Returns how many processes
 * there are, or -errno.
 */
int rut_script_sequence_round(struct rut_script_sequence *o, bool all, struct rut_err *err);

#endif
