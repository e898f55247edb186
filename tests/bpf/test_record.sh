#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile record`: the trace against babeltrace, strace and /proc.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
trap '"$RUTILE" destroy c$$ 2>/dev/null; "$RUTILE" destroy d$$ 2>/dev/null; rm -rf "$t_root"' EXIT

# How often a signal interrupts a wait is up to the scheduler.
timing='^rt_sigreturn \|^wait4 '

# The calls of a command as strace counts them: name and number, sorted.
strace_counts() {
  strace -f -o strace.out "$@" >/dev/null 2>&1
  sed -n 's/^[0-9]* *\([a-z_0-9]*\)(.*/\1/p' strace.out | sort | uniq -c | awk '{print $2, $1}' |
    grep -v "$timing"
}

# The same from a trace; the kernel's names are mapped to those of the C library.
trace_counts() {
  sed -n 's/.* syscall_entry_\([a-z_0-9]*\):.*/\1/p' "$1" |
    sed 's/^new\(stat\|fstat\|lstat\|uname\)$/\1/; s/^sendfile64$/sendfile/' |
    sort | uniq -c | awk '{print $2, $1}' | grep -v "$timing"
}

test_counts() {
  need_bpf
  mkdir list
  : >list/a
  : >list/b
  cat >work.sh <<'END'
for i in 1 2 3 4 5; do /bin/cat /etc/passwd | /usr/bin/sort >/dev/null; done
/bin/ls -l list >/dev/null; /bin/mkdir -p /tmp/.; /usr/bin/stat /etc/hostname
END
  "$RUTILE" record -o t -e syscall -- /bin/dash ./work.sh >/dev/null
  readers t >/dev/null
  trace_counts bt2.out >got
  strace_counts /bin/dash ./work.sh >want
  diff want got
}

test_readers() {
  need_bpf
  trap 'kill $company 2>/dev/null || true' EXIT
  company
  # Whatever else this machine does meanwhile has room.
  "$RUTILE" record -o t --duration 1 --context pid,tid,procname --buffer 512M
  n=$(readers t)
  [ "$n" -gt 100 ]
  grep -q 'procname = "' bt2.out
}

# What a call returned and what it was given, against what is known of it.
test_fields() {
  need_bpf
  # A port that is bound and not listened on refuses.
  cat >work.py <<'END'
import os, socket
def bound(family, address):
    s = socket.socket(family)
    s.bind((address, 0))
    return s
fd = os.open("/etc/hostname", os.O_RDONLY | os.O_CLOEXEC)
os.read(fd, 4242)
os.rename("old-name", "new-name")
no4, no6 = bound(socket.AF_INET, "127.1.2.3"), bound(socket.AF_INET6, "::1")
s = socket.socket()
try: s.connect(no4.getsockname())
except OSError: pass
s = socket.socket(socket.AF_INET6)
try: s.connect(no6.getsockname())
except OSError: pass
s = socket.socket(socket.AF_UNIX)
try: s.connect("/nowhere/at.all")
except OSError: pass
l = bound(socket.AF_INET, "127.0.0.1"); l.listen(1)
c = bound(socket.AF_INET, "127.0.0.1"); c.connect(l.getsockname()); l.accept()
print(*(x.getsockname()[1] for x in (no4, no6, c)))
END
  : >old-name
  "$RUTILE" record -o t -e syscall -- /usr/bin/python3 work.py >ports
  read -r no4 no6 client <ports
  readers t >/dev/null
  grep -q 'syscall_entry_openat:.*dfd = -100,.*filename = "/etc/hostname"' bt2.out
  grep -q 'syscall_entry_read:.* count = 4242 ' bt2.out
  grep -q 'syscall_entry_rename:.*oldname = "old-name", newname = "new-name"' bt2.out
  grep -q 'syscall_entry_connect:.*family = 2, dport = '"$no4"',.*\[0\] = 127, \[1\] = 1, \[2\] = 2, \[3\] = 3' bt2.out
  grep -q 'syscall_entry_connect:.*family = 10, dport = '"$no6"',.*\[7\] = 1' bt2.out
  grep -q 'syscall_entry_connect:.*family = 1,.*sun_path = "/nowhere/at.all"' bt2.out
  grep -q 'syscall_exit_connect:.*ret = -111' bt2.out
  grep -q 'syscall_exit_accept4:.*family = 2, sport = '"$client"',.*\[0\] = 127' bt2.out
}

test_pid() {
  need_bpf
  trap 'kill $pid $busy 2>/dev/null || true' EXIT
  timeout 100 sh -c 'while :; do :; done' &
  busy=$!
  python3 -c '
import os, time
end = time.monotonic() + 100
while time.monotonic() < end: os.getpgid(0); time.sleep(0.01)' &
  pid=$!
  t_wait t_runs $pid python3
  "$RUTILE" record -o t -p $pid --duration 0.5 -e sched_switch,syscall --context tid
  readers t >/dev/null
  # Of its own there is something, of others nothing.
  grep -q "sched_switch:.*tid = $pid" bt2.out
  grep -q syscall_entry_getpgid bt2.out
  grep -v "tid = ${pid}[, ]\|statedump" bt2.out >others || true
  head -5 others
  [ ! -s others ]
}

# The PID of a recorded process that has ended is reused by one that is not recorded.
test_pid_used_again() {
  need_bpf
  [ -w /proc/sys/kernel/ns_last_pid ] || t_skip "this kernel has no ns_last_pid"
  cat >first.py <<'EOF'
import os, sys, time
sys.stdin.readline()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(child, flush=True)
sys.stdin.readline()
EOF
  cat >second.py <<'EOF'
import os, sys
want = int(sys.argv[1])
for _ in range(50):
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write(str(want - 1))
    child = os.fork()
    if child == 0:
        for _ in range(100):
            os.getsid(0)
        os._exit(0)
    os.waitpid(child, 0)
    if child == want:
        sys.exit(0)
sys.exit("the number was not given again")
EOF
  mkfifo in
  python3 first.py <in >first.out &
  first=$!
  trap 'kill $first 2>/dev/null || true' EXIT
  exec 5>in
  "$RUTILE" start "again$$" -o t -p "$first" -e syscall >/dev/null
  echo >&5
  t_wait test -s first.out
  sleep 0.5 # the kernel forgets it a grace period later
  python3 second.py "$(cat first.out)"
  echo >&5
  exec 5>&-
  wait "$first"
  "$RUTILE" destroy "again$$" >/dev/null
  readers t* >/dev/null
  grep -q syscall_entry_clone bt2.out
  not grep syscall_entry_getsid bt2.out
}

# A reader by another's hand: process times agree with /proc.
test_cputop() {
  need_bpf
  command -v lttng-cputop >/dev/null || t_skip "lttng-analyses is not installed"
  "$RUTILE" record -o t -a --buffer 256M -- /bin/dash -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'
  PATH=/usr/bin:$PATH LC_ALL=C.UTF-8 peer lttng-cputop --no-progress t >top.out 2>top.err
  if grep -qi 'discarded\|error' top.err; then return 1; fi
  grep -q 'dash ([0-9]*)' top.out
}

# The statedump against /proc: a process with known descriptors.
test_statedump() {
  need_bpf
  : >"a known file"
  sleep 100 7>"a known file" &
  pid=$!
  trap 'kill $pid 2>/dev/null || true' EXIT
  t_wait t_runs $pid sleep
  "$RUTILE" record -o t --duration 0.2 -e sched_switch
  readers t >/dev/null
  grep -q "statedump_process_state:.*{ tid = $pid, vtid = $pid, pid = $pid, .*name = \"sleep\"" bt2.out
  grep -q "statedump_file_descriptor:.*pid = $pid, .*fd = 7, .*filename = \"$PWD/a known file\"" bt2.out
  [ "$(grep -c 'statedump_cpu_topology' bt2.out)" = "$(grep -c ^processor /proc/cpuinfo)" ]
  for d in /sys/class/block/*; do grep -q "statedump_block_device:.*diskname = \"${d##*/}\"" bt2.out; done
}

# The numbers at the end against babeltrace's: events of all directories, losses.
test_summary() {
  need_bpf
  "$RUTILE" record -o t -e syscall,sched --size 300K --subbuf 16K -- python3 -c "
import os
for i in range(20000): os.getppid()" 2>err
  said=$(sed -n 's/.*: \([0-9]*\) events, [0-9.]* MiB in [0-9]* packets, 0 events lost$/\1/p' err)
  total=0
  for d in t*; do
    [ ! -d "$d" ] || total=$((total + $(readers "$d")))
  done
  [ "$(ls -d t*/ | wc -l)" -ge 2 ]
  [ "$total" = "$said" ]
}

# A flood that the rings cannot hold: both report what is not in the trace.
test_losses() {
  need_bpf
  "$RUTILE" record -o t -e syscall:getppid --buffer 64K --subbuf 16K -- sh -c '
    for i in 1 2 3 4; do python3 -c "
import os
for i in range(200000): os.getppid()" & done; wait' 2>err
  babeltrace2 t >bt2.out 2>bt2.err
  grep -q ": $(wc -l <bt2.out) events, " err
  lost=$(lost_events bt2.err)
  said=$(sed -n 's/.* packets, \([0-9]*\) events lost.*/\1/p' err)
  cat err
  # Those lost behind the last packet are in no packet.
  [ "$lost" -gt 0 ]
  [ "$lost" -le "$said" ]
  calls=$(grep -c 'syscall_e[a-z]*_getppid' bt2.out)
  # Python and the shell make a few of their own.
  [ $((calls + said)) -ge 1600000 ]
  [ $((calls + said)) -lt 1601000 ]
}

# 32-bit calls have numbers and registers of their own: 64 is semget or getppid, 5 fstat or open.
test_compat() {
  need_bpf
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cat >wide.c <<'END'
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static long call32(long nr, long b, long c, long d)
{
	long r;
	asm volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(b), "c"(c), "d"(d) : "memory", "r8", "r9", "r10", "r11");
	return r;
}
int main(void)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	strcpy(low, "/nowhere/known");
	for (int i = 0; i < 30; i++)
		call32(64, 0, 0, 0); /* getppid */
	call32(5, (long)low, 02000000, 0777); /* open */
	call32(132, -7, 0, 0); /* getpgid */
	for (int i = 0; i < 20; i++)
		getpgid(0);
	return call32(64, 0, 0, 0) != getppid();
}
END
  cat >narrow.S <<'END'
.globl _start
_start:	mov $25, %esi
1:	mov $64, %eax
	int $0x80
	dec %esi
	jnz 1b
	mov $1, %eax
	mov $5, %ebx
	int $0x80
END
  cc -O1 -o wide wide.c
  cc -m32 -nostdlib -static -o narrow narrow.S || t_skip "no 32-bit assembler"
  "$RUTILE" record -o t -e syscall -- sh -c './wide && ./narrow' || [ $? = 5 ]
  readers t >/dev/null
  count() { grep -c " $1:" bt2.out || true; }
  [ "$(count compat_syscall_entry_getppid)" = 56 ]
  [ "$(count compat_syscall_exit_getppid)" = 56 ]
  grep -q 'compat_syscall_entry_open:.*{ flags = 524288, mode = 511, filename = "/nowhere/known" }' bt2.out
  grep -q 'compat_syscall_exit_open:.*{ ret = -2 }' bt2.out
  grep -q 'compat_syscall_entry_getpgid:.*{ pid = -7 }' bt2.out
  grep -q 'compat_syscall_exit_getpgid:.*{ ret = -3 }' bt2.out
  grep -q 'compat_syscall_entry_exit:.*{ error_code = 5 }' bt2.out
  [ "$(count syscall_entry_getpgid)" = 20 ]
  # Half of the metadata, and only where there are such calls: not in a trace without, in a snapshot
  # and in a directory from the first one on.
  grep -q 'name = "compat_syscall_entry_read"' t/kernel/metadata
  "$RUTILE" start c$$ --flight -p $$ -e syscall
  "$RUTILE" start d$$ -o "$T/d" -p $$ -e syscall
  sh -c 'exit 0'
  "$RUTILE" snapshot c$$ -o s
  "$RUTILE" rotate d$$
  sh -c ./wide
  "$RUTILE" snapshot c$$ -o s-1
  "$RUTILE" destroy c$$
  "$RUTILE" destroy d$$
  for d in s d; do
    readers $d >/dev/null
    if grep compat_ $d/kernel/metadata; then return 1; fi
    readers $d-1 >/dev/null
    [ "$(count compat_syscall_entry_getppid) $(count compat_syscall_exit_getppid)" = '31 31' ]
  done
  readers t >/dev/null
  # None under another call's name.
  [ "$(count syscall_entry_semget)" = 0 ]
  [ "$(count syscall_exit_semget)" = 0 ]
  [ "$(count syscall_entry_unknown)" = 0 ]
  # Chosen by name, of both kinds or of one; a filter.
  "$RUTILE" record -o u -e 'compat_syscall_entry_get*' -- ./wide
  readers u >/dev/null
  [ "$(count compat_syscall_entry_getppid) $(grep -vc 'statedump\|compat_syscall_entry_get' bt2.out)" = '31 0' ]
  "$RUTILE" record -o v -e 'syscall:getpgid' --filter '$evt.pid < 0 || $evt.ret == -3' -- ./wide
  readers v >/dev/null
  [ "$(count compat_syscall_entry_getpgid) $(count compat_syscall_exit_getpgid) $(count syscall_entry_getpgid)" = '1 1 0' ]
}

# Whatever number a program calls, both readers can read all of the trace, and the number is in it.
test_every_call() {
  need_bpf
  [ "$(uname -m)" = x86_64 ] || t_skip "x86-64 only"
  cc -O2 -o every_call "$SRC/tests/bpf/every_call.c"
  "$RUTILE" record -o t -e syscall,syscall:uprobe,syscall:uretprobe --context tid --buffer 64M -- ./every_call >calls 2>err
  grep -q ' 0 events lost$' err
  readers t >/dev/null
  python3 "$SRC/tests/bpf/every_call.py" calls bt2.out
  # Through the programs that have a place for a filter, which are others.
  "$RUTILE" record -o f -e syscall,syscall:uprobe,syscall:uretprobe --context tid --buffer 64M --filter '$ctx.tid != 1' -- ./every_call >calls
  readers f >/dev/null
  python3 "$SRC/tests/bpf/every_call.py" calls bt2.out
}

# The search for the command is not its own doing. What execvp() does besides holds: a script without
# "#!" is run by sh, and the name that it was called by is the command's.
test_command_is_found_before() {
  need_bpf
  mkdir none empty late
  printf 'echo "script $0"\n' >late/low-script
  chmod +x late/low-script
  mkdir none/low-script
  : >empty/low-script
  PATH="$PWD/none:/nowhere:$PWD/empty:$PWD/late:$PATH" "$RUTILE" record -o t -e syscall:execve -- low-script >out
  cat out
  grep -qx "script $PWD/late/low-script" out
  readers t >/dev/null
  sed -n 's/.*syscall_entry_execve: .*filename = "\([^"]*\)".*/\1/p' bt2.out >calls
  # The shell's name is in a page of libc that may not be there yet, and no exit follows to read it at.
  sed -i '2s/^<fault>$/\/bin\/sh/' calls
  printf '%s\n' "$PWD/late/low-script" /bin/sh | diff - calls
  "$RUTILE" record -o u -e syscall:execve -- sh -c 'echo "$0"' >out
  grep -qx sh out
  rc=0
  "$RUTILE" record -o v -e syscall:execve -- low-nothing 2>err || rc=$?
  [ $rc = 127 ]
  grep -q "cannot run 'low-nothing': No such file" err
}

# The frames of new pages are those that the kernel shows the process itself.
test_page_frames() {
  need_bpf
  cat >pages.py <<'END'
import mmap, struct
m = mmap.mmap(-1, 64 * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(64): m[i * 4096] = 1
for line in open("/proc/self/maps"):
    begin, end = (int(x, 16) for x in line.split()[0].split("-"))
    with open("/proc/self/pagemap", "rb") as f:
        f.seek(begin // 4096 * 8)
        words = f.read((end - begin) // 4096 * 8) if begin < 1 << 47 else b""
    for (word,) in struct.iter_unpack("<Q", words):
        if word >> 63 and not word >> 61 & 1: print(word & (1 << 55) - 1)
END
  "$RUTILE" record -o t -e kmem_mm_page_alloc -- python3 pages.py >frames 2>err
  cat err
  readers t >/dev/null
  python3 - <<'END'
import re
have = set()
for pfn, order in re.findall(r"kmem_mm_page_alloc: .*?pfn = (\d+), order = (\d+)", open("bt2.out").read()):
    have |= set(range(int(pfn), int(pfn) + (1 << int(order))))
want = {int(x) for x in open("frames")}
print(len(want), len(want & have))
# Some were there before: of the command's file, from before its execve, of a fork.
assert len(want) > 64 and len(want & have) > 0.9 * len(want)
END
}

# Unknown calls are recorded where all calls are, or by their own name.
test_unknown_calls() {
  need_bpf
  cat >work.py <<'END'
import ctypes
call = ctypes.CDLL(None).syscall
for i in range(7): call(500)
for i in range(3): call(2000000000)
END
  "$RUTILE" record -o t -e syscall:getpgid -- python3 work.py
  readers t >/dev/null
  not grep syscall_entry_unknown bt2.out
  not grep syscall_exit_unknown bt2.out
  "$RUTILE" record -o u -e syscall_exit_unknown -- python3 work.py
  readers u >/dev/null
  [ "$(grep -c 'syscall_exit_unknown:.*{ id = 500, ret = -38 }' bt2.out)" = 7 ]
  [ "$(grep -c 'syscall_exit_unknown:.*{ id = 2000000000, ret = -38 }' bt2.out)" = 3 ]
  not grep 'syscall_\(entry\|exit\)_[^u]' bt2.out
  "$RUTILE" record -o v -e 'syscall,!syscall_*_unknown' -- python3 work.py
  readers v >/dev/null
  not grep syscall_entry_unknown bt2.out
  not grep syscall_exit_unknown bt2.out
}

# A command that is never off its CPU: analyses know the process of its calls.
test_short_command() {
  need_bpf
  "$RUTILE" record -o t -- /usr/bin/python3 -c "
import os
for i in range(77): os.getpgid(0)"
  "$RUTILE" syscallstats t >own
  grep -q 'getpgid *77 ' own
}

# An idle CPU must not shorten what is analysed: the time in which all
# streams record. Here one works at the begin only, the other at the end.
test_range() {
  need_bpf
  # shellcheck disable=SC2046 # two words
  set -- $(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
  [ $# -ge 2 ] || t_skip "one CPU"
  "$RUTILE" record -o t --context tid,procname -e syscall:getpgid,syscall:getsid -- sh -c '
    sleep 0.2
    taskset -c '$1' /usr/bin/python3 -c "import os; os.getpgid(0)"
    sleep 0.3
    taskset -c '$2' /usr/bin/python3 -c "import os; os.getsid(0)"
    sleep 0.2'
  readers t >/dev/null
  "$RUTILE" lttng-syscallstats t >own
  grep -q getpgid own
  grep -q getsid own
  # From the first to the last moment, for every stream.
  python3 - <<'END'
import glob, struct
ends = []
for f in glob.glob("t/kernel/kernel_*"):
    data = open(f, "rb").read()
    at, first, last = 0, None, None
    while at < len(data):
        begin, end, content, packet = struct.unpack_from("<QQQQ", data, at + 32)
        first = first or begin
        last = end
        at += packet // 8
    ends.append((first, last))
assert len(ends) >= 2, ends
assert len(set(ends)) == 1, ends
assert ends[0][1] - ends[0][0] > 700e6, ends
END
}

test_own_calls_are_absent() {
  need_bpf
  trap 'kill $company 2>/dev/null || true' EXIT
  company
  # By its number: another rutile may be at work on this machine.
  sh -c 'echo $$ >pid; exec "$RUTILE" record -o t --duration 1 --context pid,procname --buffer 256M -e syscall'
  readers t >/dev/null
  grep -q 'syscall_.*procname = "sleep"' bt2.out
  if grep "syscall_.*{ pid = $(cat pid), procname" bt2.out >&2; then return 1; fi
}

# With a closed pipe the trace is whole, the command's status returned, and SIGPIPE the command's.
test_closed_pipe() {
  need_bpf
  {
    rc=0
    "$RUTILE" record -o t -e syscall:getsid -- \
      sh -c 'sleep 0.1; python3 -c "import os; [os.getsid(0) for i in range(100)]"; exit 7' || rc=$?
    echo $rc >rc
  } 2>&1 | true
  for _ in $(seq 200); do [ -s rc ] && break; sleep 0.02; done
  [ "$(cat rc)" = 7 ]
  readers t >/dev/null
  [ "$(grep -c syscall_entry_getsid bt2.out)" = 100 ]
  # What the command inherits: the signal kills it as ever.
  rc=0
  env --default-signal=PIPE "$RUTILE" record -o u -e syscall:getppid -- sh -c 'kill -PIPE $$' 2>err || rc=$?
  [ $rc = 141 ]
}

# What ignores or blocks signals, nohup for one, does so for the command, too; from each verb that
# starts commands. A status is returned where SIGCHLD is ignored.
test_signals() {
  need_bpf
  trap '"$RUTILE" trigger remove "signals$$" 2>/dev/null || true' EXIT
  odd() {
    timeout 60 env --ignore-signal=HUP,INT,QUIT,PIPE,USR2,CHLD --block-signal=USR1,WINCH "$@"
  }
  # 28 of them: glibc ignores two of its own in children that it spawns. A shell changes some by itself.
  masks="grep -e ^SigB -e ^SigI /proc/self/status"
  odd $masks >want-command
  odd sh -c "$masks" >want-shell
  odd "$RUTILE" record -o t -e syscall:getppid -- $masks >command-record
  odd "$RUTILE" record -o u -e 'ruby_static:*' -- $masks >command-beside
  odd "$RUTILE" run -q -c "$masks" -e 'interval:s:60 { exit(); }' >command-run
  odd "$RUTILE" run -q --unsafe -e "begin { system(\"$masks\"); }" >shell-system
  odd "$RUTILE" calls -- sh -c "$masks >shell-calls; ruby -e 1" >/dev/null
  odd "$RUTILE" trigger add "signals$$" --do "exec /bin/sh -c '$masks >$PWD/new; mv $PWD/new $PWD/shell-trigger'"
  "$RUTILE" trigger fire "signals$$"
  wait_for shell-trigger
  for by in command-* shell-*; do
    sed -n 's/\t.*\(.......\)$/ \1/p' want-"${by%-*}" >want
    sed -n 's/\t.*\(.......\)$/ \1/p' $by | diff want - || { echo "by $by"; return 1; }
  done
  rc=0
  odd "$RUTILE" record -o v -e syscall:getppid -- sh -c 'exit 7' || rc=$?
  [ $rc = 7 ]
}

test_bad_input() {
  need_bpf
  mkdir full && : >full/x
  if "$RUTILE" record -o full --duration 0.1 2>err; then return 1; fi
  grep -q "'full' is not empty" err
  if "$RUTILE" record -o t -e no_such_event 2>err; then return 1; fi
  # One hint, not two.
  [ "$(cat err)" = "rutile record: no event is called 'no_such_event': 'rutile probes' lists them" ]
  [ ! -e t ]
  ln -s /tmp link
  if "$RUTILE" record -o link --duration 0.1 2>err; then return 1; fi
  rc=0
  "$RUTILE" record -o u -e sched_switch -- /bin/dash -c 'exit 7' || rc=$?
  [ "$rc" = 7 ]
}

test_not_root() {
  [ "$(id -u)" = 0 ] || t_skip "not root"
  chmod 777 .
  if setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
    "$RUTILE" record -o t --duration 0.1 2>err; then
    return 1
  fi
  cat err
  [ "$(wc -l <err)" = 1 ]
  grep -q 'CAP_BPF' err
}

t_case "system calls of a command are counted exactly as strace counts them" test_counts
t_case "babeltrace 1 and 2 read everything without a warning" test_readers
t_case "arguments, strings and socket addresses are decoded" test_fields
t_case "--pid records that process only" test_pid
t_case "a process with the number of one that was recorded is not" test_pid_used_again
t_case "lttng-cputop understands the trace" test_cputop
t_case "the statedump agrees with /proc and /sys" test_statedump
t_case "the summary agrees with babeltrace, over several directories" test_summary
t_case "events lost and recorded add up to those that happened" test_losses
t_case "32-bit calls have their own names and arguments" test_compat
t_case "a call of any number is in the trace, and every reader can read it" test_every_call
t_case "unknown calls are recorded when they are asked for" test_unknown_calls
t_case "the search for a command is not recorded" test_command_is_found_before
t_case "page frames are those of pagemap" test_page_frames
t_case "a command that never leaves its CPU is known to the analyses" test_short_command
t_case "every stream lasts from the begin to the end" test_range
t_case "rutile's own calls are not in the trace" test_own_calls_are_absent
t_case "a closed pipe as standard output" test_closed_pipe
t_case "commands have the signals that rutile was started with" test_signals
t_case "bad input gives one clear line" test_bad_input
t_case "without privileges: the missing capability is named" test_not_root
t_done
