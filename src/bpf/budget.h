/* SPDX-License-Identifier: MIT */
/*
 * --max-overhead: shared by the programs and user space.
 *
 * Classes of events are the static events (by id), the system calls (entry and exit of one number
 * together) and the events added by name. Each run of a class is charged a cost; the run that
 * finds, at the end of a window, that a CPU has spent more than its share sheds the class that cost
 * most.
 */
#ifndef RUT_BPF_BUDGET_H
#define RUT_BPF_BUDGET_H

#include "bpf/events.h"

#define RUT_BUDGET_CLASSES 2048
#define RUT_BUDGET_SYSCALL 128	/* the first class of system calls */
#define RUT_BUDGET_DYNAMIC 1152 /* ... of events added by name */
#define RUT_BUDGET_NAME	   40
#define RUT_BUDGET_WINDOW  100000000ull	  /* ns, the shortest window */
#define RUT_BUDGET_PAUSE   10000000000ull /* ns of a pause, doubled each time ... */
#define RUT_BUDGET_STRIKES 6		  /* ... at most so often */
#define RUT_BUDGET_EACH	   256		  /* runs between two readings of the clock */

_Static_assert((int)RUT_EV_COUNT <= RUT_BUDGET_SYSCALL, "static events come first");

/* One class, for all CPUs. Names and costs are user space's. */
struct rut_budget_class {
	__u64 until_ns; /* shed until then; 0: recorded */
	__u32 cost_ns;	/* of one run */
	__u32 strikes;	/* how often it was shed */
	char name[RUT_BUDGET_NAME];
	__u32 name_len; /* with the NUL */
	__u32 shed_ns;	/* of one run while it is shed: the kernel still calls the program */
};

struct rut_budget {
	struct rut_budget_class classes[RUT_BUDGET_CLASSES];
	__u64 changes;	  /* counts what was shed and restored */
	__u64 shed_limit; /* times that even the programs of what is shed cost too much */
};

/* What one CPU has spent in its window. */
struct rut_spending {
	__u64 start_ns;
	__u64 live_ns, shed_ns;
	__u64 max_ns; /* of the class that cost most */
	__u32 max_class;
	__u32 window;
	__u32 runs;
	__u32 _pad;
	struct {
		__u32 window;
		__u32 ns;
	} classes[RUT_BUDGET_CLASSES];
};

static inline __attribute__((always_inline)) __u32 rut_budget_class(__u64 id)
{
	if (id >= RUT_ID_DYNAMIC)
		return RUT_BUDGET_DYNAMIC + (__u32)(id & 255);
	if (id >= RUT_ID_SYSCALL_ENTRY)
		return RUT_BUDGET_SYSCALL + (__u32)(id & (RUT_SYSCALLS_MAX - 1));
	return (__u32)id & (RUT_BUDGET_SYSCALL - 1);
}

#endif
