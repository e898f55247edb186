/* SPDX-License-Identifier: MIT */
/* Exceptions by line and class: see raises.c. */
#ifndef RUT_AGENT_RAISES_H
#define RUT_AGENT_RAISES_H

#include "core.h"

void rut_agent_raises_on_raise(VALUE tp, void *session);

#endif
