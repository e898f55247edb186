/* SPDX-License-Identifier: MIT */
/*
 * The kernel's events: one table from which come the records that the eBPF programs store (packed
 * structs) and the metadata that describes them. Names and fields are LTTng's, so that
 * lttng-analyses and Trace Compass know them.
 *
 *	E(symbol, name, tracepoint, group, FIELDS)
 *	F(kind, field)
 *
 * Fields of fixed size come first. What is variable (STR, SEQ_*) follows in the same order; the
 * length of a sequence SEQ_x(f) is the fixed field LEN8(f).
 */
#ifndef RUT_BPF_EVENTS_H
#define RUT_BPF_EVENTS_H

#include <linux/types.h>

#include "bpf/field_kinds.h"

/* Ids of events. The tables of system calls and of dynamic events have ranges of their own. */
#define RUT_ID_SYSCALL_ENTRY 1024
#define RUT_ID_SYSCALL_EXIT  2048
#define RUT_ID_DYNAMIC	     4096
#define RUT_SYSCALLS_MAX     1024
#define RUT_SYSCALLS_COMPAT  512 /* from here on those of 32-bit programs */

/* Two more rows in the kernel's table: the numbers that no table can have, of both kinds. */
#define RUT_SYSCALL_ROW_OTHER	     RUT_SYSCALLS_MAX
#define RUT_SYSCALL_ROW_OTHER_COMPAT (RUT_SYSCALLS_MAX + 1)
#define RUT_SYSCALL_ROWS	     (RUT_SYSCALLS_MAX + 2)

#define RUT_F_SCHED_SWITCH(F)                                                                      \
	F(TEXT16, prev_comm)                                                                       \
	F(S32, prev_tid)                                                                           \
	F(S32, prev_prio)                                                                          \
	F(S64, prev_state)                                                                         \
	F(TEXT16, next_comm)                                                                       \
	F(S32, next_tid)                                                                           \
	F(S32, next_prio)
#define RUT_F_WAKEUP(F)                                                                            \
	F(TEXT16, comm)                                                                            \
	F(S32, tid)                                                                                \
	F(S32, prio)                                                                               \
	F(S32, target_cpu)
#define RUT_F_MIGRATE(F)                                                                           \
	F(TEXT16, comm)                                                                            \
	F(S32, tid)                                                                                \
	F(S32, prio)                                                                               \
	F(S32, orig_cpu)                                                                           \
	F(S32, dest_cpu)
#define RUT_F_FORK(F)                                                                              \
	F(TEXT16, parent_comm)                                                                     \
	F(S32, parent_tid)                                                                         \
	F(S32, parent_pid)                                                                         \
	F(U32, parent_ns_inum)                                                                     \
	F(TEXT16, child_comm)                                                                      \
	F(S32, child_tid)                                                                          \
	F(S32, child_pid)                                                                          \
	F(U32, child_ns_inum)                                                                      \
	F(LEN8, vtids)                                                                             \
	F(SEQ_S32, vtids)
#define RUT_F_TASK(F)                                                                              \
	F(TEXT16, comm)                                                                            \
	F(S32, tid)                                                                                \
	F(S32, prio)
#define RUT_F_EXIT(F)                                                                              \
	F(TEXT16, comm)                                                                            \
	F(S32, tid)                                                                                \
	F(S32, prio)                                                                               \
	F(U8, group_dead)
#define RUT_F_EXEC(F)                                                                              \
	F(S32, tid)                                                                                \
	F(S32, old_tid)                                                                            \
	F(STR, filename)
#define RUT_F_SETPRIO(F)                                                                           \
	F(TEXT16, comm)                                                                            \
	F(S32, tid)                                                                                \
	F(S32, oldprio)                                                                            \
	F(S32, newprio)
#define RUT_F_IRQ_ENTRY(F)                                                                         \
	F(S32, irq)                                                                                \
	F(STR, name)
#define RUT_F_IRQ_EXIT(F)                                                                          \
	F(S32, irq)                                                                                \
	F(S32, ret)
#define RUT_F_SOFTIRQ(F) F(U32, vec)
#define RUT_F_BLOCK_RQ(F)                                                                          \
	F(U32, dev)                                                                                \
	F(U64, sector)                                                                             \
	F(U32, nr_sector)                                                                          \
	F(U32, bytes)                                                                              \
	F(S32, tid)                                                                                \
	F(U32, rwbs)                                                                               \
	F(TEXT16, comm)
#define RUT_F_BLOCK_DIRTIED(F)                                                                     \
	F(U32, dev)                                                                                \
	F(U64, sector)                                                                             \
	F(U32, bytes)                                                                              \
	F(S32, tid)                                                                                \
	F(S32, pid)                                                                                \
	F(TEXT16, comm)                                                                            \
	F(U64, inode)                                                                              \
	F(TEXT40, filename)
#define RUT_F_BLOCK_COMPLETE(F)                                                                    \
	F(U32, dev)                                                                                \
	F(U64, sector)                                                                             \
	F(U32, nr_sector)                                                                          \
	F(S32, error)                                                                              \
	F(U32, rwbs)
#define RUT_F_BIO_REMAP(F)                                                                         \
	F(U32, dev)                                                                                \
	F(U64, sector)                                                                             \
	F(U32, nr_sector)                                                                          \
	F(U32, rwbs)                                                                               \
	F(U32, old_dev)                                                                            \
	F(U64, old_sector)
#define RUT_F_BIO(F)                                                                               \
	F(U32, dev)                                                                                \
	F(U64, sector)                                                                             \
	F(U32, nr_sector)                                                                          \
	F(U32, rwbs)                                                                               \
	F(S32, tid)                                                                                \
	F(TEXT16, comm)
#define RUT_F_NET(F)                                                                               \
	F(X64, skbaddr)                                                                            \
	F(U32, len)                                                                                \
	F(NET_TYPE, network_header_type)                                                           \
	F(STR, name)                                                                               \
	F(NET_HEADER, network_header)
#define RUT_F_NET_XMIT(F)                                                                          \
	F(X64, skbaddr)                                                                            \
	F(S32, rc)                                                                                 \
	F(U32, len)                                                                                \
	F(STR, name)
#define RUT_F_SOCKET(F)                                                                            \
	F(U16, sport)                                                                              \
	F(U16, dport)                                                                              \
	F(U16, family)                                                                             \
	F(ADDR4, saddr)                                                                            \
	F(ADDR4, daddr)                                                                            \
	F(ADDR6, saddr_v6)                                                                         \
	F(ADDR6, daddr_v6)
#define RUT_F_SOCK_STATE(F)                                                                        \
	F(X64, skaddr)                                                                             \
	F(TCP_STATE, oldstate)                                                                     \
	F(TCP_STATE, newstate)                                                                     \
	F(U16, protocol)                                                                           \
	RUT_F_SOCKET(F)
#define RUT_F_TCP_CONNECT(F)                                                                       \
	F(X64, skaddr)                                                                             \
	F(TCP_STATE, state)                                                                        \
	F(ERRNO, err)                                                                              \
	F(U64, duration_ns)                                                                        \
	F(S32, tid)                                                                                \
	F(S32, pid)                                                                                \
	F(TEXT16, comm)                                                                            \
	RUT_F_SOCKET(F)
#define RUT_F_TCP_RETRANSMIT(F)                                                                    \
	F(X64, skbaddr)                                                                            \
	F(X64, skaddr)                                                                             \
	F(TCP_STATE, state)                                                                        \
	RUT_F_SOCKET(F)
#define RUT_F_PAGE_ALLOC(F)                                                                        \
	F(X64, page)                                                                               \
	F(U64, pfn)                                                                                \
	F(U32, order)                                                                              \
	F(U32, gfp_flags)                                                                          \
	F(S32, migratetype)
#define RUT_F_PAGE_FREE(F)                                                                         \
	F(X64, page)                                                                               \
	F(U64, pfn)                                                                                \
	F(U32, order)
#define RUT_F_SIGNAL_GENERATE(F)                                                                   \
	F(S32, sig)                                                                                \
	F(ERRNO, err)                                                                              \
	F(S32, code)                                                                               \
	F(TEXT16, comm)                                                                            \
	F(S32, pid)                                                                                \
	F(S32, group)                                                                              \
	F(S32, result)
#define RUT_F_SIGNAL_DELIVER(F)                                                                    \
	F(S32, sig)                                                                                \
	F(ERRNO, err)                                                                              \
	F(S32, code)                                                                               \
	F(SA_HANDLER, handler)                                                                     \
	F(X64, sa_flags)
#define RUT_F_HRTIMER_INIT(F)                                                                      \
	F(X64, hrtimer)                                                                            \
	F(S32, clockid)                                                                            \
	F(U32, mode)
#define RUT_F_HRTIMER_START(F)                                                                     \
	F(X64, hrtimer)                                                                            \
	F(X64, function)                                                                           \
	F(S64, expires)                                                                            \
	F(S64, softexpires)                                                                        \
	F(U32, mode)
#define RUT_F_HRTIMER_EXPIRE(F)                                                                    \
	F(X64, hrtimer)                                                                            \
	F(S64, now)                                                                                \
	F(X64, function)
#define RUT_F_HRTIMER(F) F(X64, hrtimer)
#define RUT_F_CPU_FREQUENCY(F)                                                                     \
	F(U32, state)                                                                              \
	F(U32, cpu_id)
#define RUT_F_SYSCALL_UNKNOWN(F)                                                                   \
	F(S64, id)                                                                                 \
	F(X64, arg0)                                                                               \
	F(X64, arg1)                                                                               \
	F(X64, arg2)                                                                               \
	F(X64, arg3)                                                                               \
	F(X64, arg4)                                                                               \
	F(X64, arg5)
#define RUT_F_SYSCALL_EXIT_UNKNOWN(F)                                                              \
	F(S64, id)                                                                                 \
	F(S64, ret)

#define RUT_F_SD_PROCESS(F)                                                                        \
	F(S32, tid)                                                                                \
	F(S32, vtid)                                                                               \
	F(S32, pid)                                                                                \
	F(S32, vpid)                                                                               \
	F(S32, ppid)                                                                               \
	F(S32, vppid)                                                                              \
	F(TEXT16, name)                                                                            \
	F(S32, type)                                                                               \
	F(S32, mode)                                                                               \
	F(S32, submode)                                                                            \
	F(S32, status)                                                                             \
	F(S32, ns_level)                                                                           \
	F(U32, ns_inum)                                                                            \
	F(U32, cpu)                                                                                \
	F(X64, file_table_address)
#define RUT_F_SD_FD(F)                                                                             \
	F(S32, pid)                                                                                \
	F(X64, file_table_address)                                                                 \
	F(S32, fd)                                                                                 \
	F(O32, flags)                                                                              \
	F(X32, fmode)                                                                              \
	F(STR, filename)
#define RUT_F_SD_BLOCK(F)                                                                          \
	F(U32, dev)                                                                                \
	F(STR, diskname)
#define RUT_F_SD_INTERRUPT(F)                                                                      \
	F(U32, irq)                                                                                \
	F(S32, tid)                                                                                \
	F(STR, name)                                                                               \
	F(STR, action)
#define RUT_F_SD_CPU(F)                                                                            \
	F(U16, cpu_id)                                                                             \
	F(U8, family)                                                                              \
	F(U8, model)                                                                               \
	F(U16, physical_id)                                                                        \
	F(U16, core_id)                                                                            \
	F(U16, cores)                                                                              \
	F(STR, architecture)                                                                       \
	F(STR, vendor)                                                                             \
	F(STR, model_name)
#define RUT_F_SD_NS(F)                                                                             \
	F(S32, tid)                                                                                \
	F(U32, ns_inum)
#define RUT_F_SD_PID_NS(F)                                                                         \
	F(S32, tid)                                                                                \
	F(S32, vtid)                                                                               \
	F(S32, vpid)                                                                               \
	F(S32, vppid)                                                                              \
	F(S32, ns_level)                                                                           \
	F(U32, ns_inum)
#define RUT_F_SD_USER_NS(F)                                                                        \
	F(S32, tid)                                                                                \
	F(U32, vuid)                                                                               \
	F(U32, vgid)                                                                               \
	F(S32, ns_level)                                                                           \
	F(U32, ns_inum)
#define RUT_F_SD_CGROUP(F)                                                                         \
	F(S32, tid)                                                                                \
	F(U64, cgroup_id)                                                                          \
	F(STR, path)
#define RUT_F_SD_INTERFACE(F)                                                                      \
	F(XBE32, address_ipv4)                                                                     \
	F(STR, name)
#define RUT_F_SD_MODULE(F)                                                                         \
	F(X64, address)                                                                            \
	F(U64, size)                                                                               \
	F(STR, name)
#define RUT_F_SD_STACK(F)                                                                          \
	F(X64, id)                                                                                 \
	F(LEN8, addresses)                                                                         \
	F(SEQ_X64, addresses)                                                                      \
	F(STR, symbols)
#define RUT_F_SD_CODE(F)                                                                           \
	F(X64, id)                                                                                 \
	F(U32, line)                                                                               \
	F(U32, kind)                                                                               \
	F(U32, singleton)                                                                          \
	F(STR, path)                                                                               \
	F(STR, label)                                                                              \
	F(STR, class_name)
#define RUT_F_SD_MAPPING(F)                                                                        \
	F(S32, pid)                                                                                \
	F(U64, mapped_ns)                                                                          \
	F(X64, start)                                                                              \
	F(X64, end)                                                                                \
	F(X64, offset)                                                                             \
	F(LEN8, build_id)                                                                          \
	F(SEQ_X8, build_id)                                                                        \
	F(STR, path)
#define RUT_F_SD_FORKED(F)                                                                         \
	F(S32, pid)                                                                                \
	F(S32, parent)                                                                             \
	F(U64, forked_ns)
#define RUT_F_SYSCALL_STRING(F)                                                                    \
	F(U32, argument)                                                                           \
	F(STR, value)
#define RUT_F_SD_MARK(F) F(S32, session_id)
#define RUT_F_SHED(F)                                                                              \
	F(U64, spent_ns)                                                                           \
	F(U64, elapsed_ns)                                                                         \
	F(U64, pause_ns)                                                                           \
	F(TEXT40, event)
#define RUT_F_RESTORED(F) F(TEXT40, event)

/* From the kernel: each has a program of its tracepoint's name in kernel.bpf.c. */
#define RUT_KERNEL_EVENTS(E)                                                                       \
	E(SCHED_SWITCH, "sched_switch", sched_switch, "sched", RUT_F_SCHED_SWITCH)                 \
	E(SCHED_WAKING, "sched_waking", sched_waking, "sched", RUT_F_WAKEUP)                       \
	E(SCHED_WAKEUP, "sched_wakeup", sched_wakeup, "sched", RUT_F_WAKEUP)                       \
	E(SCHED_WAKEUP_NEW, "sched_wakeup_new", sched_wakeup_new, "sched", RUT_F_WAKEUP)           \
	E(SCHED_MIGRATE, "sched_migrate_task", sched_migrate_task, "sched", RUT_F_MIGRATE)         \
	E(SCHED_FORK, "sched_process_fork", sched_process_fork, "sched", RUT_F_FORK)               \
	E(SCHED_EXEC, "sched_process_exec", sched_process_exec, "sched", RUT_F_EXEC)               \
	E(SCHED_EXIT, "sched_process_exit", sched_process_exit, "sched", RUT_F_EXIT)               \
	E(SCHED_FREE, "sched_process_free", sched_process_free, "sched", RUT_F_TASK)               \
	E(SCHED_SETPRIO, "sched_pi_setprio", sched_pi_setprio, "sched", RUT_F_SETPRIO)             \
	E(IRQ_ENTRY, "irq_handler_entry", irq_handler_entry, "irq", RUT_F_IRQ_ENTRY)               \
	E(IRQ_EXIT, "irq_handler_exit", irq_handler_exit, "irq", RUT_F_IRQ_EXIT)                   \
	E(SOFTIRQ_RAISE, "irq_softirq_raise", softirq_raise, "irq", RUT_F_SOFTIRQ)                 \
	E(SOFTIRQ_ENTRY, "irq_softirq_entry", softirq_entry, "irq", RUT_F_SOFTIRQ)                 \
	E(SOFTIRQ_EXIT, "irq_softirq_exit", softirq_exit, "irq", RUT_F_SOFTIRQ)                    \
	E(BLOCK_RQ_ISSUE, "block_rq_issue", block_rq_issue, "block", RUT_F_BLOCK_RQ)               \
	E(BLOCK_RQ_INSERT, "block_rq_insert", block_rq_insert, "block", RUT_F_BLOCK_RQ)            \
	E(BLOCK_RQ_COMPLETE, "block_rq_complete", block_rq_complete, "block",                      \
	  RUT_F_BLOCK_COMPLETE)                                                                    \
	E(BLOCK_BIO_REMAP, "block_bio_remap", block_bio_remap, "block", RUT_F_BIO_REMAP)           \
	/* Behind a request of the page cache: the process that had changed the pages it writes.   \
	 */                                                                                        \
	E(BLOCK_DIRTIED, "rutile_block_dirtied", writeback_dirty_folio, "block",                   \
	  RUT_F_BLOCK_DIRTIED)                                                                     \
	E(BLOCK_BACKMERGE, "block_bio_backmerge", block_bio_backmerge, "block", RUT_F_BIO)         \
	E(NET_QUEUE, "net_dev_queue", net_dev_queue, "net", RUT_F_NET)                             \
	E(NET_XMIT, "net_dev_xmit", net_dev_xmit, "net", RUT_F_NET_XMIT)                           \
	E(NET_RECEIVE, "net_if_receive_skb", netif_receive_skb, "net", RUT_F_NET)                  \
	E(SOCK_STATE, "inet_sock_set_state", inet_sock_set_state, "net", RUT_F_SOCK_STATE)         \
	/* The end of a connect(), with the thread that called it. */                              \
	E(TCP_CONNECT, "rutile_tcp_connect", inet_sock_set_state, "net", RUT_F_TCP_CONNECT)        \
	E(TCP_RETRANSMIT, "tcp_retransmit_skb", tcp_retransmit_skb, "net", RUT_F_TCP_RETRANSMIT)   \
	E(PAGE_ALLOC, "kmem_mm_page_alloc", mm_page_alloc, "mm", RUT_F_PAGE_ALLOC)                 \
	E(PAGE_FREE, "kmem_mm_page_free", mm_page_free, "mm", RUT_F_PAGE_FREE)                     \
	E(SIGNAL_GENERATE, "signal_generate", signal_generate, "signal", RUT_F_SIGNAL_GENERATE)    \
	E(SIGNAL_DELIVER, "signal_deliver", signal_deliver, "signal", RUT_F_SIGNAL_DELIVER)        \
	E(HRTIMER_INIT, "timer_hrtimer_init", hrtimer_setup, "timer", RUT_F_HRTIMER_INIT)          \
	E(HRTIMER_START, "timer_hrtimer_start", hrtimer_start, "timer", RUT_F_HRTIMER_START)       \
	E(HRTIMER_CANCEL, "timer_hrtimer_cancel", hrtimer_cancel, "timer", RUT_F_HRTIMER)          \
	E(HRTIMER_EXPIRE, "timer_hrtimer_expire_entry", hrtimer_expire_entry, "timer",             \
	  RUT_F_HRTIMER_EXPIRE)                                                                    \
	E(HRTIMER_EXPIRED, "timer_hrtimer_expire_exit", hrtimer_expire_exit, "timer",              \
	  RUT_F_HRTIMER)                                                                           \
	E(CPU_FREQUENCY, "power_cpu_frequency", cpu_frequency, "power", RUT_F_CPU_FREQUENCY)       \
	E(SYSCALL_UNKNOWN, "syscall_entry_unknown", sys_enter, "syscall", RUT_F_SYSCALL_UNKNOWN)   \
	E(SYSCALL_EXIT_UNKNOWN, "syscall_exit_unknown", sys_exit, "syscall",                       \
	  RUT_F_SYSCALL_EXIT_UNKNOWN)                                                              \
	E(COMPAT_SYSCALL_UNKNOWN, "compat_syscall_entry_unknown", sys_enter, "syscall",            \
	  RUT_F_SYSCALL_UNKNOWN)                                                                   \
	E(COMPAT_SYSCALL_EXIT_UNKNOWN, "compat_syscall_exit_unknown", sys_exit, "syscall",         \
	  RUT_F_SYSCALL_EXIT_UNKNOWN)

/* Written by user space: what was there before the trace began. */
#define RUT_STATEDUMP_EVENTS(E)                                                                    \
	E(SD_START, "lttng_statedump_start", none, "statedump", RUT_F_SD_MARK)                     \
	E(SD_END, "lttng_statedump_end", none, "statedump", RUT_F_SD_MARK)                         \
	E(SD_PROCESS, "lttng_statedump_process_state", none, "statedump", RUT_F_SD_PROCESS)        \
	E(SD_FD, "lttng_statedump_file_descriptor", none, "statedump", RUT_F_SD_FD)                \
	E(SD_BLOCK, "lttng_statedump_block_device", none, "statedump", RUT_F_SD_BLOCK)             \
	E(SD_INTERRUPT, "lttng_statedump_interrupt", none, "statedump", RUT_F_SD_INTERRUPT)        \
	E(SD_CPU, "lttng_statedump_cpu_topology", none, "statedump", RUT_F_SD_CPU)                 \
	E(SD_CGROUP_NS, "lttng_statedump_process_cgroup_ns", none, "statedump", RUT_F_SD_NS)       \
	E(SD_IPC_NS, "lttng_statedump_process_ipc_ns", none, "statedump", RUT_F_SD_NS)             \
	E(SD_MNT_NS, "lttng_statedump_process_mnt_ns", none, "statedump", RUT_F_SD_NS)             \
	E(SD_NET_NS, "lttng_statedump_process_net_ns", none, "statedump", RUT_F_SD_NS)             \
	E(SD_PID_NS, "lttng_statedump_process_pid_ns", none, "statedump", RUT_F_SD_PID_NS)         \
	E(SD_TIME_NS, "lttng_statedump_process_time_ns", none, "statedump", RUT_F_SD_NS)           \
	E(SD_USER_NS, "lttng_statedump_process_user_ns", none, "statedump", RUT_F_SD_USER_NS)      \
	E(SD_UTS_NS, "lttng_statedump_process_uts_ns", none, "statedump", RUT_F_SD_NS)             \
	E(SD_INTERFACE, "lttng_statedump_network_interface", none, "statedump",                    \
	  RUT_F_SD_INTERFACE)                                                                      \
	E(SD_CGROUP, "rutile_statedump_cgroup", none, "statedump", RUT_F_SD_CGROUP)                \
	E(SD_MODULE, "rutile_statedump_module", none, "statedump", RUT_F_SD_MODULE)                \
	E(SD_STACK, "rutile_stack", none, "statedump", RUT_F_SD_STACK)                             \
	E(SD_CODE, "rutile_ruby_code", none, "statedump", RUT_F_SD_CODE)                           \
	E(SD_MAPPING, "rutile_mapping", none, "statedump", RUT_F_SD_MAPPING)                       \
	E(SD_FORKED, "rutile_forked", none, "statedump", RUT_F_SD_FORKED)                          \
	/* At exit: an argument (from 0 on) that could not be read at entry. */                    \
	E(SYSCALL_STRING, "rutile_syscall_string", none, "statedump", RUT_F_SYSCALL_STRING)        \
	/* From the programs: --max-overhead has switched an event off, or on again. */            \
	E(SHED, "rutile_shed", none, "statedump", RUT_F_SHED)                                      \
	E(RESTORED, "rutile_restored", none, "statedump", RUT_F_RESTORED)

/* LTTng's kinds of packet headers: of the network, and of the transport behind it. */
enum rut_net_type { RUT_NET_UNKNOWN, RUT_NET_IPV4, RUT_NET_IPV6 };
enum rut_transport_type {
	RUT_TRANSPORT_UNKNOWN,
	RUT_TRANSPORT_TCP,
	RUT_TRANSPORT_UDP,
	RUT_TRANSPORT_ICMP,
};

#define RUT_EVENT_ID(sym, name, tp, group, fields) RUT_EV_##sym,
enum rut_event_id {
	RUT_KERNEL_EVENTS(RUT_EVENT_ID) RUT_STATEDUMP_EVENTS(RUT_EVENT_ID) RUT_EV_COUNT
};
#undef RUT_EVENT_ID

/* The fixed part of each record's payload. */
#define RUT_EVENT_STRUCT(sym, name, tp, group, fields)                                             \
	struct rut_ev_##sym {                                                                      \
		fields(RUT_C_FIELD)                                                                \
	} __attribute__((packed));
RUT_KERNEL_EVENTS(RUT_EVENT_STRUCT)
RUT_STATEDUMP_EVENTS(RUT_EVENT_STRUCT)
#undef RUT_EVENT_STRUCT

_Static_assert(sizeof(struct rut_ev_SCHED_SWITCH) == 56, "sched_switch");
_Static_assert(sizeof(struct rut_ev_SCHED_WAKING) == 28, "sched_waking");
_Static_assert(sizeof(struct rut_ev_SCHED_FORK) == 57, "sched_process_fork");

/*
 * Contexts: fields of every record, between the header word and the payload, in this order. This
 * table is the only place that lists them; the value comes from rut_context_<symbol>() in
 * bpf/context.bpf.h.
 *
 *	C(symbol, name of the option, name of the field, kind)
 *
 * The typed ones read the kernel's structures, and need its BTF. The counters have the names that
 * the session gives them.
 */
#define RUT_CONTEXTS_PLAIN(C)                                                                      \
	C(PID, pid, pid, S32)                                                                      \
	C(TID, tid, tid, S32)                                                                      \
	C(PROCNAME, procname, procname, TEXT16)                                                    \
	C(CGROUP, cgroup, cgroup_id, U64)                                                          \
	C(CPU, cpu, cpu, U32)                                                                      \
	C(USTACK, ustack, ustack_id, X64)                                                          \
	C(KSTACK, kstack, kstack_id, X64)                                                          \
	C(RSTACK, ruby_stack, ruby_stack_id, X64)                                                  \
	C(PERF0, perf0, perf0, U64)                                                                \
	C(PERF1, perf1, perf1, U64)                                                                \
	C(PERF2, perf2, perf2, U64)                                                                \
	C(PERF3, perf3, perf3, U64)
#define RUT_CONTEXTS_TYPED(C)                                                                      \
	C(VPID, vpid, vpid, S32)                                                                   \
	C(VTID, vtid, vtid, S32)                                                                   \
	C(PPID, ppid, ppid, S32)                                                                   \
	C(VPPID, vppid, vppid, S32)                                                                \
	C(PRIO, prio, prio, S32)                                                                   \
	C(NICE, nice, nice, S32)                                                                   \
	C(PREEMPTIBLE, preemptible, preemptible, S8)                                               \
	C(INTERRUPTIBLE, interruptible, interruptible, S8)                                         \
	C(UID, uid, uid, U32)                                                                      \
	C(EUID, euid, euid, U32)                                                                   \
	C(SUID, suid, suid, U32)                                                                   \
	C(GID, gid, gid, U32)                                                                      \
	C(EGID, egid, egid, U32)                                                                   \
	C(SGID, sgid, sgid, U32)                                                                   \
	C(VUID, vuid, vuid, U32)                                                                   \
	C(VEUID, veuid, veuid, U32)                                                                \
	C(VSUID, vsuid, vsuid, U32)                                                                \
	C(VGID, vgid, vgid, U32)                                                                   \
	C(VEGID, vegid, vegid, U32)                                                                \
	C(VSGID, vsgid, vsgid, U32)                                                                \
	C(CGROUP_NS, cgroup_ns, cgroup_ns, U32)                                                    \
	C(IPC_NS, ipc_ns, ipc_ns, U32)                                                             \
	C(MNT_NS, mnt_ns, mnt_ns, U32)                                                             \
	C(NET_NS, net_ns, net_ns, U32)                                                             \
	C(PID_NS, pid_ns, pid_ns, U32)                                                             \
	C(TIME_NS, time_ns, time_ns, U32)                                                          \
	C(USER_NS, user_ns, user_ns, U32)                                                          \
	C(UTS_NS, uts_ns, uts_ns, U32)
#define RUT_CONTEXTS(C) RUT_CONTEXTS_PLAIN(C) RUT_CONTEXTS_TYPED(C)

#define RUT_CTX_INDEX(sym, name, field, kind)  RUT_CTX_AT_##sym,
#define RUT_CTX_BIT(sym, name, field, kind)    RUT_CTX_##sym = 1ull << RUT_CTX_AT_##sym,
#define RUT_CTX_OR(sym, name, field, kind)     | RUT_CTX_##sym
#define RUT_CTX_MEMBER(sym, name, field, kind) RUT_C_##kind(field)
enum rut_context_index { RUT_CONTEXTS(RUT_CTX_INDEX) RUT_CTX_COUNT };
enum rut_context {
	RUT_CONTEXTS(RUT_CTX_BIT) RUT_CTX_TYPED = 0 RUT_CONTEXTS_TYPED(RUT_CTX_OR),
	RUT_CTX_ALL = 0 RUT_CONTEXTS(RUT_CTX_OR),
};
struct rut_context_all {
	RUT_CONTEXTS(RUT_CTX_MEMBER)
} __attribute__((packed));

_Static_assert(RUT_CTX_COUNT < 64, "one bit each");

/* Counters of each CPU ("perf:cpu:NAME"), with names in the session (session/perf.h). */
#define RUT_PERF_MAX 4
#define RUT_CTX_PERF (RUT_CTX_PERF0 | RUT_CTX_PERF1 | RUT_CTX_PERF2 | RUT_CTX_PERF3)

#define RUT_CTX_BYTES_MAX ((sizeof(struct rut_context_all) + 7) / 8 * 8)

/* What the programs filter by; a bit that is not set costs nothing. */
enum rut_filter_bits {
	RUT_FILTER_PID = 1 << 0,    /* the process is in the map `traced` */
	RUT_FILTER_FOLLOW = 1 << 1, /* and so become its children */
	RUT_FILTER_COMM = 1 << 2,   /* the name is in the map `comms` */
	RUT_FILTER_CGROUP = 1 << 3, /* the process is under the cgroup in `cgroups` */
};

/* Values in the map `traced`. */
enum rut_traced {
	RUT_TRACED_YES = 1,
	RUT_TRACED_AT_EXEC = 2, /* from its next execve on */
};

/* How programs may read kernel memory that has no type (bpf/read.bpf.h). */
enum rut_read_kernel {
	RUT_READ_NONE,
	RUT_READ_HELPER, /* bpf_probe_read_kernel(); forbidden by lockdown 'confidentiality' */
	RUT_READ_CAST,	 /* bpf_rdonly_cast(): since Linux 6.2, under any lockdown */
};

/* Words of a set of event ids. */
#define RUT_EVENT_WORDS 128

/* Constants of a session: the verifier folds them, and removes what they switch off. */
struct rut_bpf_conf {
	__u64 mask;	    /* sub-buffer size - 1 */
	__u64 contexts;	    /* enum rut_context */
	__u32 shift;	    /* log2 of the sub-buffer size */
	__u32 count_mask;   /* sub-buffers - 1 */
	__u32 overwrite;    /* enum rut_ring_mode */
	__u32 context_size; /* bytes */
	__u32 filters;	    /* enum rut_filter_bits */
	__u32 no_fork;	    /* sched_process_fork only follows children */
	__u32 no_free;	    /* sched_process_free only forgets processes */
	__u32 no_exec;	    /* sched_process_exec only forgets Ruby processes */
	__u32 no_issue;	    /* block_rq_issue only records who changed the pages */
	__u32 no_dirtied;   /* ... or does not */
	__u32 no_state;	    /* inet_sock_set_state only says what connects */
	__u32 no_connect;   /* ... or does not */
	__u32 keep_gone;    /* ... and notes them in the map `gone` */
	__u32 budget_ppm;   /* of a CPU's time; 0: --max-overhead was not given */
	__u32 stack_mask;   /* sets of places in the table of stacks - 1 */
	__u32 str_max;	    /* bytes of one string */
	__u32 tail_max;	    /* and of everything variable of a record */
	__u32 include_self; /* rutile's own processes are recorded, too */
	__u32 lean_stacks;  /* no stacks of wakers, and of what runs before what is recorded */
	__u32 code_mask;    /* sets of places in the table of codes - 1 */
	__u32 cache_mask;   /* places of frame_cache - 1 */
	__u32 unwind_mask;  /* places of unwind_cache - 1; 0: stacks by frame pointers only */
	__u32 known_mask;   /* places of known_stacks - 1 */
	__u32 known_kernel; /* stacks of the kernel can be recognised */
	__u32 fsbase_at;    /* offset of the thread pointer in task_struct; 0: unknown */
	__u32 read_kernel;  /* enum rut_read_kernel */
	__u32 perf_cpus;    /* elements of perf_counters for one counter */
	__u64 rstack_events[RUT_EVENT_WORDS]; /* bit i: event i has a Ruby stack, ... */
	__u64 rstack_some;		      /* ... or all have: 0 */
	__s64 preempt_at; /* the CPU's count of preemption from its run queue on; 0: unknown */
	__u64 load;	  /* a number that no other programs of the session have */
	__u8 uuid[16];
};

/* What a session keeps beside each ring: `_user` of its control page. */
struct rut_ctl_user {
	__u64 cleared;	    /* what is before it `rutile clear` has removed */
	__u64 compat_seen;  /* 1: calls of 32-bit programs, which the metadata must describe then */
	__u64 stacks_new;   /* stacks that came into the table */
	__u64 stacks_lost;  /* that could not, or left it before they were written */
	__u64 stacks_since; /* those used before are not of the directory being written */
};

#define RUT_CTL_USER(ctl) ((struct rut_ctl_user *)(ctl)->_user)

/*
 * What an argument points to, read at entry or at exit: parts of a record behind its strings. Each
 * is a length of 8 bits and that many elements, unless noted.
 */
enum rut_part_kind {
	RUT_PART_NONE,
	RUT_PART_ARGV,	 /* strings, as of execve */
	RUT_PART_POLL,	 /* struct rut_polled: what is waited for; behind, whether some are left out
			  */
	RUT_PART_POLLED, /* the same: what has happened, of those where something has */
	RUT_PART_FDSET,	 /* bytes of a set of select() */
	RUT_PART_EPOLL,	 /* struct epoll_event */
	RUT_PART_PAIR,	 /* two descriptors, without a length */
	RUT_PART_MSG,	 /* the address of a struct msghdr: a socket address, without a length */
	RUT_PART_RIGHTS, /* the same: the descriptors that were received with it (SCM_RIGHTS) */
	/* Of an array of struct mmsghdr, behind whether some are left out: */
	RUT_PART_MMSG_TO,   /* the socket addresses */
	RUT_PART_MMSG_SENT, /* how many bytes of each were sent */
	RUT_PART_MMSG_FROM, /* bytes received and socket address of each */
	/* socketcall() of 32-bit programs: its arguments, behind them a socket address */
	RUT_PART_SOCKETCALL,
	RUT_PART_SOCKETCALL_EXIT, /* a socket address, and a list of descriptors */
};

struct rut_part {
	__u8 kind;  /* enum rut_part_kind */
	__u8 arg;   /* index of the argument */
	__u8 count; /* index of the argument that says how many */
};

#define RUT_PARTS    3
#define RUT_PART_MAX 32 /* elements */
#define RUT_MMSG_MAX 8	/* of those with socket addresses */

struct rut_polled {
	__s32 fd;
	__u16 events;
} __attribute__((packed));

/*
 * How a system call's arguments are stored: 64 bits each, then strings, then a socket address. The
 * programs take the events' ids from here, and user space fills them in from the same rows from
 * which it writes the metadata: no other id can get into a trace.
 */
struct rut_syscall_desc {
	__u16 entry_id; /* of the events; 0: the metadata has none, it is an unknown call */
	__u16 exit_id;
	__u8 nargs;
	__u8 str[3];	/* index + 1 of an argument that is a string */
	__u8 sock;	/* index + 1 of an argument that is a socket address, read at entry */
	__u8 peer;	/* the same, read at exit */
	__u8 flags;	/* RUT_SYSCALL_* */
	__u8 narrow;	/* bit i: argument i has 32 bits */
	__u8 negative;	/* bit i: ... and a sign */
	__u8 skip;	/* bit i: argument i is a string or address: not stored as a number */
	__u8 slow;	/* has variable parts, or is a 32-bit program's */
	__u8 slow_exit; /* the same at exit */
	struct rut_part entry[RUT_PARTS]; /* none behind RUT_PART_NONE */
	struct rut_part exit[RUT_PARTS];
	__u8 _pad[2];
};

_Static_assert(sizeof(struct rut_syscall_desc) == 36, "no padding");

enum rut_syscall_flags {
	RUT_SYSCALL_ENTRY = 1,
	RUT_SYSCALL_EXIT = 2,
	RUT_SYSCALL_EXEC = 8,
	RUT_SYSCALL_NUMBERLESS = 16, /* its exit has the number -1 */
	RUT_SYSCALL_INDIRECT = 32,   /* its one argument is the address of five (32-bit) */
};

/* After the arguments: a decoded socket address. Variable parts follow: v4, v6, path. */
struct rut_sockaddr {
	__u16 family;
	__u16 port; /* big endian */
	__u8 v4addr_length;
	__u8 v6addr_length; /* 16-bit groups, big endian */
} __attribute__((packed));

/* Bytes of one string, with its NUL: by default, and at most (--string-limit). */
#define RUT_STR_DEFAULT 640
#define RUT_STR_MIN	16
#define RUT_STR_MAX	4096
/* Everything variable of one record: with strings of the default limit, and at most. */
#define RUT_TAIL_DEFAULT 2048
#define RUT_TAIL_MAX	 8448

#endif
