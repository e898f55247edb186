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
  "$RUTILE" record --context no-such -- true 2>&1 | sed "s/.*no-such': //; s/ (see.*//; s/, or perf:.*//; s/ //g"
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

# Against the flags that the kernel's own tracer keeps of the same events at the same time.
test_interruptions() {
  need_bpf
  own=/sys/kernel/tracing/instances/rutile$$
  mkdir "$own"
  trap 'rmdir $own' EXIT
  echo 8192 >"$own/buffer_size_kb"
  cat >work.sh <<'END'
for i in $(seq 40); do
  echo x | cat >/dev/null
  sh -c 'kill -CHLD $$'
  sleep 0.001
done
END
  "$RUTILE" record -a -o t -e sched,irq,signal,timer,mm,syscall:getppid,syscall:pipe2 --context preemptible,interruptible -- sh -c "
    for e in sched irq signal timer kmem/mm_page_alloc kmem/mm_page_free raw_syscalls; do echo 1 >$own/events/\$e/enable; done
    sh work.sh
    echo 0 >$own/tracing_on; cat $own/trace >kernel; echo 0 >$own/events/enable"
  babeltrace2 t >ours
  python3 - <<'END'
import re
kernel, ours = {}, {}
for line in open("kernel", errors="replace"):
    m = re.match(r"\s*.{16,}\s\[\d+\] (\S)(\S)(\S)(\S)\S* +[\d.]+: (\w+)[:(]", line)
    if m: kernel.setdefault(m.group(5), []).append((m.group(1) not in "dD", m.group(3) == m.group(4) == "."))
names = {"irq_softirq_": "softirq_", "kmem_mm_": "mm_", "timer_hrtimer": "hrtimer", "syscall_entry_": "sys_enter ", "syscall_exit_": "sys_exit "}
for line in open("ours", errors="replace"):
    m = re.match(r"\S+ \S+ \S+ (\w+): .*\{ preemptible = (-?\d+), interruptible = (-?\d+) \}", line)
    if not m or "statedump" in m.group(1): continue
    name = m.group(1)
    for prefix, with_ in names.items():
        if name.startswith(prefix): name = (with_ + name[len(prefix):]).split(" ")[0]
    ours.setdefault(name, []).append((int(m.group(3)), int(m.group(2))))
compared = 0
for name, got in ours.items():
    want = kernel.get(name, [])
    if len(want) < 20 or len(got) < 20: continue
    compared += 1
    for k in 0, 1:
        known = [g[k] for g in got if g[k] >= 0]
        true = sum(w[k] for w in want) / len(want)
        # Where the kernel always says the same, and we say something at all.
        if known and true in (0, 1):
            same = sum(1 for g in known if g == true) / len(known)
            assert same > 0.95, (name, k, true, same)
        elif k == 1:
            assert len(set(known)) == 2 or min(true, 1 - true) < 0.05, (name, true, set(known))
print(compared, sorted(ours))
assert compared >= 8
assert {g[1] for got in ours.values() for g in got} == {0, 1}
assert {g[0] for g in ours["sched_switch"]} == {0} and {g[0] for g in ours["sys_enter"]} == {1}
END
}

# The kernel's counters against what was done between two calls; the processor's, or that there are none.
test_counters() {
  need_bpf
  cat >work.py <<'END'
import mmap, os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
m = mmap.mmap(-1, 4096 * 700)
m.madvise(15) # no huge pages
os.getpgid(0)
for i in range(700): m[4096 * i] = 1
os.getpgid(0)
END
  counters=perf:cpu:minor-faults,perf:cpu:context-switches,perf:cpu:cpu-clock
  "$RUTILE" record -a -o t -e sched_switch,syscall_entry_getpgid --context tid,$counters -- python3 work.py
  babeltrace2 t >out
  python3 - <<'END'
import re
cpus, calls = {}, []
for line in open("out", errors="replace"):
    m = re.search(r" (\w+): \{ cpu_id = (\d+).*perf_cpu_minor_faults = (\d+), perf_cpu_context_switches = (\d+), perf_cpu_cpu_clock = (\d+)", line)
    if not m: continue
    if m.group(1) == "sched_switch": cpus.setdefault(m.group(2), []).append((int(m.group(4)), int(m.group(5))))
    elif m.group(1) == "syscall_entry_getpgid": calls.append(int(m.group(3)))
assert any(700 <= b - a < 900 for a, b in zip(calls, calls[1:])), calls
for records in cpus.values():
    steps = [b[0] - a[0] for a, b in zip(records, records[1:])]
    assert all(a[1] < b[1] for a, b in zip(records, records[1:])), records
    assert min(steps, default=1) >= 1 and steps.count(1) >= 0.9 * len(steps), steps
assert sum(map(len, cpus.values())) > 5
END
  # A flight recorder's counters go on without a process; profiles have them.
  trap '"$RUTILE" destroy c$$' EXIT
  "$RUTILE" start c$$ --flight -e syscall_entry_getpgid --context perf:cpu:page-fault
  python3 -c 'import os; os.getpgid(0)'
  "$RUTILE" save c$$ | grep -qx 'context = perf:cpu:page-fault'
  "$RUTILE" snapshot c$$ -o snap
  babeltrace2 snap | grep 'getpgid:.*perf_cpu_page_fault = [1-9][0-9]*[ ,]'
  if "$RUTILE" record -o h -e syscall:getppid --context perf:cpu:cycles -- sh -c 'exec true' 2>err && [ ! -s err ]; then return 0; fi
  if grep -q 'no performance counters' err; then
    not grep -q perf_cpu_cycles h/kernel/metadata
    if "$RUTILE" record --strict -o s -e syscall:getppid --context perf:cpu:cycles -- true 2>err; then return 1; fi
    grep -q 'perf:cpu:cycles.*no performance counters' err
  else
    grep -q perf_cpu_cycles h/kernel/metadata
  fi
  for name in perf:cpu:no perf:thread:cycles perf:cpu:raw:x perf:cpu:raw:r1:; do
    if "$RUTILE" record -o x --context $name -- true 2>err; then return 1; fi
    grep -q "unknown counter '$name'" err
  done
  if "$RUTILE" record -o x --context perf:cpu:cs,perf:cpu:faults,perf:cpu:cpu-clock,perf:cpu:migrations,perf:cpu:task-clock -- true 2>err; then return 1; fi
  grep -q 'at most 4 counters' err
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
t_case "preemptible and interruptible, as the kernel's tracer has them" test_interruptions
t_case "counters" test_counters
t_case "the manual lists every context" test_manual
t_done
