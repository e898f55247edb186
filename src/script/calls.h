/* SPDX-License-Identifier: MIT */
/* Between the files of the functions. */
#ifndef RUT_SCRIPT_CALLS_H
#define RUT_SCRIPT_CALLS_H

#include "script/gen.h"

/* Sends the values from `first` on as the record of the call's action. */
void rut_gen_send(struct rut_gen *g, struct rut_node *n, struct rut_node *first);
enum rut_space rut_call_space(const struct rut_gen *g, const struct rut_type *t);

#endif
