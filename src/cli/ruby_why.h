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

#include "cli/near.h"

struct rut_buf;
struct rut_ruby_opts;
struct rut_targets;
struct rut_tracer;

struct rut_why {
	struct rut_near near;
	unsigned measured;  /* times */
	uint64_t calls, ns; /* of everything, in that time */
};

/*
 * Counts the calls of all methods of the targets, or of a command's processes (`child`, 0: none),
 * for a moment, and looks for names near to `name` (NULL: none); nothing when that was done often
 * enough, or cannot be done.
 */
void rut_cli_why_measure(struct rut_why *w, const struct rut_targets *t, pid_t child,
			 const char *name);

/* Looks for the names nearest to this one among those that the tracer knows. */
void rut_cli_why_look_for(struct rut_why *w, const char *name, struct rut_tracer *tracer);

/* Appends which names of methods that the tracer knows are near to this one, or nothing. */
void rut_cli_why_near(struct rut_tracer *tracer, const char *name, struct rut_buf *out);

/* The name that the options ask for: that of a method, else of a class; NULL: none. */
const char *rut_cli_why_name(const struct rut_ruby_opts *o, const char *inside);

/* Appends a line that says what was looked for, where, and what was seen outside of it. */
void rut_cli_why_say(const struct rut_why *w, const struct rut_targets *t,
		     const struct rut_ruby_opts *o, bool all, const struct rut_tracer *tracer,
		     struct rut_buf *out);

#endif
