/* SPDX-License-Identifier: MIT */
/*
 * What holds the memory of a process: a count (heap.h) of a tracer with `graph`, which also reports
 * references. One process at a time, so that the graph of one is in memory. The process is paused
 * for a slice at a time, as for any count, and only the analysis of it needs memory, here.
 */
#ifndef RUT_RUBY_HEAP_GRAPH_H
#define RUT_RUBY_HEAP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_err;
struct rut_heap_graph;
struct rut_tracee;
struct rut_tracer;

/* The processes that can be asked now, in no order: the i-th; 0: there are fewer. */
pid_t rut_tracer_graph_process(const struct rut_tracer *t, size_t i);

/* Asks a process. Returns 0 or -ESRCH. */
int rut_tracer_graph_ask(struct rut_tracer *t, pid_t pid);

/*
 * Takes what has been written by now; to be called every few milliseconds. 1: it is complete (and
 * resolved), 0: not yet, or -errno with the reason.
 */
int rut_tracer_graph_take(struct rut_tracer *t, pid_t pid, struct rut_heap_graph *g,
			  struct rut_err *err);

/* References of one object were left out: there were more than half a million. */
#define RUT_RUBY_GRAPH_LOST 0x100u
/* What was not complete: this and RUT_RUBY_HEAP_*. */
unsigned rut_tracer_graph_flags(const struct rut_tracer *t, pid_t pid);

/* By what does `holder` refer to `object`? Both are addresses. */
struct rut_graph_ref {
	uint64_t holder, object;
	const char
		*name; /* an instance variable or constant, or NULL; lives as long as the tracer */
};

#define RUT_GRAPH_REFS_MAX 1024u

/*
 * Asks for the names of references, at most RUT_GRAPH_REFS_MAX, which are sorted; then whether the
 * answer is there (1), which fills in the names. 0: not yet, -ESRCH: it has ended.
 */
int rut_tracer_graph_ask_names(struct rut_tracer *t, pid_t pid, struct rut_graph_ref *refs,
			       size_t count);
int rut_tracer_graph_names(struct rut_tracer *t, pid_t pid, struct rut_graph_ref *refs,
			   size_t count);

/* What a row or a text of a process is, by its number; false: there is none. */
struct rut_graph_what {
	const char *class_name, *path; /* live as long as the tracer; may be NULL */
	uint32_t line;
};
size_t rut_tracer_graph_rows(const struct rut_tracer *t, pid_t pid);
bool rut_tracer_graph_row(struct rut_tracer *t, pid_t pid, uint32_t number,
			  struct rut_graph_what *ret);
const char *rut_tracer_graph_text(struct rut_tracer *t, pid_t pid, uint32_t offset);

#endif
