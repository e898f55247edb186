/* SPDX-License-Identifier: MIT */
/*
 * The stacks that events refer to by number, with names: rutile_stack events hold the addresses
 * (and the kernel functions' names, which only the machine itself knows), rutile_mapping events say
 * which file lay at a user address, and that file's symbols give the function. A file that is not
 * there, or is not the one that ran (its build-id differs), leaves the address and its place in the
 * file.
 *
 * May be asked by several threads.
 */
#ifndef RUT_ANALYSIS_CALLSTACK_H
#define RUT_ANALYSIS_CALLSTACK_H

#include <stdbool.h>

#include "base/buf.h"
#include "ctf/reader.h"

struct rut_callstacks;

enum rut_callstack_kind {
	RUT_CALLSTACK_USER,
	RUT_CALLSTACK_KERNEL,
	RUT_CALLSTACK_RUBY,
	RUT_CALLSTACK_KINDS
};

/* One frame of a Ruby stack. */
struct rut_ruby_frame {
	const char *path;   /* "": a C method, or not known */
	const char *method; /* "Order#total", "block in Order#total", "Integer.sqrt" */
	uint32_t line;	    /* 0: not known */
	bool is_c;
	bool begun; /* C code called it: the interpreter's loop was entered */
};

/* What Ruby knows of a frame's code; no text is ended. */
struct rut_ruby_label {
	const char *label; /* "total", "block in total" */
	size_t label_len;
	const char *class_name; /* "": of no class */
	size_t class_len;
	bool singleton; /* a method of the class itself */
};

/* Appends its name: "block in Order#total", "Integer.sqrt". */
void rut_an_ruby_frame_name(struct rut_buf *out, struct rut_ruby_label l);

/*
 * Reads all stacks and mappings of the set, in a pass of its own. `roots` are directories below
 * which files are looked for first, separated by colons ("": only where they were). 0 or -errno.
 */
int rut_an_callstacks_load(struct rut_callstacks **ret, struct rut_ctf_set *set, const char *roots,
			   struct rut_err *err);
void rut_an_callstacks_free(struct rut_callstacks *s);

/*
 * Before stacks are asked for: takes the symbols that `from` has read of files which both have, by
 * path and build-id. To read those of one file takes milliseconds.
 */
void rut_an_callstacks_inherit(struct rut_callstacks *s, struct rut_callstacks *from);

/*
 * Calls fn with each frame, innermost first: "function+0x1f (libc.so.6)". `address` is as it is in
 * the trace, with its marks (bpf/unwind.h). Returns the number of
 * frames, 0 when the event has no stack of that kind; "(stack lost)" is the one frame of a stack
 * that is not in the trace.
 */
size_t rut_an_callstacks_each(struct rut_callstacks *s, const struct rut_ctf_event *ev,
			      enum rut_callstack_kind kind,
			      void (*fn)(const char *frame, uint64_t address, void *arg),
			      void *arg);

/* The same for the Ruby stack, as fields; `frame` is borrowed for the call. */
size_t rut_an_callstacks_ruby(struct rut_callstacks *s, const struct rut_ctf_event *ev,
			      void (*fn)(const struct rut_ruby_frame *frame, void *arg), void *arg);

/* A frame of either: one of them is not NULL. */
struct rut_stack_frame {
	const struct rut_ruby_frame *ruby;
	const char *native;
};

/*
 * Ruby and native frames in their true order, innermost first. The interpreter's own functions are
 * left out, and so is what is outside of all Ruby frames. 1: the order is not known, the native
 * frames are those inside of the innermost Ruby frame. 0; -ENOMEM.
 */
int rut_an_callstacks_merged(struct rut_callstacks *s, const struct rut_ctf_event *ev,
			     void (*fn)(const struct rut_stack_frame *frame, void *arg), void *arg);

#endif
