#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces sent to LTTng's own relay daemon, against what a local directory got at the same time.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
S=relay$$
export RUTILE_SPOOL_DIR="$t_root/spool"
mkdir "$RUTILE_SPOOL_DIR"
t_clean() {
  "$RUTILE" destroy $S 2>/dev/null
  end_relay
}
trap 't_clean; rm -rf "$t_root"' EXIT

# Three free ports in a row, below those that the kernel gives away by itself.
free_port() {
  python3 - <<'PY'
import random, socket
while True:
    p = random.randrange(10000, 32000, 4)
    try:
        for i in range(3):
            s = socket.socket()
            s.bind(("127.0.0.1", p + i))
            s.close()
    except OSError:
        continue
    print(p)
    break
PY
}

listens() {
  ss -Hltn "sport = :$1" | grep -q .
}

# relay PORT: LTTng's daemon, which stores in out/; its pid in $t_root/relay.
relay() {
  end_relay || : # that of a case that failed
  mkdir -p out home
  LTTNG_HOME=$PWD/home lttng-relayd -C "tcp://127.0.0.1:$1" -D "tcp://127.0.0.1:$(($1 + 1))" \
    -L "tcp://127.0.0.1:$(($1 + 2))" -o "$PWD/out" >>relayd.log 2>&1 &
  echo $! >"$t_root/relay"
  t_wait listens "$(($1 + 2))"
}
end_relay() {
  [ -s "$t_root/relay" ] || return 0
  kill "$(cat "$t_root/relay")" 2>/dev/null
  rm -f "$t_root/relay"
}

# calls N ARGUMENT: N calls of getpgid, with an argument that no other process uses.
calls() {
  python3 -c "
import os
for i in range($1):
    try: os.getpgid($2)
    except ProcessLookupError: pass"
}

# The directory in which the daemon stored the one session of that name.
stored() {
  set -- out/*/"$1"-*
  [ $# = 1 ] && [ -d "$1" ] && echo "$1"
}

# ruby_streams: there is one with Ruby's events.
ruby_streams() {
  [ -n "$(find out -name events -size +0)" ]
}

# drops: the recorder has begun to drop the oldest packets.
drops() {
  grep -q 'does not keep up: the oldest packets are dropped' "$RUTILE_LOG_DIR/$S.log"
}

# The daemon stores what the local directory holds: the same events with the same contents.
test_store() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" record --to "relay://127.0.0.1:$p/one" -o local -e 'syscall:getpgid,sched_*' -- \
    python3 -c "
import os
for i in range(20000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  end_relay
  [ "$(readers "$(stored one)")" = "$(readers local)" ]
  babeltrace2 local | grep -c 'getpgid: .*pid = 424242 }' | grep -qx 20000
  babeltrace2 local | sed 's/ (+[^)]*)//' | sort >want
  babeltrace2 "$(stored one)" | sed 's/ (+[^)]*)//' | sort | cmp - want
  # Each packet has its entry in the index.
  for f in "$(stored one)"/kernel/kernel_*; do
    [ -s "$(dirname "$f")/index/$(basename "$f").idx" ]
  done
}

# What is not kept here needs no room here.
test_alone() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" record --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' -- \
    python3 -c "
import os
for i in range(3000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass
import time
time.sleep(1.5)  # the rings are flushed once a second
print(*(os.readlink(f'/proc/{os.getppid()}/fd/{n}') for n in os.listdir(f'/proc/{os.getppid()}/fd')), sep='\n')" >files 2>err
  end_relay
  [ -z "$(ls -d rutile-* 2>/dev/null)" ]
  # The packets are not written into files in memory either: only the directories are there.
  grep -q '/kernel$' files
  not grep -q 'kernel_[0-9]' files
  grep -q "relay://127.0.0.1:$p: .* 0 events lost" err
  readers "$(stored record)" >/dev/null
  [ "$(babeltrace2 "$(stored record)" | grep -c 'entry_getpgid: .*pid = 424242 }')" = 3000 ]
}

# Every version of the protocol from 2.11 on, as strict servers of it speak it; a later one is spoken to in ours.
test_versions() {
  need_bpf
  for minor in 11 12 13 14 15 16; do
    p=$(free_port)
    python3 "$SRC/tests/bpf/old_relay.py" "$p" $minor "$PWD/out$minor" >agreed 2>server.err &
    server=$!
    t_wait listens "$((p + 1))"
    "$RUTILE" record --to "relay://127.0.0.1:$p" -e syscall:getpgid -- python3 -c "
import os
for i in range(1000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass" 2>err || { cat err server.err; return 1; }
    wait $server || { cat server.err; return 1; }
    grep -q ' 0 events lost' err
    [ "$(cut -d' ' -f2 agreed)" = $((minor < 15 ? minor : 15)) ]
    [ "$(babeltrace2 "out$minor" 2>bt.err | grep -c 'entry_getpgid: .*pid = 424242 }')" = 1000 ]
    [ ! -s bt.err ]
  done
  p=$(free_port)
  python3 "$SRC/tests/bpf/old_relay.py" "$p" 10 "$PWD/out10" >agreed 2>server.err &
  server=$!
  t_wait listens "$((p + 1))"
  not "$RUTILE" record --to "relay://127.0.0.1:$p" -e syscall:getpgid -- true 2>err
  grep -q 'speaks version 2.10 of the relay protocol: 2.11 or later is needed' err
  [ "$(wc -l <err)" = 1 ]
  wait $server
}

# watched FILE PID: what a viewer prints into a file while the session records known calls, and others of a class that is
# added meanwhile; then the session ends, and the viewer with it.
watched() {
  calls 2000 424242
  seen() {
    [ "$(grep -c 'entry_getpgid: .*pid = 424242 }' "$1")" = 2000 ]
  }
  t_wait seen "$1"
  # Metadata that grows.
  "$RUTILE" add $S -e syscall:getsid
  python3 -c "
import os
for i in range(700): os.getsid(0)"
  more() {
    [ "$(grep -c 'entry_getsid: ' "$1")" -ge 700 ]
  }
  t_wait more "$1"
  "$RUTILE" destroy $S
  wait "$2"
}

# ruby_app: methods that are defined while it runs, and a child; each step waits for its file. Its pid in $app; how many calls of
# methods in Ruby there were, in the file "called".
ruby_app() {
  cat >app.rb <<'RUBY'
class Early; def go; end; end
early = Early.new
called = 1000 + 600 + 500
wait = ->(name) { until File.exist?(name) do early.go; called += 1; sleep 0.01 end }
wait.("step1")
eval("class Later; def come; end; end", nil, __FILE__, 1)
later = Later.new
1000.times { later.come }
wait.("step2")
200.times do |i|
  many = Object.const_set("Many#{i}", Class.new)
  many.class_eval("def m#{i}; end", __FILE__, __LINE__)
  3.times { many.new.send("m#{i}") }
  sleep 0.01
end
pid = fork do
  eval("class Kid; def grow; end; end", nil, __FILE__, 1)
  500.times { Kid.new.grow }
  sleep 2
end
Process.wait pid
wait.("step3")
flood = Integer(ENV["FLOOD"] || 0)
flood.times { early.go }
called += flood
File.write("flooded", "")
wait.("step4")
File.write("called", called)
RUBY
  ruby --disable-gems app.rb &
  app=$!
}
# named FILE NAME N: so many calls and returns of these methods are in it.
named() {
  [ "$(grep -c "ruby:call: .*method = ( \"$2.*\" : container = [0-9]* )" "$1")" = "$3" ] &&
    [ "$(grep -c "ruby:return: .*method = ( \"$2.*\" : container = [0-9]* )" "$1")" = "$3" ]
}
# names KIDS VIEWER...: what a viewer prints while methods appear, with their names; and what is stored then.
names() {
  "${@:2}" >live 2>live.err &
  viewer=$!
  touch step1
  t_wait named live 'Later#come' 1000
  touch step2
  t_wait named live 'Many' 600
  t_wait named live 'Kid#grow' "$1"
  touch step3 step4
  wait $app
  "$RUTILE" destroy $S
  wait $viewer || { cat live.err; return 1; }
  babeltrace2 "$(stored $S)" >stored.txt 2>stored.err
  for f in live stored.txt; do
    not grep -q 'unknown' $f
    named $f 'Later#come' 1000
    named $f 'Many' 600
  done
  named stored.txt 'Kid#grow' 500
  [ "$(grep -o '"Many[0-9]*#m[0-9]*"' stored.txt | sort -u | wc -l)" = 200 ]
  [ ! -s stored.err ] || { cat stored.err; return 1; }
}
need_ruby() {
  command -v ruby >/dev/null || t_skip "no ruby"
}
test_ruby_names() {
  need_bpf
  need_ruby
  p=$(free_port)
  relay "$p"
  ruby_app
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e sched_process_fork --ruby "$app:call,return"
  t_wait ruby_streams
  names 500 babeltrace2 -i lttng-live "net://127.0.0.1:$((p + 2))/host/$(uname -n)/$S"
  [ ! -s live.err ] || { cat live.err; return 1; }
  end_relay
}
# rutile's viewer shows the processes that are there when it begins.
test_ruby_names_collect() {
  need_bpf
  need_ruby
  p=$(free_port)
  "$RUTILE" collect --listen "127.0.0.1:$p" --live ":$((p + 2))" out 2>>collect.log &
  echo $! >"$t_root/relay"
  t_wait listens "$((p + 2))"
  ruby_app
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e sched_process_fork --ruby "$app:call,return"
  t_wait ruby_streams
  names 0 "$RUTILE" view --live "relay://127.0.0.1:$((p + 2))/$(uname -n)/$S"
  not grep -q 'backwards' live.err
  end_relay
}
# With --loss oldest packets of Ruby's events are dropped and counted, and the names remain.
test_ruby_oldest() {
  need_bpf
  need_ruby
  p=$(free_port)
  relay "$p"
  export FLOOD=300000
  ruby_app
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e sched_process_fork --ruby "$app:call,return" --spool 1M --loss oldest
  touch step1 step2
  t_wait ruby_streams
  kill -STOP "$(cat "$t_root/relay")"
  touch step3
  t_wait test -e flooded
  t_wait drops
  kill -CONT "$(cat "$t_root/relay")"
  touch step4
  wait $app
  "$RUTILE" destroy $S
  end_relay
  babeltrace2 "$(stored $S)" >stored.txt 2>lost.txt
  lost=$(lost_events lost.txt)
  there=$(grep -c 'ruby:\(call\|return\): .*"Early#go"' stored.txt)
  echo "$there there, $lost lost"
  [ "$lost" -gt 100000 ]
  # Calls before the session began are in neither; of what was dropped some were calls of other methods.
  [ $((there + lost)) -ge $((2 * FLOOD)) ]
  [ $((there + lost)) -le $((2 * $(cat called))) ]
  not grep -q unknown stored.txt
}

# A viewer that is there from the begin sees every event while it is recorded.
test_live() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  published() { stored $S && [ -s "$(stored $S)/kernel/index/kernel_0.idx" ]; }
  t_wait published >/dev/null
  host=$(basename "$(dirname "$(stored $S)")")
  babeltrace2 -i lttng-live "net://127.0.0.1:$((p + 2))/host/$host/$S" >live 2>live.err &
  viewer=$!
  watched live $viewer
  [ ! -s live.err ]
  end_relay
  [ "$(babeltrace2 "$(stored $S)" | grep -c 'entry_getsid: ')" -ge 700 ]
}

# rutile's own viewer sees what the daemon stores, also with metadata that grows, and ends with the session; so do the
# analyses, and a user without any right.
test_viewer() {
  need_bpf
  p=$(free_port)
  relay "$p"
  url=relay://127.0.0.1:$((p + 2))
  not "$RUTILE" view --live "$url" 2>err
  grep -q 'the relay daemon has no session that is live' err
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  named() {
    not "$RUTILE" view --live "$url/${S}x" 2>err
    grep -q "no session '${S}x'; the relay daemon has $(uname -n)/$S" err
  }
  t_wait named
  "$RUTILE" view --live "$url/$S" >view 2>view.err &
  viewer=$!
  watched view $viewer
  grep -qx "rutile: session '$url/$S' has ended" view.err
  # Our own calls, which came long before the end: what the daemon withholds then may be of anybody.
  ours() { grep 'pid = 424242 }' | sed 's/ (+[^)]*)//'; }
  babeltrace2 "$(stored $S)" | ours >want
  ours <view | cmp - want
  end_relay
}

# An analysis of what arrives is that of what is stored, by a user who may do nothing.
test_viewer_analysis() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid,sched_switch'
  published() { stored $S && [ -s "$(stored $S)/kernel/index/kernel_0.idx" ]; }
  t_wait published >/dev/null
  cp "$RUTILE" "$t_root/rutile"
  chmod 755 "$t_root" "$t_root/rutile"
  setpriv --reuid 65534 --regid 65534 --clear-groups "$t_root/rutile" syscallstats --no-progress \
    "relay://127.0.0.1:$((p + 2))/$(uname -n)/$S" >live 2>live.err &
  viewer=$!
  attached() { ss -Htn state established "sport = :$((p + 2))" | grep -q .; }
  t_wait attached
  calls 3000 424242
  # When a session ends, the daemon keeps from its viewers what they have not fetched by then.
  all() { [ "$(babeltrace2 "$(stored $S)" 2>/dev/null | grep -c exit_getpgid)" = 3000 ]; }
  t_wait all
  size=$(cat "$(stored $S)"/kernel/kernel_* | wc -c)
  fetched() {
    n=$(ss -Htin state established "sport = :$((p + 2))" | sed -n 's/.*bytes_sent:\([0-9]*\).*/\1/p')
    [ "${n:-0}" -ge "$size" ]
  }
  t_wait fetched
  "$RUTILE" destroy $S
  wait $viewer
  end_relay
  grep -E 'getpgid +3000 ' live >got
  "$RUTILE" syscallstats --no-progress "$(stored $S)" | grep -E 'getpgid +3000 ' | cmp - got
}

# A collector that cannot be reached is an error before anything is recorded.
test_nobody() {
  need_bpf
  p=$(free_port)
  not "$RUTILE" record --to "relay://127.0.0.1:$p" -- touch ran 2>err
  grep -q "cannot connect to '127.0.0.1' port $p: Connection refused" err
  [ ! -e ran ]
  not "$RUTILE" start ${S}x --to "relay://127.0.0.1:$p" 2>err
  grep -q 'Connection refused' err
  not "$RUTILE" record --to "http://127.0.0.1" -- true 2>err
  grep -q "invalid collector 'http://127.0.0.1': relay://HOST\[:PORT\], relays://HOST\[:PORT\] or nats://HOST\[:PORT\]/STREAM" err
}

# numbered FROM N: calls with arguments of their own: 8 digits, which no process has (at most 4194304).
numbered() {
  python3 -c "
import os
for i in range($1, $1 + $2):
    try: os.getpgid(i)
    except ProcessLookupError: pass"
}
# The arguments of such calls in all traces below a directory, each once, in order.
arguments() {
  find "$1" -name metadata -printf '%h\n' | while read -r d; do babeltrace2 "$d" 2>/dev/null; done |
    sed -n 's/.*entry_getpgid: .*{ pid = \(10[0-9]\{6\}\) }$/\1/p' | sort -nu
}

# Each directory of a session is a chunk at the daemon, complete and readable by itself.
test_rotate() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  numbered 10000000 1000
  "$RUTILE" rotate $S
  numbered 10001000 1000
  "$RUTILE" rotate $S
  numbered 10002000 1000
  "$RUTILE" destroy $S
  end_relay
  d=$(stored $S)
  [ "$(ls "$d/archives" | wc -l)" = 3 ]
  n=10000000
  for chunk in $(ls "$d/archives" | sort -t- -k5n); do
    readers "$d/archives/$chunk" >/dev/null
    arguments "$d/archives/$chunk" >got
    seq $n $((n + 999)) | cmp - got
    n=$((n + 1000))
  done
}

# cleared: `rutile clear` empties what the collector has stored since the last rotation, and nothing else; a viewer sees what is
# recorded before and after, and no event is said to be lost.
cleared() {
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  published() { stored $S && [ -n "$(find "$(stored $S)" -name kernel_0 -size +0)" ]; }
  t_wait published >/dev/null
  babeltrace2 -i lttng-live "net://127.0.0.1:$((p + 2))/host/$(uname -n)/$S" >live 2>live.err &
  viewer=$!
  numbered 10000000 1000
  has() { [ "$(arguments "$(stored $S)" | wc -l)" = "$1" ]; }
  t_wait has 1000
  sees() { [ "$(grep -c 'entry_getpgid: .*pid = 1000[0-9]\{4\} }' live)" -ge "$1" ]; }
  t_wait sees 1000
  "$RUTILE" clear $S
  has 0
  # The trace is where it was, and readable.
  [ ! -e "$(stored $S)/archives" ]
  numbered 10001000 1000
  t_wait has 1000
  arguments "$(stored $S)" | cmp - <(seq 10001000 10001999)
  "$RUTILE" rotate $S
  numbered 10002000 1000
  "$RUTILE" clear $S
  numbered 10003000 1000
  "$RUTILE" destroy $S
  wait $viewer || { cat live.err; index_gone || return 1; touch again; }
  end_relay
  arguments "$(stored $S)" | cmp - <(seq 10001000 10001999; seq 10003000 10003999)
  find "$(stored $S)" -name metadata -printf '%h\n' | while read -r d; do
    babeltrace2 "$d" 2>&1 | not grep -q '[Dd]iscarded'
  done
}
# lttng-relayd 2.13 answers with an error, which ends babeltrace2, when a viewer asks for an index that was deleted since the daemon
# counted it; it writes this into its log.
index_gone() {
  [ -e relayd.log ] && grep -q 'Relay error reading index file' relayd.log &&
    grep -q 'E PLUGIN/SRC.CTF.LTTNG-LIVE .*LTTNG_LIVE_ITERATOR_STATUS_ERROR' live.err
}
# After that error, and no other, the whole is done again: one viewer must get to the end.
test_clear() {
  need_bpf
  for _ in 1 2 3 4; do
    rm -rf out again relayd.log
    p=$(free_port)
    relay "$p"
    cleared
    [ -e again ] || break
  done
  [ ! -e again ]
}
test_collect_clear() {
  need_bpf
  p=$(free_port)
  "$RUTILE" collect --listen "127.0.0.1:$p" --live ":$((p + 2))" out 2>>collect.log &
  echo $! >"$t_root/relay"
  t_wait listens "$((p + 2))"
  cleared
}

# Where it is not possible the reason is named, and the session goes on.
test_clear_refused() {
  need_bpf
  p=$(free_port)
  mkdir -p out home
  LTTNG_HOME=$PWD/home lttng-relayd --disallow-clear -C "tcp://127.0.0.1:$p" -D "tcp://127.0.0.1:$((p + 1))" \
    -L "tcp://127.0.0.1:$((p + 2))" -o "$PWD/out" >>relayd.log 2>&1 &
  echo $! >"$t_root/relay"
  t_wait listens "$((p + 2))"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  numbered 10000000 1000
  published() { [ -n "$(find out -name kernel_0 -size +0)" ]; }
  t_wait published
  not "$RUTILE" clear $S 2>err
  grep -q "session '$S': the collector does not let traces be cleared: .*--disallow-clear" err
  "$RUTILE" destroy $S
  end_relay
  arguments "$(stored $S)" | cmp - <(seq 10000000 10000999)
  # A collector that is not there has nothing to delete of what was not sent; what it stored stays, and that is said.
  p=$(free_port)
  rm -rf out
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' --spool 100M
  numbered 10000000 1000
  has_first() { [ "$(arguments out | wc -l)" = 1000 ]; }
  t_wait has_first
  kill -9 "$(cat "$t_root/relay")"
  numbered 10001000 1000
  broken() { grep -q 'trying again' "$RUTILE_LOG_DIR/$S.log"; }
  t_wait broken
  not "$RUTILE" clear $S 2>err
  grep -q 'what the collector stored before the connection broke stays there' err
  numbered 10002000 1000
  relay "$p"
  "$RUTILE" destroy $S
  end_relay
  arguments out | cmp - <(seq 10000000 10000999; seq 10002000 10002999)
  [ -z "$(ls "$RUTILE_SPOOL_DIR")" ]
}

# The daemon is killed and comes back: nothing is lost between the two traces.
test_break() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' --spool 100M
  numbered 10000000 1000
  t_wait stored $S >/dev/null
  kill -9 "$(cat "$t_root/relay")"
  numbered 10001000 1000
  broken() { grep -q 'trying again' "$RUTILE_LOG_DIR/$S.log"; }
  t_wait broken
  numbered 10002000 1000
  relay "$p"
  again() { grep -q 'connected again' "$RUTILE_LOG_DIR/$S.log"; }
  t_wait again
  numbered 10003000 1000
  "$RUTILE" destroy $S
  end_relay
  arguments out >got
  seq 10000000 10003999 | cmp - got
  # Nothing is left in the spool.
  [ -z "$(ls "$RUTILE_SPOOL_DIR")" ]
}

# The daemon hangs, and more comes than the spool and the rings hold: what is lost is counted.
test_full() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' --spool 256k --buffer 1M --subbuf 16k
  t_wait stored $S >/dev/null
  kill -STOP "$(cat "$t_root/relay")"
  calls 150000 424242
  full() { grep -q 'does not keep up' "$RUTILE_LOG_DIR/$S.log"; }
  t_wait full
  kill -CONT "$(cat "$t_root/relay")"
  resumed() { grep -q "writing again" "$RUTILE_LOG_DIR/$S.log"; }
  t_wait resumed
  calls 1000 434343
  "$RUTILE" destroy $S
  end_relay
  babeltrace2 "$(stored $S)" >out.txt 2>lost.txt
  # Every event that the kernel made is there or counted: two a call.
  had=$(grep -c 'getpgid' out.txt)
  ends=$(sed -n 's/.* ends: \([0-9]*\) events.* \([0-9]*\) events lost$/\1 \2/p' "$RUTILE_LOG_DIR/$S.log" | tail -n 1)
  lost=${ends#* }
  [ "$lost" -gt 0 ]
  grep -q "Tracer discarded [0-9]* event" lost.txt
  counted=$(lost_events lost.txt)
  [ "$counted" = "$lost" ]
  [ "$((had + lost))" -ge 302000 ]
  [ "$(grep -c 'entry_getpgid: .*pid = 434343 }' out.txt)" = 1000 ]
}

# The same with --loss oldest: the newest calls are there, and the rings lose nothing. Every event that was recorded is there or counted.
test_full_oldest() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' --spool 256k --loss oldest --subbuf 16k
  numbered 10000000 1000
  sent() { [ "$(arguments out | wc -l)" = 1000 ]; }
  t_wait sent
  "$RUTILE" status $S >status
  grep -q '^lost *0,' status
  kill -STOP "$(cat "$t_root/relay")"
  numbered 10001000 99000
  t_wait drops
  kill -CONT "$(cat "$t_root/relay")"
  resumed() { grep -q "keeps up again" "$RUTILE_LOG_DIR/$S.log"; }
  t_wait resumed
  shown=$("$RUTILE" status $S | sed -n 's/^lost *\([0-9]*\),.*/\1/p')
  "$RUTILE" destroy $S
  end_relay
  babeltrace2 "$(stored $S)" >out.txt 2>lost.txt
  ends=$(sed -n 's/.* ends: \([0-9]*\) events.* \([0-9]*\) events lost$/\1 \2/p' "$RUTILE_LOG_DIR/$S.log" | tail -n 1)
  dropped=${ends#* }
  [ "$shown" -gt 100000 ]
  [ "$shown" -le "$dropped" ]
  counted=$(lost_events lost.txt)
  [ "$counted" = "$dropped" ]
  grep -q 'Tracer discarded [0-9]* packet' lost.txt
  [ "$(($(wc -l <out.txt) + dropped))" = "${ends% *}" ]
  # What was sent stays. How much more the sender takes before the first is dropped depends on when it runs.
  arguments "$(stored $S)" >got
  head -n 1000 got | cmp - <(seq 10000000 10000999)
  # A spool of 256 KiB has some 8,000 events of 32 bytes, 4,000 calls, a quarter of which may be on the way.
  tail -n 1500 got | cmp - <(seq 10098500 10099999)
  not "$RUTILE" start ${S}x --flight --loss oldest 2>err
  grep -q -- '--loss is for what is sent to a collector' err
}

# A session that ends while the daemon hangs: the message names the daemon, not a path that nobody else can open.
test_stuck() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  t_wait stored $S >/dev/null
  kill -STOP "$(cat "$t_root/relay")"
  numbered 10000000 1000
  "$RUTILE" destroy $S 2>err
  kill -CONT "$(cat "$t_root/relay")"
  grep -q "does not end: its last events may not be at 'relay://127.0.0.1:$p' yet" err
  end_relay
}

# The daemon does not come back: what it lacks is in the spool, a trace that can be read.
test_left() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' --spool 100M
  numbered 10000000 1000
  has_first() { [ "$(arguments out | head -1)" = 10000000 ]; }
  t_wait has_first
  kill -9 "$(cat "$t_root/relay")"
  numbered 10001000 1000
  "$RUTILE" destroy $S
  t_wait test -e "$RUTILE_SPOOL_DIR/$S"
  ended() { grep -q 'could not be sent' "$RUTILE_LOG_DIR/$S.log"; }
  t_wait ended
  { arguments out; arguments "$RUTILE_SPOOL_DIR"; } | sort -nu >got
  seq 10000000 10001999 | cmp - got
  rm -rf "${RUTILE_SPOOL_DIR:?}"/*
  # What ends without having sent all says so by its status, too.
  relay "$p"
  not "$RUTILE" record --to "relay://127.0.0.1:$p" -o here -e 'syscall:getpgid' -- sh -c "kill -9 $(cat "$t_root/relay")" 2>err
  grep -q 'could not be sent' err
}

# What a flight recorder holds.
test_snapshot() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --flight -e 'syscall:getpgid'
  numbered 10000000 1000
  "$RUTILE" snapshot $S -o here
  "$RUTILE" snapshot $S --to "relay://127.0.0.1:$p/shot" | grep "^relay://127.0.0.1:$p/shot: "
  "$RUTILE" destroy $S
  end_relay
  readers "$(stored shot)" >/dev/null
  arguments "$(stored shot)" | cmp - <(seq 10000000 10000999)
  [ -z "$(ls "$RUTILE_SPOOL_DIR")" ]
}

# collect PORT: rutile's own receiver, into out/; its pid in $t_root/relay.
collect() {
  "$RUTILE" collect --listen "127.0.0.1:$1" out 2>>collect.log &
  echo $! >"$t_root/relay"
  t_wait listens "$(($1 + 1))"
}

# rutile's own receiver stores the same, with a chunk for each directory.
test_collect() {
  need_bpf
  p=$(free_port)
  collect "$p"
  "$RUTILE" record --to "relay://127.0.0.1:$p/one" -o local -e 'syscall:getpgid,sched_*' -- \
    python3 -c "
import os
for i in range(20000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  [ "$(readers "$(stored one)")" = "$(readers local)" ]
  babeltrace2 local | sed 's/ (+[^)]*)//' | sort >want
  babeltrace2 "$(stored one)" | sed 's/ (+[^)]*)//' | sort | cmp - want
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  numbered 10000000 1000
  "$RUTILE" rotate $S
  numbered 10001000 1000
  "$RUTILE" destroy $S
  arguments "$(stored $S)/archives/1" | cmp - <(seq 10000000 10000999)
  arguments "$(stored $S)/archives/2" | cmp - <(seq 10001000 10001999)
  end_relay
}

# The receiver is killed in the middle, six times: each time what it had is a readable trace, and all
# traces together have every event.
# Viewers read from it while it arrives: rutile's, from the first event to the last, also over a rotation; and babeltrace2. What a
# session has left when it ends, they get.
test_collect_live() {
  need_bpf
  p=$(free_port)
  own=4$$ # of this run: another one on the machine is seen too
  "$RUTILE" collect --listen "127.0.0.1:$p" --live ":$((p + 2))" out 2>>collect.log &
  echo $! >"$t_root/relay"
  t_wait listens "$((p + 2))"
  url=relay://127.0.0.1:$((p + 2))
  not "$RUTILE" view --live "$url" 2>err
  grep -q 'has no session that is live' err
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  begun() { [ -n "$(find out -name 'kernel_*')" ]; }
  t_wait begun
  "$RUTILE" view --live "$url/$(uname -n)/$S" >view 2>view.err &
  viewer=$!
  babeltrace2 -i lttng-live "net://127.0.0.1:$((p + 2))/host/$(uname -n)/$S" >bt2 2>bt2.err &
  other=$!
  attached() { [ "$(ss -Htn state established "sport = :$((p + 2))" | wc -l)" = 2 ]; }
  t_wait attached
  for i in 1 2 3; do
    calls 1000 "$own$i"
    sees() { [ "$(grep -c "entry_getpgid: .*pid = $own$i }" "$1")" = 1000 ]; }
    t_wait sees view
    t_wait sees bt2
    [ $i != 2 ] || "$RUTILE" rotate $S
  done
  "$RUTILE" add $S -e syscall:getsid
  python3 -c 'import os
for i in range(500): os.getsid(0)'
  "$RUTILE" destroy $S
  wait $viewer
  wait $other
  [ ! -s bt2.err ]
  grep -q 'has ended' view.err
  ours() { grep "pid = ${own}[1-3] }\\|getsid" | sed 's/ (+[^)]*)//'; }
  for chunk in 1 2; do babeltrace2 "$(stored $S)/archives/$chunk"; done | ours | sort >want
  [ "$(grep -c "pid = ${own}[1-3] }" want)" = 3000 ]
  [ "$(grep -c 'entry_getsid' want)" -ge 500 ]
  ours <view | sort | cmp - want
  # Garbage ends its own connection only.
  for i in 1 2 3; do
    head -c 3000 /dev/urandom | timeout 10 bash -c "cat >/dev/tcp/127.0.0.1/$((p + 2))" || true
  done
  not "$RUTILE" view --live "$url" 2>err
  grep -q 'has no session that is live' err
  end_relay
}

test_collect_killed() {
  need_bpf
  p=$(free_port)
  collect "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' --spool 100M --subbuf 16k
  n=10000000
  for _ in 1 2 3 4 5 6; do
    numbered $n 1000
    n=$((n + 1000))
    kill -9 "$(cat "$t_root/relay")"
    find out -name metadata -printf '%h\n' >traces
    while read -r d; do babeltrace2 "$d" >/dev/null; done <traces
    collect "$p"
  done
  "$RUTILE" destroy $S
  end_relay
  arguments out | cmp - <(seq 10000000 10005999)
}

# An authority in pki/, and what it certifies.
authority() {
  mkdir pki
  cat >pki/ca.cnf <<'END'
[ca]
default_ca = c
[c]
database = index.txt
serial = serial
new_certs_dir = .
certificate = ca.pem
private_key = ca.key
default_md = sha256
default_days = 10
default_crl_days = 10
policy = p
copy_extensions = copy
[p]
commonName = supplied
[req]
distinguished_name = dn
[dn]
END
  : >pki/index.txt
  echo 01 >pki/serial
  (cd pki && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem \
    -subj /CN=test-ca -days 10 2>/dev/null)
}
# certify NAME SUBJECTALTNAME [OPTIONS]: pki/NAME is a directory for --tls
certify() (
  cd pki
  n=$1
  san=$2
  shift 2
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$n.key" -out "$n.csr" -subj "/CN=$n" \
    -addext "subjectAltName=$san" -config ca.cnf 2>/dev/null
  openssl ca -batch -config ca.cnf -in "$n.csr" -out "$n.pem" -notext "$@" 2>/dev/null
  mkdir "$n"
  cp ca.pem "$n/"
  cp "$n.pem" "$n/cert.pem"
  cp "$n.key" "$n/key.pem"
)
# collect_tls PORT DIR: receives with the certificates of pki/DIR.
collect_tls() {
  "$RUTILE" collect --listen "127.0.0.1:$1" --tls "pki/$2" out 2>>collect.log &
  echo $! >"$t_root/relay"
  t_wait listens "$(($1 + 1))"
}

test_tls() {
  need_bpf
  authority
  certify server IP:127.0.0.1
  certify client "DNS:$(hostname)"
  p=$(free_port)
  collect_tls "$p" server
  "$RUTILE" record --to "relays://127.0.0.1:$p/one" --tls pki/client -o local -e 'syscall:getpgid,sched_*' -- \
    python3 -c "
import os
for i in range(20000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  end_relay
  [ "$(readers "$(stored one)")" = "$(readers local)" ]
  babeltrace2 local | sed 's/ (+[^)]*)//' | sort >want
  babeltrace2 "$(stored one)" | sed 's/ (+[^)]*)//' | sort | cmp - want
}

# refused CLIENT MESSAGE: nothing is recorded.
refused() {
  not "$RUTILE" record --to "relays://127.0.0.1:$p/no" --tls "pki/$1" -- touch ran 2>err
  grep -q "$2" err || { cat err; return 1; }
  [ ! -e ran ]
}

test_tls_refused() {
  need_bpf
  authority
  certify server IP:127.0.0.1
  certify wrong DNS:elsewhere.example
  certify old IP:127.0.0.1 -startdate 20200101000000Z -enddate 20200102000000Z
  certify client "DNS:$(hostname)"
  certify expired "DNS:$(hostname)" -startdate 20200101000000Z -enddate 20200102000000Z
  certify revoked "DNS:$(hostname)"
  certify other DNS:other.example
  (cd pki && openssl ca -config ca.cnf -revoke revoked.pem 2>/dev/null && openssl ca -config ca.cnf -gencrl -out server/crl.pem 2>/dev/null)
  mkdir pki/none pki/stranger
  cp pki/ca.pem pki/none/
  (mkdir else && cd else && authority && certify client "DNS:$(hostname)" && cp pki/client/*.pem ../pki/stranger/)
  cp pki/ca.pem pki/stranger/ca.pem
  p=$(free_port)
  # The server's.
  collect_tls "$p" wrong
  refused client 'certificate is refused: IP address mismatch'
  end_relay
  collect_tls "$p" old
  refused client 'certificate is refused: certificate has expired'
  end_relay
  # The client's.
  collect_tls "$p" server
  refused none 'refuses our certificate'
  refused expired 'refuses our certificate'
  refused revoked 'refuses our certificate'
  refused stranger 'refuses our certificate'
  # A certificate is good for its own host only.
  not "$RUTILE" record --to "relays://127.0.0.1:$p/no" --tls pki/other -e syscall:getpgid -- true 2>err
  grep -q "refused the session: does our certificate name the host '$(hostname)'?" err
  grep -q 'could not be sent' err
  grep -q "its certificate does not name the host '$(hostname)'" ./*.log
  # Without TLS, to a receiver that wants it, and the other way round.
  not "$RUTILE" record --to "relay://127.0.0.1:$p/no" -- touch ran 2>err
  grep -q "a collector that takes only TLS is addressed as relays://" err
  "$RUTILE" record --to "relays://127.0.0.1:$p/yes" --tls pki/client -e syscall:getpgid -- true
  end_relay
  [ -d "$(stored yes)" ]
  [ "$(find out -name metadata | wc -l)" = 1 ]
  collect "$p"
  not "$RUTILE" record --to "relays://127.0.0.1:$p/no" --tls pki/client -- touch ran 2>err
  [ ! -e ran ]
  end_relay
}

t_case "every version of the protocol" test_versions
t_case "lttng-relayd stores the same events as a local directory" test_store
t_case "without a local directory nothing is written here" test_alone
t_case "a live viewer at lttng-relayd sees all events, and those of added classes" test_live
t_case "names of Ruby methods that are defined later are seen live at lttng-relayd" test_ruby_names
t_case "and at rutile collect, by rutile's viewer" test_ruby_names_collect
t_case "with --loss oldest Ruby's events are dropped and counted, names are not" test_ruby_oldest
t_case "each directory of a session is a chunk at lttng-relayd" test_rotate
t_case "clear empties what lttng-relayd has stored" test_clear
t_case "clear empties what rutile collect has stored" test_collect_clear
t_case "a clear that is not possible says why" test_clear_refused
t_case "a snapshot is sent" test_snapshot
t_case "after the daemon was killed the session continues at the next one" test_break
t_case "a hanging daemon: what finds no room is counted in the trace" test_full
t_case "or with --loss oldest the oldest packets are dropped and counted" test_full_oldest
t_case "a session that ends while the daemon hangs says where its events are not yet" test_stuck
t_case "what could not be sent is in the spool" test_left
t_case "rutile collect stores the same events and chunks" test_collect
t_case "viewers read from rutile collect while it arrives" test_collect_live
t_case "rutile collect can be killed at any moment" test_collect_killed
t_case "with TLS and certificates the same is stored" test_tls
t_case "expired, revoked and other hosts' certificates are refused" test_tls_refused
t_case "a viewer of ours sees what the daemon stores, and ends with it" test_viewer
t_case "an analysis of what arrives is that of what is stored" test_viewer_analysis
t_case "a collector that does not answer is an error at once" test_nobody
t_done
