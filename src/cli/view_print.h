/* SPDX-License-Identifier: MIT */
/*
 * Printing the events of a set of traces, in one thread or several.
 *
 * With several, time is cut into slices; each thread prints slices into memory and the caller's
 * thread writes them in order. Only the first line of a slice depends on what came before (its
 * delta), so its time is put together by the writer.
 */
#ifndef RUT_CLI_VIEW_PRINT_H
#define RUT_CLI_VIEW_PRINT_H

#include <signal.h>

#include "analysis/callstack.h"
#include "ctf/text.h"
#include "expr/expr.h"

struct rut_view {
	struct rut_ctf_set *set;
	struct rut_ctf_reader_opts reader; /* the range */
	struct rut_ctf_text_opts text;
	const char *const *events;     /* globs; an event matches any of them */
	size_t n_events;	       /* 0: all */
	const struct rut_expr *filter; /* or NULL */
	bool count_only;
	struct rut_callstacks *stacks; /* NULL: not shown; borrowed */
	bool folded;		       /* print the stacks counted, and nothing else */
	unsigned int threads;	       /* at most; 0: as many as there are CPUs */
	/* With reader.follow: prints what comes until this is not 0. */
	const volatile sig_atomic_t *stop; /* borrowed */
	/*
	 * With reader.follow: lets the trace grow, and waits a while where nothing came. 1: it is
	 * complete; below 0: -errno. NULL: another process writes it.
	 */
	int (*feed)(void *arg, struct rut_err *err);
	void *feed_arg;
};

/*
 * Prints to standard output, and what was lost or bad by rut_log(). Sets *ret_bad when something
 * was bad. A closed pipe is no error. Returns 0 or -errno.
 */
int rut_cli_view_print(const struct rut_view *v, bool *ret_bad, struct rut_err *err);

#endif
