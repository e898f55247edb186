/* SPDX-License-Identifier: MIT */
#ifndef RUT_BASE_TSC_H
#define RUT_BASE_TSC_H

#include <stdbool.h>

/*
 * Is the processor's time stamp counter as good as a clock of the kernel? False also where /sys is
 * not mounted, in a chroot for example.
 */
bool rut_tsc_is_clock(void);

#endif
