#!/bin/bash
# SPDX-License-Identifier: MIT
# The Ruby verbs on real processes. What each mode counts exactly is tested in tests/ruby; here it is
# the way from the command line to the table.
. "$SRC/tests/tap.sh"
R=$RUTILE

# A script that calls Job.run and Job#step as known, forever, and can be stopped.
start_script() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  mkdir -p app/vendor/bundle
  cat >app/vendor/bundle/gem.rb <<'EOF'
module Gem_; def self.in_gem; end; end
EOF
  cat >app/main.rb <<'EOF'
require_relative "vendor/bundle/gem"
class Job
  def self.run
    new.step
    Gem_.in_gem
  end

  def step
    raise KeyError, "x"
  rescue KeyError
    "a" + "b"
  end
end
Process.setproctitle("rutile-test-#{ARGV[0]}")
$stdout.puts "ready"
$stdout.flush
finish = Time.now + 500
until File.exist?("stop") || Time.now > finish
  Job.run
  sleep 0.002
end
EOF
  cd app
  # shellcheck disable=SC2094
  ruby main.rb "$$" >out 2>&1 &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  t_wait grep -q ready out
}

# until_seen PATTERN VERB ARGUMENTS...: traces until a table or line has it; all it printed is in `got`.
until_seen() {
  what=$1
  shift
  : >got
  "$R" "$@" >got &
  pid=$!
  t_wait grep -qE "$what" got || { cat got; return 1; }
  kill $pid
  wait $pid
}

app_leaves_gems_out_and_all_does_not() {
  start_script
  until_seen 'main.rb +3 +Job.run' calls --interval 100ms $target
  grep -qE 'main.rb +8 +Job#step' got
  not grep -q Gem_ got
  until_seen Gem_.in_gem calls --interval 100ms all $target
  until_seen Gem_.in_gem calls --interval 100ms --class 'Gem*' all $target
  not grep -q 'Job' got
}

a_directory_removed_under_it_is_still_the_application() {
  start_script
  rm -r ../app
  cd ..
  until_seen Job.run calls --interval 100ms $target
}

# As Sinatra does: the block of a route is a method that is bound again for each request.
a_method_bound_often_is_counted_once() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >bound.rb <<'EOF'
class A
  define_method(:route) { plain }
  route = instance_method(:route)
  remove_method :route
  ROUTE = ->(a) { route.bind(a).call }
  def plain; end
  alias_method :other, :plain
end
a = A.new
kept = Array.new(100) { a.method(:plain) }
puts "ready"
$stdout.flush
finish = Time.now + 500
until File.exist?("stop") || Time.now > finish
  50.times { A::ROUTE.call(a) }
  sleep 0.001
end
EOF
  ruby bound.rb >out &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  t_wait grep -q ready out
  for _ in 1 2; do
    # From the first to the last row of a table the target runs on: there must be many calls.
    until_seen '"A#plain","calls":[0-9]{4}' calls --json --interval 50ms $target
    ruby -rjson -e '
      last = STDIN.each_line.map { |l| JSON.parse(l) }.select { |r| r["final"] }
      calls = last.to_h { |r| [r["method"], r["calls"]] }
      route, plain = calls.values_at("A#route", "A#plain")
      abort calls.inspect unless plain.to_i > 0 && (route - plain).abs <= plain / 5' <got
  done
}

the_agent_does_not_see_itself() {
  start_script
  until_seen 'Process|Kernel|Job.run' trace --c-calls --all-classes all $target
  not grep 'InstructionSequence\|TracePoint' got
  until_seen Job.run calls --c-calls --interval 100ms --limit 0 all $target
  not grep 'InstructionSequence\|TracePoint\|trace_point' got
}

the_end_of_the_target_ends_it() {
  start_script
  : >got
  "$R" calls $target >got &
  pid=$!
  t_wait grep -q Job.run got
  touch stop
  wait $pid
  grep -q 'last table' got
  grep -q 'Job.run' got
}

it_is_found_by_name() {
  start_script
  # Longer when it was in vain, as on a machine that is far too busy.
  for seconds in 1 5 20 60; do
    "$R" calls --duration ${seconds}s --last "rutile-test-$$" >got
    ! grep -q 'Job#step' got || return 0
  done
  cat got
  return 1
}

stacks_of_all_threads() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >hang.rb <<'EOF'
def waits(q)
  q.pop
end
class Worker
  def run
    [1].each { |x| inner(x) }
  end

  def inner(_)
    sleep
  end
end
q = Queue.new
Thread.new { waits(q) }.name = 'waiter'
Thread.new { Worker.new.run }
Process.detach(fork { sleep })
sleep 0.1 until Thread.list.count { |t| t.status == 'sleep' } >= 2
puts Process.pid
$stdout.flush
sleep
EOF
  ruby hang.rb >pid &
  target=$!
  t_wait test -s pid
  sleep 2.1 # a child that old is no longer taken for one that will execute something
  # On a machine that is far too busy a process may not answer in time.
  both() { "$R" stacks $target >got && [ "$(grep -c '^process ' got)" = 2 ]; }
  both_json() { "$R" stacks --json $target >json && [ "$(grep -c '"thread":"main ' json)" = 2 ]; }
  t_wait both || cat got
  t_wait both_json || cat json
  children=$(cat /proc/$target/task/$target/children)
  kill $target
  # shellcheck disable=SC2086 # one each
  kill $children
  sed -n '/ waiter /,/ thread /p' got | grep -qE '^    .*waits  hang.rb:2$'
  grep -A8 'inner' got | sed -nE 's/^    (.*)  hang.rb:([0-9]+)$/\1 \2/p' | head -n 5 >frames
  grep -qx 'Worker#inner 10' frames
  grep -qx 'block in Worker#run 6' frames
  grep -qx '.*run 6' frames
  [ "$(grep -c '^process ' got)" = 2 ]
  ruby -rjson -e '
    threads = STDIN.each_line.map { |l| JSON.parse(l) }
    worker = threads.find { |t| t["frames"].any? { |f| f["line"] == 10 } }
    mains = threads.select { |t| t["thread"].start_with?("main ") }
    exit mains.size == 2 && mains.all? { |t| t["tid"] == t["pid"] } && worker["tid"] != worker["pid"]' <json
  rc=0
  "$R" stacks -- ruby -e 1 2>err || rc=$?
  [ $rc = 2 ]
}

the_first_table_does_not_wait() {
  start_script
  "$R" calls --interval 1h $target >got &
  pid=$!
  # Of what was counted until then, it may be one method only.
  t_wait grep -q 'main.rb .*Job' got
  kill $pid
  wait $pid
  grep -q 'last table' got
}

a_command_is_traced_from_its_first_line() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >count.rb <<'EOF'
def one; end
class A; def two; end; end
7.times { one }
a = A.new
12.times { a.two }
exit 5
EOF
  rc=0
  "$R" calls --json -- ruby count.rb >got || rc=$?
  [ $rc = 5 ]
  ruby -rjson -e '
    last = STDIN.each_line.map { |l| JSON.parse(l) }.select { |r| r["final"] }
    calls = last.to_h { |r| [r["method"], r["calls"]] }
    abort calls.inspect unless calls["Object#one"] == 7 && calls["A#two"] == 12' <got
}

traced_program() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >prog.rb <<'EOF'
class Cart
  def self.open(id)
    new.fill(id, name: "x\ty")
  end

  def fill(count, name:)
    count.times { |i| item(i) }
    raise KeyError, "none" if count == 2
  rescue KeyError
    nil
  end

  def item(i)
    String.new("quiet").upcase
  end
end
module Deep
  def self.down(n)
    n.zero? ? n : down(n - 1)
  end
end
Cart.open(2)
Cart.open(1)
Deep.down(3)
EOF
}

a_trace_has_every_call_in_order() {
  traced_program
  "$R" trace -- ruby prog.rb >got
  sed -i -E 's/^(Tracing (started|ended) at) .*/\1 DATE/' got
  cat >want <<'EOF'
Tracing started at DATE
Cart.open
Cart.fill
Cart.item
Cart.item
EXCEPTION KeyError (prog.rb:8)
Cart.open
Cart.fill
Cart.item
Deep.down
Deep.down
Deep.down
Deep.down
Tracing ended at DATE
EOF
  sed -i "s|$PWD/||" got
  diff want got
}

# To call a method of the main ractor makes no ractor.
ractors_are_named_when_there_are_some() {
  cat >current.rb <<'RUBY'
Ractor.current[:request] = 1
def a = Object.new
100.times { a }
sleep 0.2
RUBY
  for verb in objects objects-total strings 'calls --c-calls'; do
    # shellcheck disable=SC2086 # words
    "$R" $verb -- ruby --disable-gems current.rb >got 2>err
    cat err
    not grep -q ractor err
  done
}

slow_calls_with_their_tree() {
  cat >slow.rb <<'RUBY'
def leaf; end
def inner; 3.times { leaf }; end
def top; 40_000.times { leaf }; inner; sleep 0.3; end
def small; inner; sleep 0.3; end
inner
top
small
RUBY
  "$R" trace --slow 250ms --tree --ring 64M -- ruby --disable-gems slow.rb >got
  grep -v '^Tracing\|^--' got | sed -n '1p;$p' | grep -c 'Object#\(top\|small\)' | grep -qx 2
  more=$(sed -n 's/^ *(\([0-9]*\) more calls)$/\1/p' got)
  # 40,000 in `top`, `inner` and its three; `small` has all of its four.
  awk '/Object#top \{/,/\} Object#top/' got | grep -c 'leaf\|inner' >seen
  [ $(($(cat seen) + more)) = 40004 ]
  awk '/Object#small \{/,/\} Object#small/' got | sed 's/^ *[0-9.]*[num]*s \|^ *//; s/^ *//' | tr '\n' ',' |
    grep -qx 'Object#small {,Object#inner {,Object#leaf,Object#leaf,Object#leaf,} Object#inner,} Object#small,'
}

a_tree_has_the_shape_of_the_calls() {
  traced_program
  "$R" trace --tree --args -- ruby prog.rb | sed -E "s|$PWD/||; s/^ *[0-9.]+(ns|us|ms|s) / T /; s/^ {11}/   /" |
    grep -v '^Tracing\|^--' >got
  cat >want <<'EOF'
   Cart.open(id=2) {
     Cart#fill(count=2, name="x\x09y") {
 T     Cart#item(i=0)
 T     Cart#item(i=1)
       EXCEPTION KeyError (prog.rb:8)
 T   } Cart#fill
 T } Cart.open
   Cart.open(id=1) {
     Cart#fill(count=1, name="x\x09y") {
 T     Cart#item(i=0)
 T   } Cart#fill
 T } Cart.open
   Deep.down(n=3) {
     Deep.down(n=2) {
       Deep.down(n=1) {
 T       Deep.down(n=0)
 T     } Deep.down
 T   } Deep.down
 T } Deep.down
EOF
  diff want got
}

inside_and_filters_of_a_trace() {
  traced_program
  "$R" trace --inside 'Cart#fill' -- ruby prog.rb | grep -v ^Tracing | sort | uniq -c | tr -s ' ' >got
  grep -q ' 3 Cart.item' got
  not grep -q 'Cart.open\|Deep' got
  "$R" trace --class Deep -- ruby prog.rb | grep -c Deep.down | grep -qx 4
  "$R" trace --method '!Deep.*' -- ruby prog.rb >got
  not grep -q Deep got
  grep -q Cart.item got
  "$R" trace --c-calls --all-classes -- ruby prog.rb | grep -q 'String.upcase'
}

slow_calls_are_told_with_their_callers() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >slow.rb <<'EOF'
class Job
  def run; quick; slow; end
  def quick; end
  def slow; sleep 0.05; end
end
Job.new.run
EOF
  "$R" trace --slow 20ms -- ruby slow.rb >lines
  sed -E "s|$PWD/||; s/^ *[0-9.]+m?s/T/" lines >got
  grep -A1 '^T Job#slow (slow.rb:4)$' got | grep -q 'from Job#run (slow.rb:2)'
  grep -q '^T Job#run (slow.rb:2)$' got
  # None that was quicker. (Where the machine is busy, others may have been slow too.)
  sed -nE 's/^ *([0-9.]+)(m?s) .*/\1 \2/p' lines >durations
  cat durations
  [ -s durations ]
  awk '$2 == "s" {$1 *= 1000} $1 < 20 {exit 1}' durations
  not grep -q '^ *[0-9.]*[un]s ' lines
}

a_trace_of_a_server_ends_in_the_right_way() {
  start_script
  "$R" trace $target >got &
  pid=$!
  t_wait grep -q 'EXCEPTION KeyError (.*main.rb:9)' got
  kill -INT $pid
  wait $pid
  grep -q 'Job.run' got
  tail -n 1 got | grep -q '^Tracing ended at'
  "$R" trace $target >again &
  pid=$!
  t_wait grep -q Job.run again
  touch stop
  wait $pid
  tail -n 1 again | grep -q '^Tracing ended at'
}

one_line_for_what_cannot_be_traced() {
  sleep 600 &
  pid=$!
  rc=0
  "$R" calls $pid 2>err || rc=$?
  kill $pid
  [ $rc = 1 ]
  [ "$(wc -l <err)" = 1 ]
  rc=0
  "$R" calls $pid$pid$pid 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(wc -l <err)" = 1 ]
}

exceptions_count_with_their_last_message() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >fails.rb <<'EOF'
class Lost < StandardError
  def message; $asked = true; super; end
end
def fails(n)
  raise Lost, "number #{n}: ü\n\e[31m"
end
20.times { |n| fails(n) rescue nil }
3.times { Integer("x") rescue nil }
fork { 5.times { |n| fails(20 + n) rescue nil } }
Process.wait
{}.fetch(:a) rescue nil
raise Lost.allocate rescue nil
throw :nowhere rescue nil
abort "asked" if $asked
puts "ran"
EOF
  "$R" exceptions --json --last -- ruby fails.rb >got
  grep -q ran got
  grep -v ran got | ruby -rjson -e '
    rows = STDIN.each_line.map { |l| JSON.parse(l) }
    seen = rows.to_h { |r| [[r["line"], r["class"]], [r["count"], r["message"]&.sub(/\d+/, "N")]] }
    want = { [5, "Lost"] => [25, "number N: \u00fc\n\e[31m"],
             [8, "ArgumentError"] => [3, "invalid value for Integer(): \"x\""],
             [11, "KeyError"] => [1, "key not found: :a"],
             [12, "Lost"] => [1, nil],
             [13, "UncaughtThrowError"] => [1, "uncaught throw :nowhere"] }
    abort "#{seen}" unless seen == want'
  "$R" exceptions --last --class Lost -- ruby fails.rb >got
  grep -qE 'fails.rb +5 +Lost +25 .*number [0-9]+: ü' got
  not grep -q $'\033' got
  not grep -q KeyError got
}

values_and_backtraces_of_a_trace() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >values.rb <<'EOF'
class Shy; def inspect; abort "asked"; end; alias to_s inspect; end
class Work
  def outer(n)
    inner(n) { |x| x + 1 }
  end
  def inner(n); yield n; end
  def shy; Shy.new; end
  def text; ["a", { b: nil }]; end
  def fails
    raise KeyError, "x"
  rescue KeyError
    :saved
  end
end
work = Work.new
work.outer(1)
work.shy
work.text
work.fails
EOF
  "$R" trace --returns -- ruby values.rb | sed -E 's/0x[0-9a-f]+/ADDRESS/; s/ [0-9.]+[num]?s$//' | grep -v ^Tracing >got
  cat >want <<'EOF'
Work#outer
Work#inner
RETURN Work#inner = 2
RETURN Work#outer = 2
Work#shy
RETURN Work#shy = #<Shy:ADDRESS>
Work#text
RETURN Work#text = ["a", {:b => nil}]
Work#fails
EXCEPTION KeyError (values.rb:10)
RETURN Work#fails = :saved
EOF
  diff -u want got
  "$R" trace --tree --returns -- ruby values.rb >got
  grep -q ' Work#inner = 2$' got
  grep -q '} Work#outer = 2$' got
  "$R" trace --backtrace --json --method inner -- ruby values.rb >got 2>err
  not grep -q 'no call' err
  ruby -rjson -e '
    calls = STDIN.each_line.map { |l| JSON.parse(l) }.select { |e| e["callers"] }
    seen = calls.map { |e| [e["event"], e["callers"].map { |c| [c["method"], c["line"]] }] }
    want = [["call", [["Work#outer", 4], ["<main>", 16]]],
            ["raise", [["Work#fails", 10], ["<main>", 19]]]]
    abort "#{seen}" unless seen == want' <got
  "$R" trace --backtrace --method inner -- ruby values.rb >got
  grep -A 2 '^Work.inner' got | grep -qE '^ +from Work#outer \(values.rb:4\)$'
}

percentiles_of_time() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >naps.rb <<'EOF'
def nap(seconds); sleep seconds; end
80.times { nap 0.001 }
20.times { nap 0.05 }
fork { 100.times { nap 0.001 } }
Process.wait
EOF
  "$R" time --percentiles --json --last --method nap -- ruby naps.rb >got
  ruby -rjson -e '
    row = JSON.parse(STDIN.read)
    p50, p90, p99 = row.values_at("p50_ns", "p90_ns", "p99_ns")
    abort "#{row}" unless row["calls"] == 200 && row["histogram"].sum { |b| b["calls"] } == 200
    abort "#{row}" unless p50 >= 900_000 && p50 <= p90 && p90 <= p99 && p99 >= 45_000_000 && p99 <= row["max_ns"]
    slow = row["histogram"].select { |b| b["from_ns"] >= 38_000_000 }.sum { |b| b["calls"] }
    abort "#{row}" unless slow >= 20' <got
  "$R" time --percentiles --last --sort p99 --method nap -- ruby naps.rb >got
  grep -qE ' P50 +P90 +P99 ' got
  # What is no call has no percentile.
  "$R" time --percentiles --last -- ruby -e 'def a; GC.start; end; a' >got
  grep -E '\(garbage collection\) +[0-9]+ .* - +- +- ' got
}

calls_by_the_line_that_calls() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >callers.rb <<'EOF'
class Till
  def pay; end
  def self.open; new; end
  define_method(:close) { pay }
end
till = Till.open
3.times { till.pay }
5.times {
  till.pay
  till.close
}
till.pay; till.pay
EOF
  for flags in "" "--class Till"; do
    # shellcheck disable=SC2086 # words
    "$R" calls --by caller --json --last $flags -- ruby callers.rb >got
    ruby -rjson -e '
      seen = STDIN.each_line.map { |l| JSON.parse(l) }.to_h { |r| [[r["method"], r["line"]], r["calls"]] }
      want = { ["Till#pay", 4] => 5, ["Till#pay", 7] => 3, ["Till#pay", 9] => 5, ["Till#pay", 12] => 2,
               ["Till.open", 6] => 1, ["Till#close", 10] => 5 }
      abort "#{seen}" unless seen == want' <got
  done
}

values_that_hold_others() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >hold.rb <<'EOF'
require "set"
class Pair < Struct.new(:a, :b); def to_a; abort "asked"; end; def each; abort "asked"; end; end
class Till; def take(v); end; end
t = Till.new
[2**70, -(2**70), 2**5000, 1..3, 1...3, (1..), "a".."b", Pair.new(1, [2]), Set.new([1, :b]),
 Struct.new(*(:a..:j)).new(*1..10)].each { |v| t.take(v) }
EOF
  "$R" trace --args --tree -- ruby hold.rb | sed -nE 's/.*Till#take\(v=(.*)\)$/\1/p' | sed -E 's/0x[0-9a-f]+/ADDRESS/' >got
  cat >want <<'EOF'
1180591620717411303424
-1180591620717411303424
#<Integer of 626 bytes>
1..3
1...3
1..
"a".."b"
#<Pair a=1, b=[2]>
#<Set: {1, :b}>
#<#<Class:ADDRESS> a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, ...>
EOF
  diff -u want got
}

# Each number as Ruby itself writes it: random bits, powers of ten and their neighbours, few decimals.
floats_are_written_as_ruby_writes_them() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >floats.rb <<'EOF'
class Till; def take(v); end; end
t = Till.new
rng = Random.new(7)
all = [0.0, -0.0, 1.0, -2.5, 0.1, 0.1 + 0.2, 5e-324, Float::MIN, Float::MIN.prev_float, Float::MAX, Float::INFINITY,
       -Float::INFINITY, Float::NAN]
(-330..308).each { |e| x = "1e#{e}".to_f; all.push(x, x.next_float, x.prev_float, -3 * x) }
1000.times { all << [rng.rand(2**64)].pack("Q").unpack1("D") << rng.rand(10_000_000) / 100.0 }
all.each { |v| t.take(v) }
File.write("want", all.map { |v| v.to_s + "\n" }.join)
EOF
  "$R" trace --args --tree -- ruby floats.rb | sed -nE 's/.*Till#take\(v=(.*)\)$/\1/p' >got
  [ "$(wc -l <got)" -gt 4000 ]
  diff -u want got
}

t_case "app leaves gems out, all does not" app_leaves_gems_out_and_all_does_not
t_case "a directory removed under it is still the application" a_directory_removed_under_it_is_still_the_application
t_case "a method bound often is counted once" a_method_bound_often_is_counted_once
t_case "the agent does not see itself" the_agent_does_not_see_itself
t_case "the end of the target ends it" the_end_of_the_target_ends_it
t_case "a target is found by its name" it_is_found_by_name
t_case "what every thread does" stacks_of_all_threads
t_case "the first table does not wait for an interval" the_first_table_does_not_wait
t_case "a command is traced from its first line" a_command_is_traced_from_its_first_line
t_case "a trace has every call in order" a_trace_has_every_call_in_order
t_case "a tree has the shape of the calls" a_tree_has_the_shape_of_the_calls
t_case "--inside and the filters of a trace" inside_and_filters_of_a_trace
t_case "slow calls are printed with their callers" slow_calls_are_told_with_their_callers
t_case "ractors are named when there are some" ractors_are_named_when_there_are_some
t_case "a slow call with its tree, whole or with a count of what is left out" slow_calls_with_their_tree
t_case "a trace ends when interrupted and with its target" a_trace_of_a_server_ends_in_the_right_way
t_case "exceptions count with their last message" exceptions_count_with_their_last_message
t_case "values and backtraces of a trace" values_and_backtraces_of_a_trace
t_case "percentiles of time" percentiles_of_time
t_case "calls by the line that calls" calls_by_the_line_that_calls
t_case "values that hold others" values_that_hold_others
t_case "floats are written as Ruby writes them" floats_are_written_as_ruby_writes_them
t_case "one line for what cannot be traced" one_line_for_what_cannot_be_traced
t_done
