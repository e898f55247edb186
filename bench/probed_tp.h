/* SPDX-License-Identifier: MIT */
/* LTTng-UST's tracepoint for probed.c. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER rutile_bench
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./probed_tp.h"
#if !defined(PROBED_TP_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define PROBED_TP_H
#include <lttng/tracepoint.h>
TRACEPOINT_EVENT(rutile_bench, probed, TP_ARGS(long, a, long, b),
		 TP_FIELDS(ctf_integer(long, a, a) ctf_integer(long, b, b)))
#endif
#include <lttng/tracepoint-event.h>
