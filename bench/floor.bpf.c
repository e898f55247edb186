// SPDX-License-Identifier: GPL-2.0
/*
 * What no recorder in the kernel can do without: programs on the tracepoints of rutile's default
 * events that do nothing, and others that only read the clock. script/bench shows both beside
 * rutile, because they say how much of the cost is the kernel's.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#define TRACEPOINTS(P)                                                                             \
	P(sys_enter)                                                                               \
	P(sys_exit)                                                                                \
	P(sched_switch)                                                                            \
	P(sched_waking)                                                                            \
	P(sched_wakeup)                                                                            \
	P(sched_wakeup_new)                                                                        \
	P(sched_migrate_task)                                                                      \
	P(sched_process_fork)                                                                      \
	P(sched_process_exec)                                                                      \
	P(sched_process_exit)                                                                      \
	P(sched_process_free)                                                                      \
	P(sched_pi_setprio)                                                                        \
	P(irq_handler_entry)                                                                       \
	P(irq_handler_exit)                                                                        \
	P(softirq_raise)                                                                           \
	P(softirq_entry)                                                                           \
	P(softirq_exit)                                                                            \
	P(block_rq_issue)                                                                          \
	P(block_rq_insert)                                                                         \
	P(block_rq_complete)                                                                       \
	P(block_bio_remap)                                                                         \
	P(block_bio_backmerge)                                                                     \
	P(net_dev_queue)                                                                           \
	P(net_dev_xmit)                                                                            \
	P(netif_receive_skb)                                                                       \
	P(signal_generate)                                                                         \
	P(signal_deliver)

/* A line a CPU. */
__u64 seen[64 * 8];

#define EMPTY(tp)                                                                                  \
	SEC("tp_btf/" #tp)                                                                         \
	int empty_##tp(void *ctx)                                                                  \
	{                                                                                          \
		return 0;                                                                          \
	}
#define CLOCK(tp)                                                                                  \
	SEC("tp_btf/" #tp)                                                                         \
	int clock_##tp(void *ctx)                                                                  \
	{                                                                                          \
		seen[(bpf_get_smp_processor_id() & 63) * 8] = bpf_ktime_get_ns();                  \
		return 0;                                                                          \
	}

TRACEPOINTS(EMPTY)
TRACEPOINTS(CLOCK)

char LICENSE[] SEC("license") = "GPL";
