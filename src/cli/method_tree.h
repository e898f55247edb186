/* SPDX-License-Identifier: MIT */
/*
 * The calls below one method, folded: equal calls of one caller are one node with their count and
 * times. Fed with the events of a tracer of the mode RUT_RUBY_TRACE with `inside` and `returns`.
 */
#ifndef RUT_CLI_METHOD_TREE_H
#define RUT_CLI_METHOD_TREE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "ruby/tracer.h"

#define RUT_METHOD_TREE_NODES 2000
#define RUT_METHOD_TREE_DEPTH 64

struct rut_method_node {
	int name; /* in `names` */
	uint32_t line;
	uint32_t first_child, next; /* 0: none */
	uint64_t calls, total_ns, max_ns, children_ns;
};

struct rut_method_tree {
	struct rut_strtab names;
	struct rut_map fibers;	       /* -> struct open_calls, owned */
	struct rut_method_node *nodes; /* owned; the first one is above all */
	uint32_t count;
	uint64_t left_out, lost; /* calls that found no room; events */
};

/* Returns 0 or -ENOMEM; rut_cli_method_tree_fini() in either case. */
int rut_cli_method_tree_init(struct rut_method_tree *t);
void rut_cli_method_tree_fini(struct rut_method_tree *t);

/* A rut_ruby_event_fn; `arg` is the tree. */
void rut_cli_method_tree_event(const struct rut_ruby_event *ev, void *arg);

/* The tree as a table, `width` columns wide; the most costly of equal depth first. */
void rut_cli_method_tree_print(const struct rut_method_tree *t, size_t width, struct rut_buf *out);

#endif
