/* SPDX-License-Identifier: MIT */
/* What the analyses of Ruby events share. */
#ifndef RUT_ANALYSIS_AN_RUBY_H
#define RUT_ANALYSIS_AN_RUBY_H

#include "analysis/engine.h"
#include "analysis/ruby.h"

/* Do the filters of threads, processes and names let this one through? `thread` may be NULL. */
bool rut_an_ruby_wanted(const struct rut_conf *conf, const struct rut_thread *thread, int64_t tid,
			int64_t pid);

/* "/srv/shop/app.rb:21"; "-" without a path. */
void rut_an_ruby_place(char *out, size_t size, const struct rut_ruby_method *m);

/*
 * Text reports: prints the range; and, when the trace has no Ruby events at all, that, and how to
 * get them. Returns whether there is something to print.
 */
bool rut_an_ruby_begin_text(const struct rut_instance *inst, int64_t end_ns);

/*
 * The name of a method or class as text reports show it: of one with more than RUT_RUBY_NAME_MAX
 * characters the middle is left out. Returns `name`, or `out`.
 */
#define RUT_RUBY_NAME_MAX  120
#define RUT_RUBY_NAME_SIZE (RUT_RUBY_NAME_MAX * 4 + 4)
const char *rut_an_ruby_name(char out[RUT_RUBY_NAME_SIZE], const char *name);

/* "1.23 s", "45.6 ms", "7.89 us". */
void rut_an_ruby_duration(char *out, size_t size, int64_t ns);

#endif
