#!/bin/bash
# SPDX-License-Identifier: MIT
# Bad things that happen to a recorder: killed at any moment, directories that go away, privileges and
# file systems that are not there.
# shellcheck disable=SC2016 # what is in single quotes is for the shell in the namespace
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=u$$
fast=/dev/shm/rutile-tough.$$
trap 'destroy_all; rm -rf "$t_root" "$fast"' EXIT

# Killed, by strace, at each of its writes and renames in turn.
test_kill_each_step() {
  need_bpf
  command -v strace >/dev/null || t_skip "no strace"
  kinds=
  for call in mkdirat renameat pwritev pwrite64; do
    for n in 1 2 3 4 5 6 7; do
      rm -rf t
      rc=0
      strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" \
        "$RUTILE" record -o t -e syscall:getppid --subbuf 64K -- \
        python3 -c 'import os; [os.getppid() for i in range(20000)]' 2>err || rc=$?
      [ "$rc" != 0 ] || break
      if [ -e t/kernel ]; then
        whole t
        kinds="$kinds $call$n"
      fi
    done
  done
  echo "$kinds"
  # The second write of metadata, the steps of packets.
  echo "$kinds" | grep -q 'pwritev2.*pwrite64[67]'
}

# What a recorder that was killed before the metadata stood left of a directory is no obstacle to the next one of that
# name; another user's file is.
test_killed_before_metadata() {
  need_bpf
  command -v strace >/dev/null || t_skip "no strace"
  rc=0
  strace -o /dev/null -e trace=renameat -e inject=renameat:signal=KILL:error=EIO:when=1 \
    "$RUTILE" record -o t -e sched_process_exec -- true || rc=$?
  [ "$rc" != 0 ]
  [ -e t/.kernel ]
  [ ! -e t/kernel ]
  "$RUTILE" record -o t -e sched_process_exec -- true
  whole t
  [ ! -e t/.kernel ]
  mkdir -p u/.kernel
  : >u/mine
  not "$RUTILE" record -o u -e sched_process_exec -- true 2>err
  grep -q "'u' is not empty" err
  [ -e u/.kernel ]
  mkdir v
  flock v "$RUTILE" record -o v -e sched_process_exec -- true 2>err || rc=$?
  grep -q "another recorder is writing to 'v'" err
}

# A snapshot that is killed leaves nothing that looks like a trace.
test_kill_snapshot() {
  need_bpf
  "$RUTILE" start ${S}a -p "$BASHPID" --flight --buffer 1M --subbuf 64K -e syscall:getppid
  python3 -c 'import os; [os.getppid() for i in range(20000)]'
  for n in 2 3 4; do
    rm -rf t
    rc=0
    strace -o /dev/null -e trace=pwrite64 -e "inject=pwrite64:signal=KILL:when=$n" \
      "$RUTILE" snapshot ${S}a -o t || rc=$?
    [ "$rc" != 0 ]
    [ ! -e t/kernel ]
  done
  "$RUTILE" snapshot ${S}a -o t2
  whole t2
  "$RUTILE" destroy ${S}a
}

# The recorder in the background, with its pid in $rec and what it says in `said`; `until_said TEXT`.
record_into() {
  # This case and its children only: others may run.
  me=$BASHPID
  "$RUTILE" record -p "$me" -e syscall:getppid "$@" 2>said &
  rec=$!
  trap 'kill $rec 2>/dev/null || true; umount -l p small d 2>/dev/null || true' EXIT
  recording "$where"
}
until_said() {
  t_wait grep -q "$1" said || { cat said >&2; return 1; }
}
getppids() {
  python3 -c "
import os
for i in range($1): os.getppid()"
}
ppids_in() { grep -c syscall_entry_getppid "$1" || true; }

# Removed, and its parent too: recording continues in memory, then in a directory of the same name.
test_vanished() {
  need_bpf
  where=v/t
  mkdir v
  record_into -o v/t
  getppids 100
  # In one moment: what is half removed is another case.
  mv v/t gone
  t_wait rm -rf gone
  until_said "'v/t' no longer exists: recording continues in a new directory 'v/t'"
  getppids 200
  t_wait holds 200 syscall_entry_getppid v/t
  mv v gone
  cp -r gone/t copy
  t_wait rm -rf gone
  until_said "cannot make the directory 'v/t': No such file or directory; recording continues in memory"
  whole copy
  [ "$(ppids_in bt2.out)" -ge 200 ]
  getppids 5000
  mkdir v
  until_said "writing to 'v/t' again"
  getppids 10
  t_wait holds 5010 syscall_entry_getppid v/t
  # Moved away, it is a trace by itself.
  mv v/t moved
  twice() { [ "$(grep -c "'v/t' no longer exists: recording continues in a new directory 'v/t'" said)" = 3 ]; }
  t_wait twice
  getppids 20
  kill -INT $rec
  wait $rec
  whole moved
  [ "$(ppids_in bt2.out)" -ge 5010 ]
  whole v/t
  [ "$(ppids_in bt2.out)" -ge 20 ]
  cat said
  [ "$(wc -l <said)" = 6 ]
  grep -q ' 0 events lost' said
}

# What did not fit the memory meanwhile is a gap that readers see, with its size.
test_gap() {
  need_bpf
  where=v/t
  mkdir v
  cat >calls.py <<'EOF'
import os, time
def until(text):
    end = time.monotonic() + 60
    while text not in open("said").read() and time.monotonic() < end: time.sleep(0.01)
os.rename("v", "gone")
until("recording continues in memory")
for i in range(50000): os.getsid(0)
os.mkdir("v")
until("writing to 'v/t' again")
for i in range(10): os.getsid(0)
EOF
  taskset -c "$(t_cpu)" "$RUTILE" record -o v/t -e syscall:getsid --buffer 128K --subbuf 16K -- python3 calls.py 2>said
  babeltrace2 v/t >bt2.out 2>bt2.err
  cat said bt2.err
  grep -q "event.* lost (a larger" said
  lost=$(lost_events bt2.err)
  got=$(grep -c getsid bt2.out)
  echo "$got in the trace, $lost lost"
  [ "$lost" -gt 1000 ]
  # Each of the 50,010 calls has two events, in the trace or counted as lost.
  [ $((got + lost)) = 100020 ]
  babeltrace v/t 2>&1 >/dev/null | grep -q "discarded $lost events"
  "$RUTILE" view v/t 2>&1 >/dev/null | grep -q "$lost events were lost"
}

# The same with a full disk; a next directory does not tell the losses of the one before again.
test_full_gap() {
  need_bpf
  mkdir small
  mount -t tmpfs -o size=1M none small 2>/dev/null || t_skip "cannot mount tmpfs"
  trap 'umount -l small 2>/dev/null || true' EXIT
  cat >calls.py <<'EOF'
import os, time, signal
def until(true):
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end: time.sleep(0.01)
def said(text):
    until(lambda: text in open("said").read())
done = 0
def calls(n):
    global done
    done += n
    for i in range(n): os.getsid(0)
def full():
    calls(1000)
    return "recording continues in memory" in open("said").read()
until(full)
calls(50000)
os.unlink("small/fill")
os.system("mount -o remount,size=16M small")
said("writing to 'small/t' again")
calls(10)
os.kill(os.getppid(), signal.SIGUSR2)
until(lambda: os.path.exists("small/t-1/kernel/metadata"))
calls(5)
print(done)
EOF
  head -c 950000 /dev/zero >small/fill
  taskset -c "$(t_cpu)" "$RUTILE" record -o small/t -e syscall:getsid --buffer 128K --subbuf 16K -- \
    python3 calls.py 2>said >calls || true
  cp -r small copy
  umount small
  cat said
  [ "$(grep -c "No space left on device; recording continues in memory" said)" = 1 ]
  [ "$(grep -c "writing to 'small/t' again" said)" = 1 ]
  [ "$(wc -l <said)" = 3 ]
  babeltrace2 copy/t >bt2.out 2>bt2.err
  cat bt2.err
  lost=$(lost_events bt2.err)
  [ "$lost" -gt 1000 ]
  first=$(grep -c getsid bt2.out)
  whole copy/t-1
  [ $((first + lost + $(grep -c getsid bt2.out))) = $(($(cat calls) * 2)) ]
}

# A next directory cannot be made: the present one is used on, and the switch comes when it can.
test_read_only() {
  need_bpf
  where=p/t
  mkdir p
  record_into -o p/t --size 64K --subbuf 16K
  # Over the directory: its open files can still be written to.
  mount --bind p p || t_skip "cannot mount"
  mount -o remount,bind,ro p
  getppids 20000
  until_said "cannot make the directory 'p/t[-0-9]*': Read-only file system; recording continues in 'p/t[-0-9]*'"
  getppids 20000
  before=$(ls p | wc -l)
  umount p
  next() { [ "$(ls p | wc -l)" -gt "$before" ]; }
  t_wait next
  getppids 30
  kill -INT $rec
  wait $rec
  cat said
  [ "$(wc -l <said)" = 2 ]
  n=0
  for d in p/*; do
    whole "$d"
    n=$((n + $(ppids_in bt2.out)))
  done
  [ "$n" -ge 40030 ]
  [ "$n" -lt 41000 ]
}

# The disk dies, is unmounted, repaired and mounted again.
test_disk_dies() {
  need_bpf
  where=d/t
  mkdir d
  truncate -s 32M image
  mkfs.ext4 -q image
  mount -o loop image d 2>/dev/null || t_skip "no loop mounts"
  record_into -o d/t --buffer 16M
  getppids 1000
  t_wait holds 1000 syscall_entry_getppid d/t
  python3 -c '
import fcntl, os, struct
fcntl.ioctl(os.open("d", os.O_RDONLY), 0x8004587d, struct.pack("I", 1))'
  getppids 3000
  until_said "recording continues in memory"
  umount -l d
  getppids 4000
  until_said "'d/t' no longer exists: recording continues in a new directory 'd/t'"
  kill -INT $rec
  wait $rec
  cat said
  whole d/t
  [ "$(ppids_in bt2.out)" -ge 7000 ]
}

# hidden COMMANDS: a mount namespace where they run.
hidden() {
  unshare -m true 2>/dev/null || t_skip "no mount namespaces"
  unshare -m sh -eu -c "$1"
}

# A kernel without BTF: what needs it is refused by name, probes and samples go on.
test_no_btf() {
  need_bpf
  : >empty
  hidden '
    mount --bind empty /sys/kernel/btf/vmlinux
    "$RUTILE" record -o t -a -e "sched_switch,syscall:getppid,sched:sched_process_wait,uprobe:$RUTILE:main" \
      --context procname -- sh -c "sleep 0.01; true" 2>err
    rc=0
    "$RUTILE" record -o t2 -e sched_switch -- true 2>err2 || rc=$?
    [ $rc = 1 ]
    rc=0
    "$RUTILE" record --strict -o t3 -a -e "sched_switch,sched:sched_process_wait" 2>err3 || rc=$?
    [ $rc = 1 ]'
  cat err err2 err3
  grep -q "no BTF (CONFIG_DEBUG_INFO_BTF): 'sched_switch, syscall' are not recorded" err
  [ "$(wc -l <err)" = 2 ]
  grep -q 'nothing is left to record' err2
  grep -q "no BTF (CONFIG_DEBUG_INFO_BTF): 'sched_switch' cannot be recorded" err3
  [ "$(wc -l <err3)" = 1 ]
  whole t
  grep -q 'procname = "sh".*sched_process_wait\|sched_process_wait:.*procname = "sh"' bt2.out
}

# ... and one whose BTF lacks some tracepoints.
test_no_tracepoint() {
  need_bpf
  python3 -c '
b = open("/sys/kernel/btf/vmlinux", "rb").read()
for name in b"sched_switch", b"sys_exit":
    b = b.replace(b"\0btf_trace_" + name + b"\0", b"\0btf_trace_" + name[:-1] + b"X\0")
open("btf", "wb").write(b)'
  hidden '
    mount --bind btf /sys/kernel/btf/vmlinux
    "$RUTILE" record -o t -a -e sched_switch,sched_waking,syscall:getppid -- sleep 0.01 2>err
    rc=0
    "$RUTILE" record --strict -o t2 -a -e sched_switch,sched_waking 2>err2 || rc=$?
    [ $rc = 1 ]'
  cat err err2
  grep -q "'sched_switch' is not recorded: this kernel has no tracepoint 'sched_switch'" err
  grep -q "'syscall' is not recorded: this kernel has no tracepoints of system calls" err
  [ "$(wc -l <err)" = 3 ]
  grep -q "no tracepoint 'sched_switch' for 'sched_switch'" err2
  whole t
  grep -q sched_waking bt2.out
  if grep -q 'sched_switch\|syscall_' bt2.out; then return 1; fi
}

test_no_tracefs() {
  need_bpf
  hidden '
    mkdir btf
    mount --bind /sys/kernel/btf btf
    mount -t tmpfs none /sys/kernel
    mkdir /sys/kernel/btf
    mount --bind btf /sys/kernel/btf
    "$RUTILE" record -o t -a -e sched:sched_process_wait,sched_waking -- sleep 0.01 2>err
    rc=0
    "$RUTILE" record --strict -o t2 -a -e sched:sched_process_wait,sched_waking 2>err2 || rc=$?
    [ $rc = 1 ]'
  cat err err2
  grep -q "'sched:sched_process_wait' is not recorded: tracefs is not mounted" err
  grep -q "tracefs is not mounted at '/sys/kernel/tracing', and cannot be" err2
  [ "$(wc -l <err2)" = 1 ]
  whole t
  grep -q sched_waking bt2.out
}

# What is missing is named; where it is there, root is not needed.
test_privilege() {
  need_bpf
  command -v setpriv >/dev/null || t_skip "no setpriv"
  # without CAPS TEXT: root, but for those capabilities
  without() {
    rc=0
    setpriv --bounding-set "$1" --inh-caps "$1" "$RUTILE" record -o t -e sched_switch -- true 2>err || rc=$?
    cat err
    [ $rc = 1 ]
    [ "$(wc -l <err)" = 1 ]
    grep -q "$2" err
  }
  without -bpf,-perfmon,-sys_admin 'the capabilities CAP_BPF and CAP_PERFMON are missing: run as root, or add them'
  without -perfmon,-sys_admin 'the capability CAP_PERFMON is missing: run as root, or add it'
  without -bpf,-sys_admin 'the capability CAP_BPF is missing: run as root, or add it'
  chmod 755 "$t_root" .
  cp "$RUTILE" rutile
  if "$PWD/rutile" --version >/dev/null && setpriv --reuid 65534 --clear-groups "$PWD/rutile" start x --flight 2>err; then
    return 1
  fi
  grep -q 'CAP_BPF and CAP_PERFMON' err
  mkdir -m 777 free
  cd free
  setpriv --reuid 65534 --clear-groups --inh-caps +bpf,+perfmon --ambient-caps +bpf,+perfmon \
    ../rutile record -o t -a -e sched_switch -- sleep 0.01
  whole t
}

# The time of day is set (for this process alone): the next directory is right, this one stays so.
# (tests/slow/test_clock.sh sets it for real, and lets a machine sleep.)
test_clock_set() {
  need_bpf
  command -v cc >/dev/null || t_skip "no compiler"
  cat >shift.c <<'EOF'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, t);

	if (clock == CLOCK_REALTIME && !access("set", F_OK))
		t->tv_sec += 360000;
	return rc;
}
EOF
  cc -shared -fPIC -o shift.so shift.c
  began=$(date +%s)
  where=t
  LD_PRELOAD=$PWD/shift.so ASAN_OPTIONS=verify_asan_link_order=0 record_into -o t
  getppids 50
  touch set
  until_said "time of day was set by +360000.000 s: recording continues in 't-1'"
  getppids 60
  kill -INT $rec
  wait $rec
  now=$(date +%s)
  for t in t t-1; do
    whole $t
    babeltrace2 --clock-seconds $t | grep syscall_entry_getppid | sed 's/^.\([0-9]*\).*/\1/' >$t.times
  done
  [ "$(wc -l <t.times)" -ge 50 ]
  [ "$(wc -l <t-1.times)" -ge 60 ]
  awk -v from="$began" -v to="$now" '$1 > to || $1 < from {print; exit 1}' t.times
  awk -v from="$((began + 360000))" -v to="$((now + 360000))" '$1 > to || $1 < from {print; exit 1}' t-1.times
}

# A recorder that crashes: what it had not written is in its core, and rutile finds it there.
test_core() {
  need_bpf
  grep -q '^core' /proc/sys/kernel/core_pattern || t_skip "cores do not go to a file here"
  if nm -D "$RUTILE" | grep -q __asan; then t_skip "the sanitizer catches crashes itself"; fi
  where=t
  record_into -o t --buffer 32M --context procname,kstack
  prlimit --core=unlimited --pid $rec || t_skip "cores are not allowed"
  getppids 100
  t_wait holds 100 syscall_entry_getppid t
  kill -STOP $rec
  t_wait t_is $rec T
  getppids 2000
  kill -SEGV $rec
  kill -CONT $rec
  rc=0
  wait $rec || rc=$?
  [ $rc = 139 ]
  core=$(ls core*)
  whole t
  on_disk=$(ppids_in bt2.out)
  "$RUTILE" recover "$core" -o out
  whole out/record
  grep -q 'procname = "python3"' bt2.out
  echo "$on_disk on disk, $(ppids_in bt2.out) in the core"
  [ "$(ppids_in bt2.out)" -ge 2000 ]
  [ $((on_disk + $(ppids_in bt2.out))) -ge 2100 ]
  [ $((on_disk + $(ppids_in bt2.out))) -lt 2600 ]
  # Its table of stacks too, by address: each call went through the entry of the kernel.
  "$RUTILE" view --stacks --json --event syscall_entry_getppid out/record | python3 -c "
import json, sys
n = 0
for line in sys.stdin:
    frames = json.loads(line)['kstack']
    assert len(frames) > 1 and all(f.startswith('0xffff') for f in frames), line
    n += 1
assert n >= 2000, n"
  # Of a process without rutile's memory nothing comes.
  sh -c 'ulimit -c unlimited; cd "$1"; mkdir other; cd other; sleep 5 & kill -ABRT $!; wait $!' sh "$PWD" || true
  if "$RUTILE" recover other/core* -o out2 2>err; then return 1; fi
  grep -q "of process [0-9]* (s[a-z]*) holds nothing that rutile recorded" err
}

# `start` killed at any step: its name is free again, and `list` shows no ruins. The steps are its
# calls of the kind given, each in turn until it has so many no more.
killed_at() {
  i=0
  killed=0
  while [ $i -lt 60 ]; do
    # The first ones load the programs: nothing is there yet.
    i=$((i + $2))
    rc=0
    strace -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$i" \
      "$RUTILE" start $n -o "t-$1-$i" -e sched_process_exec >/dev/null 2>&1 || rc=$?
    "$RUTILE" list >out 2>err
    if [ -e /sys/fs/bpf/rutile/$n ]; then
      # It had got as far as to have its own process.
      p=$("$RUTILE" status $n | sed -n 's/^process *\([0-9]*\).*/\1/p')
      [ -e "/proc/$p" ] && not t_gone "$p"
      "$RUTILE" destroy $n
    fi
    # A process whose session others take for dead would record for ever.
    not pgrep -f "^$RUTILE start $n "
    if [ -e "t-$1-$i/kernel" ]; then readers "t-$1-$i" >/dev/null; fi
    [ "$rc" != 0 ] || break
    killed=$((killed + 1))
  done
  echo "killed at $killed calls of $1"
  [ "$killed" -ge "$3" ]
}

test_start_killed() {
  need_bpf
  command -v strace >/dev/null || t_skip "no strace"
  n=${S}k
  killed_at bpf 3 10
  killed_at mkdir,mkdirat 1 2
  # It waits for its own process, unless that is there at once.
  for _ in {1..20}; do
    rm -rf t-poll-*
    killed_at poll 1 0
    [ "$killed" = 0 ] || break
  done
  [ "$killed" -ge 1 ]
  # The ruins of a start that got as far as some pins.
  mkdir /sys/fs/bpf/rutile/$n
  "$RUTILE" start $n --flight -e sched_process_exec
  "$RUTILE" destroy $n
  # Another process may be quicker to remove it, and to report it.
  for told in list list list list list none; do
    mkdir /sys/fs/bpf/rutile/$n
    "$RUTILE" list >out 2>err
    [ ! -e /sys/fs/bpf/rutile/$n ]
    ! grep -q "$n" err || break
  done
  [ $told = list ]
}

# Several starts of one name at once: one wins, and the others do not damage it.
test_race() {
  need_bpf
  n=${S}r
  me=$BASHPID
  for round in 1 2 3; do
    for i in 1 2 3 4; do
      ("$RUTILE" start $n -p "$me" --flight -e syscall:getppid >"out$i" 2>"err$i" && echo won >>winners) &
    done
    wait
    cat err*
    [ "$(wc -l <winners)" = 1 ]
    [ "$(cat err? | grep -c "session '$n' exists")" = 3 ]
    getppids 50
    "$RUTILE" snapshot $n -o "snap$round"
    "$RUTILE" destroy $n
    whole "snap$round"
    [ "$(ppids_in bt2.out)" -ge 50 ]
    rm winners
  done
}

# What fails before anything was recorded leaves nothing: no directory, no session.
test_nothing_left() {
  need_bpf
  n=${S}n
  command -v strace >/dev/null || t_skip "no strace"
  # The lock is refused to it when its directory is made already and its session is to be pinned. (The first is
  # that of the table of rutile's processes, the fourth the directory's.)
  if strace -o /dev/null -e trace=flock -e inject=flock:error=EINTR:when=5 \
    "$RUTILE" start $n -o "$T/late" -e syscall:getppid >out 2>err; then return 1; fi
  grep -q "cannot lock" err
  [ ! -e late ]
  [ ! -e /sys/fs/bpf/rutile/$n ]
  # A directory that was there before stays.
  mkdir was
  if strace -o /dev/null -e trace=flock -e inject=flock:error=EINTR:when=5 \
    "$RUTILE" start $n -o "$T/was-%%" -e syscall:getppid >out 2>err; then return 1; fi
  if strace -o /dev/null -e trace=renameat -e inject=renameat:error=EIO:when=2 \
    "$RUTILE" record -o was -e syscall:getppid -- true 2>err; then return 1; fi
  [ "$(ls -A)" = "$(printf 'err\nout\nwas')" ]
  [ -z "$(ls -A was)" ]
  # Of several starts one wins; the others leave no directory.
  for i in 1 2 3 4; do
    "$RUTILE" start $n -o "$T/t" -e syscall:getppid >/dev/null 2>"err$i" &
  done
  wait
  "$RUTILE" destroy $n
  cat err?
  [ "$(find . -name kernel | wc -l)" = 1 ]
}

# A disk that is full from the beginning.
test_full_from_the_beginning() {
  need_bpf
  mkdir small
  mount -t tmpfs -o size=1M none small 2>/dev/null || t_skip "cannot mount tmpfs"
  trap 'umount -l small' EXIT
  "$RUTILE" start ${S}b --flight --buffer 4M -e syscall:getppid
  getppids 80000
  if "$RUTILE" snapshot ${S}b -o small/snap 2>err; then return 1; fi
  grep -q "cannot write the snapshot to 'small/snap': No space left" err
  [ -z "$(ls -A small)" ]
  mkdir small/mine
  head -c 2M /dev/zero >small/fill || true
  if "$RUTILE" record -o small/t -e syscall:getppid -- true 2>err; then return 1; fi
  grep -q "No space left" err
  if "$RUTILE" snapshot ${S}b -o small/mine 2>err; then return 1; fi
  [ "$(ls -A small)" = "$(printf 'fill\nmine')" ]
  [ -z "$(ls -A small/mine)" ]
  rm small/fill
  mount -o remount,size=64M small
  "$RUTILE" snapshot ${S}b -o small/mine
  "$RUTILE" destroy ${S}b
  whole small/mine
}

# Links that another user has put into a shared directory are not followed, by none of the verbs.
test_links() {
  need_bpf
  command -v setpriv >/dev/null || t_skip "no setpriv"
  chmod 755 "$t_root" .
  mkdir -m 1777 shared
  mkdir victim
  echo precious >victim/file
  for name in t s p; do
    setpriv --reuid 65534 --clear-groups ln -s "$PWD/victim" shared/$name
  done
  setpriv --reuid 65534 --clear-groups ln -s "$PWD/victim/file" shared/profile
  setpriv --reuid 65534 --clear-groups ln -s "$PWD/nothing" shared/dangling
  refused() {
    rc=0
    "$@" >out 2>err || rc=$?
    cat err
    [ "$rc" != 0 ]
    [ "$(wc -l <err)" = 1 ]
  }
  refused "$RUTILE" record -o shared/t -e sched_switch -- true
  refused "$RUTILE" record -o shared/dangling -e sched_switch -- true
  "$RUTILE" start ${S}l --flight -e sched_process_exec
  refused "$RUTILE" snapshot ${S}l -o shared/s
  refused "$RUTILE" attach ${S}l -o shared/s
  refused "$RUTILE" save ${S}l -o shared/profile
  refused "$RUTILE" save ${S}l -o shared/dangling
  "$RUTILE" destroy ${S}l
  # A pattern takes the next name.
  "$RUTILE" start ${S}l -o "$PWD/shared/p" -e sched_process_exec
  true
  "$RUTILE" destroy ${S}l
  whole shared/p-1
  [ "$(ls -A victim)" = file ]
  [ "$(cat victim/file)" = precious ]
  [ ! -e nothing ]
}

# Targets that are not there, cannot be read, or are no programs: named, and the rest is recorded.
test_targets() {
  need_bpf
  command -v setpriv >/dev/null || t_skip "no setpriv"
  "$RUTILE" record -o t -a -e "sched_process_exec,uprobe:/nowhere/prog:main,uprobe:/etc/passwd:main,uprobe:/etc:main,usdt:/nowhere/prog:a:b" \
    -- sleep 0.01 2>err
  cat err
  for target in uprobe:/nowhere/prog:main uprobe:/etc/passwd:main uprobe:/etc:main usdt:/nowhere/prog:a:b; do
    grep -q "'$target' is not recorded: " err
  done
  [ "$(wc -l <err)" = 5 ]
  whole t
  grep -q sched_process_exec bt2.out
  rc=0
  "$RUTILE" record --strict -o t2 -a -e "sched_process_exec,uprobe:/nowhere/prog:main" 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(wc -l <err)" = 1 ]
  chmod 755 "$t_root" .
  cp "$RUTILE" rutile
  cp /bin/true secret
  chmod 700 secret
  mkdir -m 777 free
  cd free
  setpriv --reuid 65534 --clear-groups --inh-caps +bpf,+perfmon --ambient-caps +bpf,+perfmon \
    ../rutile record -o t -a -e "sched_process_exec,uprobe:$PWD/../secret:main" -- sleep 0.01 2>err
  cat err
  grep -q 'secret:main.* is not recorded: .*Permission denied' err
}

# Programs of tracepoints are not run while another one runs on their CPU. What is lost so is in the trace:
# here a timer's events, in the middle of the programs on system calls, which walk stacks.
test_nested_events_are_counted() {
  need_bpf
  cat >nest.c <<'END'
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
static void on_alarm(int sig)
{
}
int main(void)
{
	const struct itimerval t = {{0, 100}, {0, 100}};
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &t, NULL);
	for (int i = 0; i < 50000; i++)
		getppid();
	return 0;
}
END
  cc -O2 -o nest nest.c
  events=tp:raw_syscalls:sys_enter,tp:timer:hrtimer_expire_entry
  "$RUTILE" record -o t -e $events --context kstack,ustack --buffer 64M -- ./nest 2>err
  said=$(sed -n 's/.*, \([0-9]*\) events lost.*/\1/p' err)
  [ "$said" -gt 0 ]
  lost() { "$RUTILE" stat --json "$1" 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["discarded"])'; }
  [ "$(lost t)" = "$said" ]
  babeltrace2 t 2>&1 >/dev/null | grep -q "discarded"
  # A session's process counts them, and a snapshot; also after programs have gone.
  "$RUTILE" start ${S}n -o "$T/n" -p "$BASHPID" -e $events --context kstack,ustack --buffer 64M >/dev/null
  ./nest
  "$RUTILE" stop ${S}n
  said=$("$RUTILE" status ${S}n | sed -n 's/^lost *0, and \([0-9]*\) nested in themselves$/\1/p')
  [ "$said" -gt 0 ]
  "$RUTILE" destroy ${S}n
  [ "$(lost n)" = "$said" ]
  "$RUTILE" start ${S}f --flight -p "$BASHPID" -e $events --context kstack,ustack --buffer 64M >/dev/null
  ./nest
  "$RUTILE" snapshot ${S}f -o f
  [ "$(lost f)" -gt 0 ]
  "$RUTILE" destroy ${S}f
}

# Programs of others on its CPU would count.
t_case "events that are lost because others run are in the trace as lost" test_nested_events_are_counted
# The rest looks at sessions and processes of its own only.
t_lanes 2
t_case "kill -9 at 25 random moments of heavy writing: every trace is whole" killed_at_random_moments 25 "$fast"
t_case "... and at each step of making a directory and writing a packet" test_kill_each_step
t_case "a directory without metadata is used by the next recorder" test_killed_before_metadata
t_case "a snapshot is there or not" test_kill_snapshot
t_case "a directory that vanishes: in memory meanwhile, then in a new one" test_vanished
t_case "what is lost meanwhile is reported by every reader" test_gap
t_case "... and after a full disk; once" test_full_gap
t_case "read-only: the directory is used until a next one can be made" test_read_only
t_case "a disk that dies" test_disk_dies
t_case "a kernel without BTF" test_no_btf
t_case "a kernel without some tracepoints" test_no_tracepoint
t_case "tracefs that cannot be mounted" test_no_tracefs
t_case "the missing capability is named" test_privilege
t_case "the time of day is set" test_clock_set
t_case "what a crashed recorder had not written is in its core" test_core
t_case "a start that is killed leaves nothing in the way" test_start_killed
t_case "of several starts of a name one wins" test_race
t_case "a start or record that fails leaves no directory" test_nothing_left
t_case "... nor does one on a full disk" test_full_from_the_beginning
t_case "links in shared directories are not followed" test_links
t_case "targets that cannot be read are named" test_targets
t_done
