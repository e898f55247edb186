/* SPDX-License-Identifier: MIT */
/* Following trees of processes: see tree.c. */
#ifndef RUT_RUBY_TREE_H
#define RUT_RUBY_TREE_H

#include "ruby/internal.h"

/* Notices exits, adopts new processes. */
void rut_tree_follow(struct rut_tracer *t);
void rut_tree_adopt_spawned(struct rut_tracer *t);
/* Whether the command that was started has ended. It is not reaped. */
bool rut_tree_command_ended(pid_t pid);

#endif
