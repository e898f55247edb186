#!/bin/bash
# SPDX-License-Identifier: MIT
# Ruby events in a trace, beside the kernel's: counts equal TracePoint's, every reader shows names,
# a system call lies between the call and the return of the method that makes it.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"
exact=$SRC/tests/ruby/exact

normal() {
  sed -E 's/0x[0-9a-f]+/0xX/g; s/\\\?/?/g' | awk '{ n = $NF; $NF = ""; sum[$0] += n }
    END { for (k in sum) print k sum[k] }' | LC_ALL=C sort
}

# counts EVENT: "LINE NAME COUNT" of the event in bt2.out, as the harness prints them.
counts() {
  awk -v event="ruby:$1:" '
    function field(name,   v) {
      v = $0
      if (!sub(".*[ {]" name " = ", "", v)) return ""
      if (v ~ /^\(? ?"/) { sub(/^\(? ?"/, "", v); sub(/".*/, "", v) } else sub(/[ ,].*/, "", v)
      return v
    }
    / ruby:method: / { line[field("id")] = field("line") }
    index($0, " " event " ") {
      name = field("method")
      v = $0; sub(/.*container = /, "", v); sub(/ .*/, "", v)
      n[v]++; names[v] = name
    }
    END { for (v in n) print line[v], names[v], n[v] }' bt2.out |
    grep -v ' Harness[.]' | normal
}

# attached PROGRAM ARGUMENTS...: records it from its ready() to its end into "trace".
attached() {
  program=$1
  shift
  mkfifo in err
  # shellcheck disable=SC2209 # a variable for one command
  EXACT=wait "$RUBY" -W0 --disable-gems -r"$exact/harness.rb" "$exact/$program.rb" <in 2>err &
  pid=$!
  exec 5>in 6<err
  read -r ready <&6
  [ "$ready" = ready ]
  "$RUTILE" record -o trace --ruby "$pid:$1" "${@:2}" 2>record.err &
  recorder=$!
  t_wait test -s trace/ruby-"$pid"/names
  echo >&5
  wait "$pid"
  wait "$recorder"
  cat record.err
  grep -q ' 0 events lost' record.err
  readers trace >/dev/null
}

reference() {
  # shellcheck disable=SC2209
  EXACT=calls EXACT_FROM=ready "$RUBY" -W0 --disable-gems -r"$exact/harness.rb" "$exact/$1.rb" |
    normal >want
}

test_counts() {
  attached calls call,return
  reference calls
  counts call >got
  [ "$(wc -l <want)" -gt 30 ]
  diff -u want got
  # Every call returned. Ruby reports a call again at each of the two retries.
  sed -i 's/Plain#retries 12/Plain#retries 4/' want
  counts return >got
  diff -u want got
}

test_concurrent() {
  attached concurrent call,return
  reference concurrent
  # How deep a stack overflow goes is not the same twice.
  grep -v 'Work#deep' want >want.2
  counts call | grep -v 'Work#deep' >got
  diff -u want.2 got
}

# The thread of a record is that of the last ruby:switch in its stream: per thread, calls and returns
# are nested like brackets.
test_nesting_by_thread() {
  cat >threads.rb <<'RUBY'
class Work
  def outer(n); n.times.map { |i| inner(i) }.sum; end
  def inner(i); i + leaf(i); end
  def leaf(i); (Fiber.new { fibered(i) }).resume; end
  def fibered(i); i; end
end
$stdout.puts 'ready'; $stdout.flush; $stdin.gets
4.times.map { Thread.new { 200.times { Work.new.outer(5) } } }.each(&:join)
RUBY
  mkfifo in out
  "$RUBY" --disable-gems threads.rb <in >out &
  pid=$!
  exec 5>in 6<out
  read -r ready <&6
  "$RUTILE" record -o trace --path '*' --ruby "$pid:call,return" 2>record.err &
  recorder=$!
  t_wait test -s trace/ruby-"$pid"/names
  echo >&5
  wait "$pid"
  wait "$recorder"
  readers trace >/dev/null
  awk '
    / ruby:switch: / { v = $0; sub(/.*tid = /, "", v); sub(/ }.*/, "", v); key = v; seen[v] }
    / ruby:call: / { m = $0; sub(/.*\( "/, "", m); sub(/".*/, "", m); stack[key, depth[key]++] = m; calls += m ~ /^Work#/ } # 3.3 has methods of its own in Ruby
    / ruby:return: / {
      m = $0; sub(/.*\( "/, "", m); sub(/".*/, "", m)
      if (!depth[key]) { print "return of " m " without a call"; bad = 1; exit 1 }
      top = stack[key, --depth[key]]
      if (top != m) { print key ": " m " returns in " top; bad = 1; exit 1 }
    }
    END {
      if (bad) exit 1
      for (k in depth) if (depth[k]) { print k " has calls left"; exit 1 }
      for (k in seen) { split(k, part, ","); tids[part[1]] }
      for (t in tids) n++
      print calls, n
      exit !(calls == 4 * 200 * (1 + 5 * 3) && n >= 4)
    }' bt2.out
}

# The one timeline: each marker system call lies between its method's call and return.
test_marker() {
  need_bpf
  marker 100000
}

# A command is recorded from its first method, with all that it starts: Ruby that it executes, and
# what that forks. The shell in front of it is not Ruby, and the exit status is the command's.
test_command() {
  cat >first.rb <<'RUBY'
class First
  def work(n); n; end
end
30.times { |n| First.new.work(n) }
4.times { fork { 10.times { |n| First.new.work(n) } } }
Process.waitall
RUBY
  echo 'class Second; def work; nil; end; end; 7.times { Second.new.work }' >second.rb
  rc=0
  "$RUTILE" record -o trace --ruby -- sh -c \
    "\"$RUBY\" --disable-gems first.rb; \"$RUBY\" --disable-gems second.rb; exit 5" 2>record.err || rc=$?
  cat record.err
  [ "$rc" = 5 ]
  grep -q 'Ruby: 6 processes' record.err
  readers trace >/dev/null
  for t_event in call return; do
    [ "$(grep " ruby:$t_event: " bt2.out | grep -c '"First#work"')" = 70 ]
    [ "$(grep " ruby:$t_event: " bt2.out | grep -c '"Second#work"')" = 7 ]
  done
  # What is no Ruby is said, and recording it does no harm.
  "$RUTILE" record -o none --ruby :call -- true 2>record.err
  grep -q 'Ruby: 0 processes' record.err
  not "$RUTILE" record -o t --ruby :call 2>err
  grep -q 'means a command' err
  not "$RUTILE" record -o t --ruby --
  not "$RUTILE" record -o t --ruby :call --ruby :gc -- true 2>err
  grep -q 'one --ruby' err
  [ ! -e t ]
}

# Only slow calls. The program measures each call from within and from without, which is what the
# agent's hooks lie between: what was slow within is there, what was not slow without is not.
test_slow() {
  need_bpf
  cat >slow.rb <<'RUBY'
SLOW = 0.02
$within = Hash.new { |h, k| h[k] = [] }
$without = Hash.new { |h, k| h[k] = [] }
def now; Process.clock_gettime(Process::CLOCK_MONOTONIC); end
def timed(to, name)
  begun = now
  yield
ensure
  to[name] << now - begun
end
def outside(name, &block); timed($without, name, &block); end
class Work
  def leaf(s); timed($within, "leaf") { sleep s if s > 0 }; end
  def middle(s); timed($within, "middle") { 5.times { outside("leaf") { leaf(0) } }; outside("leaf") { leaf(s) } }; end
  def outer(s); timed($within, "outer") { outside("middle") { middle(0) }; outside("middle") { middle(s) } }; end
  def fails(s); timed($within, "fails") { sleep s; raise "x" }; end
  def fiber(s); timed($within, "fiber") { Fiber.new { outside("leaf") { leaf(s) } }.resume }; end
  define_method(:made) { |s| timed($within, "made") { sleep s } }
end
w = Work.new
[0, 0.03, 0, 0.001, 0.05].each do |s|
  outside("outer") { w.outer(s) }
  outside("fails") { w.fails(s) rescue nil }
  outside("fiber") { w.fiber(s) }
  outside("made") { w.made(s) }
end
4.times.map { Thread.new { 3.times { outside("outer") { w.outer(0.03) } } } }.each(&:join)
$within.each do |name, within|
  puts [name, within.count { _1 >= SLOW }, $without[name].count { _1 >= SLOW }, within.sum, $without[name].sum].join(" ")
end
RUBY
  "$RUTILE" record -o trace -e sched_switch --class Work --slow 20ms --ruby :call,return -- "$RUBY" --disable-gems slow.rb >truth
  readers trace >/dev/null
  cat truth
  while read -r name least most _; do
    n=$(grep -c " ruby:slow_call: .*\"Work#$name\"" bt2.out)
    echo "$name: $n slow calls"
    [ "$n" -ge "$least" ]
    [ "$n" -le "$most" ]
    [ "$(grep -c " ruby:return: .*\"Work#$name\"" bt2.out)" = "$n" ]
  done <truth
  not grep -q ' ruby:call: ' bt2.out
  # The analyses see them as calls: nested, with their times and what of that was on a CPU.
  "$RUTILE" rubytop --mi trace >mi
  "$RUTILE" rubyslow --limit 100 trace >text
  grep -A2 '  Work#outer  ' text >tree
  grep -q ' ms  Work#middle$' tree
  python3 - mi truth <<'PYTHON'
import json, sys
val = lambda c: c and c.get("value", c.get("path"))
rows = {r[0]["value"]: [val(c) for c in r] for r in json.load(open(sys.argv[1]))["results"][0]["data"]}
for line in open(sys.argv[2]):
    name, least, most, _, without = line.split()
    _, _, calls, total, own, cpu, own_cpu, *_ = rows[f"Work#{name}"]
    print(name, calls, total, own, cpu, own_cpu, without)
    # Fast calls are not among them, so the sum is at most that of all.
    assert int(least) <= calls <= int(most)
    assert calls * 20e6 <= total <= float(without) * 1e9
    # They sleep: a call that were on a CPU all the time would have been given a wrong beginning.
    assert cpu is not None and 0 <= cpu < total
PYTHON
  not "$RUTILE" record -o t --slow 0 --ruby :call -- true 2>err
  grep -q "bad time '0'" err
  not "$RUTILE" record -o t --slow 1ms --ruby :call,c_call -- true 2>err
  grep -q "^rutile record: --slow is for calls of Ruby methods" err
}

# Lines of methods, and of blocks in them, are counted as a TracePoint counts them.
test_lines() {
  "$RUBY" -e 'exit RUBY_VERSION >= "3.1"' || t_skip "events of lines need Ruby 3.1"
  cat >lines.rb <<'RUBY'
class Lines
  def many(n)
    sum = 0
    n.times do |i|
      sum += i if i.odd?
      helper(i)
    end
    sum
  end

  def helper(i)
    x = i
    x + 1
  end

  define_method(:defined) do |n|
    n + 1
  end

  def self.single
    [1, 2].each { |v|
      v.to_s
    }
  end
end
work = -> { 3.times { Lines.new.many(10) }; Lines.single; Lines.new.defined(1) }
if ARGV[0]
  counts = Hash.new(0)
  TracePoint.new(:line) { |t| counts["#{t.lineno} #{t.method_id}"] += 1 if t.method_id && t.path == __FILE__ }.enable { work.call }
  puts(counts.map { |k, n| "#{k} #{n}" })
else
  work.call
end
RUBY
  "$RUBY" --disable-gems lines.rb reference | sort >want
  "$RUTILE" record -o trace --ruby :line -- "$RUBY" --disable-gems lines.rb 2>record.err
  cat record.err
  readers trace >/dev/null
  sed -n 's/.* ruby:line: .*method = ( "Lines[#.]\([a-z]*\)".* line = \([0-9]*\) .*/\2 \1/p' bt2.out |
    sort | uniq -c | awk '{ print $2, $3, $1 }' | sort >got
  [ "$(wc -l <want)" -ge 9 ]
  diff -u want got
  # The row of a line has that line, too.
  [ "$(grep ' ruby:method: ' bt2.out | grep -c 'line = 6,')" = 1 ]
}

# What is forked is recorded, however short it lives.
test_children() {
  cat >forks.rb <<'RUBY'
class Child
  def work(n); n; end
end
$stdout.puts 'ready'; $stdout.flush; $stdin.gets
20.times { |i| Process.wait(fork { 50.times { |n| Child.new.work(n) } }) }
RUBY
  mkfifo in out
  "$RUBY" --disable-gems forks.rb <in >out &
  pid=$!
  exec 5>in 6<out
  read -r ready <&6
  "$RUTILE" record -o trace --ruby "$pid:call,return" 2>record.err &
  recorder=$!
  t_wait test -s trace/ruby-"$pid"/names
  echo >&5
  wait "$pid"
  wait "$recorder"
  cat record.err
  grep -q 'Ruby: 21 processes' record.err
  readers trace >/dev/null
  [ "$(grep -c ' ruby:call: ' bt2.out)" = 1000 ]
  [ "$(grep -c ' ruby:return: ' bt2.out)" = 1000 ]
  [ "$(grep ' ruby:call: ' bt2.out | grep -c '"Child#work"')" = 1000 ]
}

# A worker that was killed: what it wrote before is in the trace.
test_killed() {
  cat >killed.rb <<'RUBY'
class Victim
  def work(n); n; end
  def last; Process.kill(:KILL, $$); end
end
$stdout.puts 'ready'; $stdout.flush; $stdin.gets
777.times { |n| Victim.new.work(n) }
Victim.new.last
RUBY
  mkfifo in out
  "$RUBY" --disable-gems killed.rb <in >out &
  pid=$!
  exec 5>in 6<out
  read -r ready <&6
  "$RUTILE" record -o trace --ruby "$pid:call,return" 2>record.err &
  recorder=$!
  t_wait test -s trace/ruby-"$pid"/names
  echo >&5
  rc=0
  wait "$pid" || rc=$?
  [ "$rc" = 137 ]
  wait "$recorder"
  readers trace >/dev/null
  [ "$(grep ' ruby:call: ' bt2.out | grep -c '"Victim#work"')" = 777 ]
  [ "$(grep ' ruby:return: ' bt2.out | grep -c '"Victim#work"')" = 777 ]
  [ "$(grep ' ruby:call: ' bt2.out | grep -c '"Victim#last"')" = 1 ]
}

# Workers that have ended, killed or not, are in the next snapshot; of many the newest.
test_flight_ended() {
  need_bpf
  cat >workers.rb <<'RUBY'
class Worker
  def last(n); n; end
end
$stdout.puts 'ready'; $stdout.flush; $stdin.gets
$stdout.puts fork { 50.times { |n| Worker.new.last(n) }; Process.kill(:KILL, $$) }
Process.wait
$stdout.puts 'killed'; $stdout.flush; $stdin.gets
40.times { Process.wait(fork { Worker.new.last(0) }) }
$stdout.puts 'done'; $stdout.flush; $stdin.gets
RUBY
  mkfifo in out
  "$RUBY" --disable-gems workers.rb <in >out &
  pid=$!
  exec 5>in 6<out
  read -r ready <&6
  "$RUTILE" start re$$ --flight -p "$pid" -e sched_switch --ruby "$pid:call,return"
  echo >&5
  read -r worker <&6
  read -r ready <&6
  "$RUTILE" snapshot re$$ -o one
  readers one >/dev/null
  [ "$(grep " ruby:call: .* pid = $worker " bt2.out | grep -c '"Worker#last"')" = 50 ]
  echo >&5
  read -r ready <&6
  # One round of the holder later the oldest are overwritten.
  few() {
    rm -rf two
    "$RUTILE" snapshot re$$ -o two
    ended=$(find two -maxdepth 1 -name 'ruby-*' | wc -l)
    [ "$ended" -le 17 ]
  }
  t_wait few
  [ "$ended" -ge 16 ]
  readers two >/dev/null
  "$RUTILE" destroy re$$
  echo >&5
  wait "$pid"
}

# GC by GC.stat, exceptions and threads by known counts.
test_other_events() {
  cat >other.rb <<'RUBY'
class Oops < StandardError; end
$stdout.puts 'ready'; $stdout.flush; $stdin.gets
before = GC.count
5.times { GC.start }
raises = 7.times { begin; raise Oops, 'x'; rescue Oops; end }
3.times { Thread.new { sleep 0.001 }.join }
$stdout.puts GC.count - before; $stdout.flush
$stdin.gets
RUBY
  mkfifo in out
  "$RUBY" --disable-gems other.rb <in >out &
  pid=$!
  exec 5>in 6<out
  read -r ready <&6
  "$RUTILE" record -o trace --ruby "$pid:gc,raise,thread" 2>record.err &
  recorder=$!
  t_wait test -s trace/ruby-"$pid"/names
  echo >&5
  read -r gcs <&6
  kill -INT "$recorder"
  wait "$recorder"
  echo >&5
  wait "$pid"
  readers trace >/dev/null
  grep -c . bt2.out
  [ "$(grep -c ' ruby:gc_start: ' bt2.out)" = "$gcs" ]
  [ "$(grep ' ruby:gc_start: ' bt2.out | grep -c 'by = ( "method"')" -ge 5 ]
  [ "$(grep -c ' ruby:raise: .*"Oops"' bt2.out)" = 7 ]
  [ "$(grep -c ' ruby:thread_start: ' bt2.out)" = 3 ]
  [ "$(grep -c ' ruby:thread_exit: ' bt2.out)" = 3 ]
}

# The analyses of the kernel's events do not notice that Ruby's stand beside them, at the same range
# of time (without one the reference begins with the first event of either).
test_undisturbed() {
  need_bpf
  echo 'class A; def a; nil; end; end; $stdout.puts "ready"; $stdout.flush; loop { 99.times { A.new.a }; sleep 0.002 }' >loop.rb
  "$RUBY" --disable-gems loop.rb >out &
  pid=$!
  t_wait grep -q ready out
  "$RUTILE" record -o trace -e 'sched_*,syscall:*' --duration 1s --ruby "$pid" 2>record.err
  kill -9 "$pid"
  wait "$pid" || :
  cat record.err
  range=$("$RUTILE" cputop --no-progress trace/kernel | sed -n 's/^Timerange: //p')
  for t in trace trace/kernel; do
    "$RUTILE" cputop --no-progress --limit 1000 --timerange "$range" "$t" >"${t##*/}.cputop"
    peer /usr/bin/python3 /usr/bin/lttng-cputop --no-progress --timerange "$range" "$t" >"${t##*/}.lttng" 2>/dev/null
  done
  diff -u kernel.cputop trace.cputop
  diff -u kernel.lttng trace.lttng
  grep -q "ruby ($pid)" trace.cputop
}

# looping: starts a program that calls A#a again and again: $pid.
looping() {
  echo 'class A; def a; nil; end; end; $stdout.puts "ready"; $stdout.flush; loop { 99.times { A.new.a }; sleep 0.002 }' >loop.rb
  "$RUBY" --disable-gems loop.rb >out &
  pid=$!
  t_wait grep -q ready out
}

# balanced FILE: as many calls of A#a as returns, but for those at the edges, and times that grow.
balanced() {
  calls=$(grep -c ' ruby:call: .*"A#a"' "$1")
  returns=$(grep -c ' ruby:return: .*"A#a"' "$1")
  echo "$calls calls, $returns returns"
  [ "$calls" -gt 500 ]
  [ $((calls - returns)) -le 1 ]
  [ $((returns - calls)) -le 1 ]
}

# A session in the background: each directory is whole, and the events of all together are unbroken.
test_rotate() {
  need_bpf
  looping
  "$RUTILE" start rb$$ -o "$PWD/t-%H" -p "$pid" -e sched_switch --ruby "$pid:call,return"
  sleep 0.5
  "$RUTILE" rotate rb$$
  sleep 0.5
  "$RUTILE" rotate rb$$
  sleep 0.5
  "$RUTILE" status rb$$ | grep -q "^Ruby  *ruby = $pid:call,return"
  "$RUTILE" destroy rb$$
  kill -9 "$pid"
  wait "$pid" || :
  [ "$(ls -d t-* | wc -l)" = 3 ]
  for d in t-*; do
    readers "$d" >/dev/null
    balanced bt2.out
    [ "$(grep -c ' ruby:method: ' bt2.out)" = 1 ]
    cat bt2.out >>all
  done
  balanced all
  "$RUTILE" stat t-* >stat.out 2>&1
  if grep -i 'bad' stat.out; then return 1; fi
}

# Old directories are removed with the Ruby events in them.
test_keep() {
  need_bpf
  looping
  "$RUTILE" start rk$$ -o "$PWD/t-%N" -p "$pid" -e sched_switch --ruby "$pid:call" --keep 1
  for _ in 1 2 3; do
    t_wait calls_of_any t-*
    "$RUTILE" rotate rk$$
  done
  "$RUTILE" destroy rk$$
  kill -9 "$pid"
  wait "$pid" || :
  ls -d t-*
  [ "$(ls -d t-* | wc -l)" = 1 ]
  readers t-* >/dev/null
}
calls_of_any() {
  find "$@" -path '*/ruby-*/events' -size +0 | grep -q .
}

# A flight recorder: snapshots have the kernel's events and Ruby's of the same time.
test_flight() {
  need_bpf
  looping
  "$RUTILE" start rf$$ --flight -p "$pid" -e 'sched_switch,syscall:*' --ruby "$pid:call,return"
  sleep 1
  "$RUTILE" snapshot rf$$ -o one
  readers one >/dev/null
  balanced bt2.out
  grep -q ' sched_switch: ' bt2.out
  # Stopped, it costs the program nothing; the second half comes after it goes on.
  "$RUTILE" stop rf$$
  t_wait not_traced "$pid"
  "$RUTILE" start rf$$
  sleep 0.7
  "$RUTILE" snapshot rf$$ -o two
  readers two >/dev/null
  balanced bt2.out
  "$RUTILE" status rf$$ | grep -q 'holds the events of Ruby'
  holder=$("$RUTILE" status rf$$ | sed -n 's/^process  *\([0-9]*\).*/\1/p')
  "$RUTILE" destroy rf$$
  t_wait t_gone "$holder"
  t_wait not_traced "$pid"
  kill -9 "$pid"
  wait "$pid" || :
}
# calls_in DIR: enough of them, and of their returns.
calls_in() {
  [ "$(babeltrace2 "$1" 2>/dev/null | grep -cE ' ruby:(call|return): .*"A#a"')" -gt 1100 ]
}
snapshot_has_calls() {
  n=$((n + 1))
  "$RUTILE" snapshot "$1" -o "snap-$n"
  calls_in "snap-$n"
}

# Ruby events come and go while a session runs, which begins without any.
test_add_remove() {
  need_bpf
  looping
  n=0
  for how in "-o $PWD/files" --flight; do
    # shellcheck disable=SC2086 # words
    "$RUTILE" start ra$$ $how -p "$pid" -e sched_switch
    not "$RUTILE" add ra$$ --ruby "$pid:calls" 2>err
    grep -q 'unknown Ruby event' err
    not "$RUTILE" add ra$$ --ruby "$$"
    not "$RUTILE" add ra$$ --ruby :call
    not "$RUTILE" remove ra$$ --ruby "$pid" 2>err
    grep -q "does not record '$pid'" err
    not grep -q "^Ruby " <("$RUTILE" status ra$$)
    "$RUTILE" add ra$$ --ruby "$pid:call,return"
    "$RUTILE" add ra$$ --ruby "$pid:gc"
    [ "$("$RUTILE" status ra$$ | grep -c "ruby = $pid:")" = 2 ]
    if [ "$how" = --flight ]; then t_wait snapshot_has_calls ra$$; else t_wait calls_in files; fi
    "$RUTILE" remove ra$$ --ruby "$pid:gc"
    [ "$("$RUTILE" status ra$$ | grep -c "ruby = $pid:")" = 1 ]
    "$RUTILE" remove ra$$ --ruby "$pid"
    t_wait not_traced "$pid"
    [ "$("$RUTILE" status ra$$ | grep -c "ruby = $pid:")" = 0 ]
    # What cannot be added again stays noted.
    "$RUBY" --disable-gems -e '$stdout.puts "ready"; $stdout.flush; sleep' >ended & ended=$!
    t_wait grep -q ready ended
    "$RUTILE" add ra$$ --ruby "$ended:gc"
    kill -9 "$ended"
    wait "$ended" || :
    not "$RUTILE" add ra$$ --ruby "$ended:gc"
    [ "$("$RUTILE" status ra$$ | grep -c "ruby = $ended:gc")" = 1 ]
    "$RUTILE" remove ra$$ --ruby "$ended"
    "$RUTILE" destroy ra$$
  done
  kill -9 "$pid"
  wait "$pid" || :
  for d in files "snap-$n"; do
    readers "$d" >/dev/null
    balanced bt2.out
    grep -q ' sched_switch: ' bt2.out
  done
}

# No slot of its agent is taken: the ring of a session is freed.
not_traced() {
  for t_fd in "/proc/$1/fd"/*; do
    case $(readlink "$t_fd") in *memfd:rutile-ring*) return 1 ;; esac
  done
}

test_bad() {
  not "$RUTILE" record -o t --ruby '1:calls' 2>err
  grep -q "unknown Ruby event in '1:calls'" err
  not "$RUTILE" record -o t --ruby ':call' 2>err
  not "$RUTILE" record -o t --ruby no-such-program 2>err
  grep -qE "no-such-program|no Ruby process" err
  [ ! -e t ]
}

t_case "calls and returns are those of TracePoint, and named by both babeltraces" test_counts
t_case "threads, fibers and exceptions: the same" test_concurrent
t_case "calls and returns nest in each thread that ruby:switch names" test_nesting_by_thread
t_case "100,000 system calls lie between the call and the return of their method" test_marker
t_case "a command is recorded from its first method, and what it starts" test_command
t_case "of slow calls all are recorded, and no others, with their beginnings" test_slow
t_case "lines are those of a TracePoint" test_lines
t_case "children that are forked are recorded, however short they live" test_children
t_case "a process that was killed has its last events in the trace" test_killed
t_case "GC, exceptions and threads are counted as Ruby counts them" test_other_events
t_case "analyses of the kernel's events do not change" test_undisturbed
t_case "each directory of a session has its names, and none has lost an event" test_rotate
t_case "of a session that keeps its newest directory no other is left" test_keep
t_case "a flight recorder's snapshots have Ruby's events too; stop takes its hooks away" test_flight
t_case "a flight recorder keeps the events of workers that have ended, the newest of many" test_flight_ended
t_case "Ruby events are added to and removed from a session, with files and without" test_add_remove
t_case "unknown events and targets are refused, and leave nothing behind" test_bad
t_done
