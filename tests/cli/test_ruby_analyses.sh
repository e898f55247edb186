#!/bin/bash
# SPDX-License-Identifier: MIT
# The analyses of Ruby events, on traces made by hand with known answers, and on a recording whose
# answers Ruby itself gives.
. "$SRC/tests/tap.sh"

mk() {
  python3 "$SRC/tests/mktrace" trace
}

run() {
  verb=$1
  shift
  "$RUTILE" "$verb" --skip-validation --no-intersection --gmt "$@" trace >said || return
  case " $* " in
    *" --mi "*)
      "$RUTILE" "$verb" --metadata >meta
      python3 "$SRC/tests/lami.py" meta said >lami || return
      ;;
  esac
  cat said
}

# json PYTHON: with rows(CLASS) and val(CELL)
json() {
  python3 -c '
import json, sys
results = json.load(sys.stdin)["results"]
def val(c):
    return c.get("value", c.get("path", c.get("tid", c.get("pid"))))
def rows(name):
    return [[val(c) for c in r] for t in results if t["class"] == name for r in t["data"]]
'"$1"
}

NAMES='env vpid=10
100 7 ruby:method id=0 line=3 singleton=0 native=0 class=Shop method=index path=/srv/shop.rb
100 7 ruby:method id=1 line=9 singleton=0 native=0 class=Order method=total path=/srv/order.rb
100 7 ruby:method id=2 line=5 singleton=1 native=0 class=DB method=query path=/srv/db.rb
100 7 ruby:method id=3 line=7 singleton=0 native=0 class=Oops method="" path=/srv/db.rb'

# index 1000..9000 calls total 2000..8000, which calls query twice (3000..4000, 5000..7000). The thread is
# on a CPU but from 3200 to 3700 and from 5500 to 6500.
times() {
  mk <<TRACE
$NAMES
900 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=11 next_prio=20
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
2_000 7 ruby:call method=1
3_000 7 ruby:call method=2
3_200 0 sched_switch prev_comm=puma prev_tid=11 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
3_700 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=11 next_prio=20
4_000 7 ruby:return method=2
5_000 7 ruby:call method=2
5_500 0 sched_switch prev_comm=puma prev_tid=11 prev_prio=20 prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20
6_500 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=11 next_prio=20
7_000 7 ruby:return method=2
8_000 7 ruby:return method=1
9_000 7 ruby:return method=0
TRACE
  run rubytop --mi | json '
got = {r[0]: r[1:] for r in rows("per-method")}
assert got == {
  "Shop#index": ["/srv/shop.rb:3", 1, 8000, 2000, 6500, 2000, 8000.0, 8000],
  "Order#total": ["/srv/order.rb:9", 1, 6000, 3000, 4500, 3000, 6000.0, 6000],
  "DB.query": ["/srv/db.rb:5", 2, 3000, 3000, 1500, 1500, 1500.0, 2000],
}, got'
  run rubyslow >out
  cat out
  grep -qE '^8.00 us  Shop#index  \(/srv/shop.rb:3\)$' out
  grep -q 'process 10, thread 11, 6.50 us on a CPU' out
  grep -qE '^ +6.00 us  Order#total$' out
  grep -qE '^ +3.00 us    2 x DB.query$' out
}

# Recursion counts once in the total; a call that has not returned counts up to the end.
recursion_and_running() {
  mk <<TRACE
$NAMES
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=1
2_000 7 ruby:call method=1
3_000 7 ruby:return method=1
4_000 7 ruby:return method=1
5_000 7 ruby:call method=0
6_000 7 ruby:call method=2
9_000 0 last a=1
TRACE
  run rubytop --mi | json '
got = {r[0]: r[2:5] for r in rows("per-method")}
assert got == {"Order#total": [2, 3000, 3000], "Shop#index": [1, 4000, 1000], "DB.query": [1, 3000, 3000]}, got'
  run rubyslow >out
  grep -A1 'Shop#index' out | grep -q 'has not returned'
}

# Ruby reports a `retry` as another call of the same method, but one return. A return without a call is of
# a call that was running before.
unmatched() {
  mk <<TRACE
$NAMES
1_000 7 ruby:switch tid=11 fiber=1
1_100 7 ruby:return method=2
1_200 7 ruby:call method=0
2_000 7 ruby:call method=1
3_000 7 ruby:call method=1
4_000 7 ruby:return method=1
5_000 7 ruby:return method=0
6_000 7 ruby:call method=2
7_000 7 ruby:return method=2
TRACE
  run rubytop --mi | json '
got = {r[0]: r[2:5] for r in rows("per-method")}
assert got == {"Shop#index": [1, 3800, 1800], "Order#total": [2, 2000, 2000], "DB.query": [1, 1000, 1000]}, got'
}

# The time of another fiber of its thread is not a method'"'"'s own; another thread is no callee.
fibers() {
  mk <<TRACE
$NAMES
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
2_000 7 ruby:switch tid=11 fiber=2
2_000 7 ruby:call method=1
5_000 7 ruby:return method=1
6_000 7 ruby:switch tid=11 fiber=1
6_000 7 ruby:call method=2
6_500 7 ruby:switch tid=12 fiber=3
6_500 7 ruby:call method=1
6_600 7 ruby:switch tid=11 fiber=1
7_000 7 ruby:return method=2
7_100 7 ruby:switch tid=12 fiber=3
7_500 7 ruby:return method=1
7_600 7 ruby:switch tid=11 fiber=1
8_000 7 ruby:return method=0
TRACE
  run rubytop --mi | json '
got = {r[0]: r[2:5] for r in rows("per-method")}
assert got == {"Shop#index": [1, 7000, 2000], "Order#total": [2, 4000, 4000], "DB.query": [1, 1000, 1000]}, got'
  run rubytop --tid 12 --mi | json '
got = {r[0]: r[2:5] for r in rows("per-method")}
assert got == {"Order#total": [1, 1000, 1000]}, got'
}

# A request that waits while another fiber of its thread computes has used no CPU meanwhile. A call that
# is running at the end has its process and thread, also when another one has recorded since.
fibers_on_cpus() {
  mk <<TRACE
$NAMES
900 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=11 next_prio=20
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
2_000 7 ruby:switch tid=11 fiber=2
2_000 7 ruby:call method=1
5_000 7 ruby:return method=1
6_000 7 ruby:switch tid=11 fiber=1
6_100 7 ruby:call method=2
7_000 7 ruby:switch tid=12 fiber=3
7_000 7 ruby:raise class=3
8_000 0 last a=1
TRACE
  run rubytop --mi | json '
got = {r[0]: [r[3], r[4], r[5], r[6]] for r in rows("per-method")}
assert got == {"Shop#index": [7000, 1100, 3000, 1100], "Order#total": [3000, 3000, 3000, 3000],
               "DB.query": [1900, 1900, 1900, 1900]}, got'
  run rubyslow >out
  grep -A1 'Shop#index' out | grep -q 'process 10, thread 11, .*has not returned'
}

events() {
  mk <<TRACE
$NAMES
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=2
1_100 7 ruby:raise class=3
1_200 7 ruby:raise class=3
1_300 7 ruby:alloc class=3 bytes=40
1_400 7 ruby:alloc class=3 bytes=80
2_000 7 ruby:gc_enter
2_100 7 ruby:gc_start count=4 live_slots=1000 major=0 by=1
2_900 7 ruby:gc_exit
3_000 7 ruby:gc_enter
3_100 7 ruby:gc_sweep_end count=4 live_slots=600 major=0 by=1
3_500 7 ruby:gc_exit
4_000 7 ruby:return method=2
5_000 7 ruby:gc_enter
5_000 7 ruby:gc_start count=5 live_slots=900 major=2 by=3
6_000 7 ruby:gc_exit
TRACE
  run rubyexceptions --mi | json '
assert [r[:3] for r in rows("exceptions")] == [["Oops", "/srv/db.rb:7", 2]], rows("exceptions")'
  run rubyalloc --mi | json '
r = rows("allocations")
assert [x[:3] + x[4:] for x in r] == [["Oops", "/srv/db.rb:7", 2, 120]], r'
  run rubygc --mi | json '
r = rows("gc")
assert len(r) == 1 and r[0][1:4] == [1, 1, 2400] and r[0][5:] == [3, 800.0, 1000, 1000, 600, "newobj 1, method 1"], r
m = {x[0]: x[2:] for x in rows("gc-methods")}
assert m == {"DB.query": [1, 1400], "(outside of recorded methods)": [1, 1000]}, m'
}

# 11 holds the lock in Order#total until 5000, while 12 waits from 2000: 3000 of its wait are charged to it.
gvl() {
  mk <<TRACE
$NAMES
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:gvl_have tid=11
1_500 7 ruby:call method=1
2_000 7 ruby:gvl_wait tid=12
5_000 7 ruby:gvl_release tid=11
5_100 7 ruby:gvl_have tid=12
5_200 7 ruby:switch tid=12 fiber=2
5_200 7 ruby:call method=2
5_300 7 ruby:gvl_wait tid=11
5_400 7 ruby:gvl_wait tid=13
6_000 7 ruby:gvl_release tid=12
6_200 7 ruby:gvl_have tid=11
TRACE
  run gvl --mi | json '
t = {r[0]: r[1:] for r in rows("gvl-threads")}
assert t == {12: [1, 3100, 3100.0, 3100, 1, 900, 900], 11: [1, 900, 900.0, 900, 1, 4000, 4000], 13: [0, 0, 0, 0, 0, 0, 0]}, t
m = {r[0]: r[2:] for r in rows("gvl-methods")}
assert m == {"Order#total": [1, 4000, 3000], "DB.query": [1, 900, 700 + 600]}, m'
}

nothing_to_say() {
  printf '1_000 0 syscall_entry_getpid\n1_100 0 syscall_exit_getpid ret=1\n' | mk
  for v in rubytop rubyslow rubyexceptions rubyalloc rubygc gvl; do
    run $v >out
    grep -q "rutile record --ruby" out
  done
}

# What the program did, by its own word: sleeps and work of known length, 20 exceptions, its GCs.
recorded() {
  cat >app.rb <<'RUBY'
class App
  def request = (wait; work)
  def wait = sleep(0.02)
  def work = burn(0.01)
  def burn(s) = (t = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
                 nil while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < t + s)
  def fail = (raise ArgumentError rescue nil)
end
$stdout.puts 'ready'; $stdout.flush; $stdin.gets
20.times { App.new.request; App.new.fail }
before = GC.count
3.times { GC.start }
$stdout.puts GC.count - before; $stdout.flush
RUBY
  mkfifo in out
  ruby --disable-gems app.rb <in >out &
  pid=$!
  exec 5>in 6<out
  read -r ready <&6
  "$RUTILE" record -o trace -p "$pid" -e sched_switch --ruby "$pid:call,return,raise,gc" 2>err &
  recorder=$!
  t_wait test -s trace/ruby-"$pid"/names
  echo >&5
  read -r gcs <&6
  wait "$pid"
  wait "$recorder"
  "$RUTILE" rubytop --mi trace >top.json
  "$RUTILE" rubygc --mi trace >gc.json
  "$RUTILE" rubyexceptions --mi trace >ex.json
  json '
m = {r[0]: r for r in rows("per-method")}
assert m["App#request"][2] == 20
# A sleep is no shorter than asked for and uses next to no CPU; the work uses what it is asked to, but for switches that
# a kernel may hide from every tool (tests/bpf/test_interop.sh).
wait, work = m["App#wait"], m["App#burn"]
assert wait[3] >= 20 * 20e6 and wait[5] < wait[3] / 4, wait
assert 20 * 10e6 * 0.9 <= work[5] <= 20 * 10e6 * 1.1, work
assert m["App#request"][3] >= wait[3] + work[3]' <top.json
  json "assert sum(r[1] + r[2] for r in rows('gc')) >= $gcs" <gc.json
  # Labels of enumerations are strings to expressions: methods by name.
  "$RUTILE" periodlog --no-intersection --period 'request : $evt.$name == "ruby:call" && $evt.method == "App#request" :
    $evt.$name == "ruby:return" && $evt.method == $begin.$evt.method' trace >log
  cat log
  [ "$(grep -c ' request' log)" = 20 ]
  for f in '$evt.method == "App#wait"' '$evt.method =* "*#wa?t"' '"App#wait" == $evt.method' \
    '$evt.$name == "ruby:call" && $evt.method != "App#request" && !($evt.method =* "App#[bfw]*" && $evt.method != "App#wait")'; do
    echo "$f" "$("$RUTILE" view --filter "$f" trace | grep -c ' ruby:call: .*"App#wait"')" \
      "$("$RUTILE" view --filter "$f" trace | grep ' ruby:call: ' | grep -vc '"App#wait"')"
  done >filters
  cat filters
  [ "$(awk '{ print $(NF - 1), $NF }' filters | sort -u)" = "20 0" ]
  [ "$("$RUTILE" view --filter '$evt.method == "App#none"' trace | wc -l)" = 0 ]
  [ "$("$RUTILE" view --filter '$evt.$name == "ruby:gc_start" && $evt.by == "method"' trace | wc -l)" -ge 3 ]
  json 'assert [r[:1] + r[2:3] for r in rows("exceptions")] == [["ArgumentError", 20]]' <ex.json
}

# Names of 5,000 characters: cut in text, so that a line can be read, whole for machines.
long_names() {
  long=$(printf 'Ä%.0s' $(seq 4990))
  mk <<TRACE
env vpid=10
100 7 ruby:method id=0 line=3 singleton=0 native=0 class=B${long}E method=index path=/srv/shop.rb
100 7 ruby:method id=1 line=7 singleton=0 native=0 class=X${long}Y method="" path=/srv/db.rb
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
2_000 7 ruby:raise class=1
9_000 7 ruby:return method=0
TRACE
  for verb in rubytop rubyslow rubyexceptions; do
    run $verb >out
    cut -c 1-300 out
    awk 'length($0) > 300 { exit 1 }' out
    [ $verb = rubyexceptions ] || grep -qE '(^|  )BÄ{57}[.]{3}Ä{51}E#index' out
    [ $verb != rubyexceptions ] || grep -qE '^XÄ{57}[.]{3}Ä{57}Y' out
    want='"B" + 4990 * "Ä" + "E#index"'
    [ $verb != rubyexceptions ] || want='"X" + 4990 * "Ä" + "Y"'
    run $verb --mi >out
    json "assert $want in [val(c) for t in results for r in t['data'] for c in r]" <out
  done
}

t_case "rubytop: total, self, on a CPU; rubyslow: its tree, equal calls in one line" times
t_case "names of 5,000 characters" long_names
t_case "recursion counts once, what has not returned up to the end" recursion_and_running
t_case "returns without calls, and calls without returns" unmatched
t_case "fibers and threads have their own time" fibers
t_case "the CPU of other fibers is not a call's; running calls have their process" fibers_on_cpus
t_case "rubyexceptions, rubyalloc, rubygc" events
t_case "gvl: waits, holds, and the method that others waited for" gvl
t_case "a trace without Ruby events says how to get them" nothing_to_say
t_case "a recording: times, exceptions and collections as the program knows them" recorded
t_done
