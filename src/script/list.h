/* SPDX-License-Identifier: MIT */
/* Lists probes. */
#ifndef RUT_SCRIPT_LIST_H
#define RUT_SCRIPT_LIST_H

#include <stdbool.h>

struct rut_buf;
struct rut_err;

/*
 * Appends the names of the probes that match, as "tracepoint:sched:*" or "uprobe:/bin/bash:read*";
 * NULL: all but those of programs. `args`: with their arguments. 0 or -errno; -ENOENT: there is no
 * such kind.
 */
int rut_script_list(const char *pattern, bool args, struct rut_buf *out, struct rut_err *err);

#endif
