/* SPDX-License-Identifier: MIT */
/*
 * Stacks that are recognised as a whole: shared by the programs and user space.
 *
 * A thread that waits has most of the time the stack that it had the last time. To walk it takes
 * microseconds; to see that it is the same one takes a copy of the memory that it lies in and a
 * look at the words that decide where a walk goes: return addresses, and frame pointers where they
 * are used. A walk is a function of where it begins and of these words, so when they are equal the
 * stack is, and when one frame in the middle differs, one of them does.
 *
 * Of each such stack an entry has the distances of these words, their hash, and the stack's number.
 */
#ifndef RUT_BPF_KNOWN_H
#define RUT_BPF_KNOWN_H

#include <linux/types.h>

#define RUT_KNOWN_ENTRIES 2048
#define RUT_KNOWN_WORDS	  256
#define RUT_KNOWN_STEP	  32 /* words that one function goes through: the verifier sees them once */

struct rut_known {
	__u64 key; /* where the walk begins */
	__u64 sum; /* of the words, and of all below but `id` */
	__u64 id;
	__u64 check; /* binds `id` to `sum`: two CPUs may write at once */
	__u32 count;
	__u32 span;    /* words of memory that they lie in */
	__u32 upper;   /* kernel: so many words at the top have their distance from there */
	__u32 uses_bp; /* user: %rbp as it was on entry decides, too */
	__u64 list;    /* kernel: hash of `at` */
	__u32 at[RUT_KNOWN_WORDS]; /* distance in words, 16 bits; kernel: above it a hash of the
				      word */
};

#endif
