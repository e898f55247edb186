/* SPDX-License-Identifier: MIT */
/*
 * The objects that live in the processes of a tracer of the mode RUT_RUBY_HEAP. A count is asked
 * for, made by each process while it runs on (in slices of some 2 ms), and read when it is
 * complete. Counts are independent of each other: growth is their difference.
 */
#ifndef RUT_RUBY_HEAP_H
#define RUT_RUBY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;
struct rut_tracer;

#define RUT_RUBY_HEAP_AGES 8

/*
 * Objects of one class that live in one process, made at one line. `path` is NULL for those that
 * were made before the tracer came (or without `origins`), "(native)" without a line of Ruby. The
 * class of what Ruby keeps for itself is in parentheses: "(imemo)".
 */
struct rut_ruby_heap_row {
	pid_t pid;
	const char *path, *class_name; /* live as long as the tracer */
	uint32_t line;
	uint64_t count, bytes; /* with what they hold outside of their slots */
	/*
	 * Those that have survived a collection since they were made; where that is not known,
	 * those that Ruby calls old.
	 */
	uint64_t old, old_bytes;
	uint64_t born;	      /* made since the tracer came */
	uint64_t generations; /* bit i: some were made i collections ago; the last: 63 or more */
	uint32_t oldest;      /* the most collections that one of them has seen */
	uint32_t ages[RUT_RUBY_HEAP_AGES]; /* made 0, 1, 2 to 3, 4 to 7 ... collections ago */
};

/* What was not complete in a count. */
enum {
	RUT_RUBY_HEAP_ORIGINS_LOST = 1, /* no room to note where some objects were made */
	RUT_RUBY_HEAP_NO_ORIGINS = 2,	/* a compaction or ractors: notes are void or stopped */
	RUT_RUBY_HEAP_RACTORS = 4,	/* a process runs several ractors: it has no rows */
};

/* Asks each process for a count. Returns how many were asked. */
size_t rut_tracer_heap_ask(struct rut_tracer *t);

/* How many of those have not answered yet; those that have ended are not waited for. */
size_t rut_tracer_heap_missing(const struct rut_tracer *t);

/*
 * The rows of all processes that have answered. *ret_rows is the caller's to free; *ret_flags is a
 * sum of RUT_RUBY_HEAP_*. Returns 0 or -errno with the reason.
 */
int rut_tracer_heap_rows(struct rut_tracer *t, struct rut_ruby_heap_row **ret_rows,
			 size_t *ret_count, unsigned *ret_flags, struct rut_err *err);

#endif
