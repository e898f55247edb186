/* SPDX-License-Identifier: MIT */
/*
 * How a trace is written: foreman-tracer's lines, a tree, the slow calls, or JSON Lines. Events go
 * in, text comes out into a buffer; when it is written is up to the caller.
 *
 * Plain lines name a method as foreman-tracer does, "Class.method". Everything richer tells
 * "Class#method" of an object from "Class.method" of the class itself.
 */
#ifndef RUT_CLI_TRACE_PRINT_H
#define RUT_CLI_TRACE_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "ruby/tracer.h"

struct rut_trace_style {
	bool tree, time, returns, thread, args, slow, json, backtrace;
	bool inside; /* the tree begins at the method of --inside, however deep that is */
	int64_t clock_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

/* A call with its line held back: when its return comes next, both make one line. */
struct rut_trace_pending {
	bool valid;
	pid_t pid, tid;
	uint32_t fiber, depth;
	struct rut_buf name; /* with the arguments */
};

struct rut_trace_print {
	struct rut_trace_style style;
	struct rut_buf out; /* what is to be written */
	struct rut_trace_pending pending;
	pid_t last_pid, last_tid; /* of the tree's last line */
	uint32_t last_fiber;
	bool any;
	struct rut_map bases; /* fiber -> depth + 1 at which its tree begins */
	time_t second;	      /* that `clock` shows */
	char clock[16];
	uint64_t events, lost;
};

void rut_cli_trace_print_init(struct rut_trace_print *tp, const struct rut_trace_style *style);
void rut_cli_trace_print_fini(struct rut_trace_print *tp);

/* A rut_ruby_event_fn; `arg` is the struct rut_trace_print. */
void rut_cli_trace_print_event(const struct rut_ruby_event *ev, void *arg);

/* Writes what is held back. Call it before the buffer is written when no event is waiting. */
void rut_cli_trace_print_flush(struct rut_trace_print *tp);

/* In a tree, below the call before: so many calls more, which are not shown. Nothing in JSON. */
void rut_cli_trace_print_left_out(struct rut_trace_print *tp, uint32_t depth, uint64_t calls);

/* "Tracing started at Sat Nov 21 20:40:42 2026", and ended; nothing in JSON. */
void rut_cli_trace_print_started(struct rut_trace_print *tp, time_t when);
void rut_cli_trace_print_ended(struct rut_trace_print *tp, time_t when);

#endif
