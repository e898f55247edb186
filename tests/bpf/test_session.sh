#!/bin/sh
# SPDX-License-Identifier: MIT
# Sessions: flight recorders without a process, daemons, folders that change, what kill -9 leaves.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=t$$
cleanup() {
  for s in $("$RUTILE" list 2>/dev/null | awk -v p="^$S" '$1 ~ p {print $1}'); do
    "$RUTILE" destroy "$s" 2>/dev/null
  done
}
trap 'cleanup; rm -rf "$t_root"' EXIT

# Sessions whose events are counted record the test's own processes (-p $$): others call these too.
getppids() {
  python3 -c "
import os
for i in range($1): os.getppid()"
}
daemon_pid() { "$RUTILE" status "$1" | sed -n 's/^process *\([0-9]*\).*/\1/p'; }
wait_gone() {
  for i in $(seq 100); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.05
  done
  return 1
}

test_flight() {
  need_bpf
  "$RUTILE" start ${S}a -p $$ --flight --buffer 8M -e syscall:getppid
  # No process of ours is left.
  for p in /proc/[0-9]*; do
    [ "$(cat "$p/comm" 2>/dev/null)" != rutile ] || [ "$(readlink "$p/exe")" != "$(readlink -f "$RUTILE")" ]
  done
  getppids 1234
  "$RUTILE" snapshot ${S}a -o snap
  readers snap >/dev/null
  [ "$(grep -c syscall_entry_getppid bt2.out)" -ge 1234 ]
  getppids 100
  "$RUTILE" snapshot ${S}a -o snap2
  readers snap2 >/dev/null
  [ "$(grep -c syscall_entry_getppid bt2.out)" -ge 1334 ]
  grep -q lttng_statedump_process_state bt2.out
  "$RUTILE" clear ${S}a
  getppids 7
  "$RUTILE" snapshot ${S}a -o snap3
  readers snap3 >/dev/null
  n=$(grep -c syscall_entry_getppid bt2.out)
  [ "$n" -ge 7 ] && [ "$n" -lt 1000 ]
  "$RUTILE" destroy ${S}a
  [ ! -e /sys/fs/bpf/rutile/${S}a ]
}

# More than the rings hold: what is kept is the newest, in an unbroken row.
test_overwrite() {
  need_bpf
  "$RUTILE" start ${S}o -p $$ --flight --buffer 1M --subbuf 16K -e 'syscall:getppid,syscall:getpgid'
  taskset -c 0 python3 -c "
import os
for i in range(100000): os.getppid()
os.getpgid(0)"
  "$RUTILE" status ${S}o >status
  "$RUTILE" snapshot ${S}o -o snap >said
  "$RUTILE" list | grep -q "^${S}o .* [1-9][0-9]* events *0 lost"
  "$RUTILE" destroy ${S}o
  grep -q "snap: $(readers snap) events, " said
  # Each call is two events; other processes of the machine may call it too.
  recorded=$(sed -n 's/^recorded *\([0-9]*\) events$/\1/p' status)
  [ "$recorded" -ge 200002 ] && [ "$recorded" -lt 201000 ]
  n=$(grep -c syscall_entry_getppid bt2.out)
  # 512 KiB a CPU, 24 bytes a call; one packet may be partly filled.
  [ "$n" -gt 18000 ] && [ "$n" -lt 22500 ]
  grep -q syscall_exit_getpgid bt2.out
}

test_add_remove() {
  need_bpf
  "$RUTILE" start ${S}b -p $$ -o "$T/out" -e sched_switch
  getppids 500
  "$RUTILE" add ${S}b -e syscall:getppid,sched_process_exec
  getppids 6000
  "$RUTILE" remove ${S}b -e syscall
  getppids 7000
  "$RUTILE" destroy ${S}b
  readers out >/dev/null
  n=$(grep -c 'syscall_entry_getppid' bt2.out)
  [ "$n" -ge 6000 ] && [ "$n" -lt 6500 ]
  grep -q 'sched_process_exec:.*python3' bt2.out
}

test_stop_start() {
  need_bpf
  "$RUTILE" start ${S}c -p $$ -o "$T/out" -e syscall:getppid,profile:49
  getppids 100
  "$RUTILE" stop ${S}c
  # Nobody holds a program any longer, the daemon neither.
  if grep -qs link_type /proc/"$(daemon_pid ${S}c)"/fdinfo/*; then return 1; fi
  getppids 1000
  if "$RUTILE" stop ${S}c 2>err; then return 1; fi
  grep -q 'stopped already' err
  "$RUTILE" start ${S}c
  getppids 10
  "$RUTILE" destroy ${S}c
  readers out >/dev/null
  n=$(grep -c syscall_entry_getppid bt2.out)
  [ "$n" -ge 110 ] && [ "$n" -lt 1000 ]
}

# Every folder is a trace by itself; together they hold every event, once.
test_rotate() {
  need_bpf
  "$RUTILE" start ${S}d -p $$ -o "$T/r-%Y" -e 'syscall:getppid,sched_switch' --subbuf 16K
  for i in 1 2 3; do
    getppids 1000
    "$RUTILE" rotate ${S}d >>names
  done
  getppids 1000
  kill -USR2 "$(daemon_pid ${S}d)"
  sleep 0.3
  "$RUTILE" destroy ${S}d
  [ "$(sort -u names | wc -l)" = 3 ]
  total=0
  for d in r-*; do
    readers "$d" >/dev/null
    grep -q statedump_process_state bt2.out
    total=$((total + $(grep -c syscall_entry_getppid bt2.out || true)))
  done
  [ "$(ls -d r-* | wc -l)" = 5 ]
  [ -d "r-$(date +%Y)" ]
  [ "$total" -ge 4000 ] && [ "$total" -lt 5000 ]
}

test_size_keep() {
  need_bpf
  "$RUTILE" start ${S}e -o "$T/k" -e syscall:getppid --size 256K --keep 3 --subbuf 16K
  for i in 1 2 3 4 5 6 7 8; do getppids 20000; sleep 0.1; done
  "$RUTILE" destroy ${S}e
  [ "$(ls -d k* | wc -l)" = 3 ]
  [ ! -e k ]
  for d in k*; do readers "$d" >/dev/null; done
}

test_killed() {
  need_bpf
  "$RUTILE" start ${S}f -o "$T/one" -e syscall,sched --subbuf 16K
  getppids 30000
  sleep 0.3
  kill -9 "$(daemon_pid ${S}f)"
  # Readable as it is, up to the last finished packet.
  n=$(readers one)
  [ "$n" -gt 50000 ]
  "$RUTILE" start ${S}f -o "$T/one" -e syscall:getppid 2>err
  grep -q 'process was killed' err
  getppids 10
  "$RUTILE" destroy ${S}f
  readers one-1 >/dev/null
  grep -q syscall_entry_getppid bt2.out
  "$RUTILE" start ${S}g -o "$T/two" -e syscall:getppid
  kill -9 "$(daemon_pid ${S}g)"
  sleep 0.1
  "$RUTILE" list >out 2>err
  grep -q "${S}g" err
  if grep -q "${S}g" out; then return 1; fi
  [ ! -e /sys/fs/bpf/rutile/${S}g ]
}

# A flood in one session loses nothing in another.
test_isolated() {
  need_bpf
  "$RUTILE" start ${S}h -o "$T/flood" -e syscall --buffer 128K --subbuf 16K
  "$RUTILE" start ${S}i -o "$T/calm" -e syscall:getpgid
  getppids 300000
  python3 -c "
import os
for i in range(500): os.getpgid(0)"
  "$RUTILE" destroy ${S}h ${S}i
  readers calm >/dev/null
  [ "$(grep -c syscall_entry_getpgid bt2.out)" -ge 500 ]
  # ... and what the flooded one lost, its readers say.
  babeltrace2 flood >bt2.out 2>bt2.err
  grep -qi 'discarded [0-9]* events' bt2.err
}

test_attach() {
  need_bpf
  "$RUTILE" start ${S}j --flight -e syscall:getppid
  getppids 40
  "$RUTILE" attach ${S}j -o "$T/live" 2>err &
  pid=$!
  for i in $(seq 100); do [ -e live/kernel/metadata ] && break; sleep 0.05; done
  getppids 500
  sleep 0.3
  kill -QUIT $pid
  wait $pid
  readers live >/dev/null
  [ "$(grep -c syscall_entry_getppid bt2.out)" -ge 90 ]
  "$RUTILE" status ${S}j | grep -q 'records, 2 programs'
  "$RUTILE" destroy ${S}j
}

# A full disk: recording goes on in memory, and on the disk when there is room again.
test_full_disk() {
  need_bpf
  mkdir small
  mount -t tmpfs -o size=2M none small 2>/dev/null || t_skip "cannot mount tmpfs"
  dd if=/dev/zero of=small/fill bs=64k count=20 2>/dev/null
  "$RUTILE" start ${S}k -o "$T/small/t" -e syscall:getppid --buffer 16M --subbuf 16K
  getppids 60000
  sleep 0.3
  "$RUTILE" status ${S}k >status1
  rm small/fill
  sleep 0.5
  getppids 10
  sleep 0.2
  "$RUTILE" destroy ${S}k
  n=$(readers small/t)
  cp bt2.out all
  umount small
  grep -q 'writing .*No space left' status1
  [ "$(grep -c syscall_entry_getppid all)" -ge 60010 ]
}

test_refusals() {
  need_bpf
  "$RUTILE" start ${S}l --flight -e sched_switch
  if "$RUTILE" start ${S}l --flight 2>err; then return 1; fi
  grep -q 'exists' err
  if "$RUTILE" start "a/b" --flight 2>err; then return 1; fi
  grep -q "cannot be a session's name" err
  if "$RUTILE" snapshot nosuch 2>err; then return 1; fi
  grep -q "there is no session 'nosuch'" err
  if "$RUTILE" start ${S}m -o /proc/nowhere/x 2>err; then return 1; fi
  [ "$(wc -l <err)" = 1 ]
  [ ! -e /sys/fs/bpf/rutile/${S}m ]
  "$RUTILE" destroy ${S}l
}

# The BPF file system is mounted where it is not.
test_unmounted() {
  need_bpf
  unshare -m sh -eu -c '
    umount -l /sys/fs/bpf 2>/dev/null || true
    "$RUTILE" start t-unmounted --flight -e sched_switch 2>err
    grep -q "mounted the BPF file system" err
    "$RUTILE" destroy t-unmounted'
}

t_case "a flight recorder needs no process; snapshots hold what happened" test_flight
t_case "overwrite mode keeps the newest events" test_overwrite
t_case "events are added and removed while it runs" test_add_remove
t_case "stop and start" test_stop_start
t_case "rotate and SIGUSR2: every folder is complete, no event is lost or doubled" test_rotate
t_case "--size and --keep" test_size_keep
t_case "kill -9: the trace is readable, the name is free, list cleans up" test_killed
t_case "sessions are isolated; losses are told" test_isolated
t_case "attach follows and detaches" test_attach
t_case "a full disk" test_full_disk
t_case "names, doubles and bad folders are refused" test_refusals
t_case "the BPF file system is mounted when it is not" test_unmounted
t_done
