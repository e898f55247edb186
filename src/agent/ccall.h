/* SPDX-License-Identifier: MIT */
/* Calls of methods written in C: see ccall.c. */
#ifndef RUT_AGENT_CCALL_H
#define RUT_AGENT_CCALL_H

#include "core.h"

/* The hook of C_CALL and C_RETURN. */
void rut_agent_ccall_on_event(VALUE index, struct rut_trace_arg *ta);

#endif
