#!/bin/bash
# SPDX-License-Identifier: MIT
# Slow requests whose cause is known, because it was made (tests/ruby/causes.rb), recorded and explained: the
# right cause is named first, and the time on a CPU is what the kernel counted for the thread.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"

# record NAMES...: into "trace"; what the program measured itself is in "truth".
record() {
  mkfifo in
  mkdir work
  # What else runs on this machine must not be the cause of everything.
  setsid nice -n -19 "$RUBY" -W0 --disable-gems "$SRC/tests/ruby/causes.rb" "$PWD/work" "$@" <in >truth 2>err &
  program=$!
  exec 5>in
  t_wait grep -q ready truth
  # Where sessions share the CPUs, a program's own priority counts only within its session.
  echo -19 >/proc/"$program"/autogroup || :
  "$RUTILE" record -a --buffer 128M --subbuf 256K -o trace --class Cause --class Database --class Report --class ArgumentError \
    -e sched,irq,block,net,signal,syscall --ruby "$program" 2>record.err &
  recorder=$!
  recording trace || { cat record.err; return 1; }
  t_wait test -s trace/ruby-"$program"/names
  echo >&5
  failed=0
  wait "$program" || failed=$?
  exec 5>&-
  # All that was recorded has ended, so it may have ended by itself.
  kill -INT "$recorder" 2>/dev/null || :
  wait "$recorder" || { cat record.err; return 1; }
  [ "$failed" = 0 ] || { cat err; return 1; }
  cat record.err
  "$RUTILE" requests --skip-validation --request 'Cause#*' --slowest 1000 --explain --mi trace >out.json
}

# Slow ones are on the disk of the working directory: what is in memory has no disk.
disk_dir() {
  [ "$(stat -f -c %T .)" != tmpfs ]
}

# On a machine that is busy, or whose kernel does not show every switch, chance can be the cause: what is not
# explained as it should be is recorded again, twice at most.
causes() {
  need_bpf
  for _ in 1 2 3; do
    rm -rf trace in work
    record "$@"
    if python3 "$SRC/tests/bpf/requests.py" truth out.json "$@"; then return 0; fi
    # shellcheck disable=SC2046 # words
    set -- $(cat again)
  done
  return 1
}

cpu() {
  causes ruby_loop regexp big_integers kernel_read exceptions cold_code gc_start gc_stress
}
threads() {
  causes run_queue low_priority sleeping sleep_nested select_timeout half_sleep stopped gvl_thread gvl_native mutex \
    mutex_in_thread queue sized_queue condition join fiber
}
others() {
  causes pipe_reader pipe_writer pipe_select fifo wait_child system_sleep backticks flock record_lock \
    slow_peer slow_query busy_peer locked_peer unix_peer n_plus_one slow_client accept_queue dns timeout
}
disk() {
  if ! disk_dir; then
    cd "$(mktemp -d /var/tmp/rutile-requests.XXXXXX)"
    trap 'rm -rf "$PWD"' EXIT
  fi
  disk_dir || t_skip "no directory on a disk"
  causes fsync cache_miss page_fault
}
throttle() {
  [ -w /sys/fs/cgroup/cpu/cpu.cfs_quota_us ] || grep -sqw cpu /sys/fs/cgroup/cgroup.controllers ||
    t_skip "no control groups with CPU limits"
  causes throttled
}

t_case 'requests that compute are explained' cpu
t_case 'requests that wait for a CPU, the GVL and threads, sleep or are stopped are explained' threads
t_case 'requests that wait for pipes, processes, locks of files and peers are explained' others
t_case 'requests that wait for a disk are explained' disk
t_case 'requests that a control group throttles are explained' throttle
t_done
