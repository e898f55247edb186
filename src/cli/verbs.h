/* SPDX-License-Identifier: MIT */
/*
 * All verbs, in the order in which the help lists them; those of one group stand together. A verb
 * is a line here and a file cmd_VERB.c; an analysis of traces is a line here and a file an_NAME.c
 * in src/analysis. Help, completion, man pages and `report` follow from that (docs/adding.md).
 */
#ifndef RUT_CLI_VERBS_H
#define RUT_CLI_VERBS_H

/* clang-format off */

/*
 * A(verb, analysis: rut_analysis_..., what it shows by default, options: rut_opts_...,
 * arguments: USAGE_... of cmd_analysis.c, group of the help, summary)
 */
/* Those of lttng-analyses, which have a link lttng-NAME as well (meson.build). */
#define RUT_LTTNG_ANALYSES(A) \
	A(cputop, cputop, nothing, cputop, TRACES, KERNEL, "CPU usage by thread and process") \
	A(schedstats, sched, stats, sched, TRACES, KERNEL, "time from wakeup to running") \
	A(schedtop, sched, top, sched, TRACES, KERNEL, "the longest waits from wakeup to running") \
	A(schedlog, sched, log, sched, TRACES, KERNEL, "all waits from wakeup to running in order of time") \
	A(schedfreq, sched, freq, sched, TRACES, KERNEL, "distribution of the waits from wakeup to running") \
	A(syscallstats, syscalls, nothing, syscalls, TRACES, KERNEL, "system calls by thread: counts, durations, errors") \
	A(iolatencystats, io, stats, io, TRACES, KERNEL, "latency of opens, reads, writes, syncs and disks") \
	A(iolatencyfreq, io, freq, io, TRACES, KERNEL, "distribution of the latencies of input and output") \
	A(iolatencytop, io, top, io, TRACES, KERNEL, "the slowest opens, reads, writes and syncs") \
	A(iolog, io, log, io, TRACES, KERNEL, "all input and output in order of time") \
	A(iousagetop, io, usage, io, TRACES, KERNEL, "bytes by process, file, disk and network interface") \
	A(irqstats, irq, stats, irq, TRACES, KERNEL, "durations of interrupts and softirqs") \
	A(irqlog, irq, log, irq, TRACES, KERNEL, "all interrupts and softirqs in order of time") \
	A(irqfreq, irq, freq, irq, TRACES, KERNEL, "distribution of the durations of interrupts") \
	A(memtop, memtop, nothing, memtop, TRACES, KERNEL, "which threads allocated and freed pages") \
	A(periodstats, period, stats, period, TRACES, KERNEL, "durations of periods that you define") \
	A(periodlog, period, log, period, TRACES, KERNEL, "all periods in order of time") \
	A(periodtop, period, top, period, TRACES, KERNEL, "the longest periods") \
	A(periodfreq, period, freq, period, TRACES, KERNEL, "distribution of the durations of periods")

#define RUT_MORE_KERNEL_ANALYSES(A) \
	A(futexstats, futex, nothing, offcpu, TRACES, KERNEL, "waits and contention by futex and thread") \
	A(fdtop, fdtop, nothing, fdtop, TRACES, KERNEL, "open descriptors over time by process: leaks") \
	A(wakeupchain, wakeupchain, nothing, plain, TID, KERNEL, "the critical path: which threads and devices woke a thread") \
	A(offcpu, offcpu, nothing, offcpu, TRACES, KERNEL, "where threads wait: run queue, disk, network, lock, timer") \
	A(nettop, nettop, nothing, plain, TRACES, KERNEL, "bytes and latencies by network peer") \
	A(series, series, series, series, TRACES, KERNEL, "rates, latencies and queues over time, as CSV") \
	A(changes, changes, nothing, changes, TRACES, KERNEL, "when latencies, rates, errors or memory jumped") \
	A(diff, diff, nothing, diff, PAIR, KERNEL, "what got slower between two traces or intervals")

#define RUT_RUBY_ANALYSES(A) \
	A(rubyslow, rubyslow, nothing, calls, TRACES, RUBY, "the slowest Ruby calls, each with its tree") \
	A(rubytop, rubytop, nothing, calls, TRACES, RUBY, "calls and times of Ruby methods, on a CPU and waiting") \
	A(rubygc, rubygc, nothing, plain, TRACES, RUBY, "pauses of Ruby's garbage collector by process and method") \
	A(gvl, gvl, nothing, plain, TRACES, RUBY, "waits for Ruby's lock, and the methods that held it") \
	A(rubyexceptions, rubyexceptions, nothing, plain, TRACES, RUBY, "Ruby exceptions by class and line") \
	A(rubyalloc, rubyalloc, nothing, plain, TRACES, RUBY, "Ruby allocations by class and line") \
	A(rubyoffcpu, rubyoffcpu, nothing, plain, TRACES, RUBY, "where Ruby methods and lines wait, and for what")

#define RUT_KERNEL_ANALYSES(A) RUT_LTTNG_ANALYSES(A) RUT_MORE_KERNEL_ANALYSES(A)
#define RUT_ANALYSES(A) RUT_KERNEL_ANALYSES(A) RUT_RUBY_ANALYSES(A)

/* V(verb): those that are no analyses, around them */
#define RUT_VERBS_FIRST(V) \
	V(trace) \
	V(calls) \
	V(time) \
	V(objects_total) \
	V(objects) \
	V(arrays) \
	V(strings) \
	V(exceptions) \
	V(heap) \
	V(stacks) \
	V(profile) \
	V(ps) \
	V(tracepoints) \
	V(record) \
	V(doctor) \
	V(view) \
	V(stat) \
	V(top) \
	V(run) \
	V(start) \
	V(stop) \
	V(status) \
	V(show) \
	V(list) \
	V(add) \
	V(remove) \
	V(attach) \
	V(snapshot) \
	V(rotate) \
	V(clear) \
	V(destroy) \
	V(collect) \
	V(export) \
	V(serve_metrics) \
	V(ssh) \
	V(fleet) \
	V(fleetd) \
	V(report)

#define RUT_VERBS_BETWEEN(V) \
	V(requests)

#define RUT_VERBS_LAST(V) \
	V(save) \
	V(service) \
	V(trigger) \
	V(recover) \
	V(probes) \
	V(help)

/* clang-format on */

#endif
