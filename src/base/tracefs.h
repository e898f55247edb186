/* SPDX-License-Identifier: MIT */
#ifndef RUT_BASE_TRACEFS_H
#define RUT_BASE_TRACEFS_H

struct rut_err;

/* Mounts tracefs at /sys/kernel/tracing if it is not. Returns 0 or -ENOENT. */
int rut_tracefs_need(struct rut_err *err);

#endif
