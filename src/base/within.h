/* SPDX-License-Identifier: MIT */
/*
 * Which of a script's methods each thread of a Ruby runs: an array that the agent in the process
 * writes (agent/within.h) and that programs of the kernel read (bpf/script_ruby.bpf.c). It is a map
 * of eBPF that the process has in its memory: a thread writes its own slot, with plain stores, and
 * a program that runs in the thread reads it without a system call or a fault.
 *
 * Slot 0 is no thread's: it has what holds for all of them.
 */
#ifndef RUT_BASE_WITHIN_H
#define RUT_BASE_WITHIN_H

#include <linux/types.h>

#define RUT_WITHIN_SLOTS   4096
#define RUT_WITHIN_NO_SLOT 0xffffffffu

struct rut_within_slot {
	__u64 bits;	  /* a bit for each method: the thread is in it */
	__u64 refused;	  /* of slot 0: a process cannot follow its threads: stacks are read */
	__u32 owner;	  /* 1: it is a thread's; atomic. The kernel frees it when that ends */
	__u32 registered; /* 1: the kernel knows whose */
	__u64 pad[5];
};
_Static_assert(sizeof(struct rut_within_slot) == 64, "one line of the cache");

/* What the agent says at its last place (hit.h), in the third argument; and in the fourth. */
enum rut_within_said {
	RUT_WITHIN_THREAD, /* this thread has that slot, and is followed in what READY said */
	RUT_WITHIN_READY,  /* all hooks of these methods of the process are set: a bit each */
};

#endif
