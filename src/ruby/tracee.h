/* SPDX-License-Identifier: MIT */
/* One process and the session in it. */
#ifndef RUT_RUBY_TRACEE_H
#define RUT_RUBY_TRACEE_H

#include "ruby/internal.h"

int rut_tracee_open(struct rut_tracee **ret, struct rut_tracer *t, pid_t pid, bool inject,
		    struct rut_err *err);
void rut_tracee_detach(struct rut_tracee *p, bool wait);
void rut_tracee_free(struct rut_tracee *p);
/* It has exited. */
bool rut_tracee_is_gone(const struct rut_tracee *p);
/* It exited, or executed another program. */
bool rut_tracee_ended(struct rut_tracee *p);
/* Continues the start of the session if the process has answered. */
void rut_tracee_go_on(struct rut_tracer *t, struct rut_tracee *p);
/* No hook is still to be set. */
bool rut_tracee_settled(struct rut_tracee *p);
/* Wakes the agent to read its requests. */
void rut_tracee_wake(const struct rut_tracee *p);
/* Whether this process has an agent with a session of this number without a tracer. */
bool rut_tracee_has_session(pid_t pid, uint64_t session_id);

/* Takes the tracee. Returns 0 or -ENOMEM. */
int rut_tracee_add(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err);
/* Takes it out of the tracer's list and frees it. */
void rut_tracee_remove(struct rut_tracer *t, struct rut_tracee *p);
/* Reports the start, once, or the exit of a process. */
void rut_tracee_announce(struct rut_tracer *t, struct rut_tracee *p, enum rut_ruby_event_type type);

#endif
