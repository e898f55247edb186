/* SPDX-License-Identifier: MIT */
/*
 * Events of programs and libraries: static probes (usdt:) and functions (uprobe:, uretprobe:). See
 * dynamic.h for how they are written.
 */
#ifndef RUT_SESSION_DYNAMIC_USER_H
#define RUT_SESSION_DYNAMIC_USER_H

#include <stdint.h>

struct rut_err;
struct rut_recorder;

/*
 * Adds an event for each probe that `spec` names. `id` is 0, or that of an event which the metadata
 * describes already and which is only attached again. Of a pattern, a probe that cannot be recorded
 * is named in a warning. Returns 0 or -errno; -ENOENT: nothing has that name.
 */
int rut_dynamic_add_usdt(struct rut_recorder *r, const char *spec, uint32_t id,
			 struct rut_err *err);
int rut_dynamic_add_uprobe(struct rut_recorder *r, const char *spec, uint32_t id,
			   struct rut_err *err);

#endif
