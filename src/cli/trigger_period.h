/* SPDX-License-Identifier: MIT */
/*
 * Triggers on periods: the definitions of analyses (expr/period.h), matched as events come. Which
 * events are recorded follows from the definitions.
 */
#ifndef RUT_CLI_TRIGGER_PERIOD_H
#define RUT_CLI_TRIGGER_PERIOD_H

#include "base/buf.h"
#include "cli/trigger_source.h"
#include "ctf/reader.h"
#include "ctf/text.h"

struct rut_trigger_period;

/*
 * Reads the definition, or the file of them, that `w` (borrowed) names. Returns 0, -EINVAL or
 * -errno.
 */
int rut_cli_trigger_period_new(struct rut_trigger_period **ret, const struct rut_trigger_when *w,
			       struct rut_err *err);
void rut_cli_trigger_period_free(struct rut_trigger_period *p);

/* Appends the names of all events that can begin or end one, separated by commas. */
int rut_cli_trigger_period_events(const struct rut_trigger_period *p, struct rut_buf *names,
				  struct rut_err *err);

/* For the classes that are new in `set`. Returns 0 or -errno. */
int rut_cli_trigger_period_bind(struct rut_trigger_period *p, const struct rut_ctf_set *set,
				struct rut_err *err);

/* An event; `text` shows the one that begins a period. */
void rut_cli_trigger_period_event(struct rut_trigger_period *p, const struct rut_ctf_event *ev,
				  struct rut_ctf_text *text, rut_trigger_seen_fn seen, void *arg);

/* Those that still last at `now_ns` of the time of day. */
void rut_cli_trigger_period_look(struct rut_trigger_period *p, int64_t now_ns,
				 rut_trigger_seen_fn seen, void *arg);

#endif
