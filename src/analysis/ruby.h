/* SPDX-License-Identifier: MIT */
/*
 * What the state model makes of Ruby events (`record --ruby`): calls with their durations.
 *
 * Each process has a stream of its own. Its records follow each other in the order in which they
 * happened, and ruby:switch says which thread and fiber they are of. Calls and returns are matched
 * on a stack for each fiber: a return ends the innermost call of its method, and what stands above
 * that ended without a return (a `retry`, which Ruby reports as another call, or lost events).
 * Where the trace has sched_switch too, each call knows how much of its time it was on a CPU.
 */
#ifndef RUT_ANALYSIS_RUBY_H
#define RUT_ANALYSIS_RUBY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_state;
struct rut_thread;

struct rut_ruby_method {
	const char *name; /* "Order#total"; of a raise or an allocation the class; interned */
	const char *path; /* interned; "" when unknown */
	uint32_t line;
	uint32_t index; /* from 0, in order of first sight, over all processes */
	bool native;	/* written in C: path and line are its caller's */
	bool unnamed;	/* its name has not come yet: what is here is made of its number */
};

/* Of RUT_HOOK_RUBY_CALL: a call ended. */
struct rut_hook_ruby_call {
	int64_t begin_ns, end_ns;
	int64_t pid, tid;
	uint32_t fiber;
	struct rut_thread *thread; /* of the state model; NULL: not known to the kernel's events */
	const struct rut_ruby_method *method;
	int64_t self_ns;	     /* without callees, and without other fibers of its thread */
	int64_t cpu_ns, self_cpu_ns; /* on a CPU; -1: not in the trace */
	uint32_t depth;		     /* calls around it */
	bool outermost;		     /* of its method in this fiber: recursion counts once */
	bool running;		     /* it has not returned: see rut_an_ruby_running() */
};

/* Of RUT_HOOK_RUBY_BEGIN: a call begins. */
struct rut_hook_ruby_begin {
	int64_t ts_ns, pid, tid;
	uint32_t fiber, depth;
	struct rut_thread *thread;
	const struct rut_ruby_method *method;
};

enum rut_ruby_what {
	RUT_RUBY_RAISED,
	RUT_RUBY_RESCUED,
	RUT_RUBY_ALLOCATED,
	RUT_RUBY_GC_ENTER,
	RUT_RUBY_GC_EXIT,
	RUT_RUBY_GC_START,
	RUT_RUBY_GC_MARK_END,
	RUT_RUBY_GC_SWEEP_END,
	RUT_RUBY_GVL_WAIT,
	RUT_RUBY_GVL_HAVE,
	RUT_RUBY_GVL_RELEASE,
};

/* Of RUT_HOOK_RUBY_EVENT: everything else. */
struct rut_hook_ruby_event {
	enum rut_ruby_what what;
	int64_t ts_ns, pid, tid;
	struct rut_thread *thread;
	const struct rut_ruby_method *site;   /* class and place of what is raised or allocated */
	const struct rut_ruby_method *method; /* the innermost call; NULL: none is known */
	int64_t bytes;			      /* allocated */
	int64_t count, live_slots;	      /* GC_START, GC_SWEEP_END */
	uint8_t major, by;		      /* enumerations of agent/record.h */
};

/* Of RUT_HOOK_RUBY_FIBER: from now on the thread runs this fiber. */
struct rut_hook_ruby_fiber {
	int64_t ts_ns, pid, tid;
	uint32_t fiber;
	struct rut_thread *thread;
};

/* A string of an event: borrowed from the trace, not NUL-terminated. */
struct rut_ruby_text {
	const char *s;
	size_t len;
};

/* Of RUT_HOOK_RUBY_REQUEST: a request, a job or a task begins or ends. */
struct rut_hook_ruby_request {
	bool end;
	int64_t ts_ns, pid, tid;
	uint32_t fiber;
	struct rut_thread *thread;
	uint64_t id;
	const char *kind; /* "http", "job" ...; interned */
	int64_t status;	  /* 0: not known */
	struct rut_ruby_text verb, path, route, traceparent, request_id, error;
};

#define RUT_RUBY_NO_METHOD UINT32_MAX /* in the events */

/* Of RUT_HOOK_RUBY_SPAN: a method of a layer begins or ends. */
struct rut_hook_ruby_span {
	bool end;
	int64_t ts_ns, pid, tid;
	uint32_t fiber, depth; /* open spans of the fiber below it */
	struct rut_thread *thread;
	const char *layer;			  /* "sql"; interned */
	const struct rut_ruby_method *layer_name; /* of the layer; its name may come later */
	const struct rut_ruby_method *method;	  /* NULL: not known */
	const struct rut_ruby_method *caller;	  /* of the application; NULL: not known */
	struct rut_ruby_text detail, error;
};

/* Calls `fn` for every call that has not returned, innermost first, as if it ended at `now_ns`. */
void rut_an_ruby_running(struct rut_state *st, int64_t now_ns,
			 void (*fn)(void *arg, const struct rut_hook_ruby_call *call), void *arg);

/* The innermost call of the fiber that a thread runs; NULL: none is known. */
const struct rut_ruby_method *rut_an_ruby_innermost(const struct rut_state *st, int64_t tid);

/* Has the trace Ruby events of any kind? */
bool rut_an_ruby_seen(const struct rut_state *st);

#endif
