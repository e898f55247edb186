/* SPDX-License-Identifier: MIT */
/*
 * Probes of scripts (mode RUT_AGENT_SCRIPT): which methods hit them, and reporting it to the
 *kernel.
 *
 * A probe has a place of its own in rut_agent_sites, of two instructions: nop and return. The
 * script's eBPF program is attached to that place of the agent's file, by a uprobe. To hit a probe
 * is to call its place, with what the program may want to know in the registers of arguments:
 *
 *	0  the number of the session: others have the same places
 *	1  the texts that the probe wishes, RUT_HIT_TEXT_BYTES each
 *	2  nanoseconds that the call took, at its return
 *	3  the line where the method is, or the event happened
 *	4, 5  of RUT_HIT_REQUEST_NAME: the execution context, its stack
 *
 * Other events than calls have hooks of their own (hit_event.c).
 *
 * Where the program does nothing that depends on when and where it runs, but for the time and the
 * thread, the script asks for hits to be deferred: they are records of the session's ring, and
 * the process of the script runs the program on many at once. That takes no trap.
 *
 * The nop has one byte, so that it traps. The kernel replaces one of five bytes by a call into a
 * page that children of a fork do not have.
 */
#ifndef RUT_AGENT_HIT_H
#define RUT_AGENT_HIT_H

#include "core.h"

extern const char rut_agent_sites[] RUT_HIDDEN;

union rut_hit_fact {
	const char *text; /* NULL: none */
	uint64_t number;
};

/* What is known of an event that is no method's. */
struct rut_hit_facts {
	const struct rut_agent_row *row; /* has class, path and line, if it is given */
	const char *class_name, *path;	 /* NULL: none */
	uint64_t line, duration_ns, ec, vm_stack;
	union rut_hit_fact of[26]; /* by the capital letters of abi.h */
};

static inline union rut_hit_fact *rut_hit_fact(struct rut_hit_facts *f, char kind)
{
	return &f->of[kind - 'A'];
}

/* Reads the probes of the session's configuration. Returns 0 or -ENOMEM. */
int rut_agent_hits_init(struct rut_session *s);
void rut_agent_hits_fini(struct rut_session *s);
/* In the child of a fork: threads that are not in it had some of the room for texts. */
void rut_agent_hits_forked(struct rut_session *s);

/* Which probes the method of this row hits; once for each row. */
void rut_agent_hits_learn(struct rut_session *s, const struct rut_agent_row *row,
			  const char *class_name, bool singleton, const char *method);

/* Has any probe this event? */
bool rut_agent_hits_want(const struct rut_session *s, char event);

/* The probes of this event whose pattern is of this class; NULL: all of the event. */
uint64_t rut_agent_hits_of(const struct rut_session *s, char event, const char *class_name);
void rut_agent_hit_event(struct rut_session *s, uint64_t probes, const struct rut_hit_facts *f);

/*
 * A call begins; or ends, with a value. `ta` and `value` may be NULL: not known. In the hook, with
 * the GVL.
 */
void rut_agent_hit_call(struct rut_session *s, const struct rut_trace_arg *ta,
			const struct rut_variant *v);
void rut_agent_hit_return(struct rut_session *s, const struct rut_trace_arg *ta,
			  const struct rut_variant *v, uint64_t duration_ns, const VALUE *value);

#endif
