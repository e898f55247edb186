#!/bin/bash
# SPDX-License-Identifier: MIT
# How a trace is written, from the events of a tracer without a process.
. "$SRC/tests/tap.sh"
R=$RUTILE_FAKE_PROGRAM

fake_trace() {
  cat >trace.fake <<'EOF'
proc|100|1|3|/srv/shop|puma: [shop]
event|start|100|0|0|0|0|0|-|-|-|-|0|-|0
event|call|100|100|1000|0|0|0|Shop::Cart|show|#|/srv/shop/cart.rb|3|id=7, q="x"|0
event|call|100|100|2000|0|1|0|Shop::Item|find|.|/srv/shop/item.rb|9|-|0
event|return|100|100|3500|1500|1|0|Shop::Item|find|.|/srv/shop/item.rb|9|-|0
event|call|100|105|3600|0|0|2|Shop::Job|run|#|/srv/shop/job.rb|1|-|0
event|call|100|100|4000|0|1|0|Shop::Item|price|#|/srv/shop/item.rb|20|-|0
event|raise|100|100|5000|0|2|0|KeyError|-|-|/srv/shop/item.rb|22|-|0
event|return|100|100|2004000|2000000|1|0|Shop::Item|price|#|/srv/shop/item.rb|20|-|0
event|return|100|100|3001000|3000000|0|0|Shop::Cart|show|#|/srv/shop/cart.rb|3|-|0
event|lost|100|0|0|0|0|0|-|-|-|-|0|-|17
event|exit|100|0|0|0|0|0|-|-|-|-|0|-|0
log|log
ends
EOF
  export RUTILE_FAKE=$PWD/trace.fake
}

# Without the dates.
body() {
  sed -E 's/^(Tracing (started|ended) at) [A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}$/\1 DATE/'
}

lines_of_foreman_tracer() {
  fake_trace
  "$R" trace 100 2>err | body >got
  cat >want <<'EOF'
Tracing started at DATE
Shop::Cart.show
Shop::Item.find
Shop::Job.run
Shop::Item.price
EXCEPTION KeyError (/srv/shop/item.rb:22)
LOST 17 events of process 100
Tracing ended at DATE
EOF
  diff want got
  grep -q '^rutile trace: 17 events were lost' err
  ln -s "$R" foreman-tracer
  ./foreman-tracer 100 2>err | body | diff want -
}

a_tree() {
  fake_trace
  "$R" trace --tree --args 100 2>err | body >got
  cat >want <<'EOF'
Tracing started at DATE
-- process 100, thread 100
           Shop::Cart#show(id=7, q="x") {
    1.50us   Shop::Item.find
-- process 100, thread 105, fiber 2
           Shop::Job#run {
-- process 100, thread 100
             Shop::Item#price {
               EXCEPTION KeyError (/srv/shop/item.rb:22)
    2.00ms   } Shop::Item#price
    3.00ms } Shop::Cart#show
LOST 17 events of process 100
Tracing ended at DATE
EOF
  diff want got
}

below_a_method_the_tree_begins_there() {
  cat >deep.fake <<'EOF'
proc|100|1|3|/srv/shop|puma: [shop]
event|call|100|100|1|0|50|1|A|top|#|/a|1|-|0
event|call|100|100|2|0|51|1|A|in|#|/a|2|-|0
event|raise|100|100|3|0|52|1|KeyError|-|-|/a|3|-|0
event|return|100|100|4|900|51|1|A|in|#|/a|2|-|0
event|return|100|100|5|901|50|1|A|top|#|/a|1|-|0
event|call|100|100|6|0|70|1|A|top|#|/a|1|-|0
event|call|100|100|7|0|71|1|A|in|#|/a|2|-|0
event|return|100|100|8|902|71|1|A|in|#|/a|2|-|0
event|return|100|100|9|903|70|1|A|top|#|/a|1|-|0
ends
EOF
  RUTILE_FAKE=$PWD/deep.fake "$R" trace --tree --inside 'A#top' 100 | grep -v '^Tracing\|^--' >got
  cat >want <<'EOF'
           A#top {
             A#in {
               EXCEPTION KeyError (/a:3)
     900ns   } A#in
     901ns } A#top
           A#top {
     902ns   A#in
     903ns } A#top
EOF
  diff want got
}

returns_threads_times_and_arguments() {
  fake_trace
  TZ=UTC "$R" trace --returns --thread --time --args 100 2>err | grep -E '^[0-9]' >got
  sed -E 's/^[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} //' got | sed -n 1,3p >rest
  cat >want <<'EOF'
100/100 Shop::Cart#show(id=7, q="x")
100/100 Shop::Item.find
100/100 RETURN Shop::Item.find 1.50us
EOF
  diff want rest
}

the_time_of_day_is_right() {
  fake_trace
  # An event of this moment, by the monotonic clock.
  before=$(date -u +%s)
  now=$(ruby -e 'puts Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)')
  after=$(date -u +%s)
  sed -i "s/|105|3600|/|105|$now|/" trace.fake
  line=$(TZ=UTC "$R" trace --time 100 2>/dev/null | grep 'Job.run')
  at=$(date -u -d "1970-01-01 ${line%% *}" +%s)
  # Between the two, also around midnight. The clock may be slewed by as much as a second.
  echo "$before $line $after"
  [ $(((at - before + 1 + 86400 * 100000) % 86400)) -le $((after - before + 2)) ]
}

# The tree of a slow call; of one that was slow below it, and shown, the line. A fast call beside it is not shown, one
# below it is. An outermost call that is fast is forgotten, and a return without its call is none.
slow_calls_with_their_tree() {
  cat >tree.fake <<'EOF'
proc|100|1|3|/srv/shop|puma: [shop]
event|return|100|100|500|99000000|9|0|A|unseen|#|/a|1|-|0
event|call|100|100|1000|0|3|0|A|fast|#|/a|1|-|0
event|return|100|100|2000|1000|3|0|A|fast|#|/a|1|-|0
event|call|100|100|3000|0|3|0|A|request|#|/a|2|id=1|0
event|call|100|100|4000|0|4|0|A|query|#|/a|3|-|0
event|call|100|100|5000|0|5|0|A|parse|.|/a|4|-|0
event|return|100|100|6000|1000|5|0|A|parse|.|/a|4|-|0
event|raise|100|100|7000|0|5|0|KeyError|-|-|/a|5|-|0
event|return|100|100|20000000|19996000|4|0|A|query|#|/a|3|-|0
event|call|100|100|20001000|0|4|0|A|render|#|/a|6|-|0
event|return|100|100|20002000|1000|4|0|A|render|#|/a|6|-|0
event|return|100|100|20003000|20000000|3|0|A|request|#|/a|2|-|0
ends
EOF
  RUTILE_FAKE=$PWD/tree.fake "$R" trace --slow 10ms --tree --args 100 2>err | grep -v '^Tracing' >got
  cat >want <<'EOF'
-- process 100, thread 100
           A#query {
    1.00us   A.parse
             EXCEPTION KeyError (/a:5)
    20.0ms } A#query
           A#request(id=1) {
    20.0ms   A#query
    1.00us   A#render
    20.0ms } A#request
EOF
  diff want got
  rc=0
  "$R" trace --slow 10ms --returns 100 2>err || rc=$?
  [ "$rc" = 2 ]
}

slow_calls_with_their_callers() {
  cat >slow.fake <<'EOF'
proc|100|1|3|/srv/shop|puma: [shop]
event|slow|100|100|1000|12300000|3|0|Shop::Cart|total|#|/srv/shop/cart.rb|3|-|0
caller|Shop::App|checkout|#|/srv/shop/app.rb|40
caller|Puma::Server|run|#|/usr/puma.rb|1
log|log
ends
EOF
  export RUTILE_FAKE=$PWD/slow.fake
  "$R" trace --slow 10ms --inside 'Shop::App#checkout' 100 | body >got
  cat >want <<'EOF'
Tracing started at DATE
    12.3ms Shop::Cart#total (/srv/shop/cart.rb:3)
           from Shop::App#checkout (/srv/shop/app.rb:40)
           from Puma::Server#run (/usr/puma.rb:1)
Tracing ended at DATE
EOF
  diff want got
  grep -qx 'returns: 0 args: 0 exceptions: 0 slow: 10000000 inside: Shop::App#checkout ring: 0' log
  "$R" trace --slow 10ms --json 100 | ruby -rjson -e '
    e = JSON.parse(STDIN.read)
    abort e.inspect unless e["event"] == "slow" && e["duration_ns"] == 12300000 &&
      e["callers"].map { |c| c["method"] } == ["Shop::App#checkout", "Puma::Server#run"]'
}

json() {
  fake_trace
  "$R" trace --json 100 2>err | ruby -rjson -e '
    e = STDIN.each_line.map { |l| JSON.parse(l) }
    abort e.map { |x| x["event"] }.inspect unless e.map { |x| x["event"] } ==
      %w[start call call return call call raise return return lost exit]
    abort e[1].inspect unless e[1]["method"] == "Shop::Cart#show" && e[1]["args"] == %q(id=7, q="x")
    abort e[6].inspect unless e[6]["class"] == "KeyError" && e[6]["line"] == 22 && !e[6].key?("method")
    abort e[9].inspect unless e[9]["lost"] == 17'
}

classes_of_noise_are_left_out_unless_asked_for() {
  fake_trace
  "$R" trace 100 >/dev/null 2>&1
  grep -q '^classes: !Foreman::Logging\* .*!Kernel !String .*!IO$' log
  rm log
  "$R" trace --all-classes 100 >/dev/null 2>&1
  grep -qx 'classes:' log
  rm log
  "$R" trace --class 'Shop*' 100 >/dev/null 2>&1
  grep -qx 'classes: Shop\*' log
  rm log
  "$R" trace --class '!Shop::Job' --ring 4M --returns 100 >/dev/null 2>&1
  grep -q '^classes: !Shop::Job .*!Kernel' log
  grep -q '^returns: 1 args: 0 exceptions: 1 .*ring: 4194304$' log
}

names_cannot_harm_the_terminal() {
  fake_trace
  printf 'event|call|100|100|1|0|0|0|Evil\033[2J|x\\y|#|/x|1|-|0\n' >>trace.fake
  "$R" trace 100 2>/dev/null | grep -qxF 'Evil\x1b[2J.x\y'
}

many_lines_all_arrive() {
  fake_trace
  sed -i '/^event|lost/d' trace.fake
  echo 'repeat|50000' >>trace.fake
  "$R" trace 100 >out 2>err
  [ ! -s err ]
  [ "$(wc -l <out)" = 250002 ]
  { "$R" trace 100 2>err; echo $? >rc; } | head -n 3 >/dev/null
  [ "$(cat rc)" = 0 ]
  [ ! -s err ]
}

interrupted() {
  fake_trace
  sed -i /^ends/d trace.fake
  for sig in INT TERM; do
    rm -f out
    "$R" trace 100 >out 2>/dev/null &
    pid=$!
    t_wait grep -qs LOST out
    kill -$sig $pid
    wait $pid
    tail -n 1 out | grep -q '^Tracing ended at'
  done
}

t_case "lines of foreman-tracer" lines_of_foreman_tracer
t_case "a tree with durations" a_tree
t_case "--inside: the tree begins there" below_a_method_the_tree_begins_there
t_case "returns, threads, times, arguments" returns_threads_times_and_arguments
t_case "the time of day is right" the_time_of_day_is_right
t_case "slow calls with their tree" slow_calls_with_their_tree
t_case "slow calls with their callers" slow_calls_with_their_callers
t_case "JSON Lines" json
t_case "classes of noise are left out unless asked for" classes_of_noise_are_left_out_unless_asked_for
t_case "names cannot harm the terminal" names_cannot_harm_the_terminal
t_case "many lines all arrive; a closed pipe ends it quietly" many_lines_all_arrive
t_case "signals end it properly" interrupted
t_done
