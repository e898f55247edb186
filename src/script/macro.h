/* SPDX-License-Identifier: MIT */
#ifndef RUT_SCRIPT_MACRO_H
#define RUT_SCRIPT_MACRO_H

#include "script/ast.h"

/* Replaces all calls of macros. 0 or -EINVAL, with a message. */
int rut_macro_expand(struct rut_ast *ast);

#endif
