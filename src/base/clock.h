/* SPDX-License-Identifier: MIT */
/* Records carry CLOCK_MONOTONIC; people ask for the time of day. */
#ifndef RUT_BASE_CLOCK_H
#define RUT_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_REALTIME - CLOCK_MONOTONIC now, measured as closely as the clocks allow. */
int64_t rut_clock_offset_ns(void);

#endif
