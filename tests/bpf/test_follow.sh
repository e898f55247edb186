#!/bin/bash
# SPDX-License-Identifier: MIT
# Following what is being recorded, without a directory: `view --live` and `top`, against known numbers of
# calls and against what the session itself wrote.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
S=live$$
trap '"$RUTILE" destroy $S 2>/dev/null; rm -rf "$t_root"' EXIT

# calls N ARGUMENT: N calls of getpgid, with an argument that no other process uses.
calls() {
  python3 -c "
import os, sys
for i in range($1):
    try: os.getpgid($2)
    except ProcessLookupError: pass"
}

# begun FILE: until a follower in the background sees events.
begun() {
  for _ in $(seq 500); do
    calls 1 1
    if [ -s "$1" ]; then return 0; fi
    sleep 0.05
  done
  return 1
}

in_order() {
  sed 's/^\[\([0-9.]*\)\].*/\1/' "$1" | LC_ALL=C sort -C
}

# What is printed is what the flight recorder has, also what is added later; and it loses no room.
test_flight() {
  need_bpf
  "$RUTILE" start $S --flight -e syscall:getpgid
  "$RUTILE" view --live --clock-seconds $S >text 2>err &
  pid=$!
  begun text
  calls 3000 424242
  "$RUTILE" add $S -e syscall:getsid
  python3 -c "
import os
for i in range(700): os.getsid(0)"
  "$RUTILE" snapshot $S -o snap
  "$RUTILE" destroy $S
  wait $pid
  grep -q "session '$S' has ended" err
  [ "$(wc -l <err)" = 1 ]
  [ "$(grep -c 'syscall_entry_getpgid: .*pid = 424242 }' text)" = 3000 ]
  [ "$(grep -c 'syscall_entry_getsid: ' text)" = 700 ]
  in_order text
  # The same lines, but for the time since the line before, and what came before we looked.
  readers snap >/dev/null
  babeltrace2 --clock-seconds snap | grep 'pid = 424242 }\|_getsid' | sed 's/ ([^)]*)//' >want
  grep 'pid = 424242 }\|_getsid' text | sed 's/ ([^)]*)//' | diff - want
}

# Beside the process of a session that writes: both have everything.
test_writing() {
  need_bpf
  "$RUTILE" start $S -o t -e syscall:getpgid
  "$RUTILE" view --live --json --event 'syscall_entry_*' $S >json 2>err &
  pid=$!
  begun json
  calls 100000 424242
  "$RUTILE" destroy $S
  wait $pid
  [ "$(babeltrace2 t | grep -c 'syscall_entry_getpgid: .*pid = 424242 }')" = 100000 ]
  python3 - <<'END'
import json
n, last = 0, 0
for line in open("json"):
    e = json.loads(line)
    assert e["timestamp"] >= last, e
    last = e["timestamp"]
    n += e["name"] == "syscall_entry_getpgid" and e["fields"]["pid"] == 424242
assert n == 100000, n
END
}

# More than the memory of the session: what is missing is reported, what is there is right. A follower that
# is stopped meanwhile has to miss something.
test_overrun() {
  need_bpf
  "$RUTILE" start $S --flight --buffer 256K -e syscall:getpgid
  "$RUTILE" view --live --clock-seconds $S >text 2>err &
  pid=$!
  begun text
  kill -STOP $pid
  calls 200000 424242
  kill -CONT $pid
  calls 10 434343
  "$RUTILE" destroy $S
  wait $pid || true
  [ "$(grep -c 'syscall_entry_getpgid: .*pid = 434343 }' text)" = 10 ]
  [ "$(grep -c 'syscall_entry_getpgid: .*pid = 424242 }' text)" -lt 200000 ]
  grep -q 'lost\|missing\|overwritten' err
  in_order text
}

# Without a session: a process with its children, until it ends; or all of a name.
test_process() {
  need_bpf
  cat >app.py <<'END'
import os, sys, time
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.01); os.getpgid(0)
if not os.fork():
    for i in range(50): os.getpgid(os.getpid())
    os._exit(0)
os.wait()
for i in range(100): os.getpgid(os.getpid())
END
  python3 app.py &
  app=$!
  wait_for ready
  "$RUTILE" view --live --record syscall:getpgid $app >text 2>err &
  pid=$!
  t_wait test -s text
  calls 77 424242
  touch go
  wait $app
  wait $pid
  grep -q "process $app has ended" err
  [ "$(grep -c 'syscall_entry_getpgid: .*pid = [1-9][0-9]* }' text)" = 150 ]
  not grep -q 424242 text
  # A name, until interrupted; nothing is left.
  cp "$(command -v sleep)" nap$$
  ./nap$$ 100 &
  nap=$!
  t_wait t_runs $nap nap$$
  "$RUTILE" view --live --record 'syscall:*nanosleep' nap$$ >text 2>err &
  pid=$!
  again() { ./nap$$ 0.01; [ -s text ]; }
  t_wait again
  kill -INT $pid
  wait $pid
  kill $nap
  [ -z "$(find . -name metadata)" ]
}

test_refusals() {
  need_bpf
  refused() { rc=0; timeout 60 "$RUTILE" "$@" >out 2>err || rc=$?; [ $rc = "$want" ] && [ "$(wc -l <err)" = 1 ]; }
  want=1
  refused view --live nobody-has-this-name
  grep -q "no session and no process is called 'nobody-has" err
  refused top nobody-has-this-name
  want=2
  refused view --live a b
  refused view --live --stacks a
  refused view --live --begin 12:00:00 a
  refused view --record sched a
  refused top
  refused top $S nothing
  grep -q "no analysis 'nothing': cputop" err
}

# The tables of all intervals together have every call, and the names of threads that were there before.
test_top() {
  need_bpf
  "$RUTILE" start $S --flight
  "$RUTILE" top --refresh 250ms $S syscalls cputop >text 2>err &
  pid=$!
  begun text
  # A switch to it has its new name.
  python3 -c "
import os, time
time.sleep(0.1)
for i in range(5000): os.getpgid(0)
for i in range(3000000): pass"
  "$RUTILE" destroy $S
  wait $pid
  [ "$(grep -c '^== System call statistics ==' text)" -ge 2 ]
  [ "$(grep -c '^== Top CPU usage ==' text)" = "$(grep -c '^== System call statistics ==' text)" ]
  # Of whatever name: until a CPU is switched to it, a process that has executed python3 has its old one.
  sum=$(awk '$2 == "getpgid" && $3 >= 100 {n += $3} END {print n}' text)
  [ "$sum" = 5000 ] || { echo "$sum"; grep -n 'getpgid\|^python3\|^==\|lost' text; cat err; return 1; }
  grep -q '%   *python3 (' text
  "$RUTILE" start $S --flight -e sched
  timeout 100 "$RUTILE" top --count 2 --refresh 100ms $S >text
  [ "$(grep -c '^== Top CPU usage ==' text)" = 2 ]
  not grep -q 'System call' text
  "$RUTILE" destroy $S
}

# On a terminal it fills the screen, and ends by its key.
test_screen() {
  need_bpf
  command -v tmux >/dev/null || t_skip "tmux is not installed"
  "$RUTILE" start $S --flight
  T2="tmux -L rutile-$$ -f /dev/null"
  $T2 new-session -d -x 100 -y 20 "env TERM=screen '$RUTILE' top --refresh 200ms $S; echo over-$?; sleep 100"
  trap '$T2 kill-server 2>/dev/null || true' EXIT
  shows() { $T2 capture-pane -p | grep -q "$1"; }
  t_wait shows 'rutile top: '$S'.*q quits'
  t_wait shows 'Top CPU usage'
  $T2 send-keys End
  not_first() { not shows 'Top CPU usage'; }
  t_wait not_first
  $T2 send-keys Home
  t_wait shows 'Top CPU usage'
  $T2 send-keys q
  t_wait shows over-0
}

t_case "a flight recorder is followed, with what is added" test_flight
t_case "a session that writes is followed" test_writing
t_case "a follower that is too slow says so" test_overrun
t_case "a process, or all of a name" test_process
t_case "what cannot be followed" test_refusals
t_case "tables of what is being recorded" test_top
t_case "... on a screen" test_screen
t_done
