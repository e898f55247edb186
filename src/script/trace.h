/* SPDX-License-Identifier: MIT */
/*
 * What a script prints, as a CTF trace: DIR/script, with a stream for each CPU. A printf() with
 * names becomes an event with fields, an entry of a map one event, all else its text
 * (trace_class.h). The directory can be read at any moment: files hold whole packets only.
 *
 * One thread. Times that go back within a CPU, because a probe interrupted another one, are those
 * of the record before.
 */
#ifndef RUT_SCRIPT_TRACE_H
#define RUT_SCRIPT_TRACE_H

#include "base/clock.h"
#include "script/output.h"
#include "script/script.h"

struct rut_err;
struct rut_script_trace;

/*
 * Makes DIR (which may exist) and DIR/script (which must not). `p` and `style` are borrowed.
 * `clock`: what the trace shares with others in DIR; NULL: it begins now. 0 or -errno.
 */
int rut_script_trace_open(struct rut_script_trace **ret, const char *dir,
			  const struct rut_script_program *p, const struct rut_script_style *style,
			  const struct rut_trace_clock *clock, struct rut_err *err);

/* Called by the output: what it prints is written, at the time of the last _event(). */
struct rut_script_tap rut_script_trace_tap(struct rut_script_trace *t);

/* The event that is printed next; a printf() with names is written at once. */
void rut_script_trace_event(struct rut_script_trace *t, const struct rut_script_event *e,
			    const struct rut_script_action *a);

/* What is printed next is no event's, but of this time (0: now): maps at the end. */
void rut_script_trace_at(struct rut_script_trace *t, uint64_t ns);

/* Writes what is buffered. 0 or -errno; what could not be written is kept. */
int rut_script_trace_flush(struct rut_script_trace *t, struct rut_err *err);

/*
 * Ends the trace at `end_ns` (0: now) and frees it. `lost`: events that are not in it. NULL is
 * permitted. 0 or -errno.
 */
int rut_script_trace_close(struct rut_script_trace *t, uint64_t end_ns, uint64_t lost,
			   struct rut_err *err);

#endif
