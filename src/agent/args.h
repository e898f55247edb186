/* SPDX-License-Identifier: MIT */
/* Values as text, without running Ruby code of the application. */
#ifndef RUT_AGENT_ARGS_H
#define RUT_AGENT_ARGS_H

#include "rb.h"

/* "a=1, b=\"x\"" of the call that begins; the length. */
size_t rut_agent_args_format(VALUE tp, struct rut_trace_arg *ta, char *buf, size_t size);
/* One value, likewise. */
size_t rut_agent_args_format_value(VALUE value, char *buf, size_t size);

#endif
