/* SPDX-License-Identifier: MIT */
/*
 * What differs from one Ruby to the next: one row for each version that can be traced.
 *
 * The agent, the readers of other processes' memory and the code that fills the eBPF programs' maps
 * use this table and compare no versions themselves. A new Ruby is a new row (docs/adding.md). A
 * Ruby without a row is refused; one that has not been released is refused unless the user asks for
 * it (--try-newer). Depends on nothing, so that it can be linked into the agent.
 *
 * What is the same in all of them is not here: an execution context begins with the VM stack, its
 * size in words and the innermost control frame; a control frame with pc, sp, iseq, self, ep; the
 * body of an instruction sequence is its third word and has the location at byte 64.
 */
#ifndef RUT_RUBY_ABI_H
#define RUT_RUBY_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUT_RUBY_ABI_HIDDEN __attribute__((visibility("hidden")))

struct rut_ruby_abi {
	int version; /* major * 100 + minor: 301 for 3.1 */
	/* Not released: its layouts may change any day. Refused unless asked for. */
	bool unreleased;

	/* ---- layouts that the agent uses ---- */

	/* Words of rb_control_frame_t (vm_core.h); 0: not known. */
	uint8_t frame_words;
	/* The agent finds the line of Ruby code under a C frame itself; otherwise it asks Ruby. */
	bool walks_frames;
	/* The length of an embedded array, above its lowest bit: two bits until 3.1, seven since.
	 */
	uint8_t array_embed_mask;
	/*
	 * Words of a Hash: of its st_table or, if that is inside, where it begins (0: not known);
	 * of its default.
	 */
	uint8_t hash_table, hash_ifnone;
	bool hash_table_inside;
	/* RUBY_FL_PROMOTED: two bits that count to three until 3.2, one since. */
	uint8_t promoted_mask;
	/* T_DATA: the type follows flags and class; since 4.0 instance variables come first. */
	bool data_type_first;
	/* Code refers to the list of its hooks; since 4.0 they are in a table of the ractor. */
	bool hooks_in_code;
	/* Objects have slots of several sizes (variable width allocation). */
	bool slot_sizes;

	/* ---- layouts that are read from outside of the process (src/ruby/find_vm.c) ---- */

	/* Offset of insns_info in rb_iseq_constant_body; 0: stacks cannot be read from outside. */
	uint8_t insns_info;
	/* first_lineno of a location is a VALUE until 3.1, an int since 3.2. */
	bool line_is_value;
	/* Size of struct iseq_insn_info_entry: since 3.1 it has a node_id. */
	uint8_t insn_info_bytes;
	/* Strings have their length in a word of its own (variable width allocation). */
	bool string_len_word;
	/* Classes have their path in a word; before 3.2 it is an instance variable. */
	bool class_path_word;
	/* The context is a thread-local variable (ractors); before 3.0 it is found through the
	 * rb_thread_t in pthread_getspecific(). */
	bool ec_is_tls;
	/* Offsets in rb_thread_t of the context and of the pthread_t; 0: not needed. */
	uint8_t thread_ec, thread_pthread;
	/* FL_SINGLETON: FL_USER0 until 3.3, FL_USER1 since. */
	uint32_t singleton_flag;

	/* ---- features ---- */

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
	/* How the sum of all GCs' time is kept (agent/rb.c): since 3.3 marking and sweeping. */
	enum { RUT_GC_TIME_UNKNOWN, RUT_GC_TIME_ONE, RUT_GC_TIME_SPLIT } gc_time;
	/* Labels of frames have the class of the method, feature 19117. */
	bool names_have_classes;
	/* $0 is set when there is room for postponed jobs. */
	bool argv0_when_ready;

	/* ---- defects that the agent works around ---- */

	/* A global hook checks code that an exception left half made, and crashes. */
	bool trips_over_half_made;
	/* No script_compiled event for the program's own file. */
	bool main_is_silent;
	/* Hooks that are removed stay in the list of their code; 1: with one ractor only. */
	uint8_t keeps_hooks;
	/*
	 * An event runs the hooks of all code, and then those of a list that was read before: the
	 * code's own. If that list is freed in between, Ruby crashes (bug 18730).
	 */
	bool reads_hooks_early;
	/* Of such a list, until 3.1: how many run it, and whether it has some to free. Offsets. */
	uint8_t hooks_running, hooks_unclean;
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
	/* Waking the helper thread can disturb Ruby's own sleepers (4.0.0 only), see agent/gvl.h.
	 */
	const char *wakes_disturb_in; /* the full version; NULL: none */
};

#define RUT_KEEPS_HOOKS_SINGLE 1
#define RUT_KEEPS_HOOKS	       2

/* The number of a version like "3.1.2" (301), or 0. */
int rut_ruby_abi_number(const char *version) RUT_RUBY_ABI_HIDDEN;

/* The row of this number (301); NULL: there is none. */
const struct rut_ruby_abi *rut_ruby_abi_get(int number) RUT_RUBY_ABI_HIDDEN;

/* The first and the last that have been released. */
const struct rut_ruby_abi *rut_ruby_abi_oldest(void) RUT_RUBY_ABI_HIDDEN;
const struct rut_ruby_abi *rut_ruby_abi_newest(void) RUT_RUBY_ABI_HIDDEN;

#endif
