/* SPDX-License-Identifier: MIT */
/*
 * Native stacks of code without frame pointers: shared by the programs and user space.
 *
 * Distributions build their libraries without frame pointers, but each has tables (.eh_frame) that
 * say for every instruction where the caller's frame is. They are programs of DWARF, too dear for
 * an event; user space runs them once for each file (probe/unwind.h), and what comes out is a
 * sorted list of rows: from this address on, the frame of the caller is so many bytes above the
 * stack pointer, or above %rbp, and %rbp was saved there. The program in the kernel begins with the
 * registers of the thread at its entry into the kernel, and takes one row and one read of the stack
 * for each frame.
 *
 * A row is found by the range of the address space that the code is mapped in, then by the address
 * in the file. What was found is cached by address.
 */
#ifndef RUT_BPF_UNWIND_H
#define RUT_BPF_UNWIND_H

#include <linux/types.h>

/* How the caller's frame (CFA) is found. Its return address is below the CFA. */
enum rut_unwind_kind {
	RUT_UNWIND_NONE,    /* nothing is known of this code */
	RUT_UNWIND_END,	    /* the outermost function has no caller */
	RUT_UNWIND_SP,	    /* CFA: the stack pointer and `cfa` words */
	RUT_UNWIND_BP,	    /* ... %rbp and `cfa` words */
	RUT_UNWIND_BP_WORD, /* ... what lies `cfa` words below %rbp: a stack that was aligned */
	RUT_UNWIND_SP_WORD, /* ... a word behind what lies `cfa` words above the stack pointer */
	RUT_UNWIND_PLT,	    /* ... of an entry of the PLT of 16 bytes */
	RUT_UNWIND_SIGNAL,  /* the registers are those that the kernel saved */
};

/*
 * A rule: 3 bits of the kind, 16 of `cfa`, 13 of `bp`: %rbp was saved so many words below the CFA
 * (0: it is unchanged). Of RUT_UNWIND_BP_WORD it lies where %rbp points.
 */
#define RUT_UNWIND_CFA_MAX	       0xffffu
#define RUT_UNWIND_BP_MAX	       0x1fffu
#define RUT_UNWIND_RULE(kind, cfa, bp) ((__u32)(kind) | (__u32)(cfa) << 3 | (__u32)(bp) << 19)
#define RUT_UNWIND_KIND(rule)	       ((rule)&7)
#define RUT_UNWIND_CFA(rule)	       ((rule) >> 3 & RUT_UNWIND_CFA_MAX)
#define RUT_UNWIND_BP_AT(rule)	       ((rule) >> 19)

struct rut_unwind_row {
	__u32 pc; /* as the file has its addresses */
	__u32 rule;
};

#define RUT_UNWIND_PAGE	 4096 /* rows */
#define RUT_UNWIND_PAGES 512  /* the last ones have no rows: session/unwind_table.h */
#define RUT_UNWIND_BITS	 20   /* of the number of a file's rows */

struct rut_unwind_page {
	struct rut_unwind_row row[RUT_UNWIND_PAGE];
};

/* Code that a process has mapped. */
struct rut_unwind_range {
	__u64 start, end;
	__u64 bias;	    /* what the file's addresses are moved by */
	__u32 first, count; /* rows */
};

#define RUT_UNWIND_RANGE_BITS  10 /* of the number of a process's ranges */
#define RUT_UNWIND_RANGES      (1u << RUT_UNWIND_RANGE_BITS)
#define RUT_UNWIND_RANGE_PAGES 128

struct rut_unwind_ranges {
	struct rut_unwind_range range[RUT_UNWIND_RANGES];
};

/*
 * A process. Its ranges are never changed while it has them, but replaced by others. What is forked
 * from it has the same. The interpreter's loop: docs/ruby-stacks.md.
 */
struct rut_unwind_proc {
	__u64 space;		    /* a number that no other ranges ever had */
	__u32 first, count;	    /* ranges, by address */
	__u64 ruby_start, ruby_end; /* libruby's code; 0: none */
	__u64 loop_start, loop_end; /* the function that runs Ruby's instructions; 0: unknown */
};

#define RUT_UNWIND_PROCS 16384

#define RUT_UNWIND_CACHE 32768

struct rut_unwind_cache {
	__u64 key;
	__u64 rule; /* below half of the key */
};

/*
 * In a stack of user space: this frame is the interpreter's loop, which runs the Ruby frames from
 * one that C code began to the next.
 */
#define RUT_STACK_LOOP (1ull << 62)
/* At the end of a stack: there are callers that could not be found. */
#define RUT_STACK_CUT (1ull << 62 | 1)

#define RUT_UNWIND_STEPS 512 /* frames that are looked at */
#define RUT_UNWIND_ALL	 48  /* of them all are kept; then those of libruby are left out */

#endif
