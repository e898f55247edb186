/* SPDX-License-Identifier: MIT */
/*
 * Why is there nothing to show? An empty table that says nothing looks like a program that does
 * nothing. So what was looked for is said, and what happens outside of it: for that everything is
 * counted for a moment, by a tracer of its own.
 */
#ifndef RUT_CLI_RUBY_WHY_H
#define RUT_CLI_RUBY_WHY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_buf;
struct rut_ruby_opts;
struct rut_targets;
struct rut_tracer;

struct rut_why {
	unsigned measured;  /* times */
	uint64_t calls, ns; /* of everything, in that time */
};

/*
 * Counts the calls of all methods of the targets, or of a command's processes (`child`, 0: none),
 * for a moment; nothing when that was done often enough, or cannot be done.
 */
void rut_why_measure(struct rut_why *w, const struct rut_targets *t, pid_t child);

/* Appends a line that says what was looked for, where, and what was seen outside of it. */
void rut_why_say(const struct rut_why *w, const struct rut_targets *t,
		 const struct rut_ruby_opts *o, bool all, const struct rut_tracer *tracer,
		 struct rut_buf *out);

#endif
