/* SPDX-License-Identifier: MIT */
/*
 * rutile's own processes, which no session records: what they do because of the trace must not be
 * in the trace. A process is known by its id and its start time, which no other process can have; a
 * name would hide any program of that name. One table for all sessions, shared by the programs and
 * user space.
 */
#ifndef RUT_BPF_OWN_H
#define RUT_BPF_OWN_H

#include <linux/types.h>

#define RUT_OWN_SLOTS 64
#define RUT_OWN_WORDS 64 /* of 64 bits */

struct rut_own {
	/* Bit tgid % 4096: the process may be in a slot. For nearly all others this is the end. */
	__u64 bits[RUT_OWN_WORDS];
	struct {
		__u32 tgid; /* 0: free */
		__u32 _pad;
		__u64 start_ticks; /* as in /proc/PID/stat: 10 ms of time since boot */
	} slots[RUT_OWN_SLOTS];
};

#define RUT_OWN_WORD(tgid) ((tgid) / 64 % RUT_OWN_WORDS)
#define RUT_OWN_BIT(tgid)  (1ull << ((tgid) % 64))
#define RUT_OWN_TICK_NS	   10000000ull

#endif
