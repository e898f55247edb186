/* SPDX-License-Identifier: MIT */
/*
 * Events that are found by name on the machine at hand:
 *
 *	CATEGORY:NAME                      a tracepoint of the kernel, by its tracefs format; globs
 *	usdt:BINARY:PROVIDER:NAME[(ARGS)]  a static probe of a program or library; globs
 *	uprobe:BINARY:SYMBOL[+OFF][(ARGS)] a function's entry
 *	uretprobe:BINARY:SYMBOL            a function's return
 *	profile:HZ                         who runs, with stacks, so many times a second on each CPU
 *
 * BINARY is a path, the name of a program or library, or a process id: then that process only, with
 * the files that it has mapped, in its container. ARGS name the arguments: "fd,path:str".
 */
#ifndef RUT_SESSION_DYNAMIC_H
#define RUT_SESSION_DYNAMIC_H

#include <stdbool.h>

#include "session/recorder.h"

/* Is this word of an event list one of the above? */
bool rut_dynamic_is(const char *word);

/* Takes the first word of an event list; parentheses hide commas. Returns the rest, or NULL. */
const char *rut_dynamic_next_word(const char *list, char *word, size_t size);

/*
 * Adds a list of events to a configuration: static ones to its selection, those above to its
 * probes (which are looked for when the session starts).
 */
int rut_conf_add_events(struct rut_record_conf *conf, const char *list, struct rut_err *err);

/*
 * Adds what `spec` names: loads a program and attaches it for each event. -ENOENT: nothing has that
 * name.
 */
int rut_dynamic_add(struct rut_recorder *r, const char *spec, struct rut_err *err);

/* The same at a start: what cannot be is logged, and is no error unless the session is strict. */
int rut_dynamic_try(struct rut_recorder *r, const char *spec, struct rut_err *err);

/* Attaches again what meta->dynamic lists, after a stop; in the same way. */
int rut_dynamic_resume(struct rut_recorder *r, struct rut_err *err);

#endif
