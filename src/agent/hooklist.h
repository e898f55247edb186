/* SPDX-License-Identifier: MIT */
/* The lists in which Ruby keeps the hooks of a piece of code: see hooklist.c. */
#ifndef RUT_AGENT_HOOKLIST_H
#define RUT_AGENT_HOOKLIST_H

#include "core.h"

/* Can the hooks of some code be seen? If not, the next two must not be used. */
bool rut_agent_hooklist_known(void);
/* How many hooks of this session count this code (`method`: a method, else a block). */
unsigned rut_agent_hooklist_count(const struct rut_session *s, VALUE iseq, bool method);
/* The record of the hook of this session that counts this code, or NULL. */
struct rut_rec *rut_agent_hooklist_rec_on(struct rut_session *s, VALUE iseq, bool bmethod);
/* The record of a tracepoint of this session, or NULL. */
struct rut_rec *rut_agent_hooklist_rec(const struct rut_session *s, VALUE tp);
/* Has Ruby call the function of this hook of the code at once, where that is possible. */
void rut_agent_hooklist_make_direct(const struct rut_session *s, VALUE iseq, VALUE tp, int kind);
/* For what a tracepoint refers to: adds the code that it is enabled for to a rut_list. */
void rut_agent_hooklist_targets(VALUE obj, void *list);

#endif
