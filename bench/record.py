# SPDX-License-Identifier: MIT
"""Recording: the cost of an event, of a start and of a snapshot, beside the peers."""

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time


def ns_per_call(argv):
    """What the loop printed, run under a tracer or alone; None when that failed."""
    try:
        out = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=120).stdout
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"^(\d+\.\d)$", out, re.M)
    return float(found.group(1)) if found else None


def cost_of_an_event(b, tmp):
    loop = b.build / "bench" / "syscall_loop"
    rut = b.rutile
    trace = tmp / "t"
    few = [loop, "20000"]
    many = [loop, "500000"]
    jobs = {
        "alone": many,
        "rutile record (to disk)": [rut, "record", "-o", trace, "--buffer", "64M", "-e", "syscall", "-a", "--", *many],
        "rutile record, this command only": [rut, "record", "-o", trace, "--buffer", "64M", "-e", "syscall", "--",
                                             *many],
        "rutile record, pid tid procname": [rut, "record", "-o", trace, "--buffer", "64M", "-e", "syscall", "-a",
                                            "--context", "pid,tid,procname", "--", *many],
        "bpftrace, counting": ["bpftrace", "-e", "tracepoint:raw_syscalls:sys_enter { @a = count(); } "
                               "tracepoint:raw_syscalls:sys_exit { @b = count(); }", "-c", " ".join(map(str, many))],
        "perf record -e raw_syscalls": ["perf", "record", "-q", "-o", tmp / "perf.data", "-e", "raw_syscalls:*", "--",
                                        *many],
        "perf trace -s": ["perf", "trace", "-q", "-s", "-o", "/dev/null", "--", *many],
        "strace -c": ["strace", "-c", "-o", "/dev/null", *few],
    }
    times = {name: [] for name in jobs}
    for _ in range(b.runs):
        for name, argv in jobs.items():
            if name != "alone" and not b.have(str(argv[0])):
                continue
            t = ns_per_call(argv)
            shutil.rmtree(trace, ignore_errors=True)
            if t is not None:
                times[name].append(t)
        subprocess.run([rut, "start", "bench", "--flight", "--buffer", "32M", "-e", "syscall"],
                       stdout=subprocess.DEVNULL)
        t = ns_per_call(many)
        subprocess.run([rut, "destroy", "bench"])
        if t is not None:
            times.setdefault("rutile, flight recorder", []).append(t)
    base = statistics.median(times["alone"])
    rows = []
    for name, t in times.items():
        if t:
            m = statistics.median(t)
            rows.append([name, f"{m:.1f}", "" if name == "alone" else f"{(m - base) / 2:.1f}"])
    rows.sort(key=lambda r: float(r[1]))
    b.table("getppid in a loop, entry and exit recorded", ["", "ns a call", "ns an event"], rows)


def start_and_snapshot(b, tmp):
    rows = []
    starts = []
    for i in range(b.runs):
        begin = time.time_ns()
        out = subprocess.run([b.rutile, "record", "-o", tmp / f"s{i}", "-a", "--", "date", "+%s%N"],
                             capture_output=True, text=True).stdout
        starts.append((int(out) - begin) / 1e6)
    rows.append(["start to a recorded command's first words (default events)", f"{statistics.median(starts):.0f} ms"])
    shm = "/dev/shm/rutile-bench"
    subprocess.run([b.rutile, "start", "bench", "--flight", "--buffer", "128M", "-e", "syscall"],
                   stdout=subprocess.DEVNULL)
    loop = b.build / "bench" / "syscall_loop"
    for cpu in range(os.cpu_count()):
        subprocess.run(["taskset", "-c", str(cpu), str(loop), "1500000"], stdout=subprocess.DEVNULL)
    snaps = []
    for _ in range(b.runs):
        shutil.rmtree(shm, ignore_errors=True)
        begin = time.monotonic()
        subprocess.run([b.rutile, "snapshot", "bench", "-o", shm], stdout=subprocess.DEVNULL)
        snaps.append((time.monotonic() - begin) * 1000)
    size = sum(os.path.getsize(os.path.join(shm, "kernel", f)) for f in os.listdir(os.path.join(shm, "kernel")))
    subprocess.run([b.rutile, "destroy", "bench"])
    shutil.rmtree(shm, ignore_errors=True)
    rows.append([f"snapshot of {size >> 20} MiB on tmpfs", f"{statistics.median(snaps):.0f} ms"])
    b.table("Start and snapshot", ["", "median"], rows)


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def consumer(b, tmp):
    loop = b.build / "bench" / "syscall_loop"
    rows = []
    for rate, seconds in ((50000, 5), (150000, 5)):
        trace = tmp / f"c{rate}"
        subprocess.run([b.rutile, "start", "bench", "-o", trace, "-e", "syscall:getppid"], stdout=subprocess.DEVNULL)
        status = subprocess.run([b.rutile, "status", "bench"], capture_output=True, text=True).stdout
        pid = int(re.search(r"^process +(\d+)", status, re.M).group(1))
        before, begin = cpu_seconds(pid), time.monotonic()
        subprocess.run([loop, str(rate * seconds), str(rate)])
        used, took = cpu_seconds(pid) - before, time.monotonic() - begin
        status = subprocess.run([b.rutile, "status", "bench"], capture_output=True, text=True).stdout
        lost = re.search(r"^lost +(\d+)", status, re.M).group(1)
        subprocess.run([b.rutile, "destroy", "bench"])
        rows.append([f"{2 * rate * seconds / took:,.0f} events/s to disk", f"{100 * used / took:.1f} % of a CPU", lost])
    b.table("The consumer", ["", "CPU", "events lost"], rows)


def mixed_load(b, tmp):
    """A compile and a database side by side, with every default event in a flight recorder."""
    source = tmp / "x.c"
    source.write_text("#include <stdio.h>\n" + "\n".join(f"int f{i}(int a) {{ return a * {i} + printf(\"%d\", a); }}"
                                                         for i in range(300)))
    sql = tmp / "x.sql"
    sql.write_text("create table t(a int, b text);\n" +
                   "".join(f"insert into t values({i}, 'row {i}');\n" for i in range(300)) + "select sum(a) from t;\n")
    script = (f"for i in 1 2 3 4; do cc -O1 -c {source} -o {tmp}/x.o; rm -f {tmp}/x.db; "
              f"sqlite3 {tmp}/x.db <{sql} >/dev/null; done")
    with_, without = [], []
    for _ in range(b.runs):
        without.append(b.once(["sh", "-c", script])[0])
        subprocess.run([b.rutile, "start", "bench", "--flight", "--buffer", "64M"], stdout=subprocess.DEVNULL)
        with_.append(b.once(["sh", "-c", script])[0])
        subprocess.run([b.rutile, "destroy", "bench"])
    a, c = statistics.median(without), statistics.median(with_)
    b.table("cc and sqlite3, default events in a flight recorder", ["", "seconds", ""],
            [["without", f"{a:.2f}", ""], ["with", f"{c:.2f}", f"{100 * (c / a - 1):+.1f} %"]])


def run(b):
    if os.geteuid() != 0:
        print("\n(recording needs root: section left out)")
        return
    with tempfile.TemporaryDirectory() as name:
        import pathlib
        tmp = pathlib.Path(name)
        cost_of_an_event(b, tmp)
        start_and_snapshot(b, tmp)
        consumer(b, tmp)
        mixed_load(b, tmp)
