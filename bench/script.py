# SPDX-License-Identifier: MIT
"""Scripts beside bpftrace: the time and memory of one that ends at once, of one with a hundred tracepoints, and what
a program takes for an event, by the kernel's own count (BPF_ENABLE_STATS)."""
import os
import signal
import statistics
import subprocess
import time

from shared import all_programs, programs_timed

EVENT = "tracepoint:syscalls:sys_enter_getppid"
SCRIPTS = [
    ("`@ = count()`", "%s { @ = count(); }" % EVENT),
    ("`@[comm] = count()`", "%s { @[comm] = count(); }" % EVENT),
    ("`@[pid, tid]++`", "%s { @[pid, tid]++; }" % EVENT),
    ("`@ = hist(nsecs - @t)`", "%s { @ = hist(nsecs - @t); @t = nsecs; }" % EVENT),
    ("`/comm == \"none\"/`", "%s /comm == \"none\"/ { @ = count(); }" % EVENT),
]


def programs():
    return {p["id"]: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in all_programs()}


def ns_of(b, argv, calls):
    """Nanoseconds of the program that ran most, while a process makes that many calls."""
    before = set(programs())
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not set(programs()) - before and p.poll() is None:
        time.sleep(0.05)
    time.sleep(1)
    subprocess.run([b.build / "bench" / "syscall_loop", str(calls)], stdout=subprocess.DEVNULL, check=True)
    after = programs()
    p.send_signal(signal.SIGINT)
    p.communicate()
    ns, runs = max((after[i] for i in set(after) - before), key=lambda x: x[1], default=(0, 0))
    return ns / runs if runs >= calls else None


def events(b):
    calls = 200000 if b.quick else 2000000
    rows = []
    with programs_timed():
        for name, script in SCRIPTS:
            values = {"rutile": [], "bpftrace": []}
            for _ in range(b.runs):
                for tool, argv in (("rutile", [b.rutile, "run", "-e", script]), ("bpftrace", ["bpftrace", "-e", script])):
                    if tool == "rutile" or b.have("bpftrace"):
                        ns = ns_of(b, argv, calls)
                        values[tool] += [ns] if ns else []
            rows.append([name] + [f"{statistics.median(v):.0f} ns" if v else "-" for v in values.values()])
    b.table("An event, by the kernel's count", ["script", "rutile", "bpftrace"], rows)


def run(b):
    if os.geteuid() != 0:
        b.note("scripts need root")
        return
    tracepoints = "tracepoint:syscalls:sys_enter_s* { @[args.__syscall_nr] = count(); } interval:ms:1 { exit() }"
    rows = []
    for name, new, old, runs in (("`begin { exit() }`", "begin { exit() }", "BEGIN { exit(); }", b.runs * 3),
                                 ("every `sys_enter_s*`, with an argument", tracepoints,
                                  tracepoints.replace("args.", "args->").replace("exit()", "exit();"), b.runs)):
        jobs = {"rutile": ([b.rutile, "run", "-e", new], None)}
        if b.have("bpftrace"):
            jobs["bpftrace"] = (["bpftrace", "-e", old], None)
        got = b.compare(jobs, runs)
        rows.append([name] + [f"{got[t][0] * 1000:.0f} ms, {got[t][1]:.1f} MiB" if t in got else "-" for t in ("rutile", "bpftrace")])
    b.table("From the start to the end of a script", ["script", "rutile", "bpftrace"], rows)
    events(b)
