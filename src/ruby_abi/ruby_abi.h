/* SPDX-License-Identifier: MIT */
/*
 * The layouts of Ruby's structures: one row per version. Needs neither Ruby's headers nor anything
 * else, so that the agent, the readers of other processes' memory and the eBPF side use the same
 * table. A Ruby without a row is not read.
 *
 * What is the same in all of them is not here: an execution context begins with the VM stack, its
 * size in words and the innermost control frame; a control frame with pc, sp, iseq, self, ep; the
 * body of an instruction sequence is its third word and has the location at byte 64.
 */
#ifndef RUT_RUBY_ABI_H
#define RUT_RUBY_ABI_H

#include <stdbool.h>
#include <stdint.h>

struct rut_ruby_abi {
	unsigned int version;	  /* major * 100 + minor */
	unsigned int frame_words; /* rb_control_frame_t */
	/* Offset of insns_info in rb_iseq_constant_body: first_lineno was a VALUE until 3.1. */
	unsigned int insns_info;
	bool line_is_value;
	unsigned int insn_info_bytes; /* since 3.1 entries have a node_id */
	/* Since 3.2 (variable width allocation) strings have their length in a word of its own. */
	bool string_len_word;
	/* Since 3.2 classes have their path in a word; before it is an instance variable. */
	bool class_path_word;
	/* Since 3.0 (ractors) the context is a thread-local variable; before, it is found through
	 * the rb_thread_t in pthread_getspecific(). */
	bool ec_is_tls;
	unsigned int thread_ec;	     /* offset in rb_thread_t; 0: not needed */
	unsigned int thread_pthread; /* ... of the pthread_t */
	uint32_t singleton_flag;     /* FL_SINGLETON */
};

/* The row of a version like "3.1.2", or NULL: its layouts are not known. */
const struct rut_ruby_abi *rut_ruby_abi_find(const char *version);

#endif
