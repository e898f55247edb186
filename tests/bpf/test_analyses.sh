#!/bin/bash
# SPDX-License-Identifier: MIT
# Analyses of recorded traces, beside what the kernel itself says.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# How many descriptors the program has, at random moments, beside /proc/PID/fd.
descriptors_are_those_of_proc() {
  cc -O1 -o descriptors "$SRC/tests/bpf/descriptors.c"
  "$RUTILE" record -o t -e sched,syscall --buffer 64M -- ./descriptors 1 400 again >counts 2>err
  cat err
  "$RUTILE" view t --filter '$evt.$name == "syscall_entry_getppid"' --clock-seconds 2>/dev/null |
    sed 's/^\[\([0-9.]*\)\].*/\1/; s/\.//' >times
  python3 - <<'END' >pairs
times = open("times").read().split()
counts = open("counts").read().splitlines()
assert len(times) == len(counts) >= 10, (times, counts)
print("\n".join(t + " " + c for t, c in zip(times, counts)))
END
  while read -r time pid count; do
    got=$("$RUTILE" fdtop --skip-validation --end "$time" t | awk -v p="($pid)" '$2 == p { print $4 }')
    [ "$got" = "$count" ] || { echo "at $time: $got, not $count"; exit 1; }
  done <pairs
}

# Two threads in a chain of pipes behind one that sleeps, and beside them one that computes on the same CPU: it is
# on no path but as what took the CPU, and the sleep is a timer's.
a_hog_is_not_on_the_critical_path() {
  cat >chain.py <<'END'
import os, sys, time
def name(s): open("/proc/self/comm", "w").write(s)
hog = os.fork()
if not hog:
    name("hog")
    while True: pass
pipes = [os.pipe() for _ in range(2)]
if not os.fork():
    name("chain-last")
    for i in range(5): os.read(pipes[1][0], 1)
    print(os.getpid(), flush=True)
    os._exit(0)
if not os.fork():
    name("chain-middle")
    for i in range(5):
        os.read(pipes[0][0], 1)
        for j in range(20000): pass
        os.write(pipes[1][1], b"x")
    os._exit(0)
name("chain-first")
for i in range(5):
    time.sleep(0.02)
    os.write(pipes[0][1], b"x")
os.wait(); os.wait()
os.kill(hog, 9)
END
  "$RUTILE" record -o t -e sched,irq,syscall --buffer 64M -- taskset -c "$(t_cpu)" /usr/bin/python3 chain.py >pid
  "$RUTILE" wakeupchain --skip-validation --no-intersection --mi "$(cat pid)" t >mi
  python3 - <<'END'
import json
t = {r["class"]: r for r in json.load(open("mi"))["results"]}
path, span = t["path"]["data"], t["path"]["time-range"]
names = {r[2].get("name") for r in path}
assert "hog" not in names and {"chain-first", "chain-middle", "chain-last"} <= names, names
slept = sum(r[1]["value"] for r in path if r[2].get("name") == "chain-first" and r[3]["value"] == "timer" and
            r[4]["value"] in ("nanosleep", "clock_nanosleep"))
whole = span["end"]["value"] - span["begin"]["value"]
assert 0 < slept < whole, (slept, whole)
assert sum(r[1]["value"] for r in path) == whole
assert sum(c["value"] for r in t["per-tid"]["data"] for c in r[1:]) == whole
END
}

t_case "an innocent thread is not on the critical path" a_hog_is_not_on_the_critical_path
t_case "descriptors are those of /proc/PID/fd" descriptors_are_those_of_proc
t_done
