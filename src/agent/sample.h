/* SPDX-License-Identifier: MIT */
/* Sampled allocations: see sample.c. */
#ifndef RUT_AGENT_SAMPLE_H
#define RUT_AGENT_SAMPLE_H

#include "core.h"

/* Sets the hook. With the GVL. Returns NULL or why not. */
const char *rut_agent_sample_hook(struct rut_session *s);
void rut_agent_sample_fini(struct rut_session *s);

#endif
