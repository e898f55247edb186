#!/bin/bash
# SPDX-License-Identifier: MIT
# The agent: what it needs, forks, ractors, several tracers, their deaths, the conditions of a trace.
. "$SRC/tests/tap.sh"
: "${TRACE_TOOL:?the tracer under test}" "${AGENT:?the agent}" "${RUBY:=ruby}" "${RUBYFLAGS:=}"
ruby="$RUBY $RUBYFLAGS -W0 --disable-gems"

# Until the files have something in them.
wait_for() {
  for f in "$@"; do t_wait test -s "$f"; done
}

# "NAME CALLS" of one file.
calls() {
  awk -F '\t' -v path="$1" '$1 == path { print $3, $4 }' | LC_ALL=C sort
}

is() {
  printf '%s\n' "$1" >want
  diff -u want got
}

# Another libc than the one it was built with must be able to load it.
links_against_nothing() {
  objdump -T "$AGENT" >symbols
  grep -q pthread_create symbols
  ! grep -E 'GLIBC|LIBC' symbols || return 1
  # Names that only a newer libc has.
  ! grep -wE 'fstat64|stat64|lstat64|fcntl64@.*|pthread_cond_clockwait|__libc_single_threaded' symbols || return 1
  readelf -d "$AGENT" >dynamic
  ! grep NEEDED dynamic
}

# An exception in the middle of making code leaves it in the heap, without a path and without a mark.
half_made_code_is_left_alone() {
  $RUBY -rfiddle -e '' 2>/dev/null || t_skip "this Ruby has no fiddle"
  cat >half.rb <<'EOF'
require "fiddle"
GC.disable
load = Fiddle::Function.new(Fiddle::Handle::DEFAULT["rb_iseq_load"], [Fiddle::TYPE_VOIDP] * 3, Fiddle::TYPE_VOIDP)
bad = ["", 3, 1, 1, {}, "", "", nil, 1, :no_such_type, [], {}, [], []]
5.times do
  load.call(Fiddle.dlwrap(bad), Fiddle.dlwrap(nil), Fiddle.dlwrap(nil))
  abort "it was made"
rescue TypeError
end
class W; def step; 1; end; end
w = W.new
puts "ready"
$stdout.flush
$stdin.read
100.times { w.step }
sleep 0.1
exit! 7
EOF
  for mode in calls time objects stacks; do
    rm -f ready in
    mkfifo in
    $RUBY $RUBYFLAGS -W0 half.rb <in >ready &
    pid=$!
    exec 5>in
    wait_for ready
    "$TRACE_TOOL" -m "$mode" "$pid" >out 5>&- &
    tool=$!
    for _ in 1 2 3 4 5; do sleep 0.1; kill -0 "$pid"; done
    exec 5>&-
    rc=0
    wait "$pid" || rc=$?
    wait "$tool" || :
    echo "$mode: exit status $rc"
    [ "$rc" = 7 ]
  done
}

ractors_count() {
  $ruby -e 'exit(defined?(Ractor) ? 0 : 1)' || t_skip "this Ruby has no ractors"
  $ruby -e 'exit(RUBY_VERSION < "4")' || t_skip "from Ruby 4.0 on a tracepoint is that of one ractor"
  cat >r.rb <<'EOF'
class W; def step; 1; end; def self.s; 2; end; end
rs = 4.times.map { Ractor.new { w = W.new; 20_000.times { w.step; W.s }; :ok } }
w = W.new
20_000.times { w.step }
rs.each { |r| r.respond_to?(:value) ? r.value : r.take } # Ruby 4.0; before
EOF
  for mode in calls time; do
    "$TRACE_TOOL" -m $mode -- $ruby "$T/r.rb" >out
    calls "$T/r.rb" <out >got
    is "W#step 100000
W.s 80000"
  done
}

# Hooks on allocations and C methods are the main ractor's: its own are counted, and what is not is
# said. Until 3.2 Ruby crashes where a ractor begins while there is a hook on allocations.
ractors_are_told() {
  $ruby -e 'exit(defined?(Ractor) ? 0 : 1)' || t_skip "this Ruby has no ractors"
  cat >a.rb <<'EOF'
class W; def step; [].push(Object.new); end; end
class Mine < Ractor; end
w = W.new
100.times { w.step }
kind = ARGV[0] ? Mine : Ractor
rs = 4.times.map { kind.new { x = W.new; 50.times { x.step }; :ok } }
rs.each { |r| r.respond_to?(:take) ? r.take : r.value }
100.times { w.step }
File.write('well', '')
EOF
  want=200
  for verb in "calls --c-calls" strings objects; do
    # Counting has ended.
    [ "$verb" = "calls --c-calls" ] || $ruby -e 'exit RUBY_VERSION >= "3.3"' || want=100
    # All ractors' allocations.
    [ "$verb" = "calls --c-calls" ] || $ruby -e 'exit RUBY_VERSION < "4"' || want=400
    for mine in "" mine; do
      rm -f well
      # shellcheck disable=SC2086 # words
      "$RUTILE" $verb --json --last --path '*/a.rb' -- $ruby "$T/a.rb" $mine >out 2>err
      cat err
      [ -e well ]
      [ -n "$mine" ] || grep -q 'ractor' err
      [ "$verb" != strings ] || continue
      cat out
      grep -E '"line":1,.*"(class":"Object|method":"Array#push)"' out |
        sed -E 's/.*"(calls|count)":([0-9]+),.*/\2/' >got
      is $want
    done
  done
}

# Allocations beside calls: the hook on allocations goes before the first ractor, the one on calls stays.
ractors_beside_calls() {
  $ruby -e 'exit(defined?(Ractor) ? 0 : 1)' || t_skip "this Ruby has no ractors"
  $ruby -e 'exit(RUBY_VERSION < "4")' || t_skip "from Ruby 4.0 on a tracepoint is that of one ractor"
  cat >a.rb <<'EOF'
class W; def step = Object.new; end
w = W.new
100.times { w.step }
rs = 4.times.map { Ractor.new { x = W.new; 50.times { x.step }; :ok } }
rs.each { |r| r.respond_to?(:take) ? r.take : r.value }
100.times { w.step }
File.write('well', '')
EOF
  "$RUTILE" record --ruby :call,alloc -o t -- $ruby "$T/a.rb" 2>err
  cat err
  [ -e well ]
  "$RUTILE" rubytop --mi t >mi
  python3 - mi <<'EOF'
import json, sys
val = lambda c: c.get("value", c.get("path")) if isinstance(c, dict) else c
rows = [[val(c) for c in r] for t in json.load(open(sys.argv[1]))["results"] for r in t["data"]]
calls = [r[2] for r in rows if r[0] == "W#step"]
assert calls == [400], (calls, rows[:5])
EOF
}

# Text that is evaluated without a file is not the application's; each method is called once, right after it was made.
evaluated_methods() {
  cat >gen.rb <<'EOF'
class Gen; end
300.times do |i|
  case ARGV[0]
  when "file" then Gen.class_eval("def m#{i}; end", __FILE__, __LINE__)
  when "text" then Gen.class_eval("def m#{i}; end")
  when "block" then Gen.class_eval { define_method("m#{i}") {} }
  end
  Gen.new.send("m#{i}")
end
EOF
  for case in "file 300" "block 300" "text 0" "text 300 --path (eval*" "text 0 --path !*/none.rb"; do
    # shellcheck disable=SC2162
    read how want option glob <<<"$case"
    rm -rf t
    "$RUTILE" record --ruby :call --class Gen ${option:+"$option" "$glob"} -o t -- $ruby "$T/gen.rb" "$how" 2>err
    echo "$case"
    cat err
    [ "$("$RUTILE" view --count --event ruby:call t)" = "$want" ]
    if [ "$want" = 0 ]; then
      grep -q "need --path '\*', those of evaluated text without a file --path '(eval\*'" err
    else
      not grep -q -e --path err
    fi
  done
}

# However soon it ends, and however busy the machine is: it does not begin before the tracer sees it.
short_programs_are_counted() {
  echo 'def once; end; once' >s.rb
  for i in 1 2 3 4; do
    for j in 1 2 3 4 5 6 7 8; do
      "$TRACE_TOOL" -m calls -- $ruby "$T/s.rb" >out.$i.$j
    done &
  done
  wait
  cat out.* | calls "$T/s.rb" | sort | uniq -c | tr -s ' ' >got
  is " 32 Object#once 1"
}

# Attached while Ruby starts: it must not notice. Some of it the tracer cannot do yet, and says so.
starting_processes_survive() {
  for lane in 0 1 2 3; do
    some_starting_processes "$lane" &
    eval "lane_$lane=$!"
  done
  for lane in 0 1 2 3; do eval "wait \$lane_$lane"; done
}

some_starting_processes() { # LANE
  for i in $(seq $((1 + $1)) 4 60); do
    $ruby -e 'sleep 0.4; exit 3' &
    pid=$!
    sleep "0.00$((i % 10))$((i / 10))"
    "$TRACE_TOOL" -q -s 0.1 -m calls $pid >/dev/null 2>err.$i || true
    rc=0
    wait $pid || rc=$?
    [ $rc = 3 ] || { echo "exit status $rc after $i"; cat err.$i; return 1; }
  done
}

forks_are_followed() {
  cat >f.rb <<'EOF'
class W; def work; end; def before; end; end
w = W.new
10.times { w.before }
pids = Array.new(3) { |i| fork { (i + 1).times { w.work }; sleep 0.5; 100.times { w.work }; Process.wait(fork { 7.times { w.before } }) } }
pids.each { |pid| Process.wait(pid) }
EOF
  "$TRACE_TOOL" -m calls -- $ruby "$T/f.rb" >out
  awk -F '\t' -v path="$T/f.rb" '$1 == path && $3 == "W#work" { print $4 }' out | sort -n >got
  is "101
102
103"
}

# Children that exit before they are inspected, and theirs; more of them than slots.
short_children_are_counted() {
  cat >c.rb <<'EOF'
class W; def work; Object.new; end; end
w = W.new
n = Integer(ARGV[0])
n.times do |i|
  Process.wait(fork { 7.times { w.work }; i.odd? ? exit!(0) : Process.kill(:KILL, $$) })
end
Process.wait(fork { 10.times { Process.wait(fork { 3.times { w.work }; exit!(0) }) }; exit!(0) })
20.times.map { fork { 2.times { w.work }; exit } }.each { |pid| Process.wait(pid) }
w.work
EOF
  for mode in calls time objects; do
    "$TRACE_TOOL" -m $mode -- $ruby "$T/c.rb" 200 >out
    awk -F '\t' -v path="$T/c.rb" '$1 == path && $3 == (mode == "objects" ? "Object" : "W#work") { n += $4 + $8 }
      END { print n }' mode=$mode out >got
    is 1471
  done
  "$TRACE_TOOL" -m trace -- $ruby "$T/c.rb" 200 | awk -F '\t' '$1 == "call" && $5 == "W#work"' | wc -l >got
  is 1471
  "$TRACE_TOOL" -m calls -- $ruby "$T/c.rb" 2500 >out
  awk -F '\t' -v path="$T/c.rb" '$1 == path && $3 == "W#work" { n += $4 } END { print n }' out >got
  is 17571
}

# The end of the command is seen, whoever was looking at it in that moment.
killed_while_injected() {
  cat >k.rb <<'EOF'
Thread.new do
  Process.kill(:KILL, $$) if Dir.children("/proc/self/fd").any? do |f|
    File.readlink("/proc/self/fd/#{f}").include?("memfd:rutile-agent ") rescue false
  end while true
end
sleep 0.7
EOF
  for _ in 1 2 3 4 5 6; do
    rc=0
    timeout -s INT 30 "$RUTILE" calls --last -- $RUBY --disable=gems --disable=rubyopt k.rb >out 2>&1 || rc=$?
    echo "$rc"
    [ $rc = 137 ] || [ $rc = 0 ]
  done
}

# Where files may not be as large as our tables, nothing is traced, and no process is killed.
small_files_only() {
  echo 'def work; end; work; Process.wait(fork { work }); print "well"' >l.rb
  for limit in 100 40000 80000; do
    "$TRACE_TOOL" -m calls -- sh -c "ulimit -f $limit; exec $ruby $T/l.rb" >out 2>err || cat err
    cat out
    grep -q well out
  done
}

two_tracers_and_none() {
  cat >p.rb <<'EOF'
class W; def work; Object.new; end; end
w = W.new
$stdout.sync = true
loop do
  line = $stdin.gets or break
  1000.times { w.work }
  tps = ObjectSpace.each_object(TracePoint).count { |t| t.enabled? }
  puts line == "hooks\n" ? tps : "done"
end
EOF
  mkfifo in answer
  $ruby "$T/p.rb" <in >answer &
  pid=$!
  exec 5>in 6<answer
  echo hooks >&5
  read -r _ <&6
  "$TRACE_TOOL" -m calls -w 7 -u one $pid 7>r1 >out1 &
  one=$!
  "$TRACE_TOOL" -m objects -w 7 -u two $pid 7>r2 >out2 &
  two=$!
  wait_for r1 r2
  echo go >&5
  read -r _ <&6
  : >one
  : >two
  wait $one
  wait $two
  "$TRACE_TOOL" -m time -w 7 -u three $pid 7>r3 >out3 &
  three=$!
  wait_for r3
  echo go >&5
  read -r _ <&6
  : >three
  wait $three
  # A moment later its hooks are removed.
  for _ in $(seq 200); do
    echo hooks >&5
    read -r hooks <&6
    [ "$hooks" != 0 ] || break
    sleep 0.05
  done
  exec 5>&- 6<&-
  wait $pid
  calls "$T/p.rb" <out1 >got
  is "W#work 1000"
  grep "^$T/p.rb" out2 | awk -F '\t' '$3 == "Object" { print $3, $8 }' >got
  is "Object 1000"
  calls "$T/p.rb" <out3 >got
  is "W#work 1000"
  echo "$hooks" >got
  is 0
}

# Where Ruby's library keeps the address of the function that runs hooks: "LIBRARY OFFSET"; nothing
# where it calls that function directly.
slot_of_exec_hooks() {
  library=$(awk '$6 ~ /libruby[^\/]*$/ { print $6; exit }' "/proc/$1/maps")
  [ -z "$library" ] || readelf -W --relocs "/proc/$1/root$library" |
    awk -v library="$library" '$5 ~ /^rb_exec_event_hooks/ { print library, "0x" $1; exit }'
}

# The file that the address in the slot belongs to.
owner_of_slot() {
  # shellcheck disable=SC2046 # two words
  python3 - "$1" $(slot_of_exec_hooks "$1") <<'EOF'
import sys
pid, library, offset = sys.argv[1], sys.argv[2], int(sys.argv[3], 16)
maps = [line.split(maxsplit=5) for line in open(f"/proc/{pid}/maps")]
maps = [(*(int(x, 16) for x in m[0].split("-")), m[5].strip() if len(m) > 5 else "") for m in maps]
base = min(begin for begin, _, name in maps if name == library)
with open(f"/proc/{pid}/mem", "rb") as mem:
    mem.seek(base + offset)
    address = int.from_bytes(mem.read(8), sys.byteorder)
name = next(name for begin, end, name in maps if begin <= address < end)
print("ruby" if name == library else "agent")
EOF
}

slot_belongs_to() {
  [ "$(owner_of_slot "$1")" = "$2" ]
}

# Every allocation runs the GC, those of the agent too: what it has just made must be known to Ruby by then. (On 2.7 the
# array of a search through the heap was freed, and the process crashed.)
survives_gc_stress() {
  cat >stress.rb <<'EOF'
class W
  def a(x); b(x); end
  def b(x); "#{x}".size; end
  def c; define_singleton_method(:d) { 1 }; d; end
end
w = W.new
40.times do |i|
  GC.stress = true if i == 10
  w.a(i)
  w.c
  GC.stress = false if i == 30
end
EOF
  for mode in calls time; do
    "$TRACE_TOOL" -m $mode -- $ruby "$T/stress.rb" >out
    calls "$T/stress.rb" <out | grep '^W#' >got
    is "W#a 40
W#b 40
W#c 40"
  done
}

# A daemon closes what it does not know when it starts: what runs goes on, and what comes later works. A program that never
# ends to do so is refused, with what it does.
closed_descriptors() {
  cat >close.rb <<'EOF'
def close_memfds
  Dir.each_child("/proc/self/fd") do |fd|
    IO.for_fd(fd.to_i).close if File.readlink("/proc/self/fd/#{fd}").start_with?("/memfd:")
  rescue SystemCallError
  end
end
class W; def step; 1; end; end
w = W.new
$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  case line.chomp
  when "step" then 100.times { w.step }
  when "close" then close_memfds
  when "always" then Thread.new { loop { close_memfds } }
  end
  puts line
end
EOF
  mkfifo in answer
  $ruby "$T/close.rb" <in >answer &
  pid=$!
  exec 5>in 6<answer
  read -r _ <&6
  say() { echo "$1" >&5; read -r _ <&6; }
  for round in 1 2; do
    rm -f end
    "$TRACE_TOOL" -m calls -w 7 -u end $pid 7>attached.$round >out.$round &
    tool=$!
    wait_for attached.$round
    say step
    say close
    say step
    : >end
    wait $tool
    calls "$T/close.rb" <out.$round | grep '^W#' >got
    is "W#step 200"
  done
  say always
  for verb in "calls --last --duration 1s" "trace --duration 1s" "stacks" "record -o $T/trace --duration 1s --ruby"; do
    # shellcheck disable=SC2086 # words
    "$RUTILE" $verb $pid >out 2>err || cat err
  done >errors
  cat errors
  not grep -vE "closed the agent's .*try again|cannot load the agent: failed to map" errors
  grep -q "closed the agent's .*: it closes descriptors that others opened" errors
  say step
  exec 5>&- 6<&-
  wait $pid
}

# ticks_are_tsc of the table (src/agent/abi.h), as the process has it.
ticks_of() {
  for fd in "/proc/$1"/fd/*; do
    [[ "$(readlink "$fd")" != /memfd:rutile-table* ]] || od -An -tu4 -j $((16384 + 72)) -N 4 "$fd"
  done
}

# A chroot often has no /sys, which says what the kernel takes its time from: the tracer, which sees it, says so.
# Where neither sees it calls are timed by the kernel's clock. Both times are the program's own.
times_where_there_is_no_sys() {
  [ "$(id -u)" = 0 ] || t_skip "needs root (mounts)"
  cat >s.rb <<'EOF'
class W
  def step; a = now; b = now while (b || a) - a < 20_000; b - a; end
  def deep(n); n == 0 ? step : deep(n - 1); end
  def fib(n); n < 2 ? n : fib(n - 1) + fib(n - 2); end
  private def now; Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond); end
end
w = W.new
$stdout.sync = true
puts "ready"
while $stdin.gets
  GC.start
  before = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  inside = Array.new(300) { |i| w.deep(i % 9) }.sum
  after = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  w.fib(15)
  puts "#{inside} #{after - before}"
end
EOF
  trusted=0
  ! grep -qsE '^(tsc|kvm-clock|hyperv)' /sys/devices/system/clocksource/clocksource0/current_clocksource ||
    ! grep -q nonstop_tsc /proc/cpuinfo || trusted=1
  mkfifo in answer
  unshare -m sh -c 'mount -t tmpfs none /sys && exec "$@"' sh $ruby "$T/s.rb" <in >answer &
  pid=$!
  exec 5>in 6<answer
  read -r _ <&6
  for tracer in sees blind; do
    rm -f end
    hide=
    [ $tracer = sees ] || hide='mount -t tmpfs none /sys &&'
    # The agent of this process has learned it: another, of a process that was not traced, has not.
    if [ $tracer = blind ]; then
      exec 5>&- 6<&-
      wait $pid
      unshare -m sh -c 'mount -t tmpfs none /sys && exec "$@"' sh $ruby "$T/s.rb" <in >answer &
      pid=$!
      exec 5>in 6<answer
      read -r _ <&6
    fi
    unshare -m sh -c "$hide exec \"\$@\"" sh "$TRACE_TOOL" -m time -w 7 -u end $pid 7>attached.$tracer >out.$tracer &
    tool=$!
    wait_for attached.$tracer
    echo go >&5
    read -r inside around <&6
    ticks_of $pid >got
    [ $tracer = sees ] || trusted=0
    [ "$(tr -d ' \n' <got)" = $trusted ]
    : >end
    wait $tool
    calls "$T/s.rb" <out.$tracer | grep '^W#[dsf]' >got
    is "W#deep 1491
W#fib 1973
W#step 300"
    # Total of step, and of deep, which is recursive and counts once: its calls' sum and no more than all of it.
    awk -F '\t' -v inside="$inside" -v around="$around" '
      $3 == "W#step" || $3 == "W#deep" { print $3, inside, $5, around; n += $5 >= inside * 0.999 && $5 <= around * 1.001 }
      $3 == "W#deep" { deep = $5; n += $6 <= $5 } $3 == "W#step" { step = $5 }
      END { exit n == 3 && step <= deep ? 0 : 1 }' out.$tracer
  done
  exec 5>&- 6<&-
  wait $pid
}

# Events that are counted without Ruby's help, and those that must not be: with a TracePoint of the
# program on the same code, on all code, and calls within its block, which Ruby does not report.
usual_events_are_counted_directly() {
  cat >p.rb <<'EOF'
class W
  def plain; "a".upcase; end
  def raises; raise "x"; end
  def deep(n); n == 0 ? 0 : deep(n - 1); end
end
w = W.new
$stdout.sync = true
puts "ready"
while $stdin.gets
  seen = 0
  tp = TracePoint.new(:call) { |t| seen += 1 if t.method_id == :plain; w.plain }
  1000.times { w.plain }
  tp.enable(target: W.instance_method(:plain)) { 1000.times { w.plain } }
  tp.enable { 1000.times { w.plain } }
  Fiber.new { 1000.times { w.plain } }.resume
  500.times { begin; w.raises; rescue RuntimeError; end }
  100.times { w.deep(9) }
  puts seen
end
EOF
  mkfifo in answer
  $ruby "$T/p.rb" <in >answer &
  pid=$!
  exec 5>in 6<answer
  read -r _ <&6
  for mode in calls time; do
    rm -f end
    "$TRACE_TOOL" -c -m $mode -w 7 -u end $pid 7>attached.$mode >out.$mode &
    tracer=$!
    wait_for attached.$mode
    echo go >&5
    read -r seen <&6
    [ "$seen" = 2000 ]
    [ -z "$(slot_of_exec_hooks $pid)" ] || slot_belongs_to $pid agent
    : >end
    wait $tracer
    [ -z "$(slot_of_exec_hooks $pid)" ] || t_wait slot_belongs_to $pid ruby
    calls "$T/p.rb" <out.$mode | grep -E '^(W#|String#upcase)' >got
    is "String#upcase 4000
W#deep 1000
W#plain 4000
W#raises 500"
  done
  exec 5>&- 6<&-
  wait $pid
}

# The tracer is killed: then the function is Ruby's again, and in children that are forked later.
hooks_of_a_dead_tracer_go() {
  cat >p.rb <<'EOF'
def work; end
$stdout.sync = true
puts "ready"
while (command = $stdin.gets)
  1000.times { work }
  puts command == "fork\n" ? fork { sleep } : "did"
end
EOF
  mkfifo in answer
  $ruby "$T/p.rb" <in >answer &
  pid=$!
  exec 5>in 6<answer
  read -r _ <&6
  [ -n "$(slot_of_exec_hooks $pid)" ] || t_skip "this Ruby calls its hooks directly"
  "$TRACE_TOOL" -c -m calls -w 7 -u end $pid 7>attached >out 5>&- 6<&- &
  tracer=$!
  wait_for attached
  echo go >&5
  read -r _ <&6
  slot_belongs_to $pid agent
  kill -KILL $tracer
  t_wait slot_belongs_to $pid ruby
  echo fork >&5
  read -r child <&6
  slot_belongs_to "$child" ruby
  kill -KILL "$child"
  exec 5>&- 6<&-
  wait $pid
}

# A child that gets no tables, or not even a control page, for want of descriptors: it counts nothing,
# its parent's counts stay right, and the function that runs hooks is Ruby's there.
children_without_tables() {
  cat >p.rb <<'EOF'
class W; def work; end; end
w = W.new
$stdout.sync = true
puts "ready"
$stdin.gets
100.times { w.work }
only_table = ARGV[0] == "table"
Dir["/proc/self/fd/*"].each do |link|
  IO.for_fd(File.basename(link).to_i).close if only_table && File.readlink(link).include?("memfd:rutile")
rescue SystemCallError
end
Process.setrlimit(:NOFILE, 64)
files = []
begin
  loop { files << File.open("/dev/null") }
rescue Errno::EMFILE
end
files.pop.close if only_table
fork { 1000.times { w.work }; puts Process.pid; sleep }
$stdin.gets
EOF
  mkfifo in answer
  for without in page table; do
    rm -f attached
    $ruby "$T/p.rb" $without <in >answer &
    pid=$!
    exec 5>in 6<answer
    read -r _ <&6
    "$TRACE_TOOL" -c -m calls -w 7 $pid 7>attached >out 5>&- 6<&- &
    tracer=$!
    wait_for attached
    echo go >&5
    read -r child <&6
    [ -z "$(slot_of_exec_hooks $pid)" ] || t_wait slot_belongs_to "$child" ruby
    kill -KILL "$child"
    exec 5>&- 6<&-
    wait $pid
    wait $tracer
    calls "$T/p.rb" <out | grep "^W#" >got
    is "W#work 100"
  done
}

# Each process compiles a template into a method of another name.
templates_have_one_row() {
  # shellcheck disable=SC2086 # flags
  "$RUBY" $RUBYFLAGS -ruri -ractive_support -raction_view -e 0 2>/dev/null || t_skip "Action View is not there"
  mkdir -p app/views/items
  echo '<% 3.times do |i| %><%= render "items/item", i: i %><% end %>' >app/views/items/index.html.erb
  echo '<%= i %>' >app/views/items/_item.html.erb
  cat >p.rb <<'EOF'
require "uri"
require "active_support"
require "action_view"
view = ActionView::Base.with_empty_template_cache
view = view.with_view_paths(["app/views"], {})
render = proc { view.render(template: "items/index") }
render.call
$stdout.sync = true
puts "ready"
$stdin.gets
Integer(ARGV[0]).times(&render)
puts view.class.instance_methods(false).grep(/_html_erb__/)
EOF
  mkfifo in.1 in.2
  for i in 1 2; do
    "$RUBY" -W0 p.rb $((i * 2)) <in.$i >out.$i &
    eval "pid_$i=$!"
  done
  exec 5>in.1 6>in.2
  for i in 1 2; do t_wait grep -q ready out.$i; done
  "$TRACE_TOOL" -m calls -p "$T/app/*" -w 7 $pid_1 $pid_2 7>attached >out &
  tracer=$!
  wait_for attached
  echo go >&5
  echo go >&6
  wait $pid_1 $pid_2 $tracer
  exec 5>&- 6>&-
  # They do have names of their own.
  [ "$(cat out.1 out.2 | grep -c html_erb)" -ge 4 ]
  [ -z "$(cat out.1 out.2 | grep html_erb | sort | uniq -d)" ]
  awk -F '\t' '/html.erb/ { calls[$1 " " $2 " " $3] += $4 }
    END { for (row in calls) print row, calls[row] }' out | LC_ALL=C sort >got
  is "$T/app/views/items/_item.html.erb 0 ActionView::Template#items/_item.html.erb 18
$T/app/views/items/index.html.erb 0 ActionView::Template#items/index.html.erb 6"
}

# Its session may be in the middle of new code when the tracer has died.
survives_the_tracer_while_loading() {
  mkdir lib
  for i in $(seq 300); do
    printf 'class C%d\n  def a; [1].each { |x| x }; end\n  define_method(:b) { 1 }\nend\n' "$i" >"lib/c$i.rb"
  done
  cat >l.rb <<'EOF'
5.times { 300.times { |i| load File.join(__dir__, 'lib', "c#{i + 1}.rb") } }
sleep 1.5
300.times { |i| load File.join(__dir__, 'lib', "c#{i + 1}.rb") }
File.write(ARGV[0], 'alive')
EOF
  for i in 1 2 3 4 5 6; do
    "$TRACE_TOOL" -m time -- $ruby "$T/l.rb" "$T/alive.$i" >/dev/null 2>err.$i &
    tracer=$!
    sleep "0.$((i * 7 % 10))"
    kill -KILL $tracer 2>/dev/null || :
  done
  for i in 1 2 3 4 5 6; do
    wait_for alive.$i
    [ "$(cat alive.$i)" = alive ]
  done
}

conditions_of_a_trace() {
  cat >t.rb <<'EOF'
class Foo
  def a(x, y = "str", *r, k: 1); b(x); end
  def b(x); c if x > 1; sleep 0.05 if x == 3; end
  def c; raise "x"; rescue RuntimeError; end
  def self.s; new.a(3); end
  def inspect; raise "asked"; end
  def to_s; raise "asked"; end
  def self.name; raise "asked"; end
  def deep(o); end
end
f = Foo.new
f.a(1)
f.a(2, :sym, 1.5, nil, k: "é\n\"")
Foo.s
f.deep(f)
f.deep(-5)
EOF
  "$TRACE_TOOL" -q -m trace -S 40000000 -- $ruby "$T/t.rb" | awk -F '\t' '$1 == "slow" {print $5, $NF}' >out
  cat out
  # Those that sleep, and what was as slow for another reason: where the machine is busy.
  for m in Foo#b Foo#a Foo.s; do grep -q "^$m " out; done
  awk '$2 < 40000000 {exit 1}' out
  "$TRACE_TOOL" -q -m trace -r -I 'Foo#b' -p '*t.rb' -- $ruby "$T/t.rb" |
    awk -F '\t' '$1 == "call" || $1 == "return" { print $1, $3, $5 }' >got
  is "call 1 Foo#b
return 1 Foo#b
call 1 Foo#b
call 2 Foo#c
return 2 Foo#c
return 1 Foo#b
call 2 Foo#b
call 3 Foo#c
return 3 Foo#c
return 2 Foo#b"
  "$TRACE_TOOL" -q -m trace -a -e -p '*t.rb' -- $ruby "$T/t.rb" |
    awk -F '\t' '$5 == "Foo#a" || $5 == "Foo#deep" || $1 == "raise" { print $1, $5, $7 }' |
    sed 's/0x[0-9a-f]*/0xX/g' >got
  is 'call Foo#a x=1, y="str", r=[], k=1
call Foo#a x=2, y=:sym, r=[1.5, nil], k="é\n\""
raise RuntimeError# 
call Foo#a x=3, y="str", r=[], k=1
raise RuntimeError# 
call Foo#deep o=#<Foo:0xX>
call Foo#deep o=-5'
}

# Arrays and hashes of all the ways in which Ruby keeps them, beside what `inspect` says of them.
arguments_that_hold_others() {
  cat >t.rb <<'EOF'
class Foo
  def take(v); end
end
class Named < Array; def each; raise "asked"; end; def size; raise "asked"; end; end
class Table < Hash
  def each; raise "asked"; end
  def [](k); raise "asked"; end
end
long = (0...40).to_a
list = [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], long, long[3, 5], Array.new(3) { |i| "e#{i}" },
        [[1, [2, [3, [4]]]]], {}, { 1 => "a", :b => [nil, true] }, Hash[(0...9).map { |i| [i, -i] }],
        Hash[(0...8).map { |i| ["k#{i}", i] }].freeze, Named.new([7]), Table[1, 2], Hash.new { raise "asked" },
        { a: { b: { c: { d: 1 } } } }, ["é" * 300] * 8]
f = Foo.new
list.each { |v| f.take(v) }
20.times { |n| f.take((0...n).to_a) }
EOF
  "$TRACE_TOOL" -q -m trace -a -p '*t.rb' -- $ruby "$T/t.rb" |
    awk -F '\t' '$5 == "Foo#take" { print $7 }' | sed 's/0x[0-9a-f]*/0xX/g' >got
  {
    cat <<'EOF'
v=[]
v=[1]
v=[1, 2]
v=[1, 2, 3]
v=[1, 2, 3, 4]
v=[0, 1, 2, 3, 4, 5, 6, 7, ...]
v=[3, 4, 5, 6, 7]
v=["e0", "e1", "e2"]
v=[[1, [2, #<Array:0xX>]]]
v={}
v={1 => "a", :b => [nil, true]}
v={0 => 0, 1 => -1, 2 => -2, 3 => -3, 4 => -4, 5 => -5, 6 => -6, 7 => -7, ...}
v={"k0" => 0, "k1" => 1, "k2" => 2, "k3" => 3, "k4" => 4, "k5" => 5, "k6" => 6, "k7" => 7}
v=[7]
v={1 => 2}
v={}
v={:a => {:b => {:c => #<Hash:0xX>}}}
EOF
    # As long as there is room: 511 bytes, cut between characters.
    python3 -c '
s = "v=[" + ", ".join(["\"" + "é" * 32 + "...\""] * 8)
print(s.encode()[:508].decode(errors="ignore") + "...")'
    python3 -c '
for n in range(20): print("v=" + ("[0, 1, 2, 3, 4, 5, 6, 7, ...]" if n > 8 else str(list(range(n)))))'
  } >want
  diff want got
}

# A thread that sleeps without limit is not woken by a tracer, nor is one that waits for a queue.
sleeps_on() {
  $RUBY -e '
class W; def step; 1; end; end
$stdout.sync = true
queue = Queue.new
Thread.new { queue.pop; puts "popped" }
Thread.new { sleep; puts "the other woke" }
puts "ready"
sleep
puts "woke"
sleep 100' >out &
  pid=$!
  trap 'kill $pid 2>/dev/null || true' EXIT
  t_wait grep -q ready out
  for mode in calls time objects; do
    timeout -s INT 2 "$TRACE_TOOL" -m $mode "$pid" >/dev/null || true
    not t_gone "$pid"
  done
  [ "$(cat out)" = ready ]
}

# With YJIT a hook for each method is too expensive: then one for all counts the same.
yjit_counts_with_many_methods() {
  $RUBY --yjit -e 'exit(RubyVM::YJIT.enabled?)' 2>/dev/null || t_skip "this Ruby has no YJIT"
  cat >y.rb <<'EOF'
x = Array.new(300_000) { |i| i.to_s }
800.times do |i|
  eval("class C#{i}; def a; b; end; def b; end; define_method(:c) { 1 }; def self.d; end; end",
       binding, __FILE__, 100 + i)
end
cs = Array.new(800) { |i| Object.const_get("C#{i}") }
3.times { cs.each { |c| o = c.new; o.a; o.c; c.d } }
EOF
  for mode in calls time; do
    "$TRACE_TOOL" -m $mode -- $RUBY --yjit -W0 "$T/y.rb" >out
    awk -F '\t' -v path="$T/y.rb" '$1 == path && $3 ~ /^C[0-9]/ { sub(".*[.#]", "", $3); n[$3] += $4 }
      END { for (m in n) print m, n[m] }' out | sort >got
    is "a 2400
b 2400
c 2400
d 2400"
  done
}

# Of 15,000 methods, all with a hook: what the process grows by, and that each is counted once.
many_methods_fit() {
  mkdir many
  for i in $(seq 0 999); do
    {
      echo "class F$i"
      for j in $(seq 0 14); do echo "def m$j(a); a; end"; done
      echo end
    } >many/f$i.rb
  done
  cat >many/main.rb <<'EOF'
def kib; File.read('/proc/self/status')[/VmRSS:\s+(\d+)/, 1].to_i; end
1000.times { |i| require_relative "f#{i}" }
3.times { GC.start }
before = kib
$stderr.puts 'ready'
$stdin.gets
puts kib - before
1000.times { |i| o = Object.const_get("F#{i}").new; 15.times { |j| (j + 1).times { o.send("m#{j}", 1) } } }
EOF
  mkfifo in err
  $ruby many/main.rb <in 2>err >grown &
  pid=$!
  exec 5>in 6<err
  read -r ready <&6
  [ "$ready" = ready ]
  "$TRACE_TOOL" -w 5 -m calls "$pid" >out
  wait $pid
  exec 5>&- 6<&-
  echo "grew by $(cat grown) KiB"
  # From 4.0 on each has a hook of its own.
  $RUBY -e 'exit(RUBY_VERSION < "4")' && most=8192 || most=16384
  [ "$(cat grown)" -le $most ] || return 1
  awk -F '\t' '$3 ~ /^F[0-9]+#m[0-9]+$/ { sub(".*#m", "", $3); n[$3]++; sum[$3] += $4 }
    END { for (j in n) print j, n[j], sum[j] }' out | sort -n >got
  for j in $(seq 0 14); do echo "$j 1000 $(((j + 1) * 1000))"; done >want
  diff -u want got
}

# A daemon that the command has started starts Rubies when the tracer has ended, or was killed: they
# find RUBYOPT as it was, but the files are removed, or there is no tracer to wait for.
later_rubies_start() {
  mkdir tmp
  cat >daemon.sh <<'EOF'
trap '' HUP
echo "$RUBYOPT" >options
until [ -e ended ]; do sleep 0.05; done
$RUBY -e 'puts [:with, $LOADED_FEATURES.grep(/librutile/).size].join' >later 2>&1
$RUBY --disable-gems -e 'puts :without' >>later 2>&1
echo done >>later
EOF
  export RUBY
  TMPDIR=$T/tmp "$RUTILE" calls -- sh -c 'sh daemon.sh & until [ -s options ]; do sleep 0.05; done'
  [ -z "$(ls tmp)" ]
  touch ended
  t_wait grep -qs "done" later
  cat options later
  [ "$(cat later)" = "$(printf 'with0\nwithout\ndone')" ]
  rm -f ended options later
  TMPDIR=$T/tmp "$RUTILE" calls -- sh daemon.sh >killed.out 2>&1 &
  t_wait test -s options
  kill -KILL $!
  wait $! || :
  [ -n "$(ls tmp)" ]
  touch ended
  t_wait grep -qs "done" later
  cat later
  [ "$(cat later)" = "$(printf 'with0\nwithout\ndone')" ]
}

# The tracer injects the agent into a Ruby that does not load it for long: here RubyGems, which comes before what
# RUBYOPT names, takes seconds. There is one agent all the same, and it counts from the first line on.
slow_starts_count() {
  mkdir slow
  cat >slow/rubygems.rb <<'EOF'
sleep 4
$LOAD_PATH.delete(__dir__)
load $LOAD_PATH.map { |d| "#{d}/rubygems.rb" }.find { |f| File.exist?(f) }
EOF
  cat >w.rb <<'EOF'
def w; end
1000.times { w }
File.write("agents", File.read("/proc/self/maps").scan(/memfd:rutile-agent-/).size)
EOF
  RUBYLIB=$T/slow "$RUTILE" calls --json --last --path '*w.rb' -- $ruby w.rb >out
  cat out agents
  [ "$(cat agents)" = 1 ]
  grep -q '"method":"Object#w","calls":1000,' out
}

# A method that each object gets for itself: its code is that of as many classes as there are objects.
# They add up in one row, and neither the agent's memory nor its time grows with their number.
singleton_methods_are_bounded() {
  cat >req.rb <<'EOF'
class Req; end
def handle
  r = Req.new
  def r.user; 1; end
  r.user
end
def made(i); Req.class_eval("def x; 1; end; def y; 2; end", "gen.rb", 1); end
def kib; File.read('/proc/self/status')[/VmRSS:\s+(\d+)/, 1].to_i; end
3000.times { handle; made(0) }
GC.start
before = kib
200_000.times { |i| handle; GC.start if i % 20_000 == 0 }
2000.times { made(0); Req.new.x; Req.new.y }
GC.start
$stderr.puts kib - before
EOF
  "$TRACE_TOOL" -m "$1" -- $ruby req.rb >out 2>grown
  calls req.rb <out >got
  calls gen.rb <out >>got
  cat got grown
  is '#<Req>.user 203000
Object#handle 203000
Object#kib 2
Object#made 5000
Req#x 2000
Req#y 2000'
  # 25 MB when each class was remembered.
  [ "$(tail -n 1 grown)" -lt 3000 ]
}

# More methods than there is room for: those that come last are one row, and the total is right.
more_methods_than_rows() {
  cat >many.rb <<'EOF'
270.times do |i|
  src = "class M#{i}\n".dup
  1000.times { |j| src << "def m#{j}; end\n" }
  eval src << "end", nil, "m/#{i}.rb", 1
  o = Object.const_get("M#{i}").new
  3.times { 1000.times { |j| o.send("m#{j}") } }
end
EOF
  "$RUTILE" calls all --path 'm/*' --json --last -- $ruby many.rb >out 2>err
  cat err
  [ "$(grep -c '"calls":3,' out)" = 262142 ]
  grep '"file":"(other)"' out
  awk -F '"calls":' '{ sum += $2 } END { print sum; exit sum != 810000 }' out
  grep -q "counted together as '(other)'" err
}

# The look through the heap, which comes several times while code is compiled, can interrupt the hook
# that is being set on that code: each method is counted once.
compiled_meanwhile_counts_once() {
  cat >compiling.rb <<'EOF'
all = []
$stderr.puts "ready"
120.times do |i|
  src = "class M#{i}\n".dup
  1000.times { |j| src << "def m#{j}; end\n" }
  eval src << "define_method(:d) { }\nend", nil, "m/#{i}.rb", 1
  all << Object.const_get("M#{i}").new
end
# Not asleep in gets: the agent lets a sleeper sleep.
nil until IO.select([$stdin], nil, nil, 0.001)
all.each { |o| 3.times { o.d; 1000.times { |j| o.send("m#{j}") } } }
EOF
  for _ in 1 2 3 4; do
    rm -f in err
    mkfifo in err
    $ruby compiling.rb <in 2>err &
    pid=$!
    exec 5>in 6<err
    read -r _ <&6
    "$TRACE_TOOL" -w 5 -m calls -p 'm/*' "$pid" >out
    wait $pid
    exec 5>&- 6<&-
    awk -F "\t" "\$4" out | cut -f 4 | sort | uniq -c >counts
    cat counts
    [ "$(tr -s " " <counts)" = " 120120 3" ]
  done
}

# Workers that are forked while the tracer is stopped count on; they wait longer for it than the five
# seconds for which a child is left alone in any case.
a_stopped_tracer_loses_nothing() {
  cat >s.rb <<'EOF'
class W; def work; end; def child; end; end
w = W.new
w.work until IO.select([$stdin], nil, nil, 0.01)
pids = Array.new(3) { fork { 10.times { w.child }; sleep 0.05 until File.exist?("go"); 90.times { w.child }; exit! } }
pids.each { |pid| Process.wait(pid) }
EOF
  mkfifo in
  $ruby s.rb <in &
  pid=$!
  exec 5>in
  "$RUTILE" calls --json --interval 20ms --path '*s.rb' "$pid" >out &
  tracer=$!
  t_wait grep -q 'W#work' out
  kill -STOP $tracer
  echo >&5
  sleep 6.5
  touch go
  wait $pid
  kill -CONT $tracer
  wait $tracer
  tail -n 2 out
  grep -q '"method":"W#child","calls":300,.*"final":true' out
}

# The heap is read in slices, at attach and at detach. What the program's thread spends in one of them
# is compared with a walk of the whole heap by Ruby itself, both as CPU time of the same thread without
# collections. Read at once, the heap would take four such stretches; two are allowed, because on a
# virtual machine another guest's time may count as the thread's.
large_heaps_are_read_in_slices() {
  cat >big.rb <<'EOF'
$keep = Array.new(10_000_000) { Object.new }
def work; end
GC.start
GC.disable
cpu = Process::CLOCK_THREAD_CPUTIME_ID
whole = Array.new(3) do
  before = Process.clock_gettime(cpu, :nanosecond)
  ObjectSpace.count_objects
  Process.clock_gettime(cpu, :nanosecond) - before
end.min
longest = [0, 0, 0]
ended = false
trap(:TERM) { ended = true }
$stdout.sync = true
puts "ready"
before = Process.clock_gettime(cpu, :nanosecond)
until ended
  work
  now = Process.clock_gettime(cpu, :nanosecond)
  longest = (longest << now - before).max(3) if now - before > longest.last
  before = now
end
puts "whole #{whole}", "longest #{longest.join(' ')}"
EOF
  $ruby big.rb >big.out &
  pid=$!
  t_wait grep -q ready big.out
  "$RUTILE" calls --duration 10ms --path '*big.rb' "$pid" >in.out
  "$RUTILE" calls --json --interval 50ms --path '*big.rb' "$pid" >out &
  t_wait grep -q '"Object#work"' out
  kill -INT $!
  wait $!
  kill -TERM $pid
  wait $pid
  cat big.out
  awk '$1 == "whole" { whole = $2 } $1 == "longest" { third = $4 } END { exit !(third > 0 && third < whole / 4) }' big.out
}

# What is started need not be Ruby: it may be a shell that starts some, one after another or late, or
# something that becomes another user first. Each of them counts, and the agent's file is removed at the end.
commands_start_ruby() {
  cat >w.rb <<'EOF'
def w; end
10.times { w }
print ENV['RUBYOPT'], ENV['RUTILE_SESSION']
EOF
  mkdir tmp "with space" noexec
  for command in "$ruby w.rb; $ruby w.rb; :" "sleep 6; $ruby w.rb; $ruby w.rb; :" "( $ruby w.rb; $ruby w.rb; : ); :"; do
    TMPDIR=$T/tmp "$RUTILE" calls --json --last --path '*w.rb' -- sh -c "$command" >out
    echo "$command: $(cat out)"
    grep -q '"method":"Object#w","calls":20,' out
    [ -z "$(ls tmp)" ]
  done
  # A Ruby in a chroot sees neither what is mounted here nor /var/lib, which is used instead of this.
  [ -z "${RUTILE_MATRIX_NAME:-}" ] || return 0
  # Nothing is injected there: the program loads the agent itself.
  "$TRACE_TOOL" -m calls -p '*w.rb' -- valgrind -q --tool=none $ruby w.rb | grep 'Object#w	10	'
  TMPDIR="$T/with space" "$TRACE_TOOL" -m calls -p '*w.rb' -- $ruby w.rb | grep 'Object#w	10	'
  [ "$(id -u)" = 0 ] || return 0
  chmod 755 "$T" "$T/.."
  chmod 644 w.rb
  # A Ruby in a chroot cannot be started by every user.
  ! setpriv --reuid=65534 --clear-groups $ruby -e 1 ||
    "$TRACE_TOOL" -m calls -p '*w.rb' -- setpriv --reuid=65534 --clear-groups $ruby "$T/w.rb" |
    grep 'Object#w	10	'
  # shellcheck disable=SC2016 # for the other shell
  TMPDIR=$T/noexec unshare -m sh -c 'mount -t tmpfs -o noexec none "$TMPDIR" && "$@"' sh \
    "$TRACE_TOOL" -m calls -p '*w.rb' -- $ruby w.rb | grep 'Object#w	10	'
}

t_lanes 3
t_case "the agent links against nothing" links_against_nothing
t_case "code that was never finished" half_made_code_is_left_alone
t_case "ractors" ractors_count
t_case "methods of evaluated text, and where --class looks" evaluated_methods
t_case "ractors that begin while calls and allocations are recorded" ractors_beside_calls
t_case "ractors, where not all of them is seen" ractors_are_told
t_case "short programs" short_programs_are_counted
t_case "commands that start Ruby" commands_start_ruby
t_case "Rubies that start when the tracer has ended" later_rubies_start
t_case "one agent in a Ruby that starts slowly, and it counts from the first line" slow_starts_count
t_case "processes that start while they are attached to" starting_processes_survive
t_case "forks" forks_are_followed
t_case "children that live for a moment only" short_children_are_counted
t_case "a command that is killed while it is injected into" killed_while_injected
t_case "a limit on the size of files" small_files_only
t_case "two tracers at once, then another, then no hook is left" two_tracers_and_none
t_case "usual events are counted without Ruby's help" usual_events_are_counted_directly
t_case "a program whose every allocation runs the GC" survives_gc_stress
t_case "programs that close the descriptors of others" closed_descriptors
t_case "times where there is no /sys" times_where_there_is_no_sys
t_case "hooks of a tracer that was killed go" hooks_of_a_dead_tracer_go
t_case "children without tables count nothing" children_without_tables
t_case "templates of several processes" templates_have_one_row
t_case "the tracer is killed while code is loaded" survives_the_tracer_while_loading
t_case "slow calls, calls inside a method, arguments" conditions_of_a_trace
t_case "arguments that hold others" arguments_that_hold_others
t_case "a sleeping program sleeps on" sleeps_on
t_case "methods of single objects: calls" singleton_methods_are_bounded calls
t_case "methods of single objects: time" singleton_methods_are_bounded time
t_case "more methods than the table has room for" more_methods_than_rows
t_case "methods that are compiled while methods are looked for" compiled_meanwhile_counts_once
t_case "workers that are forked while the tracer is stopped" a_stopped_tracer_loses_nothing
t_case "an application of 15,000 methods" many_methods_fit
t_case "YJIT and many methods" yjit_counts_with_many_methods
# It measures CPU time, which a busy cache makes longer.
t_lanes 1
t_case "a heap of ten million objects" large_heaps_are_read_in_slices
t_done
