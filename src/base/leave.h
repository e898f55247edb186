/* SPDX-License-Identifier: MIT */
/*
 * Leaves descriptors to a process that does nothing but close them. To detach a program from a
 * tracepoint takes the kernel 70 ms, one after the other, whatever closes it.
 */
#ifndef RUT_BASE_LEAVE_H
#define RUT_BASE_LEAVE_H

#include <stddef.h>

/* With fewer descriptors than this it is not worth a process. */
#define RUT_LEAVE_MIN 4

/*
 * Forks a process (`rutile:detach`) that holds nothing of this one but the descriptors, which it
 * sorts, and `last`, if that is not -1: this one it closes when all others are closed. The caller
 * still has all of them open. Does nothing when there can be no process.
 */
void rut_leave_behind(int *fds, size_t n, int last);

#endif
