/* SPDX-License-Identifier: MIT */
/* What arguments of system calls point to, as it stands in their records: bpf/events.h. */
#ifndef RUT_SESSION_PARTS_H
#define RUT_SESSION_PARTS_H

#include <stdbool.h>

#include "session/events.h"

/* Fills the parts of `d`, with its arguments described, for the call of that name. */
void rut_parts_describe(struct rut_syscall_desc *d, const char *name);

/* Appends the fields of struct rut_sockaddr; the name of the port says which socket's it is. */
void rut_parts_add_sockaddr(struct rut_event *e, const char *port);

/* Appends the fields of a call's parts at entry or exit. */
void rut_parts_add_fields(struct rut_event *e, const struct rut_part parts[RUT_PARTS],
			  const char *call, bool exit);

#endif
