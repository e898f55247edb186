/* SPDX-License-Identifier: MIT */
/* What every thread does at this moment. */
#ifndef RUT_AGENT_STACKS_H
#define RUT_AGENT_STACKS_H

#include "core.h"

/* One event per thread, with its frames, into the ring. May raise. */
void rut_agent_stacks_write(struct rut_session *s);

#endif
