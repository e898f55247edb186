#!/bin/bash
# SPDX-License-Identifier: MIT
# Slow requests of all causes that we can make. What the kernel of the machine must have for one is asked first.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/bpf/causes.lib.sh"

cpu() {
  causes ruby_loop regexp big_integers kernel_read exceptions cold_code template_compile slow_middleware gc_start gc_stress
}
threads() {
  causes run_queue low_priority sleeping sleep_nested select_timeout half_sleep stopped gvl_thread gvl_native mutex \
    mutex_in_thread queue sized_queue condition join fiber
}
others() {
  causes pipe_reader pipe_writer pipe_select fifo wait_child system_sleep backticks flock record_lock \
    slow_peer slow_query busy_peer locked_peer unix_peer n_plus_one slow_client accept_queue dns timeout \
    retransmission connect_timeout
}
databases() {
  on_a_disk
  causes sqlite_lock database_lock
}
disk() {
  on_a_disk
  causes fsync cache_miss page_fault slow_log disk_queue
}
swap() {
  [ -d /sys/fs/cgroup/memory ] || grep -sqw memory /sys/fs/cgroup/cgroup.controllers ||
    t_skip "no control groups with memory limits"
  on_a_disk
  causes swap
}
interrupts() {
  unshare -n true || t_skip "no network namespaces"
  causes interrupts
}
throttle() {
  [ -w /sys/fs/cgroup/cpu/cpu.cfs_quota_us ] || grep -sqw cpu /sys/fs/cgroup/cgroup.controllers ||
    t_skip "no control groups with CPU limits"
  causes throttled
}

t_case 'requests that compute are explained' cpu
t_case 'requests that wait for a CPU, the GVL and threads, sleep or are stopped are explained' threads
t_case 'requests that wait for pipes, processes, locks of files and peers are explained' others
t_case 'requests that wait for a lock of a database are explained' databases
t_case 'requests that wait for a disk are explained' disk
t_case 'requests that wait for swap are explained' swap
t_case 'requests that are interrupted are explained' interrupts
t_case 'requests that a control group throttles are explained' throttle
t_done
