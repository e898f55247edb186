/* SPDX-License-Identifier: MIT */
/*
 * What differs from one Ruby to the next: one row for each version that can be traced.
 *
 * A new Ruby is a new row. Nothing else in the agent compares versions: it asks for what a row
 * says. The tracer, which refuses a Ruby without a row, reads the same table.
 */
#ifndef RUT_AGENT_RUBY_ABI_H
#define RUT_AGENT_RUBY_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rut_abi {
	int version; /* 301 for 3.1 */

	/* ---- layouts ---- */

	/* Words of rb_control_frame_t (vm_core.h); 0: not looked at, C code asks Ruby for its line.
	 */
	uint8_t frame_words;
	/* The length of an embedded array, above its lowest bit: two bits until 3.1, seven since.
	 */
	uint8_t array_embed_mask;
	/* RUBY_FL_PROMOTED: two bits that count to three until 3.2, one since. */
	uint8_t promoted_mask;
	/* T_DATA: the type follows flags and class; since 4.0 instance variables come first. */
	bool data_type_first;
	/* Code refers to the list of its hooks; since 4.0 they are in a table of the ractor. */
	bool hooks_in_code;
	/* Objects have slots of several sizes (variable width allocation). */
	bool slot_sizes;

	/* ---- what there is ---- */

	/* TracePoint#enable(target:), feature 15289. */
	bool target_hooks;
	/* The instruction definemethod has the code of the method; before it was a call's argument.
	 */
	bool has_definemethod;
	/* TracePoint#parameters, feature 14694. */
	bool has_parameters;
	bool has_ractors;
	/* Threads of ractors move between native threads; with RUBY_MN_THREADS=1 all do. */
	bool threads_move;
	/* TracePoint :rescue, feature 19572. */
	bool has_rescue_event;
	bool gvl_event_has_thread; /* rb_internal_thread_event_data_t */
	/* Where the time that GCs have taken is, is known (rb.c). */
	bool gc_time_known;
	/* Labels of frames have the class of the method, feature 19117. */
	bool names_have_classes;
	/* $0 is set when there is room for postponed jobs. */
	bool argv0_when_ready;

	/* ---- what goes wrong ---- */

	/* A global hook looks at code that an exception left half made, and crashes. */
	bool trips_over_half_made;
	/* The program's own file does not announce itself when it is compiled. */
	bool main_is_silent;
	/* Hooks that are taken away stay in the list of their code; 1: with one ractor only. */
	uint8_t keeps_hooks;
	/* What belongs to a tracepoint is never freed (bug 18264). */
	bool keeps_tracepoints;
	/* Enabling a tracepoint switches the other events of its code off. */
	bool events_must_agree;
	/* The copy of code that is made to look for code inside it is not freed. */
	bool keeps_code_copies;
	/* A ractor that begins while there is a hook on allocations crashes the process. */
	bool ractors_crash;
	/* A thread that is not Ruby's must not register a job (bug 17573). */
	bool jobs_on_ruby_threads;
	/* Calls of all methods are reported to the ractor's own hooks. */
	bool hooks_by_ractor;
};

#define RUT_KEEPS_HOOKS_SINGLE 1
#define RUT_KEEPS_HOOKS	       2

/* The row of this version; NULL: there is none. */
const struct rut_abi *rut_abi_of(int version) __attribute__((visibility("hidden")));
const struct rut_abi *rut_abi_oldest(void) __attribute__((visibility("hidden")));
const struct rut_abi *rut_abi_newest(void) __attribute__((visibility("hidden")));

#endif
