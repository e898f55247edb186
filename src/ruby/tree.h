/* SPDX-License-Identifier: MIT */
/* Following trees of processes: see tree.c. */
#ifndef RUT_RUBY_TREE_H
#define RUT_RUBY_TREE_H

#include "ruby/internal.h"

/* Notices exits, adopts new processes. */
void rut_tree_follow(struct rut_tracer *t);
void rut_tree_adopt_spawned(struct rut_tracer *t);
/* Has the command that was started ended? It is left to whoever waits for it. */
bool rut_tree_command_ended(pid_t pid);

#endif
