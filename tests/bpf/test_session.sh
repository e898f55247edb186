#!/bin/bash
# SPDX-License-Identifier: MIT
# Sessions: flight recorders without a process, daemons, directories that change, what kill -9 leaves.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=t$$
trap 'destroy_all; rm -rf "$t_root"' EXIT

# Sessions whose events are counted record the test's own processes (-p $$): others call these too.
getppids() {
  python3 -c "
import os
for i in range($1): os.getppid()"
}
daemon_pid() { "$RUTILE" status "$1" | sed -n 's/^process *\([0-9]*\).*/\1/p'; }
# directories N PATTERN: so many have been begun.
directories() {
  have=0
  for d in $2; do [ ! -e "$d/kernel/metadata" ] || have=$((have + 1)); done
  [ "$have" -ge "$1" ]
}

test_flight() {
  need_bpf
  THE_ONE=${S}a "$RUTILE" start ${S}a -p $$ --flight --buffer 8M -e syscall:getppid
  # No process of it is left.
  if grep -slz "^THE_ONE=${S}a" /proc/[0-9]*/environ; then return 1; fi
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
  [ "$n" -ge 7 ]
  [ "$n" -lt 1000 ]
  "$RUTILE" destroy ${S}a
  [ ! -e /sys/fs/bpf/rutile/${S}a ]
}

# More than the rings hold: what is kept is the newest, in an unbroken row.
test_overwrite() {
  need_bpf
  "$RUTILE" start ${S}o -p $$ --flight --buffer 1M --subbuf 16K -e 'syscall:getppid,syscall:getpgid'
  taskset -c "$(t_cpu)" python3 -c "
import os
for i in range(100000): os.getppid()
os.getpgid(0)"
  "$RUTILE" status ${S}o >status
  "$RUTILE" snapshot ${S}o -o snap >said
  "$RUTILE" list | grep -q "^${S}o .* [1-9][0-9]* events *0 lost"
  "$RUTILE" destroy ${S}o
  grep -q "snap: $(readers snap) events, " said
  # Each call is two events; the shell makes some of its own.
  recorded=$(sed -n 's/^recorded *\([0-9]*\) events$/\1/p' status)
  [ "$recorded" -ge 200002 ]
  [ "$recorded" -lt 201000 ]
  n=$(grep -c syscall_entry_getppid bt2.out)
  # 1 MiB for all CPUs, 24 bytes a call; one packet may be partly filled.
  room=$((1048576 / $(getconf _NPROCESSORS_CONF) / 24))
  [ "$n" -gt $((room * 82 / 100)) ]
  [ "$n" -lt $((room * 103 / 100)) ]
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
  [ "$n" -ge 6000 ]
  [ "$n" -lt 6500 ]
  grep -q 'sched_process_exec:.*python3' bt2.out
}

# Two events of one program, and one of a program that also follows forks: what is removed is not recorded, what
# stays is, and what is added again is again.
test_remove_shared() {
  need_bpf
  trap '"$RUTILE" destroy ${S}sh 2>/dev/null || true' EXIT
  "$RUTILE" start ${S}sh --flight -p $$ -e inet_sock_set_state,rutile_tcp_connect,sched_process_fork,sched_process_exit
  cat >step.py <<'END'
import os, socket
bound = socket.socket()
bound.bind(("127.0.0.1", 0))
socket.socket().connect_ex(bound.getsockname())
print(bound.getsockname()[1], os.getpid())
END
  # The first one is not counted: the kernel detaches a moment after it has said so.
  step() { python3 step.py >/dev/null; python3 step.py >"$1"; }
  events() { # STEP EVENT: those of its connect, or of its process
    read -r port pid <"$1"
    grep -cE " $2: .*(dport = $port,|child_tid = $pid,|comm = \"python3\", tid = $pid,)" bt2.out || true
  }
  step both
  "$RUTILE" remove ${S}sh -e inet_sock_set_state,sched_process_fork
  step one
  "$RUTILE" remove ${S}sh -e rutile_tcp_connect
  "$RUTILE" add ${S}sh -e inet_sock_set_state
  step other
  "$RUTILE" add ${S}sh -e rutile_tcp_connect,sched_process_fork
  step again
  "$RUTILE" snapshot ${S}sh -o snap
  readers snap >/dev/null
  for s in both one other again; do
    echo "$s $(events $s inet_sock_set_state) $(events $s rutile_tcp_connect) $(events $s sched_process_fork) $(events $s sched_process_exit)"
  done >got
  printf '%s\n' 'both 2 1 1 1' 'one 0 1 0 1' 'other 2 0 0 1' 'again 2 1 1 1' | diff - got
}

test_stop_start() {
  need_bpf
  "$RUTILE" start ${S}c -p $$ -o "$T/out" -e syscall:getppid,profile:49
  getppids 100
  "$RUTILE" stop ${S}c
  # No process holds a program any longer, not even the daemon.
  if grep -qs link_type /proc/"$(daemon_pid ${S}c)"/fdinfo/*; then return 1; fi
  getppids 1000
  if "$RUTILE" stop ${S}c 2>err; then return 1; fi
  grep -q 'stopped already' err
  "$RUTILE" start ${S}c
  getppids 10
  "$RUTILE" destroy ${S}c
  readers out >/dev/null
  n=$(grep -c syscall_entry_getppid bt2.out)
  [ "$n" -ge 110 ]
  [ "$n" -lt 1000 ]
}

# Every directory is a trace by itself; together they hold every event, once.
# What is recorded after `add` and `remove` is what `status` and `save` show.
shows() {
  "$RUTILE" status $n >status
  grep -x "events  *$1" status || { cat status; return 1; }
  "$RUTILE" save $n | grep -qx "event = $1"
}
test_changes_are_shown() {
  need_bpf
  printf '%s\n' 'int low_a(void) { return 1; }' 'int low_b(void) { return 2; }' 'int low_c(void) { return 3; }' \
    'int main(void) { return low_a() + low_b() + low_c(); }' >prog.c
  cc -O0 -o prog prog.c
  n=${S}w
  at=uprobe:$PWD/prog
  "$RUTILE" start $n --flight --buffer 4M -e sched_process_exec,sched_process_exit
  "$RUTILE" add $n -e syscall:getppid
  shows sched_process_exec,sched_process_exit,syscall:getppid
  "$RUTILE" remove $n -e sched_process_exit
  shows sched_process_exec,syscall:getppid
  "$RUTILE" add $n -e signal
  "$RUTILE" remove $n -e signal_deliver
  shows 'sched_process_exec,syscall:getppid,signal,!signal_deliver'
  "$RUTILE" add $n -e signal_deliver
  shows sched_process_exec,syscall:getppid,signal,signal_deliver
  "$RUTILE" remove $n -e signal
  "$RUTILE" add $n -e "$at:low_*"
  "$RUTILE" remove $n -e "$at:low_b"
  "$RUTILE" save $n -o saved
  cat saved
  grep -q "^event = .*,$at:low_a,$at:low_c\$" saved
  not grep -q low_b saved
  "$RUTILE" destroy $n
  "$RUTILE" start $n --profile saved
  ./prog || true
  sh -c 'kill -USR1 $$' || true
  "$RUTILE" snapshot $n -o snap
  "$RUTILE" destroy $n
  readers snap >/dev/null
  grep -q low_a bt2.out
  not grep -qE 'low_b|signal_|sched_process_exit' bt2.out
}

test_rotate() {
  need_bpf
  year=$(date +%Y)
  "$RUTILE" start ${S}d -p $$ -o "$T/r-%Y" -e 'syscall:getppid,sched_switch' --subbuf 16K
  for i in 1 2 3; do
    getppids 1000
    "$RUTILE" rotate ${S}d >>names
  done
  getppids 1000
  kill -USR2 "$(daemon_pid ${S}d)"
  t_wait directories 5 'r-*'
  "$RUTILE" destroy ${S}d
  [ "$(sort -u names | wc -l)" = 3 ]
  total=0
  for d in r-*; do
    readers "$d" >/dev/null
    grep -q statedump_process_state bt2.out
    total=$((total + $(grep -c syscall_entry_getppid bt2.out || true)))
  done
  [ "$(ls -d r-* | wc -l)" = 5 ]
  [ -d "r-$year" ] || [ -d "r-$(date +%Y)" ]
  [ "$total" -ge 4000 ]
  [ "$total" -lt 5000 ]
}

test_size_keep() {
  need_bpf
  "$RUTILE" start ${S}e -p $$ -o "$T/k" -e syscall:getppid --size 256K --keep 3 --subbuf 16K
  # Until the sixth of them is there, so that the first ones are removed.
  for i in $(seq 1000); do
    [ ! -e k-5/kernel/metadata ] || break
    getppids 20000
  done
  [ -e k-5/kernel/metadata ]
  "$RUTILE" destroy ${S}e
  [ "$(ls -d k* | wc -l)" = 3 ]
  [ ! -e k ]
  for d in k*; do readers "$d" >/dev/null; done
}

test_killed() {
  need_bpf
  "$RUTILE" start ${S}f -p $$ -o "$T/one" -e syscall,sched --subbuf 16K
  getppids 30000
  t_wait holds 25000 syscall_entry_getppid one
  pid=$(daemon_pid ${S}f)
  kill -9 "$pid"
  t_wait t_gone "$pid"
  # Readable as it is, up to the last finished packet.
  n=$(readers one)
  [ "$n" -gt 50000 ]
  "$RUTILE" start ${S}f -p $$ -o "$T/one" -e syscall:getppid
  getppids 10
  "$RUTILE" destroy ${S}f
  readers one-1 >/dev/null
  grep -q syscall_entry_getppid bt2.out
  # The first process that checks reports it. Another user of rutile may be quicker: then once more.
  for told in start start start start start none; do
    killed_session
    "$RUTILE" start ${S}g -p $$ -o "$T/two" -e syscall:getppid 2>err
    "$RUTILE" destroy ${S}g
    ! grep -q 'process was killed' err || break
  done
  [ $told = start ]
  for told in list list list list list none; do
    killed_session
    "$RUTILE" list >out 2>err
    if grep -q "${S}g" out; then return 1; fi
    [ ! -e /sys/fs/bpf/rutile/${S}g ]
    ! grep -q "${S}g" err || break
  done
  [ $told = list ]
}
killed_session() {
  "$RUTILE" start ${S}g -p $$ -o "$T/two" -e syscall:getppid
  pid=$(daemon_pid ${S}g)
  kill -9 "$pid"
  t_wait t_gone "$pid"
}

# As a destroy of another version leaves them, which cannot read which process is whose.
test_removed() {
  need_bpf
  "$RUTILE" start ${S}y -p $$ -o "$T/orphan" -e syscall:getppid
  "$RUTILE" start ${S}z --flight --max-overhead 50 -e syscall:getppid
  pid=$(daemon_pid ${S}y)
  holder=$(daemon_pid ${S}z)
  [ -d "/proc/$holder" ]
  getppids 1000
  rm -r /sys/fs/bpf/rutile/${S}y /sys/fs/bpf/rutile/${S}z
  t_wait t_gone "$pid"
  t_wait t_gone "$holder"
  readers orphan >/dev/null
  n=$(grep -c syscall_entry_getppid bt2.out)
  echo "$n of 1000 calls"
  [ "$n" -ge 1000 ]
}

# A flood in one session loses nothing in another.
test_isolated() {
  need_bpf
  "$RUTILE" start ${S}h -p $$ -o "$T/flood" -e syscall --buffer 128K --subbuf 16K
  "$RUTILE" start ${S}i -p $$ -o "$T/calm" -e syscall:getpgid
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
  "$RUTILE" start ${S}j -p $$ --flight -e syscall:getppid
  getppids 40
  "$RUTILE" attach ${S}j -o "$T/live" 2>err &
  pid=$!
  wait_for live/kernel/metadata
  getppids 500
  kill -QUIT $pid
  wait $pid
  # What was there before, and what came until the end.
  readers live >/dev/null
  [ "$(grep -c syscall_entry_getppid bt2.out)" -ge 540 ]
  # It has all its programs yet: of the entry, of the exit, one that follows forks, one that forgets ended processes.
  "$RUTILE" status ${S}j | grep -q 'records, 4 programs'
  "$RUTILE" destroy ${S}j
}

# A full disk: recording continues in memory, and on the disk when there is room again.
test_full_disk() {
  need_bpf
  mkdir small
  mount -t tmpfs -o size=2M none small 2>/dev/null || t_skip "cannot mount tmpfs"
  trap 'umount -l small 2>/dev/null || true' EXIT
  dd if=/dev/zero of=small/fill bs=64k count=20 2>/dev/null
  "$RUTILE" start ${S}k -p $$ -o "$T/small/t" -e syscall:getppid --buffer 16M --subbuf 16K
  getppids 60000
  full() { "$RUTILE" status ${S}k | grep -q 'writing .*No space left'; }
  t_wait full
  rm small/fill
  t_wait not full
  getppids 10
  "$RUTILE" destroy ${S}k
  n=$(readers small/t)
  cp bt2.out all
  umount small
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

# Two commands at once on one session: both take effect.
test_at_once() {
  need_bpf
  n=${S}b
  "$RUTILE" start $n -o "$T/t" -e syscall:getsid
  process=$(daemon_pid $n)
  # Both wait for an answer: the process is stopped first.
  kill -STOP "$process"
  t_wait t_is "$process" T
  "$RUTILE" rotate $n >out1 2>&1 &
  a=$!
  "$RUTILE" rotate $n >out2 2>&1 &
  b=$!
  for _ in $(seq 100); do
    [ "$(cat /proc/$a/stat /proc/$b/stat | grep -c ') S ')" = 2 ] && break
    sleep 0.02
  done
  kill -CONT "$process"
  wait $a && wait $b || { cat out1 out2; return 1; }
  cat >f.c <<'END'
#define F(n) __attribute__((noinline)) void f##n(void) { __asm__ volatile("# " #n ::: "memory"); }
F(1) F(2) F(3) F(4)
int main(void) { for (int i = 0; i < 10; i++) { f1(); f2(); f3(); f4(); } return 0; }
END
  cc -O1 -fno-ipa-icf -o f f.c
  adds=
  for i in 1 2 3 4; do
    "$RUTILE" add $n -e "uprobe:$PWD/f:f$i" &
    adds="$adds $!"
  done
  for p in $adds; do wait $p; done
  ./f
  last=$("$RUTILE" status $n | sed -n 's/^output *//p')
  "$RUTILE" destroy $n
  readers "$last" >/dev/null
  grep -o 'uprobe:f[0-9]' bt2.out | sort | uniq -c
  for i in 1 2 3 4; do [ "$(grep -c " uprobe:f$i:" bt2.out)" = 10 ]; done
}

# Unknown names do not prevent the destruction of the others.
test_destroy_many() {
  need_bpf
  for i in 1 2; do "$RUTILE" start ${S}$i --flight -e syscall:getsid; done
  rc=0
  "$RUTILE" destroy ${S}1 ${S}none ${S}2 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(cat err)" = "rutile destroy: there is no session '${S}none'" ]
  [ ! -e /sys/fs/bpf/rutile/${S}1 ]
  [ ! -e /sys/fs/bpf/rutile/${S}2 ]
}

# A stopped session resumes without what no longer exists.
test_resume_without() {
  need_bpf
  n=${S}w
  echo 'int f(void) { return 1; } int main(void) { return f() - 1; }' >g.c
  cc -O0 -o g g.c
  "$RUTILE" start $n --flight -p $$ -e "syscall:getsid,uprobe:$PWD/g:f"
  ./g
  "$RUTILE" stop $n
  rm g
  "$RUTILE" start $n 2>err
  cat err
  grep -q "'uprobe:.*/g:f' is not recorded" err
  python3 -c 'import os; os.getsid(0)'
  "$RUTILE" snapshot $n -o t
  # It is not tried again.
  "$RUTILE" stop $n
  "$RUTILE" start $n 2>err
  [ ! -s err ]
  "$RUTILE" destroy $n
  readers t >/dev/null
  [ "$(grep -c ' uprobe:f:' bt2.out)" = 1 ]
  [ "$(grep -c ' syscall_entry_getsid:' bt2.out)" = 1 ]
}

# The session's process holds nothing of its parent: no directory, no pipe.
test_alone() {
  need_bpf
  mkdir here
  mkfifo pipe
  # A reader comes to the end of what it says when start has ended, although the session continues.
  (cd here && "$RUTILE" start ${S}x -o "$T/t" -e syscall:getsid >../pipe 7>&1 2>&1) &
  timeout 20 cat pipe >out
  process=$(daemon_pid ${S}x)
  [ "$(readlink /proc/$process/cwd)" = / ]
  # By its name: the number may be that of a file of its own by now.
  if readlink "/proc/$process"/fd/* | grep '/pipe$'; then return 1; fi
  rmdir here
  "$RUTILE" destroy ${S}x
  grep -q 'records to' out
}

# While `start` returns, others look whether the session's process lives.
test_young() {
  need_bpf
  command -v cc >/dev/null || t_skip "no compiler"
  cat >slow.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
/* A process that is slow to find out when it was started. */
int open(const char *path, int flags, int mode)
{
	int (*real)(const char *, int, int) = (int (*)(const char *, int, int))dlsym(RTLD_NEXT, "open");
	struct timespec t = {0, 500000000};
	char own[64];

	snprintf(own, sizeof(own), "/proc/%d/stat", (int)getpid());
	if (!strcmp(path, own))
		nanosleep(&t, NULL);
	return real(path, flags, mode);
}
int open64(const char *path, int flags, int mode) { return open(path, flags, mode); }
END
  cc -shared -fPIC -o slow.so slow.c
  LD_PRELOAD=$PWD/slow.so ASAN_OPTIONS=verify_asan_link_order=0 "$RUTILE" start ${S}n -o "$T/out" -e sched_process_exec
  "$RUTILE" list >out.list 2>err
  cat err
  grep -q "^${S}n .*records" out.list
  "$RUTILE" destroy ${S}n
  readers out >/dev/null
}

t_case "a flight recorder needs no process; snapshots hold what happened" test_flight
t_case "overwrite mode keeps the newest events" test_overwrite
t_case "events are added and removed while it runs" test_add_remove
t_case "an event is removed from a program that records others" test_remove_shared
t_case "stop and start" test_stop_start
t_case "status and save show what was added and removed" test_changes_are_shown
t_case "rotate and SIGUSR2: every directory is complete, no event is lost or doubled" test_rotate
t_case "--size and --keep" test_size_keep
t_case "kill -9: the trace is readable, the name is free, list cleans up" test_killed
t_case "a session's process ends when the session's pins are removed" test_removed
t_case "sessions are isolated; losses are reported" test_isolated
t_case "attach follows and detaches" test_attach
t_case "a full disk" test_full_disk
t_case "names, doubles and bad directories are refused" test_refusals
t_case "a session is not taken for dead while it is born" test_young
t_case "two commands at once" test_at_once
t_case "several are destroyed, those that are not there named" test_destroy_many
t_case "a stopped session resumes without what was removed" test_resume_without
t_case "the session's process is on its own" test_alone
t_case "the BPF file system is mounted when it is not" test_unmounted
t_done
