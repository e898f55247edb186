#!/bin/bash
# SPDX-License-Identifier: MIT
# Waits for the GVL, beside a record of futexes and of the scheduler by bpftrace: threads that only compute wait for nothing else
# with a futex.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"

programs() {
  cat >spin.rb <<'RUBY'
# From one call of getpriority() to the next one a thread computes.
class Spin
  def run(seconds)
    Process.getpriority(Process::PRIO_PROCESS, 0)
    till = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    x = 0
    x += 1 while x % 4096 != 0 || Process.clock_gettime(Process::CLOCK_MONOTONIC) < till
    Process.getpriority(Process::PRIO_PROCESS, 0)
  end
end

puts 'ready'
$stdout.flush
$stdin.gets
Array.new(3) { Thread.new { Spin.new.run(1.5) } }.each(&:join)
RUBY
  cat >gvl.bt <<'BT'
tracepoint:syscalls:sys_enter_getpriority /pid == $1/ { @on[tid] = @on[tid] ? 0 : 1; }
tracepoint:syscalls:sys_enter_futex /pid == $1/ { @futex[tid] = 1; }
tracepoint:syscalls:sys_exit_futex /pid == $1/ { @futex[tid] = 0; }
tracepoint:sched:sched_switch /@out[args->next_pid]/ { @out[args->next_pid] = 0; }
tracepoint:sched:sched_switch /@futex[args->prev_pid] && @on[args->prev_pid] && (args->prev_state & 3)/ { @out[args->prev_pid] = nsecs; }
tracepoint:sched:sched_waking /@out[args->pid]/ { @waits[args->pid] += nsecs - @out[args->pid]; @out[args->pid] = 0; }
interval:ms:100 { printf("counting\n"); }
END { clear(@on); clear(@futex); clear(@out); }
BT
}

waits_agree() {
  need_bpf
  programs
  mkfifo in
  exec 5<>in
  "$RUBY" --disable-gems spin.rb <in >out &
  program=$!
  t_wait grep -q ready out
  bpftrace gvl.bt "$program" >waits 2>bt.err &
  peer=$!
  # The last probe is attached. A thread that is preempted in a call does not wait.
  t_wait grep -q counting waits
  "$RUTILE" record -o trace --class Spin --buffer 128M -e sched,irq,syscall --ruby "$program" 2>record.err &
  recorder=$!
  recording trace
  t_wait test -s trace/ruby-"$program"/names
  echo >&5
  wait "$program"
  kill -INT "$recorder" "$peer" 2>/dev/null || :
  wait "$recorder" || :
  wait "$peer" || :
  cat record.err bt.err
  "$RUTILE" requests --skip-validation --request 'Spin#run' --slowest 9 --explain --json trace >got.json
  python3 - <<'PY'
import json, re
truth = {int(t): int(ns) for t, ns in re.findall(r"@waits\[(\d+)\]: (\d+)", open("waits").read())}
got = {r["tid"]: r for r in map(json.loads, open("got.json")) if r["type"] == "request"}
assert len(truth) == 3 and truth.keys() == got.keys(), (truth, got.keys())
for tid, ns in truth.items():
    print(tid, ns, got[tid]["parts"])
    assert ns > 1e8 and abs(got[tid]["parts"]["gvl"] - ns) <= ns / 100, (tid, ns, got[tid]["parts"])
    assert sum(got[tid]["parts"].values()) == got[tid]["duration_ns"]
PY
}

t_case 'waits for the GVL are those that an independent record of futexes and switches has' waits_agree
t_done
