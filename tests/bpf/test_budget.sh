#!/bin/bash
# SPDX-License-Identifier: MIT
# --max-overhead: a flood is shed and reported, what is cheap is not; a flight recorder keeps to it too.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=m$$
trap '"$RUTILE" destroy ${S}a 2>/dev/null; "$RUTILE" destroy ${S}b 2>/dev/null; rm -rf "$t_root"' EXIT

flood() {
  python3 -c "
import os
for i in range(${1:-3000000}): os.getppid()"
}

# What comes of the class behind the record that tells its end, on that CPU and any other.
check_shed() {
  [ "$(grep -c 'rutile_shed:.*event = "syscall:getppid"' bt2.out)" -ge 1 ]
  sed '1,/rutile_shed:.*"syscall:getppid"/d; /rutile_restored:.*"syscall:getppid"/,$d' bt2.out >behind
  # A few may have been on their way on another CPU.
  [ "$(grep -c 'syscall_e[a-z]*_getppid' behind)" -le 4 ]
}

test_flood() {
  need_bpf
  "$RUTILE" record -o t -m 3 -e syscall -- sh -c 'exec python3 -c "
import os
for i in range(3000000): os.getppid()
os.getpgid(0)"' 2>err
  readers t >/dev/null
  check_shed
  n=$(grep -c syscall_entry_getppid bt2.out)
  [ "$n" -gt 0 ]
  [ "$n" -lt 2000000 ]
  # The share that was found is more than was allowed.
  sed -n 's/.*rutile_shed:.*spent_ns = \([0-9]*\), elapsed_ns = \([0-9]*\), pause_ns = 10000000000.*/\1 \2/p' \
    bt2.out | awk '$1 <= $2 * 0.03 {exit 1}'
  grep -q "'syscall:getppid' is not recorded for 10 s: .* 3 % of a CPU" err
}

# The kernel's filter is asked no more, either.
test_filtered() {
  need_bpf
  "$RUTILE" record -o t -m 3 -e syscall --filter '$evt.$name == "syscall_entry_getppid"' -- \
    python3 -c "
import os
for i in range(3000000): os.getppid()" 2>err
  readers t >/dev/null
  check_shed
}

test_calm() {
  need_bpf
  "$RUTILE" record -o t -m 5 -e syscall -- python3 -c "
import os, time
for i in range(50):
    for k in range(100): os.getppid()
    time.sleep(0.005)" 2>err
  readers t >/dev/null
  [ "$(grep -c syscall_entry_getppid bt2.out)" -ge 5000 ]
  if grep 'rutile_shed:' bt2.out; then return 1; fi
  if grep 'is not recorded' err; then return 1; fi
}

# No process: it is shed all the same, and comes back.
test_flight() {
  need_bpf
  "$RUTILE" start ${S}a -p $$ --flight -m 2% -e 'syscall:getppid'
  flood
  "$RUTILE" status ${S}a >status
  "$RUTILE" save ${S}a >profile
  not_shed() { if "$RUTILE" status ${S}a | grep -q '^shed'; then return 1; fi; }
  t_wait not_shed
  # The holder attaches the programs again within a fifth of a second.
  recorded() { "$RUTILE" status ${S}a | sed -n 's/^recorded *\([0-9]*\).*/\1/p'; }
  before=$(recorded)
  records_again() { flood 10; [ "$(recorded)" -gt "$before" ]; }
  t_wait records_again
  flood 3000
  "$RUTILE" snapshot ${S}a -o snap
  "$RUTILE" destroy ${S}a
  grep -q '^max-overhead 2 % of a CPU' status
  grep -q '^shed  *syscall:getppid, for' status
  grep -qx 'max-overhead = 2' profile
  readers snap >/dev/null
  check_shed
  grep -q 'rutile_restored:.*event = "syscall:getppid"' bt2.out
  sed '1,/rutile_restored:/d' bt2.out >behind
  [ "$(grep -c syscall_entry_getppid behind)" -ge 2000 ]
}

# What is shed there is detached, too: the loop is as if nothing were recorded, and then recorded again.
test_flight_detaches() {
  need_bpf
  "$RUTILE" start ${S}a --flight -m 2 -e 'syscall:getppid,sched_process_exit'
  holder=$("$RUTILE" status ${S}a | sed -n 's/^process *\([0-9]*\), detaches what is shed$/\1/p')
  [ -d "/proc/$holder" ]
  timeout 100 python3 -c "
import os
while True: os.getppid()" &
  pid=$!
  trap 'kill $pid 2>/dev/null || true' EXIT
  detached() {
    "$RUTILE" status ${S}a >status
    grep -q '^shed  *syscall:getppid, for' status && grep -q 'records, 1 programs' status
  }
  t_wait detached || { cat status; return 1; }
  # The kernel calls nothing for system calls any more: no link of the session is one of theirs.
  [ "$(cd /sys/fs/bpf/rutile/${S}a && echo link_*)" = link_sched_process_exit ]
  kill $pid
  attached() { "$RUTILE" status ${S}a | grep -q 'records, 3 programs'; }
  t_wait attached
  flood 3000
  "$RUTILE" snapshot ${S}a -o snap
  "$RUTILE" destroy ${S}a
  t_wait t_gone "$holder"
  readers snap >/dev/null
  check_shed
  sed '1,/rutile_restored:/d' bt2.out >behind
  [ "$(grep -c syscall_entry_getppid behind)" -ge 2000 ]
  grep -q sched_process_exit: bt2.out
}

# Probes, too: of the start and of `add`; then the function has no breakpoint any more.
test_probes_detach() {
  need_bpf
  cat >loop.c <<'END'
#include <stdlib.h>
__attribute__((noinline)) void one(void) { __asm__ volatile(""); }
__attribute__((noinline)) void two(void) { __asm__ volatile(""); }
int main(int argc, char **argv)
{
	for (long n = atol(argv[1]); n; n--) one(), two();
	return 0;
}
END
  cc -O1 -o loop loop.c
  "$RUTILE" start ${S}a --flight -m 2 -e "uprobe:$PWD/loop:one,sched_process_exit"
  "$RUTILE" add ${S}a -e "uprobe:$PWD/loop:two"
  probes() { find /sys/fs/bpf/rutile/${S}a -name 'link_dyn:*' | wc -l; }
  [ "$(probes)" = 2 ]
  timeout 100 ./loop -1 &
  pid=$!
  trap 'kill $pid 2>/dev/null || true' EXIT
  shed_all() { "$RUTILE" status ${S}a >status; [ "$(probes)" = 0 ]; }
  t_wait shed_all || { cat status; return 1; }
  grep -q '^shed  *uprobe:' status
  kill $pid
  back() { [ "$(probes)" = 2 ]; }
  t_wait back
  ./loop 3000
  "$RUTILE" snapshot ${S}a -o snap
  "$RUTILE" destroy ${S}a
  readers snap >/dev/null
  for name in one two; do
    sed "1,/rutile_restored:.*\"uprobe:$name\"/d" bt2.out >behind
    [ "$(grep -c " uprobe:$name:" behind)" -ge 2000 ]
  done
  # The process of `record` holds its links itself.
  "$RUTILE" record -o t -m 2 -e "uprobe:$PWD/loop:one" -- ./loop 20000000 2>err
  readers t >/dev/null
  grep -q "'uprobe:one' is not recorded for 10 s" err
}

test_daemon() {
  need_bpf
  "$RUTILE" start ${S}b -o "$T/out" -m 2 -e 'syscall:getppid'
  timeout 100 python3 -c "
import os
while True: os.getppid()" &
  pid=$!
  trap 'kill $pid 2>/dev/null || true' EXIT
  # In a loop that does nothing else, even being asked is too much.
  detached() {
    "$RUTILE" status ${S}b >status
    grep -q '^shed  *syscall:getppid, for' status && grep -q 'records, 0 programs' status
  }
  t_wait detached || { cat status; return 1; }
  kill $pid
  "$RUTILE" destroy ${S}b
  readers out >/dev/null
  check_shed
}

# The session's process changes nothing while a command does.
test_daemon_waits() {
  need_bpf
  "$RUTILE" start ${S}b -o "$T/out" -m 2 -e 'syscall:getppid'
  mkfifo go
  python3 -c "
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
open('locked', 'w')
open('go').read()" /sys/fs/bpf/rutile/${S}b &
  wait_for locked
  timeout 100 python3 -c "
import os
while True: os.getppid()" &
  pid=$!
  trap 'kill $pid 2>/dev/null || true' EXIT
  exceeded() { "$RUTILE" status ${S}b >status && grep -q 'what is shed exceeded' status; }
  detached() { "$RUTILE" status ${S}b >status && grep -q 'records, 0 programs' status; }
  t_wait exceeded || { cat status; return 1; }
  # It looks each 50 ms.
  sleep 0.5
  if detached; then return 1; fi
  echo >go
  t_wait detached || { cat status; return 1; }
  kill $pid
  "$RUTILE" destroy ${S}b
}

test_refusals() {
  need_bpf
  for v in 0 101 x 5%% -3 nan; do
    if "$RUTILE" record -o t "--max-overhead=$v" --duration 0.1 2>err; then return 1; fi
    grep -q "percent of a CPU, not '$v'" err
  done
  [ ! -e t ]
}

t_case "a flood is shed: reported in the trace and to the user" test_flood
t_case "with a filter" test_filtered
t_case "what is cheap is not shed" test_calm
t_case "a flight recorder sheds and restores by itself" test_flight
t_case "a flight recorder detaches what is shed, and attaches it again" test_flight_detaches
t_case "probes are detached and attached again" test_probes_detach
t_case "a session with a process detaches what is shed" test_daemon
t_case "... and waits for a command that is under way" test_daemon_waits
t_case "shares that make no sense are refused" test_refusals
t_done
