/* SPDX-License-Identifier: MIT */
/*
 * Stacks counted: each different one once, outermost function first, and how often it occurred. The
 * form that flame graphs are made of.
 */
#ifndef RUT_CLI_VIEW_FOLDED_H
#define RUT_CLI_VIEW_FOLDED_H

#include "analysis/callstack.h"
#include "base/hash.h"

struct rut_folded {
	struct rut_callstacks *stacks; /* borrowed */
	struct rut_strtab lines;
	uint64_t *counts; /* by line; owned */
	size_t n_counts;
};

void rut_cli_folded_fini(struct rut_folded *f);

/* Counts the stacks of this event, if it has any. Returns 0 or -ENOMEM. */
int rut_cli_folded_add(struct rut_folded *f, const struct rut_ctf_event *ev);

/* Appends "process;function;function COUNT" lines, the most frequent first. */
void rut_cli_folded_print(const struct rut_folded *f, struct rut_buf *out);

#endif
