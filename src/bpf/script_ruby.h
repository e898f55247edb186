/* SPDX-License-Identifier: MIT */
/*
 * What scripts ask of the Ruby frames of the current thread: functions that are linked into their
 * programs (script/ruby.h), shared with user space.
 */
#ifndef RUT_BPF_SCRIPT_RUBY_H
#define RUT_BPF_SCRIPT_RUBY_H

#include <linux/types.h>

#include "bpf/ruby.h"

/* The argument of rut_script_here(). */
enum rut_script_here {
	RUT_HERE_METHOD,  /* the frame word of the innermost Ruby method, without a line */
	RUT_HERE_LINE,	  /* the frame word of the innermost Ruby code */
	RUT_HERE_THREAD,  /* the address of the Thread object */
	RUT_HERE_REQUEST, /* the number of the name of the fiber's request */
};

/* The methods of in("Order#total"), by number. Text is padded with zeros. */
#define RUT_SCRIPT_METHODS 63

struct rut_script_method {
	__u32 used;
	__u16 any_class; /* only the name was given */
	__u16 singleton;
	char label[RUT_CODE_LABEL];
	char class_name[RUT_CODE_CLASS];
};

/*
 * Requests under way, which the agent reports (agent/hit.h), by the execution context of the fiber;
 * and their names, by the hash of the text.
 */
#define RUT_SCRIPT_REQUESTS	 16384
#define RUT_SCRIPT_REQUEST_NAMES 8192
#define RUT_SCRIPT_REQUEST_NAME	 256 /* bytes; RUT_HIT_TEXT_BYTES */
#define RUT_SCRIPT_REQUEST_OTHER 1   /* there was no room for more names */

struct rut_script_fiber {
	__u64 generation; /* of the process */
	__u64 ec;
};

struct rut_script_request {
	__u64 vm_stack; /* of the context: another one is another fiber's */
	__u64 name;
};

/* Threads that an agent follows, or whose stack was read: by thread. */
#define RUT_SCRIPT_THREADS 16384

struct rut_script_thread {
	__u32 slot; /* RUT_WITHIN_NO_SLOT: the stack is read; 0: `bits` are right */
	__u32 pad;
	__u64 known; /* the methods of which this holds; another process may have others */
	__u64 bits;
};

#define RUT_SCRIPT_ASKED 4096

/* Processes that user space has not inspected: in the map `asked`, by process. */
enum rut_script_asked {
	RUT_ASKED_NEW = 1,
	RUT_ASKED_SEEN, /* user space knows of it, and looks again some times */
};

#endif
