#!/bin/bash
# SPDX-License-Identifier: MIT
# What scripts know of Ruby, against what Ruby itself counts.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUBY:-ruby}

need_bpf

script='' pid=''

# What a case leaves when it fails: the programs would never end.
clean_up() {
  [ -z "$script" ] || kill -INT "$script" 2>/dev/null || :
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
}

# begin OPTION...: runs a script until finish; its output is in "out".
begin() {
  "$RUTILE" run "$@" >out 2>err & script=$!
  trap clean_up EXIT
  t_wait grep -q '^Attached' err || { cat err; return 1; }
}

finish() {
  kill -INT "$script" 2>/dev/null || :
  wait_script
}

wait_script() {
  wait "$script" || { cat err; return 1; }
  script=''
}

# launch PROGRAM ARGUMENT...: starts a Ruby program, which waits for the file "go".
launch() {
  "$ruby" "$@" & pid=$!
  trap clean_up EXIT
  t_wait mapped "$pid"
}

# It runs to its end, and so does the script.
go() {
  : >go
  wait "$pid"
  pid=''
  finish
}

# methods: starts the program with many methods.
methods() {
  launch "$SRC/tests/bpf/ruby_methods.rb" "$PWD/counts" "$PWD/go"
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
  go
  expected >want
  [ "$(awk '{ n += $NF } END { print n }' want)" = 100000 ]
  seen | diff want - || { cat out err; return 1; }
}
t_case "rmethod is right in 100,000 of 100,000 writes, with threads, fibers and a child" methods_of_a_running_process

methods_of_a_command() {
  begin --unsafe -e 'tracepoint:syscalls:sys_enter_write /args.count == 1 && rmethod/ { @[rmethod] = count(); if (!@known) { @known = 1; signal("USR1"); } }' \
    -c "$ruby $SRC/tests/bpf/ruby_methods.rb $PWD/counts $PWD/go"
  wait_script
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
  launch "$t_root/stack.rb" "$PWD/go" >threads
  begin -e 'tracepoint:syscalls:sys_enter_write /pid == '"$pid"' && args.count == 1/ { @line[rline] = count(); @thread[rthread] = count(); @all[rstack] = count(); @few[rstack(3)] = count(); }' -p "$pid"
  go
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

# Two children of a fork with different code at the same addresses, which take turns on one CPU.
cat >"$t_root/turns.rb" <<'EOF2'
GC.disable
sleep 0.01 until File.exist?(ARGV[0])
null = File.open("/dev/null", "w")
ends = Array.new(2) { IO.pipe }
children = ["a.rb", "b.rb"].each_with_index.map do |file, i|
  fork do
    eval("def work(io) = io.syswrite('1234567')", TOPLEVEL_BINDING, file)
    File.write("pid.#{file}", $$.to_s)
    null.syswrite("12345678") and sleep 0.01 until File.exist?(ARGV[1])
    50.times do
      ends[i][0].sysread(1)
      work(null)
      ends[1 - i][1].syswrite("x")
    end
  end
end
ends[0][1].syswrite("x")
children.each { |c| Process.wait(c) }
EOF2

processes_that_take_turns() {
  taskset -c "$(taskset -cp $$ | grep -o '[0-9]*$')" "$ruby" "$t_root/turns.rb" "$PWD/go" "$PWD/turn" & pid=$!
  trap clean_up EXIT
  : >go
  t_wait test -s pid.a.rb
  t_wait test -s pid.b.rb
  local a b
  a=$(cat pid.a.rb) b=$(cat pid.b.rb)
  begin -e "tracepoint:syscalls:sys_enter_write /args.count == 7 && pid == $a/ { @a[rline] = count(); }
    tracepoint:syscalls:sys_enter_write /args.count == 7 && pid == $b/ { @b[rstack(2)] = count(); }
    tracepoint:syscalls:sys_enter_write /args.count == 8 && pid == $a && rline/ { @known_a = 1; }
    tracepoint:syscalls:sys_enter_write /args.count == 8 && pid == $b && rline/ { @known_b = 1; }
    interval:ms:20 /@known_a && @known_b && !@said/ { @said = 1; printf(\"known\\n\"); }"
  t_wait grep -qx known out
  : >turn
  go
  grep -qx '@a\[a.rb:1\]: 50' out || { cat out; return 1; }
}
t_case "processes that take turns on a CPU keep their names" processes_that_take_turns

cat >"$t_root/in.rb" <<'EOF2'
$null = File.open("/dev/null", "w")
def write = $null.syswrite("x")
class Order
  def total
    write
    yield
    [1, 2].each { write }
  end
  def self.find
    Thread.new { write }.join
    deep(500)
  end
  def self.deep(n)
    n == 0 ? write : deep(n - 1)
  end
  define_method(:dynamic) { write }
end
sleep 0.01 until File.exist?(ARGV[0])
100.times { write; Order.new.total { write }; Order.find; Order.new.dynamic }
EOF2

inside_of_methods() {
  launch "$t_root/in.rb" "$PWD/go"
  cat >in.bt <<'EOF2'
tracepoint:syscalls:sys_enter_write
/pid == $1 && args.count == 1/
{
	@all = count();
	if (in("Order#total")) { @total = count(); }
	if (in("total")) { @any = count(); }
	if (in("Order.find")) { @find = count(); }
	if (in("Order.deep")) { @deep = count(); }
	if (in("Order#dynamic")) { @dynamic = count(); }
	if (in("Array#each") && in("Order#total")) { @each = count(); }
	if (in("Order#find") || in("Orders#total") || in("Order#tota")) { @none = count(); }
}
EOF2
  begin -p "$pid" in.bt "$pid"
  go
  # A block counts as its method, also in another thread.
  printf '%s\n' '@all: 800' '@any: 400' '@deep: 100' '@dynamic: 100' '@each: 200' '@find: 200' '@total: 400' >want
  grep '^@' out | diff want - || { cat err; return 1; }
  for bad in 'Order#t*' 'Ord*#total' '#total' 'Order#' ''; do
    if "$RUTILE" run -d -e "begin { print(in(\"$bad\")); }" 2>err; then return 1; fi
    grep -q 'stdin:1:18: error: in() takes the constant name of one method' err || { cat err; return 1; }
  done
}
t_case "in() is true in a method, what it calls, and its blocks" inside_of_methods

# Forked before the script began: their parent is what -p names, and they are its children.
cat >"$t_root/forked.rb" <<'EOF2'
class Order
  def total = File.open("/dev/null", &:fileno)
end
up, go = ARGV
work = lambda do
  sleep 0.02 until File.exist?(go)
  50.times { Order.new.total }
end
pids = Array.new(2) { fork { Process.wait(fork { work.call }) and work.call } }
File.write(up, "")
work.call
pids.each { |child| Process.wait(child) }
EOF2

children_from_before() {
  launch "$t_root/forked.rb" "$PWD/up" "$PWD/go"
  t_wait test -e up
  begin -e 'tracepoint:syscalls:sys_enter_openat /str(args.filename) == "/dev/null" && in("total")/ { @[rmethod, rline] = count(); @pids[pid] = count(); }' -p "$pid"
  go
  grep -qx "@\[Order#total, $t_root/forked.rb:2\]: 250" out || { cat out; return 1; }
  [ "$(grep -c '^@pids.*: 50$' out)" = 5 ]
}
t_case "with -p the frames of children are known that were forked before" children_from_before

# The agent has the script's map in the process: what in() then reads.
followed() {
  grep -q 'anon_inode:bpf-map' "/proc/$1/maps"
}
not_followed() {
  ! followed "$1"
}

# follows PID BITS: it has all hooks of these methods of the script, a bit each.
follows() {
  bpftool -j map dump name within_ready | grep -q "\"formatted\":{\"key\":$1,\"value\":$2}"
}
# has_slot TID: what in() reads of the thread is what the agent writes.
has_slot() {
  bpftool -j map dump name within_threads | grep -qE "\"formatted\":\{\"key\":$1,\"value\":\{\"slot\":[1-9][0-9]{0,3},"
}
any_has_slot() {
  local task
  for task in "/proc/$1/task/"*; do
    if has_slot "${task##*/}"; then return; fi
  done
  return 1
}

within_methods() {
  launch "$SRC/tests/bpf/ruby_within.rb" "$PWD/counts" "$PWD/go" "$PWD/ready"
  t_wait test -e ready
  begin -v -e 'tracepoint:syscalls:sys_enter_write /strncmp(comm, "ruby", 4) == 0 && args.count <= 2/ {
	@[args.count, in("Order#total") || in("Order#made") || in("Order#größe")] = count(); }' -p "$pid"
  t_wait followed "$pid"
  # Methods of define_method are known when they are called.
  t_wait follows "$pid" 5
  : >go
  t_wait follows "$pid" 7
  t_wait any_has_slot "$pid"
  go
  read -r inside outside <counts
  [ $((inside + outside)) -gt 100000 ]
  printf '@[1, true]: %d\n@[2, false]: %d\n' "$inside" "$outside" >want
  grep '^@' out | sort | diff want - || { cat err; return 1; }
}
t_case "in() is right in 100,000 of 100,000 writes with the agent: threads, fibers, exceptions, blocks, a child" within_methods

# However it ends, the process goes on without the map.
within_ends() {
  launch -e 'loop { sleep 0.01 }'
  begin -e 'tracepoint:syscalls:sys_enter_write /in("Order#total")/ { @ = count(); }' -p "$pid"
  t_wait followed "$pid"
  if [ "$1" = -INT ]; then
    finish
  else
    kill "$1" "$script"
    wait "$script" || :
    script=''
  fi
  t_wait not_followed "$pid"
  kill "$pid"
  wait "$pid" || :
  pid=''
}
within_ends_killed() {
  within_ends -KILL
}
within_ends_interrupted() {
  within_ends -INT
}
t_case "the map of in() leaves the process with the script" within_ends_interrupted
t_case "the map of in() leaves the process when the script is killed" within_ends_killed

# Where system calls are filtered the agent makes none that the filter may forbid: stacks are read.
within_filtered() {
  launch -e 'class Order; def total = $stderr.syswrite("xx"); end
    require "fiddle"
    libc = Fiddle.dlopen(nil)
    prctl = Fiddle::Function.new(libc["prctl"], [Fiddle::TYPE_INT, *[Fiddle::TYPE_LONG] * 4], Fiddle::TYPE_INT)
    allow = [6, 0, 0, 0x7fff0000].pack("SCCL")
    prog = [1, Fiddle::Pointer[allow].to_i].pack("Sx6Q")
    prctl.call(38, 1, 0, 0, 0)
    prctl.call(22, 2, Fiddle::Pointer[prog].to_i, 0, 0) == 0 or abort "no filter"
    File.write("ready", "")
    sleep 0.01 until File.exist?("go")
    50.times { Order.new.total }
    File.write("written", "")
    sleep 0.01 until File.exist?("end")' 2>/dev/null
  t_wait test -e ready
  begin -e 'tracepoint:syscalls:sys_enter_write /in("Order#total")/ { @ = count(); }' -p "$pid"
  not_followed "$pid"
  : >go
  t_wait test -e written
  not_followed "$pid"
  : >end
  go
  grep -qx '@: 50' out || { cat out err; return 1; }
}
t_case "in() reads stacks in a process whose system calls are filtered" within_filtered

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

# The scripts that are installed, by an application of our own.
cat >"$t_root/app.rb" <<'EOF2'
class Order
  def total
    500.times { Process.getpriority(Process::PRIO_PROCESS, 0) }
  end

  def self.load(path)
    File.open(path, "rb") do |f|
      f.advise(:dontneed)
      begin
        loop { f.sysread(65_536) }
      rescue EOFError
        nil
      end
    end
  end

  def self.wait
    begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    3.times { sleep(0.1) }
    $stdout.puts(((Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun) * 1e6).ceil)
  end
end
sleep 0.01 until File.exist?(ARGV[0])
Order.new.total
Order.wait
Order.load(ARGV[1]) unless ARGV[1].empty?
EOF2

# app SCRIPT ARGUMENT...: the script sees all of the application.
app() {
  launch "$t_root/app.rb" "$PWD/go" "${disk:-}" >ruby.out
  begin -p "$pid" "$@"
  go
}

disk_bytes_by_method() {
  truncate -s 8M image
  disk=$(losetup -f --show "$PWD/image")
  trap 'losetup -d "$disk"' EXIT
  (app rubydisk)
  awk '/^@bytes\[Order.load, R/ { n += $NF } END { exit n != 8388608 }' out || { cat out; return 1; }
}
t_case "rubydisk: bytes read from a disk" disk_bytes_by_method

system_calls_by_method() {
  app rubysys
  grep -qx '@calls\[Order#total, getpriority\]: 500' out || { cat out; return 1; }
  grep -q '^@usecs\[Order#total\]: ' out
}
t_case "rubysys: system calls" system_calls_by_method

waits_by_line() {
  app rubyoffcpu
  line=$(awk '/3.times/ { print NR }' "$t_root/app.rb")
  usecs=$(sed -n "s|^@usecs\\[$t_root/app.rb:$line\\]: ||p" out)
  # What Ruby runs between the sleeps is not in it.
  if [ "$usecs" -lt 200000 ] || [ "$usecs" -gt "$(cat ruby.out)" ]; then
    cat out ruby.out
    return 1
  fi
}
t_case "rubyoffcpu: time of waits" waits_by_line

calls_of_a_library() {
  app rubylib libc getpriority
  line=$(awk '/500.times/ { print NR }' "$t_root/app.rb")
  grep -qx "@calls\\[$t_root/app.rb:$line\\]: 500" out || { cat out; return 1; }
  awk '/^@usecs\[Order#total\]/ { on = 1 } on && /\|/ { sub(/.*[])] */, ""); n += $1 } END { exit n != 500 }' out
}
t_case "rubylib: calls of a C library" calls_of_a_library

t_done
