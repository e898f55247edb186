#!/bin/bash
# SPDX-License-Identifier: MIT
# What is recorded: a process and its family, a name, a control group; against known numbers of calls.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# A process that forks a child when a file appears; both make N calls, then wait.
cat >"$t_root/family.py" <<'END'
import os, sys, time
end = time.monotonic() + 300
def wait(name):
    while not os.path.exists(name) and time.monotonic() < end: time.sleep(0.01)
old = os.fork()
if old == 0:
    grandchild = os.fork()
    wait("go")
    for i in range(300 if grandchild else 50): os.getpgid(0)
    if grandchild: os.wait()
    os._exit(0)
open("ready", "w").close()
wait("go")
for i in range(100): os.getpgid(0)
new = os.fork()
if new == 0:
    for i in range(1000): os.getpgid(0)
    os._exit(0)
os.wait(); os.wait()
open("done", "w").close()
END
calls() { grep -c syscall_entry_getpgid bt2.out || true; }

test_family() {
  need_bpf
  python3 "$t_root/family.py" &
  pid=$!
  wait_for ready
  "$RUTILE" record -o t -p $pid -e syscall:getpgid --context pid --duration 300 2>err &
  rec=$!
  recording t
  # Another process does the same and is not wanted.
  python3 -c "
import os
for i in range(5000): os.getpgid(0)"
  : >go
  wait_for "done"
  # It may have ended already, with them.
  kill -INT $rec 2>/dev/null || true
  wait $rec || true
  readers t >/dev/null
  [ "$(calls)" = 1450 ]
  # One of four processes: the one that was asked for.
  [ "$(grep -c "pid = $pid }.*syscall_entry_getpgid\|syscall_entry_getpgid:.*pid = $pid }" bt2.out)" = 100 ]
}

test_session_family() {
  need_bpf
  python3 "$t_root/family.py" &
  pid=$!
  wait_for ready
  "$RUTILE" start f$$ --flight -p $pid -e syscall:getpgid
  : >go
  wait_for "done"
  "$RUTILE" snapshot f$$ -o t
  "$RUTILE" destroy f$$
  readers t >/dev/null
  [ "$(calls)" = 1450 ]
}

test_procname() {
  need_bpf
  cp "$(command -v dash)" named-a && cp named-a named-b
  "$RUTILE" record -o t --procname named-a -e syscall:getppid,sched_process_exec --context procname \
    --duration 300 2>err &
  rec=$!
  recording t
  # dash asks for its parent once when it begins.
  for i in 1 2 3 4 5 6 7; do ./named-a -c :; ./named-b -c :; done
  kill -INT $rec
  wait $rec || true
  readers t >/dev/null
  [ "$(grep -c 'syscall_entry_getppid' bt2.out)" = 7 ]
  if grep -v statedump bt2.out | grep 'named-b'; then return 1; fi
}

# A control group of the test's own.
test_cgroup() {
  need_bpf
  root=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
  mine=
  if [ -z "$root" ]; then
    root=$PWD/cg
    mkdir cg
    mount -t cgroup2 none cg 2>/dev/null || t_skip "no cgroup2, and it cannot be mounted"
    mine=1
  fi
  g=$root/rutile-test-$$
  if mkdir "$g" "$g/below" 2>/dev/null; then
    "$RUTILE" record -o t --cgroup "$g" -e syscall:getpgid --context cgroup --duration 300 2>err &
    rec=$!
    recording t
    for place in "$g" "$g/below" "$root"; do
      sh -c "echo \$\$ >'$place/cgroup.procs'; exec python3 -c '
import os
for i in range(400): os.getpgid(0)'"
    done
    kill -INT $rec
    wait $rec || true
    inode=$(stat -c %i "$g/below")
    rmdir "$g/below" "$g"
  fi
  [ -z "$mine" ] || umount cg
  [ -e t ] || t_skip "cannot make a control group"
  readers t >/dev/null
  [ "$(calls)" = 800 ]
  [ "$(grep -c "cgroup_id = $inode }.*\|cgroup_id = $inode,.*" bt2.out)" -ge 400 ]
  if "$RUTILE" record -o u --cgroup /nowhere --duration 0.1 2>err; then return 1; fi
  grep -q "cannot filter by the cgroup '/nowhere'" err
}

# rutile's own processes are known by identity: a name hides no process.
test_own_name() {
  need_bpf
  cat >hidden.c <<'END'
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	time_t end = time(NULL) + 2;
	prctl(PR_SET_NAME, "rutile");
	for (int i = 0; i < 77; i++)
		getsid(0);
	while (time(NULL) < end)
		;
}
END
  cc -o hidden hidden.c
  libc=$(ldd ./hidden | awk '$1 == "libc.so.6" {print $3}')
  "$RUTILE" record -o t -e syscall:getsid --profile 200 -e "uprobe:$libc:getsid" --context procname -- ./hidden
  readers t >/dev/null
  [ "$(grep -c 'syscall_entry_getsid:.*procname = "rutile"' bt2.out)" = 77 ]
  [ "$(grep -c 'uprobe:.*procname = "rutile"' bt2.out)" -ge 77 ]
  [ "$(grep -c 'rutile_sample:.*procname = "rutile"' bt2.out)" -ge 10 ]
}

test_own_processes() {
  need_bpf
  "$RUTILE" start own$$ -o "$T/t" -e syscall --context pid >out
  trap '"$RUTILE" destroy own$$ 2>/dev/null || true' EXIT
  daemon=$(sed -n 's/.*(process \([0-9]*\)).*/\1/p' out)
  "$RUTILE" rotate own$$
  sh -c 'exit 0' &
  other=$!
  wait $other
  "$RUTILE" destroy own$$ >/dev/null
  readers t >/dev/null
  # From its fork until it has entered itself a process is one like all others.
  [ "$(grep -c "{ pid = $daemon }" bt2.out)" -le 100 ]
  readers t-1 >/dev/null
  grep -q "{ pid = $other }" bt2.out
  not grep "{ pid = $daemon }" bt2.out
  # With --include-self they are in it.
  "$RUTILE" record -o u -e syscall --include-self --duration 0.3 --context procname
  readers u >/dev/null
  [ "$(grep -c 'procname = "rutile"' bt2.out)" -ge 20 ]
}

# The number of a process of rutile's that was killed is reused by another program, which is recorded.
test_own_number_used_again() {
  need_bpf
  [ -w /proc/sys/kernel/ns_last_pid ] || t_skip "this kernel has no ns_last_pid"
  cat >second.py <<'END'
import os, sys
want = int(sys.argv[1])
for _ in range(200):
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write(str(want - 1))
    child = os.fork()
    if child == 0:
        if os.getpid() == want:
            for _ in range(100):
                os.getsid(0)
        os._exit(0)
    os.waitpid(child, 0)
    if child == want:
        sys.exit(0)
sys.exit("the number was not given again")
END
  "$RUTILE" start "two$$" --flight --context pid -e syscall:getsid >/dev/null
  trap '"$RUTILE" destroy two$$ 2>/dev/null || true' EXIT
  "$RUTILE" record -o first -e sched_switch --duration 100 &
  first=$!
  recording first
  kill -9 $first
  wait $first || true
  # No other process of rutile's starts meanwhile, so that the killed one is in the table still.
  python3 second.py $first
  "$RUTILE" snapshot "two$$" -o t >/dev/null
  readers t >/dev/null
  [ "$(grep -c "syscall_entry_getsid:.* pid = $first " bt2.out)" = 100 ]
}

t_case "--pid: the process, its children of before and after" test_family
t_case "--pid of a session" test_session_family
t_case "--procname" test_procname
t_case "--cgroup: the group and those below" test_cgroup
t_case "a process that calls itself rutile is recorded, by calls, probes and samples" test_own_name
t_case "rutile's own processes are not recorded, unless asked for" test_own_processes
t_case "a process that gets the number of one of rutile's is recorded" test_own_number_used_again
t_done
