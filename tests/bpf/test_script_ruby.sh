#!/bin/bash
# SPDX-License-Identifier: MIT
# What scripts know of Ruby, against what Ruby itself counts.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUTILE_RUBY:-ruby}

need_bpf

# begin OPTION...: runs a script until finish; its output is in "out".
begin() {
  "$RUTILE" run "$@" >out 2>err &
  script=$!
  trap 'kill -INT $script 2>/dev/null || :' EXIT
  t_wait grep -q '^Attached' err || { cat err; return 1; }
}

finish() {
  kill -INT "$script" 2>/dev/null || :
  wait "$script" || { cat err; return 1; }
  trap - EXIT
}

# methods: starts the program with many methods; it waits for the file "go".
methods() {
  "$ruby" "$SRC/tests/bpf/ruby_methods.rb" "$PWD/counts" "$PWD/go" &
  pid=$!
  t_wait mapped "$pid"
}

mapped() {
  grep -qE 'libruby|/ruby' "/proc/$1/maps"
}

# As the map @ prints it; writes of Wait#step, and of no method, are not counted.
expected() {
  awk -F '\t' '{ print "@[" $1 "]: " $2 }' counts | LC_ALL=C sort
}
seen() {
  grep '^@\[[A-Z]' out | grep -v 'Wait#step' | LC_ALL=C sort
}

methods_of_a_running_process() {
  methods
  # Children have its names from their first call on, and names stay when processes have ended.
  begin -e 'tracepoint:syscalls:sys_enter_write /strncmp(comm, "ruby", 4) == 0 && args.count == 1/ { @[rmethod] = count(); }' -p "$pid"
  : >go
  wait "$pid"
  finish
  expected >want
  [ "$(awk '{ n += $NF } END { print n }' want)" = 100000 ]
  seen | diff want - || { cat out err; return 1; }
}
t_case "rmethod is right in 100,000 of 100,000 writes, with threads, fibers and a child" methods_of_a_running_process

methods_of_a_command() {
  begin --unsafe -e 'tracepoint:syscalls:sys_enter_write /args.count == 1 && rmethod/ { @[rmethod] = count(); if (!@known) { @known = 1; signal("USR1"); } }' \
    -c "$ruby $SRC/tests/bpf/ruby_methods.rb $PWD/counts $PWD/go"
  wait "$script" || { cat err; return 1; }
  trap - EXIT
  expected >want
  seen | diff want - || { cat out err; return 1; }
}
t_case "a process that starts later is found" methods_of_a_command

cat >"$t_root/stack.rb" <<'EOF2'
$null = File.open("/dev/null", "w")
class Order
  def total
    [1].each do |x|
      $null.syswrite("x")
    end
  end
end
def deep(n)
  n == 0 ? Order.new.total : deep(n - 1)
end
sleep 0.01 until File.exist?(ARGV[0])
thread = Thread.new { 3.times { Order.new.total } }
thread.join
puts thread.inspect[/0x\h+/], Thread.current.inspect[/0x\h+/]
$stdout.flush
2.times { deep(200) }
EOF2

stacks_and_lines() {
  "$ruby" "$t_root/stack.rb" "$PWD/go" >threads &
  pid=$!
  t_wait mapped "$pid"
  begin -e 'tracepoint:syscalls:sys_enter_write /pid == '"$pid"' && args.count == 1/ { @line[rline] = count(); @thread[rthread] = count(); @all[rstack] = count(); @few[rstack(3)] = count(); }' -p "$pid"
  : >go
  wait "$pid"
  finish
  grep -qx "@line\\[$t_root/stack.rb:5\\]: 5" out
  { read -r one; read -r main; } <threads
  grep -qix "@thread\\[#<Thread:$one>\\]: 3" out
  grep -qix "@thread\\[#<Thread:$main>\\]: 2" out
  cat >want <<EOF2
@all[
        IO#syswrite
        block in Order#total ($t_root/stack.rb:5)
        Array#each
        Order#total ($t_root/stack.rb:4)
        block (2 levels) in <main> ($t_root/stack.rb:13)
        Integer#times
        block in <main> ($t_root/stack.rb:13)
]: 3
EOF2
  grep -B 8 '^\]: 3' out | diff want -
  cat >want <<EOF2
@few[
        IO#syswrite
        block in Order#total ($t_root/stack.rb:5)
        Array#each
]: 5
EOF2
  grep -B 4 '^\]: 5' out | diff want -
  [ "$(grep -c 'Object#deep' out)" = 201 ]
}
t_case "rline, rthread and rstack, also of a deep stack" stacks_and_lines

not_ruby() {
  sleep 100 &
  pid=$!
  trap 'kill $pid' EXIT
  if "$RUTILE" run -p $pid -e 'begin { print(rmethod); }' >out 2>err; then return 1; fi
  cat err
  grep -q "^rutile run: process $pid is not Ruby" err
  "$RUTILE" run -q -e 'begin { printf("<%s> %d\n", rmethod, rmethod ? 1 : 0); exit(); }' >out
  grep -qx '<> 0' out
}
t_case "a process that is not Ruby" not_ruby

t_done
