/* SPDX-License-Identifier: MIT */
/* Probes of programs: functions and static tracepoints. */
#ifndef RUT_SCRIPT_USER_H
#define RUT_SCRIPT_USER_H

#include "script/gen.h"

struct rut_resolve;

int rut_resolve_uprobe(struct rut_resolve *r);
int rut_resolve_usdt(struct rut_resolve *r);

/* Argument i of a function, or (below 0) its result. */
rut_vreg rut_gen_call_arg(struct rut_gen *g, int i);
const struct rut_type *rut_check_usdt_arg(struct rut_checker *c, struct rut_node *n, int i);
rut_vreg rut_gen_usdt_arg(struct rut_gen *g, struct rut_node *n, int i);
void rut_gen_usdt_float(struct rut_gen *g, struct rut_node *n, int i, struct rut_mem to);

#endif
