/* SPDX-License-Identifier: MIT */
/* One method of the live tables, looked into for a moment: its callers, and the calls below it. */
#ifndef RUT_CLI_RUBY_METHOD_H
#define RUT_CLI_RUBY_METHOD_H

#include "base/buf.h"
#include "cli/ruby_live.h"

enum rut_method_look {
	RUT_METHOD_TREE,    /* its callers, and a folded tree of what it calls */
	RUT_METHOD_LINES,   /* its calls as they happen, with their arguments */
	RUT_METHOD_EXPLAIN, /* why its slowest call is slow; takes three seconds and more */
};

/*
 * Traces the method of this row (which has one) for a second, beside what `l` counts, and appends
 * what is to be shown. Returns 0 or -errno with the reason.
 */
int rut_cli_ruby_method(const struct rut_live *l, const struct rut_ruby_row *row,
			enum rut_method_look look, size_t width, struct rut_buf *out,
			struct rut_err *err);

#endif
