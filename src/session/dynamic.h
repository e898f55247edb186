/* SPDX-License-Identifier: MIT */
/*
 * Events that are found by name on this machine:
 *
 * - CATEGORY:NAME, a tracepoint of the kernel; globs. Where LTTng has an event for it, and so
 *   rutile, that one is meant.
 * - tp:CATEGORY:NAME, the same, always by its tracefs format.
 * - usdt:BINARY:PROVIDER:NAME[(ARGS)], a static probe of a program or library; globs.
 * - uprobe:BINARY:SYMBOL[+OFF][(ARGS)], a function's entry.
 * - uretprobe:BINARY:SYMBOL, a function's return.
 * - profile:HZ, the running thread with its stacks, HZ times a second on each CPU.
 *
 * BINARY is a path, the name of a program or library, or a process id: then that process only, with
 * the files that it has mapped, in its container. ARGS name the arguments: "fd,path:str".
 *
 * event_list.c reads lists of these, building.c loads and describes one event, dynamic_user.c adds
 * those of programs and dynamic.c the others.
 */
#ifndef RUT_SESSION_DYNAMIC_H
#define RUT_SESSION_DYNAMIC_H

#include <stdbool.h>

#include "base/buf.h"
#include "session/recorder.h"

/*
 * Of a word of an event list: appends the names of static events that it means to `names`. Returns
 * 1 when it is one of the above beside that, 0 when not, or -ENOMEM.
 */
int rut_dynamic_split(const char *word, struct rut_buf *names);

/* Takes the first word of an event list; parentheses hide commas. Returns the rest, or NULL. */
const char *rut_dynamic_next_word(const char *list, char *word, size_t size);

/*
 * Adds a list of events to a configuration: static ones to its selection, those above to its
 * probes (which are looked for when the session starts).
 */
int rut_conf_add_events(struct rut_record_conf *conf, const char *list, struct rut_err *err);

/*
 * "sched_switch:ruby-stack" is sched_switch, with a Ruby stack: cuts that off and returns true.
 */
bool rut_dynamic_wants_stack(char *word);

/*
 * The set of events, by id, that have a Ruby stack (conf->rstack); of those added by name `id`,
 * which was added as `spec`; or NULL. False: all events have one.
 */
bool rut_dynamic_stacks(const struct rut_record_conf *conf, uint32_t id, const char *spec,
			__u64 ret[RUT_EVENT_WORDS]);

/*
 * Adds what `spec` names: loads a program and attaches it for each event. -ENOENT: nothing has that
 * name.
 */
int rut_dynamic_add(struct rut_recorder *r, const char *spec, struct rut_err *err);

/* The same at a start: what cannot be is logged, and is no error unless the session is strict. */
int rut_dynamic_try(struct rut_recorder *r, const char *spec, struct rut_err *err);

/* Attaches again what meta->dynamic lists, after a stop; in the same way. */
int rut_dynamic_resume(struct rut_recorder *r, struct rut_err *err);

/* Detaches the event of that id, of a session with links held by this process. */
void rut_dynamic_detach(struct rut_recorder *r, uint32_t id);

/*
 * Attaches the event of that id again, which is in the metadata already; one that was removed is
 * left alone. A removed site is named in a warning. 0 or -errno.
 */
int rut_dynamic_attach(struct rut_recorder *r, uint32_t id, struct rut_err *err);

/* Was an event added by this word of the user's, which may be a pattern? */
bool rut_dynamic_is(const char *word, const char *spec);

#endif
