/* SPDX-License-Identifier: MIT */
/*
 * Sites: from what a hook sees (the address of a class, a method's id, the place in the program) to
 * the row that counts it. The place is the address of an instruction, which is at hand, where Ruby
 * code runs; otherwise a path and a line, which Ruby has to look up. Entries hold for a time
 * (life.h).
 */
#ifndef RUT_AGENT_SITE_H
#define RUT_AGENT_SITE_H

#include "core.h"

/*
 * The site of class `klass`, method `mid` (0: an allocation) where the program is now; NULL when it
 * is not wanted. Its row is there. With `placed` false it is the same for all places. Allocates
 * nothing of Ruby's. With the GVL.
 */
const struct rut_agent_site *rut_site(struct rut_session *s, const struct rut_trace_arg *ta,
				      VALUE klass, ID mid, bool placed);
void rut_sites_fini(struct rut_session *s);

/* Does the filter want what is in this file? `iseq`: the code that runs there, when it is known. */
bool rut_site_wanted(struct rut_session *s, const char *path, VALUE iseq);

#endif
