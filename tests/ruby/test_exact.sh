#!/bin/bash
# SPDX-License-Identifier: MIT
# Counts are exact: programs with known counts, number by number against TracePoint and ObjectSpace
# in a run of their own. $RUBY is the Ruby to test, $RUBYFLAGS its flags (--yjit).
. "$SRC/tests/tap.sh"
: "${TRACE_TOOL:?the tracer under test}" "${RUBY:=ruby}" "${RUBYFLAGS:=}"
dir=$SRC/tests/ruby/exact
run="$RUBY $RUBYFLAGS -W0 --disable-gems -r$dir/harness.rb"

# "LINE NAME COUNT", sorted; addresses are not compared.
rows() {
  awk -F '\t' -v path="$1" -v column="$2" '$1 == path && $column > 0 { print $2, $3, $column }' |
    normal
}

normal() {
  sed -E 's/0x[0-9a-f]+/0xX/g' | awk '{ n = $NF; $NF = ""; sum[$0] += n }
    END { for (k in sum) print k sum[k] }' | LC_ALL=C sort
}

same() {
  [ -s want ]
  diff -u want got
}

# reference KIND PROGRAM FROM
reference() {
  EXACT=$1 EXACT_FROM=$3 $run "$dir/$2.rb" | normal >want
}

# Without the lines that cannot be compared (objects.rb), and what is made before the first one.
comparable() {
  hidden=$(grep -n '# hidden' "$dir/objects.rb" | cut -d: -f1 | tr '\n' '|')
  for f in want got; do
    grep -vE "^(${hidden}0) " $f >$f.2
    mv $f.2 $f
  done
}

# From the first line on: the program is started with the agent in it.
started() {
  column=4
  [ "$1" = objects ] && column=8
  reference "$1" "$2" start
  shift 2
  # shellcheck disable=SC2086
  "$TRACE_TOOL" "$@" -- $run "$dir/$program.rb" >out
  rows "$dir/$program.rb" $column <out >got
}

# The program runs already, and continues when the tracer is attached.
attached() {
  column=4
  [ "$1" = objects ] && column=8
  reference "$1" "$2" ready
  shift 2
  mkfifo in err
  # shellcheck disable=SC2086,SC2209 # words; a variable for one command
  EXACT=wait $run "$dir/$program.rb" <in 2>err &
  pid=$!
  exec 5>in 6<err
  read -r ready <&6
  [ "$ready" = ready ]
  "$TRACE_TOOL" -w 5 "$@" "$pid" >out
  wait $pid
  rows "$dir/$program.rb" $column <out >got
}

# What TracePoint itself does not count alike: how deep a stack overflow is.
without_overflow() {
  for f in want got; do
    grep -v 'Work#deep' $f >$f.2
    mv $f.2 $f
  done
}

calls_started() { program=calls; started calls calls -m calls; same; }
calls_attached() { program=calls; attached calls calls -m calls; same; }
time_started() { program=calls; started calls calls -m time; same; }
time_attached() { program=calls; attached calls calls -m time; same; }
path_filter() { program=calls; started calls calls -m calls -p '*exact/calls.rb'; same; }
concurrent_calls() { program=concurrent; started calls concurrent -m calls; without_overflow; same; }
concurrent_time() { program=concurrent; started calls concurrent -m time; without_overflow; same; }
concurrent_attached() {
  program=concurrent
  attached calls concurrent -m time
  without_overflow
  same
}

# M:N threads: the last thread on a native thread may have been another one. No sleep is shorter
# than asked for, and all of them are of the method itself.
moving_threads() {
  export RUBY_MN_THREADS=1
  program=moving
  for mode in calls time; do
    rm -f in err
    "$1" calls moving -m $mode
    same
  done
  cat out
  awk -F '\t' '{ self[$3] = $6 }
    END { exit !(self["Moving#root"] >= 240 * 2e6 && self["Moving#inside"] >= 240 * 8e6) }' out
}

# class_filter started|attached: what is called later is known by its name before, or after.
class_filter() {
  program=calls
  "$1" calls calls -m calls -k 'Plain' -M '!Plain#empty'
  grep -E ' Plain[.#]' want | grep -v 'Plain#empty ' >want.2
  mv want.2 want
  same
}

c_calls() {
  program=c_calls
  started c_calls c_calls -c -m calls
  # Ruby's own methods are in the table too; C methods are those that the reference has.
  grep -v ' Caller#' got >got.2
  mv got.2 got
  same
}

churn_calls() { program=churn; started calls churn -m "$1"; same; }

shared_code() { program=shared; "$1" calls shared -m "$2"; same; }

churn_c_calls() {
  program=churn
  started c_calls churn -c -m calls
  for f in want got; do
    grep ' Gen.*#up' $f >$f.2
    mv $f.2 $f
  done
  [ "$(wc -l <want)" = 300 ]
  same
}

churn_objects() {
  # shellcheck disable=SC2086
  "$TRACE_TOOL" -m objects -p '*exact/churn.rb' -- $run "$dir/churn.rb" >out
  awk -F '\t' '$3 ~ /^Gen/ && $8 > 0 { sum[$3] += $8 }
    END { for (k in sum) print k, sum[k] }' out | LC_ALL=C sort >got
  # What is used, what upcase makes of it (a String since 3.0), and the one whose Ruby method runs.
  up=$($RUBY -e 'puts Class.new(String).new("x").upcase.class == String ? 1 : 2')
  for i in $(seq 0 299); do
    echo "Gen$i $(((i % 7 + 1) * up + 1))"
  done | LC_ALL=C sort >want
  same
}

c_time() {
  program=c_calls
  started c_calls c_calls -c -m time
  grep -v ' Caller#' got >got.2
  mv got.2 got
  same
}

objects_started() { program=objects; started objects objects -m objects; comparable; same; }
objects_attached() { program=objects; attached objects objects -m objects; comparable; same; }

objects_kinds() {
  program=objects
  started objects objects -m strings
  grep ' String ' want >want.2
  mv want.2 want
  comparable
  same
  started objects objects -m arrays
  grep -E ' (Array|Hash) ' want >want.2
  mv want.2 want
  comparable
  same
}

objects_total() {
  program=objects
  reference objects objects start
  visible='^(Thing|Pair|Object|Float|Integer|MatchData|ArgumentError) '
  awk '{ sum[$2] += $3 } END { for (k in sum) print k, sum[k] }' want | grep -E "$visible" |
    LC_ALL=C sort >want.2
  mv want.2 want
  # shellcheck disable=SC2086
  "$TRACE_TOOL" -m objects-total -p '*exact/objects.rb' -- $run "$dir/objects.rb" >out
  awk -F '\t' '$8 > 0 { print $3, $8 }' out | grep -E "$visible" | LC_ALL=C sort >got
  same
}

trace_events() {
  program=calls
  reference calls calls start
  # shellcheck disable=SC2086
  "$TRACE_TOOL" -q -m trace -r -p '*exact/calls.rb' -- $run "$dir/calls.rb" >out
  ! grep -q '^lost' out || return 1
  awk -F '\t' '$1 == "call" { sub(".*:", "", $6); print $6, $5, 1 }' out | normal >got
  same
# A method that retries begins again, for TracePoint as well, and returns once.
  for kind in call return; do
    awk -F '\t' -v kind=$kind '$1 == kind && $5 != "Plain#retries" { print $6, $5 }' out |
      sort | uniq -c >$kind.rows
  done
  diff -u call.rows return.rows
}

# Calls that were running when the tracer came count from then on. The program knows between which
# times each must be, up to the difference of two clocks. They are no calls of this session.
running_calls() {
  mkfifo in err
  # shellcheck disable=SC2086 # words
  $RUBY $RUBYFLAGS -W0 --disable-gems "$dir/running.rb" <in 2>err >want &
  pid=$!
  exec 5>in 6<err
  read -r ready <&6
  [ "$ready" = ready ]
  "$TRACE_TOOL" -w 5 -m time -p '*exact/running.rb' "$pid" >out
  wait $pid
  cat want out
  awk -F '\t' '
    function wrong(what) { print "WRONG: " name " " what; bad = 1 }
    function near(a, b) { return a - b < 1e6 && b - a < 1e6 }
    FILENAME == "want" { split($0, w, " "); frames[w[1]] = w[2]; min[w[1]] = w[3]; max[w[1]] = w[4]; next }
    { name = $3; calls[name] = $4; total[name] = $5; self[name] = $6; count[name] = $8 }
    name in frames {
      n++
      if ($4 != 0 || $8 != frames[name]) wrong("calls")
      slack = 1e6 + max[name] / 1000
      if ($5 < min[name] - slack || $5 > max[name] + slack) wrong("total")
      if ($7 != $5) wrong("max")
    }
    END {
      if (n != 11) { print n " rows"; bad = 1 }
      name = "Run#seen"; if (calls[name] != 1 || count[name] != 0) wrong("calls")
      name = "Run#main"; if (!near(self[name] + total["Run#inner"], total[name] - total["Run#ends"])) wrong("self")
      name = "Run#inner"; if (self[name] < 0 || self[name] > total[name] - total["Run#work"]) wrong("self")
      name = "Run#ensures"; if (self[name] > total[name] - total["Run#cleans"]) wrong("self")
      # Both were away from their threads for the rest.
      name = "Run#fiber"; if (self[name] > total[name] - total["Run#busy"] - total["Run#seen"]) wrong("self")
      name = "Run#host"; if (self[name] > total[name] - 30e6) wrong("self")
      exit bad
    }' want out
}

# start_on_pipes NAME: the program of that name, $pid, reads descriptor 5 and has said "ready" on 6.
start_on_pipes() {
  mkfifo in err
  # shellcheck disable=SC2086 # words
  $RUBY $RUBYFLAGS -W0 --disable-gems "$dir/$1.rb" <in 2>err &
  pid=$!
  exec 5>in 6<err
  read -r ready <&6
  [ "$ready" = ready ]
}

# Other ractors run while we look: each thread finds its own calls.
running_calls_of_ractors() {
  $RUBY -e 'exit defined?(Ractor) ? true : false' || t_skip "this Ruby has no ractors"
  $RUBY -e 'exit(RUBY_VERSION < "4")' || t_skip "from Ruby 4.0 on a tracepoint is that of one ractor"
  start_on_pipes ractor
  "$TRACE_TOOL" -w 5 -m time -p '*exact/ractor.rb' "$pid" >out
  wait $pid
  cat out
  awk -F '\t' '
    { calls[$3] = $4; total[$3] = $5; self[$3] = $6; n[$3] = $8 }
    END {
      sum = self["Work#outer"] + total["Work#inner"] + total["Work#done"] - total["Work#outer"]
      exit !(n["Work#outer"] == 1 && n["Work#inner"] == 1 && n["Work#far"] == 1 && n["Work#done"] == 0 &&
        calls["Work#outer"] == 0 && calls["Work#far"] == 0 && calls["Work#done"] == 1 &&
        sum < 9 && sum > -9 && self["Work#outer"] > 29e6 && self["Work#far"] > 29e6)
    }' out
}

# Calls that do not return are in the table with the time that they have taken so far. No time
# ever decreases, whatever ends meanwhile.
calls_that_hang() {
  start_on_pipes hanging
  begin=$(date +%s%N)
  "$RUTILE" time --json --interval 2ms --duration 300s --path '*exact/hanging.rb' "$pid" >out &
  tracer=$!
  t_wait grep -q '"Hang#before"' out
  echo >&5
  t_wait grep -qE '"Hang#later".*"total_ns":[1-9][0-9]{8},' out
  kill -INT $tracer
  wait $tracer
  end=$(date +%s%N)
  kill -KILL $pid
  tail -n 5 out
  sed -E 's/.*"method":"([^"]*)","calls":([0-9]+),"total_ns":([0-9]+),"self_ns":([0-9]+),"max_ns":([0-9]+),.*/\1 \2 \3 \4 \5/' out >rows
  awk -v all=$((end - begin)) '
    function wrong(what) { print "WRONG: " NR ": " $0 ": " what; bad = 1 }
    # The tracer measures how long a tick is each time.
    $3 + 2e5 + $3 / 20000 < total[$1] { wrong("less than " total[$1]) }
    $3 > all || $5 > $3 { wrong("too much") }
    $1 == "Hang#deeper" && $4 != $3 { wrong("self") }
    $1 == "Hang#before" && $4 > 1e6 { wrong("self") }
    $1 == "Hang#fiber" && ($3 > 1e6 || $4 > 1e6) { wrong("it waits") }
    $1 ~ /often/ && $3 - $4 > 1 { wrong("self") }
    { total[$1] = $3; calls[$1] = $2; n++ }
    END {
      if (n < 100 || total["Hang#before"] < 1e8 || total["Hang#later"] < 1e8 ||
          calls["Hang#before"] != 0 || calls["Hang#deeper"] != 0 || calls["Hang#later"] != 1) wrong("at the end")
      exit bad
    }' rows
}

# The time of a method's own and that of what it calls add up: all of it is in the outermost.
time_adds_up() {
  cat >adds.rb <<'EOF'
class A
  def root; f(1); f(0) rescue nil; 50.times { |i| a(i) }; rec(30); end
  define_method(:f) { |n| n.zero? ? raise('x') : d }
  def a(i); b; b if i.odd?; c rescue nil; end
  def b; 20.times { d }; end
  def c; d; raise 'x'; ensure d; end
  def d; catch(:t) { e }; end
  def e; throw :t; end
  def rec(n); n.zero? ? b : [n].each { rec(n - 1) }; end
end
A.new.root
EOF
  # shellcheck disable=SC2086
  "$TRACE_TOOL" -m time -p "*adds.rb" -- $RUBY $RUBYFLAGS --disable-gems adds.rb >out
  awk -F '\t' '$3 ~ /^A#/ { n++; self += $6; if ($3 == "A#root") root = $5
      if ($5 < $6 || $7 > $5) bad = 1 }
    END { d = self - root; exit !(n == 8 && root > 0 && !bad && d <= n && -d <= n) }' out || {
    cat out
    false
  }
}

# However the process ends, what was read of the calls that ran stays.
calls_that_never_return() {
  cat >end.rb <<'EOF'
def outer(how); inner(how); end
def inner(how)
  sleep 0.01 until File.exist?("go")
  case how
  when "exit!" then exit!
  when "exec" then exec "true"
  when "kill" then Process.kill(:KILL, $$)
  when "thread" then Thread.new { exit! }.join
  end
end
outer(ARGV[0])
EOF
  for how in exit! exec kill thread; do
    rm -f go
    "$RUTILE" time --json --interval 20ms --path '*end.rb' -- $RUBY $RUBYFLAGS -W0 end.rb $how >out 2>err &
    t_wait grep -qE '"Object#inner".*"total_ns":[1-9][0-9]{8},' out
    touch go
    wait $! || :
    tail -n 2 out
    # "METHOD CALLS TOTAL": the last one is no less than those before.
    sed -E 's/.*"method":"([^"]*)","calls":([0-9]+),"total_ns":([0-9]+),.*/\1 \2 \3/' out | awk '
      $3 + 2e5 + $3 / 20000 < total[$1] { print "less: " $0; bad = 1 }
      { total[$1] = $3; calls[$1] = $2 }
      END { exit bad || calls["Object#outer"] != 1 || calls["Object#inner"] != 1 || total["Object#outer"] < total["Object#inner"] }'
  done
}

# Nothing says that these calls are over but the end of the process.
overflow_that_ends_the_process() {
  cat >deep.rb <<'EOF'
def deep; deep; end
def outer; sleep 0.05; deep; end
outer
EOF
  "$TRACE_TOOL" -m time -- $RUBY $RUBYFLAGS -W0 deep.rb >out 2>err || :
  grep -q 'stack level too deep' err
  # calls, total and own time
  awk -F '\t' '{ print $3, $4, $5, $6 } $3 == "Object#outer" { ok = $4 == 1 && $5 >= 5e7 && $6 >= 5e7 }
    END { exit !ok }' out
}

time_of_garbage_collection_is_its_own() {
  [ "$($RUBY -e 'print RUBY_VERSION >= "3.1"')" = true ] || t_skip "this Ruby does not count the time of GCs"
  cat >garbage.rb <<'EOF'
def fill; @kept = Array.new(200_000) { |n| n.to_s }; end
def collect; GC.start; end
fill
5.times { collect }
before = [GC.total_time, GC.count]
20.times { collect }
File.write("truth", [GC.total_time - before[0], GC.count - before[1]].join(" "))
EOF
  "$RUTILE" time --json --last -- $RUBY garbage.rb >got
  ruby -rjson -e '
    rows = STDIN.each_line.map { |l| JSON.parse(l) }.to_h { |r| [r["method"], r] }
    ns, _ = File.read("truth").split.map(&:to_i)
    gc, collect = rows.fetch("(garbage collection)"), rows.fetch("Object#collect")
    # All of them but the first ones, in which the number is found.
    abort "#{gc} #{ns}" unless gc["total_ns"] >= ns * 0.95 && gc["self_ns"] == gc["total_ns"]
    abort "#{collect}" unless collect["total_ns"] - collect["self_ns"] >= ns * 0.95
    abort "#{gc}" unless gc["calls"] == 0 && collect["calls"] == 25' <got
  "$RUTILE" time --json --last --method fill -- $RUBY garbage.rb >got
  not grep -q garbage\ col got
}

t_case "calls, from the first line" calls_started
t_case "calls, attached" calls_attached
t_case "time counts the same calls, from the first line" time_started
t_case "time counts the same calls, attached" time_attached
t_case "calls of one file" path_filter
t_case "calls of a class without one method" class_filter started
t_case "calls of a class without one method, attached" class_filter attached
t_case "threads, fibers, killed threads, stack overflow: calls" concurrent_calls
t_case "threads, fibers, killed threads, stack overflow: time" concurrent_time
t_case "threads and fibers, attached" concurrent_attached
# Debian 12's Ruby does not have them: script/matrix runs these two, on Debian 13's.
if $RUBY -v | grep -qE '^ruby (3\.[3-9]|[4-9])'; then
  t_case "threads that move between native ones" moving_threads started
  t_case "threads that move between native ones, attached" moving_threads attached
fi
t_case "calls of C methods by line" c_calls
t_case "calls of C methods by line, timed" c_time
t_case "classes and code that come and go: calls" churn_calls calls
t_case "classes and code that come and go: time" churn_calls time
t_case "code that many classes share: calls" shared_code started calls
t_case "code that many classes share: time, attached" shared_code attached time
t_case "classes and code that come and go: C methods" churn_c_calls
t_case "classes and code that come and go: objects" churn_objects
t_case "own times add up to the total" time_adds_up
t_case "the time of garbage collection is its own" time_of_garbage_collection_is_its_own
t_case "calls that were running at attach" running_calls
t_case "calls that were running at attach, in ractors" running_calls_of_ractors
t_case "calls that do not return" calls_that_hang
t_case "calls that end with the process" calls_that_never_return
t_case "a stack overflow that ends the process" overflow_that_ends_the_process
t_case "allocations per line and class" objects_started
t_case "allocations per line and class, attached" objects_attached
t_case "strings; arrays and hashes" objects_kinds
t_case "allocations per class" objects_total
t_case "trace has every call and every return" trace_events
t_done
