/* SPDX-License-Identifier: MIT */
/*
 * The table of stacks: shared by the programs and user space.
 *
 * Records hold a hash of 64 bits instead of a stack; the table has the addresses, once for each
 * hash. A flight recorder runs for months without a process, so the table evicts: a hash belongs to
 * one set of places, and takes the one of them that was used longest ago. Who reads the table
 * computes the hash of what it finds: a place that changed under its eyes is none, and a stack that
 * is no longer there is missing under its own number. Never is one shown for another.
 *
 * A session's process writes what is new in the table into the trace before it is evicted, and
 * marks it; a place that is taken without that mark is a loss, and counted.
 */
#ifndef RUT_BPF_STACK_H
#define RUT_BPF_STACK_H

#include <linux/types.h>

#define RUT_STACK_DEPTH 127
#define RUT_STACK_WAYS	16
#define RUT_STACK_SETS	1024

/* Numbers that no stack has. */
#define RUT_STACK_NONE 0 /* there was no stack: a thread of the kernel has none of user space */
#define RUT_STACK_LOST 1 /* it could not be stored; in the table: this place is being written */
#define RUT_STACK_MIN  2

#define RUT_STACK_TOUCH_NS 100000ull /* used_ns is right within so much */

/* Slots of a set are side by side, in the order of the lookup. */
struct rut_stack_set {
	__u64 id[RUT_STACK_WAYS];
	__u64 used_ns[RUT_STACK_WAYS];
	__u64 written[RUT_STACK_WAYS]; /* the id that the session's process has written */
	__u32 count[RUT_STACK_WAYS];
	__u64 address[RUT_STACK_WAYS][RUT_STACK_DEPTH + 1];
};

_Static_assert(sizeof(struct rut_stack_set) % 8 == 0, "sets follow each other");

/* It begins with the first 8 bytes of the session's UUID. */
static inline __attribute__((always_inline)) __u64 rut_stack_hash_step(__u64 hash, __u64 address)
{
	hash = (hash ^ address) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static inline __attribute__((always_inline)) __u64 rut_stack_hash_end(__u64 hash)
{
	return hash < RUT_STACK_MIN ? hash + RUT_STACK_MIN : hash;
}

#endif
