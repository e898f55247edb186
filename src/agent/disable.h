/* SPDX-License-Identifier: MIT */
/* Disabling a tracepoint, so that the code that it was enabled for is as it was before. */
#ifndef RUT_AGENT_DISABLE_H
#define RUT_AGENT_DISABLE_H

#include "core.h"

/*
 * Disables a tracepoint of ours, of any kind. Returns the code that it was enabled for, if the
 * caller wants it and there is one; else 0. With the GVL; does not raise.
 */
VALUE rut_agent_disable(VALUE tp, bool wants_code);

#endif
