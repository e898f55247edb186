#!/bin/bash
# SPDX-License-Identifier: MIT
# Ruby stacks of kernel events, against what Ruby itself says of them.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUBY:-ruby}
trap '"$RUTILE" destroy rs$$ 2>/dev/null; rm -rf "$t_root"' EXIT

# The frames that Ruby's caller_locations says, at every mark.
truth() {
  "$RUTILE" view --stacks --json "$1" | python3 "$SRC/tests/bpf/ruby_stacks.py" "$2"
}

# in_ruby FILE: runs the marks, when FILE is there; what Ruby says of them is in `truth`.
in_ruby() {
  exec "$ruby" "$SRC/tests/bpf/ruby_stacks.rb" "$PWD/truth" "$1"
}

mapped() {
  grep -qE 'libruby|/ruby' "/proc/$1/maps"
}

test_running() {
  need_bpf
  in_ruby "$PWD/go" & pid=$!
  t_wait mapped $pid
  sleep 0.5
  "$RUTILE" record -o trace -e 'syscall_entry_*stat*' --context ruby_stack -p $pid & rec=$!
  recording trace
  : >go
  wait $pid
  wait $rec # it ends with its process
  truth trace truth
  babeltrace2 trace >/dev/null
  "$RUTILE" view --folded trace >folded
  grep -q ';<main>;Integer#times;block in <main>;Shop::Special#total;Shop::Order#total;Array#each;block in Shop::Order#total;' folded
  grep -q ';Shop::Order.load;Object#mark;File.exist? ' folded
}
t_case "the stacks of a running process are those that Ruby says" test_running

test_started() {
  need_bpf
  "$RUTILE" record -o trace -e 'syscall_entry_*stat*' --context ruby_stack -- \
    "$ruby" "$SRC/tests/bpf/ruby_stacks.rb" "$PWD/truth" "$PWD/go" & rec=$!
  recording trace
  sleep 1
  : >go
  wait $rec
  truth trace truth
}
t_case "a process that starts later is found" test_started

# Only some events have a stack; the others have the field, without one. Profiles keep that.
test_some_events() {
  need_bpf
  in_ruby "$PWD/go" & pid=$!
  t_wait mapped $pid
  sleep 0.5
  "$RUTILE" record -o trace -e 'syscall_entry_*stat*:ruby-stack,syscall_exit_*stat*' -e 'tp:sched:sched_wakeup,tp:sched:sched_switch:ruby-stack' -p $pid & rec=$!
  recording trace
  : >go
  wait $pid
  wait $rec # it ends with its process
  truth trace truth
  babeltrace2 trace >out
  grep -q 'syscall_exit_[a-z]*stat' out
  not grep 'syscall_exit_[a-z]*stat.*ruby_stack_id = 0x[1-9A-F]' out
  not grep ' sched:sched_wakeup.*ruby_stack_id = 0x[1-9A-F]' out
  grep -q ' sched:sched_switch.*ruby_stack_id = 0x[1-9A-F]' out
  "$RUTILE" start rs$$ --flight -e 'sched_switch:ruby-stack,syscall:getppid' >/dev/null
  "$RUTILE" save rs$$ >profile
  if "$RUTILE" add rs$$ -e 'sched_waking:ruby-stack' 2>err; then return 1; fi
  "$RUTILE" destroy rs$$
  grep -q "said at the start of the session" err
  grep -qx 'event = sched_switch:ruby-stack,syscall:getppid' profile
  not grep context profile
}
t_case "stacks with some events only" test_some_events

test_flight() {
  need_bpf
  in_ruby "$PWD/go" & pid=$!
  t_wait mapped $pid
  sleep 0.5
  "$RUTILE" start rs$$ --flight -e 'syscall_entry_*stat*' --context ruby_stack,procname >/dev/null
  : >go
  wait $pid
  "$RUTILE" snapshot rs$$ -o snap
  "$RUTILE" destroy rs$$
  truth snap truth
}
t_case "a flight recorder has the names of a process that has ended" test_flight

test_namespace() {
  need_bpf
  export ruby SRC
  unshare --mount --pid --fork --mount-proc "$ruby" "$SRC/tests/bpf/ruby_stacks.rb" "$PWD/truth" "$PWD/go" & pid=$!
  child=
  for _ in $(seq 100); do
    child=$(cat /proc/$pid/task/*/children 2>/dev/null | tr -d ' ') || :
    [ -z "$child" ] || break
    sleep 0.05
  done
  t_wait mapped "$child"
  sleep 0.5
  "$RUTILE" record -o trace -e 'syscall_entry_*stat*' --context ruby_stack -p "$child" & rec=$!
  recording trace
  : >go
  wait $pid
  wait $rec # it ends with its process
  truth trace truth
}
t_case "a process in namespaces of its own" test_namespace

t_done
