/* SPDX-License-Identifier: MIT */
/* Another copy of the agent in this process. */
#ifndef RUT_AGENT_TWIN_H
#define RUT_AGENT_TWIN_H

#include "abi.h"

/* The control page of the copy that came first; NULL: this one is the first. Allocates nothing. */
struct rut_agent_ctl *rut_agent_twin_find(void);

#endif
