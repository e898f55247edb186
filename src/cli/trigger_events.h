/* SPDX-License-Identifier: MIT */
/*
 * What a trigger looks at: a recorder of its own for the events that it names, in memory, filtered
 * in the kernel. Sessions do not notice.
 */
#ifndef RUT_CLI_TRIGGER_EVENTS_H
#define RUT_CLI_TRIGGER_EVENTS_H

#include "cli/cmd.h"
#include "trigger/spec.h"

struct rut_trigger_events;

/* Called with what makes the trigger fire: an event as JSON. */
typedef void (*rut_trigger_seen_fn)(void *arg, const char *cause);

/*
 * Begins to record what `w`, which is borrowed, names. *ret stays NULL for kinds that look at no
 * events. Returns 0, -EINVAL after a message of its own (err->code stays 0), or -errno.
 */
int rut_trigger_events_open(struct rut_trigger_events **ret, const struct rut_cmd *cmd,
			    const struct rut_trigger_when *w, struct rut_err *err);

/* Takes what was recorded. Returns 0 or -errno. */
int rut_trigger_events_step(struct rut_trigger_events *e, rut_trigger_seen_fn seen, void *arg,
			    struct rut_err *err);

void rut_trigger_events_free(struct rut_trigger_events *e);

#endif
