#!/bin/bash
# SPDX-License-Identifier: MIT
# `--context`: the values against what the process sees of itself.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# What a process says of itself, as `name = value`, in the order of the table; then one getppid().
cat >"$t_root/self.py" <<'END'
import os, sys
if sys.argv[1:] == ["ids"]:
    os.setresgid(4, 5, 6)
    os.nice(7)
    os.setresuid(1, 2, 3)
def inum(name): return os.stat("/proc/self/ns/" + name).st_ino
uid, gid = os.getresuid(), os.getresgid()
print("vpid = %d, vtid = %d" % (os.getpid(), os.getpid()))
print("vppid = %d" % os.getppid())
print("prio = %d, nice = %d" % (20 + os.nice(0), os.nice(0)))
print("vuid = %d, veuid = %d, vsuid = %d" % uid)
print("vgid = %d, vegid = %d, vsgid = %d" % gid)
print("cgroup_ns = %d, ipc_ns = %d, mnt_ns = %d, net_ns = %d" % tuple(map(inum, ["cgroup", "ipc", "mnt", "net"])))
print("pid_ns = %d, time_ns = %d, user_ns = %d, uts_ns = %d" % tuple(map(inum, ["pid", "time", "user", "uts"])))
if sys.argv[1:] == ["ids"]:
    print("pid = %d, tid = %d" % (os.getpid(), os.getpid()))
    print("ppid = %d" % os.getppid())
    print("uid = %d, euid = %d, suid = %d" % uid)
    print("gid = %d, egid = %d, sgid = %d" % gid)
END

# all_contexts: every name that the program knows.
all_contexts() {
  "$RUTILE" record --context no-such -- true 2>&1 | sed "s/.*no-such': //; s/ (see.*//; s/ or /, /; s/ //g"
}

# shown WORD...: the values of the last getppid() of the trace are those that the process printed.
shown() {
  event=$(babeltrace2 t | grep 'syscall_entry_getppid' | tail -n 1)
  [ -n "$event" ]
  while read -r line; do
    case ", ${event#*context-start}" in
      *" $line"[,\ ]*) ;;
      *) echo "not there: $line"; echo "$event"; return 1 ;;
    esac
  done <self.out
}

test_plain() {
  need_bpf
  "$RUTILE" record -o t -e syscall:getppid --context "$(all_contexts)" -- \
    /usr/bin/python3 -c "exec(open('$t_root/self.py').read()); os.getppid()" ids >self.out
  shown
}

# In namespaces of its own, two levels of PIDs deep.
test_namespaces() {
  need_bpf
  "$RUTILE" record -o t -e syscall:getppid --context "$(all_contexts)" -- \
    unshare --fork --pid --mount-proc --kill-child -- \
    unshare --user --map-root-user --fork --pid --mount --mount-proc --net --uts --ipc --cgroup --time --kill-child -- \
    /usr/bin/python3 -c "exec(open('$t_root/self.py').read()); os.getppid()" >self.out
  grep -q '^vpid = 1, vtid = 1$' self.out
  grep -q '^vppid = 0$' self.out
  shown
}

# More ranges of ids than the kernel keeps in the namespace itself.
test_long_map() {
  need_bpf
  cat >map.py <<'END'
import os
r, w = os.pipe(); r2, w2 = os.pipe()
pid = os.fork()
if not pid:
    os.unshare(0x10000000) if hasattr(os, "unshare") else __import__("ctypes").CDLL(None).unshare(0x10000000)
    os.write(w, b"x"); os.read(r2, 1)
    os.setresgid(1006, 1006, 1006); os.setresuid(1007, 1007, 1007)
    print("vuid = %d, veuid = %d" % (os.getuid(), os.geteuid()))
    print("vgid = %d" % os.getgid(), flush=True)
    os.getppid(); os._exit(0)
os.read(r, 1)
for f in "uid_map", "gid_map":
    with open("/proc/%d/%s" % (pid, f), "w") as out:
        out.write("".join("%d %d 1\n" % (1000 + i, 20000 - 10 * i) for i in range(9)) + "0 0 1\n")
os.write(w2, b"x"); os.wait()
END
  "$RUTILE" record -o t -e syscall:getppid --context vuid,veuid,vgid,uid -- /usr/bin/python3 map.py >self.out
  echo "uid = $((20000 - 70))" >>self.out
  grep -q '^vuid = 1007, veuid = 1007$' self.out
  shown
}

# Other kinds of programs, and a filter by a context.
test_probe() {
  need_bpf
  libc=$(ldd /usr/bin/sleep | sed -n 's/.*=> \(.*libc[^ ]*\) .*/\1/p')
  "$RUTILE" record -o t -e "uprobe:$libc:clock_nanosleep" -e tp:sched:sched_process_exec -e syscall:clock_nanosleep \
    --context vtid,vuid,net_ns -- /usr/bin/sleep 0.01
  net=$(stat -L -c %i /proc/self/ns/net)
  babeltrace2 t | grep 'sched_process_exec\|sleep' >events
  [ "$(wc -l <events)" -ge 4 ]
  grep -q uprobe:clock_nanosleep events
  not grep -v "vuid = 0, net_ns = $net }\|lttng_statedump" events
  "$RUTILE" record -o f -e syscall:clock_nanosleep --context uid,nice --filter 'nice == 3' -- \
    sh -c '/usr/bin/sleep 0.01; nice -n 3 /usr/bin/sleep 0.02'
  [ "$(babeltrace2 f | grep -c syscall_entry_clock_nanosleep)" = 1 ]
  babeltrace2 f | grep entry_clock | grep -q 'nice = 3, uid = 0 }'
}

# What the manual and the completion name is what there is.
test_manual() {
  for page in record start; do
    for name in $(all_contexts | tr , ' '); do
      grep -q "\*$name\*" "$SRC/man/rutile-$page.1.scd" || { echo "rutile-$page: $name" >&2; return 1; }
    done
  done
}

t_case "contexts of a process with ids of its own" test_plain
t_case "contexts in nested namespaces" test_namespaces
t_case "ids in a map of many ranges" test_long_map
t_case "contexts of probes, and filters by them" test_probe
t_case "the manual lists every context" test_manual
t_done
