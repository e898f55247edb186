# SPDX-License-Identifier: MIT
"""What `rutile profile` costs: the programs in the kernel (by the kernel's own count of their time,
BPF_ENABLE_STATS), rutile's own CPU time, and the CPU time of what is profiled: the time of its units of
work with a profiler, compared with the time without in the same run."""
import os
import pathlib
import pty
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from shared import all_programs, programs_of, programs_timed

SETTLE = 3  # seconds: what runs at the start (symbols, mappings) is not what it costs to stay on


class Target:
    """Processes of bench/profile.rb; the first is on a CPU of its own while it is busy."""

    def __init__(self, b, mode, count=1, rate=0):
        script = b.top / "bench" / "profile.rb"
        # Ahead of what else runs on the machine: every sample of its CPU is to be one of it.
        self.processes = [subprocess.Popen(["nice", "-n", "-19", "ruby", script, mode, str(rate)], stdout=subprocess.PIPE,
                                           text=True, start_new_session=True) for _ in range(count)]
        self.pids = [p.pid for p in self.processes]
        self.units = []  # (when, units, ns)
        for p in self.processes:
            # Where sessions share the CPUs, priorities count within a session only.
            group = pathlib.Path(f"/proc/{p.pid}/autogroup")
            if group.exists():
                group.write_text("-19")
            if mode == "busy":
                os.sched_setaffinity(p.pid, {os.cpu_count() - 1})
            threading.Thread(target=self.read, args=(p,), daemon=True).start()
        time.sleep(2)

    def read(self, p):
        for line in p.stdout:
            n, ns = line.split()
            self.units.append((time.monotonic(), int(n), int(ns)))

    def unit_ns(self, begin, end):
        """CPU time of a unit: the lower quartile, because other work on the machine only adds to it."""
        times = [ns / n for when, n, ns in self.units if begin + 0.5 < when < end]
        return statistics.quantiles(times, n=4)[0] if len(times) > 1 else 0

    def rate(self, begin, end):
        return sum(n for when, n, _ in self.units if begin < when <= end) / (end - begin)

    def end(self):
        for p in self.processes:
            p.kill()
            p.wait()


def cpu_of(pid):
    """Seconds on a CPU so far, of all threads."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def clocked(target, process, seconds):
    """Lets the profiler run; what it took, in percent of a CPU. None: it ended."""
    time.sleep(SETTLE)
    first, begun, cpu = programs_of(process.pid), time.monotonic(), cpu_of(process.pid)
    time.sleep(seconds)
    cpu, ended, last = cpu_of(process.pid) - cpu, time.monotonic(), programs_of(process.pid)
    if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        return None
    names = {p["id"]: p.get("name", "") for p in all_programs()} if last else {}
    rows = {}
    for key, (ns, runs) in last.items():
        before = first.get(key, (0, 0))
        row = rows.setdefault(names.get(key, ""), [0, 0])
        row[0] += ns - before[0]
        row[1] += runs - before[1]
    elapsed = ended - begun
    return {"kernel": sum(r[0] for r in rows.values()) / elapsed / 1e7, "own": cpu / elapsed * 100, "rows": rows,
            "unit": target.unit_ns(begun, ended), "rate": target.rate(begun, ended), "seconds": elapsed}


def stop(process):
    process.send_signal(signal.SIGINT)
    process.wait()


def rutile(b, target, args, seconds, screen=False):
    """`rutile profile` into a directory, or on a terminal."""
    with tempfile.TemporaryDirectory(prefix="rutile-bench") as out:
        pids = [str(p) for p in target.pids]
        if not screen:
            p = subprocess.Popen([b.rutile, "profile", *pids, "-o", out + "/t", *args],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not any(f.stat().st_size for f in pathlib.Path(out).glob("t/kernel/kernel_*")) and p.poll() is None:
                time.sleep(0.1)
            m = clocked(target, p, seconds)
            stop(p)
            return m
        ours, theirs = pty.openpty()
        p = subprocess.Popen([b.rutile, "profile", *pids, *args], stdin=theirs, stdout=theirs, stderr=theirs,
                             start_new_session=True)
        os.close(theirs)
        threading.Thread(target=drain, args=(ours,), daemon=True).start()
        time.sleep(2)
        m = clocked(target, p, seconds)
        stop(p)
        return m


def drain(fd):
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    os.close(fd)


def perf(_, target, args, seconds):
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", *args, "-p", str(target.pids[0]), "-o", d + "/p"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        m = clocked(target, p, seconds)
        stop(p)
        return m


def outside(b, target, args, seconds):
    """rbspy's method, as a program of its own. None: it refuses this Ruby, or came to no sample."""
    p = subprocess.Popen([b.build / "bench" / "outside", str(target.pids[0]), args[0], str(seconds + SETTLE + 2), *args[1:]],
                         stdout=subprocess.PIPE, text=True)
    m = clocked(target, p, seconds)
    said = p.stdout.read().split()
    _, _, usage = os.wait4(p.pid, 0)
    p.returncode = 0
    samples = int(said[0]) if said else 0
    if not m or not samples:
        return None
    # On a busy machine it does not come to all of its samples.
    m["own"] = (usage.ru_utime + usage.ru_stime) / samples * int(args[0]) * 100
    return m


def nothing(_, target, args, seconds):
    begun = time.monotonic()
    time.sleep(seconds)
    ended = time.monotonic()
    return {"unit": target.unit_ns(begun, ended), "rate": target.rate(begun, ended)}


def alternate(b, target, jobs, seconds):
    """Each job in turn with a time without any before it; medians. `more`: CPU time that the target took more, in percent."""
    found = {name: [] for name in jobs}
    for _ in range(b.runs):
        for name, (job, args) in jobs.items():
            plain = nothing(b, target, args, max(3, seconds / 2))
            m = job(b, target, args, seconds)
            if not m:
                b.note(f"{name}: it did not run, so it is not measured")
                continue
            m["more"] = (m["unit"] / plain["unit"] - 1) * 100 if plain["unit"] else 0
            m["plain"] = plain["unit"]
            found[name].append(m)
    return {name: ms for name, ms in found.items() if ms}


def middle(ms, key):
    return statistics.median(m[key] for m in ms)


def on_cpu(b, seconds):
    jobs = {}
    for hz in ("99", "999"):
        jobs[f"`rutile profile --on-cpu --hz {hz}` into a directory"] = (rutile, ["--on-cpu", "--hz", hz])
        jobs[f"`rutile profile --on-cpu --hz {hz}` on a terminal"] = (
            lambda *a: rutile(*a, screen=True), ["--on-cpu", "--hz", hz])
        if b.have("perf"):
            jobs[f"`perf record -F {hz} -g`"] = (perf, ["-F", hz, "-g"])
            jobs[f"`perf record -F {hz} --call-graph dwarf`"] = (perf, ["-F", hz, "--call-graph", "dwarf"])
        jobs[f"reading from outside, {hz} Hz"] = (outside, [hz])
        jobs[f"reading from outside, {hz} Hz, stopped for it"] = (outside, [hz, "stop"])
    target = Target(b, "busy")
    found = alternate(b, target, jobs, seconds)
    target.end()
    rows = []
    for name, ms in found.items():
        sums = [r for m in ms for r in m["rows"].values()]
        runs = sum(r[1] for r in sums)
        ours = name.startswith("`rutile")
        rows.append([name, f"{middle(ms, 'kernel'):.2f}" if ours else "", f"{middle(ms, 'own'):.2f}",
                     f"{middle(ms, 'kernel') + middle(ms, 'own'):.2f}" if ours else "", f"{middle(ms, 'more'):+.2f}",
                     f"{sum(r[0] for r in sums) / runs / 1000:.1f}" if ours and runs else ""])
    b.table("One busy thread below 100 Ruby frames: percent of one CPU",
            ["", "programs in the kernel", "the profiler's process", "both", "CPU time of the target more, %", "us a run"], rows)


def off_cpu(b, seconds):
    rows = []
    for mode, what in (("same", "one stack"), ("many", "64 stacks in turn")):
        target = Target(b, mode, 4, 1250)
        ms = alternate(b, target, {f"--off-cpu, {what}": (rutile, ["--off-cpu"])}, seconds).get(f"--off-cpu, {what}")
        target.end()
        if not ms:
            continue
        switches = statistics.median(m["rows"]["sched_switch"][1] / m["seconds"] for m in ms)
        rows.append([what, f"{middle(ms, 'rate'):.0f}", f"{switches:.0f}", f"{middle(ms, 'kernel'):.2f}", f"{middle(ms, 'own'):.2f}",
                     f"{middle(ms, 'kernel') + middle(ms, 'own'):.2f}",
                     f"{statistics.median(m['kernel'] * 1e4 / m['rate'] for m in ms):.2f}",
                     f"{statistics.median(m['unit'] - m['plain'] for m in ms) / 1000:+.2f} of {middle(ms, 'plain') / 1000:.1f}"])
    b.table("`rutile profile --off-cpu` of four Ruby processes below 100 frames that wait: percent of one CPU",
            ["", "waits a second", "runs of sched_switch", "programs in the kernel", "rutile", "both", "us a wait in the kernel",
             "CPU time of the target a wait, us"], rows)


def run(b):
    seconds = 3 if b.quick else 6
    with programs_timed():
        on_cpu(b, seconds)
        off_cpu(b, seconds)
