/* SPDX-License-Identifier: MIT */
#ifndef RUT_SCRIPT_PRELUDE_H
#define RUT_SCRIPT_PRELUDE_H

#include "script/ast.h"

struct rut_parser;

/* Notes that the call, which was parsed, is one of a function that is written in the language. */
void rut_prelude_call(struct rut_ast *ast, struct rut_node *call);
/* Parses those that were noted, and are not the script's own. 0, -EINVAL or -ENOMEM. */
int rut_prelude_add(struct rut_parser *p);
void rut_prelude_nearest(struct rut_nearest *near);

#endif
