/* SPDX-License-Identifier: MIT */
/* Calls by the line that calls: see callers.c. */
#ifndef RUT_AGENT_CALLERS_H
#define RUT_AGENT_CALLERS_H

#include "core.h"

/* Counts a call of this method in the row of the line that calls it. */
void rut_agent_callers_count(struct rut_session *s, const struct rut_variant *v);

#endif
