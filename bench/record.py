# SPDX-License-Identifier: MIT
"""Recording: the cost of an event beside the peers, what a busy machine keeps of its throughput, starts, snapshots,
the consumer.

Costs of single events are tenth percentiles of short rounds, and CPU times are shown beside throughputs: what else
runs on the machine touches them least."""

import contextlib
import glob
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from shared import all_programs

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
SYSCALLS = "tracepoint:raw_syscalls:sys_enter,tracepoint:raw_syscalls:sys_exit"
DEFAULTS = ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup", "sched:sched_wakeup_new",
            "sched:sched_migrate_task", "sched:sched_process_fork", "sched:sched_process_exec",
            "sched:sched_process_exit", "sched:sched_process_free", "sched:sched_pi_setprio",
            "irq:irq_handler_entry", "irq:irq_handler_exit", "irq:softirq_raise", "irq:softirq_entry",
            "irq:softirq_exit", "block:block_rq_issue", "block:block_rq_insert", "block:block_rq_complete",
            "block:block_bio_remap", "block:block_bio_backmerge", "net:net_dev_queue", "net:net_dev_xmit",
            "net:netif_receive_skb", "signal:signal_generate", "signal:signal_deliver",
            "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]


def missing(b, *programs):
    """Says once what cannot be measured here; true when something is not installed."""
    absent = [p for p in programs if not b.have(p)]
    if absent:
        b.note(f"not installed, so not measured: {', '.join(absent)}")
    return bool(absent)


# Tracers that are there while something else is measured.

@contextlib.contextmanager
def nothing():
    yield


@contextlib.contextmanager
def session(b, *args):
    subprocess.run([b.rutile, "start", "bench", *map(str, args)], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([b.rutile, "destroy", "bench"], check=True, **QUIET)


@contextlib.contextmanager
def floor(b, kind, *tracepoints):
    """Programs that do nothing ("empty"), or read the clock ("clock")."""
    p = subprocess.Popen([b.build / "bench/floor", b.build / "bench/floor.bpf.o", kind, *tracepoints],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if p.stdout.readline() != "attached\n":
            raise RuntimeError("the floor's programs do not load")
        yield
    finally:
        p.communicate()


@contextlib.contextmanager
def bpftrace(script):
    p = subprocess.Popen(["bpftrace", "-e", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        p.stdout.readline()  # "Attaching N probes..."
        time.sleep(1.5)
        yield
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate()


# The cost of one event

def ns_of(argv, env=None):
    """What a loop printed, run under a tracer or alone; None when that failed."""
    try:
        out = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             timeout=120, env=dict(os.environ, **(env or {})), check=False).stdout
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"^(\d+\.\d)$", out, re.M)
    return float(found.group(1)) if found else None


def perf_lost(data, expected):
    """Percent of the events that perf record did not write."""
    out = subprocess.run(["perf", "report", "-i", str(data), "--stats"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, check=False).stdout
    samples = re.search(r"^\s*SAMPLE events:\s+(\d+)", out, re.M)
    return f"{max(0.0, 100 * (1 - int(samples.group(1)) / expected)):.0f} %" if samples else "?"


def rows_per_event(alone, times, events, notes, ours):
    """Rows of a table, cheapest first; the ratio is to the row `ours`."""
    base = statistics.median(alone)
    each = {name: (statistics.median(t) - base) / events for name, t in times.items() if t}
    rows = [["alone", f"{base:.1f}", "", "", ""]]
    for name in sorted(each, key=each.get):
        rows.append([name, f"{statistics.median(times[name]):.1f}", f"{each[name]:.1f}",
                     f"{each[name] / each[ours]:.1f}" if each.get(ours) else "", notes.get(name, "")])
    return rows


def note_statistics(b):
    """While anybody has the kernel time eBPF programs, each run costs some 20 ns more."""
    if any("run_cnt" in p and re.match("(empty|clock)_sys_e", p.get("name", "")) for p in all_programs()):
        b.note("the kernel times every eBPF program now (kernel.bpf_stats_enabled, or a session with --max-overhead): "
               "the figures of eBPF programs are 20 ns an event too high")


def cost_of_an_event(b, tmp):
    loop = b.build / "bench" / "syscall_loop"
    n = 200000 if b.quick else 1000000
    many, few = [loop, str(n)], [loop, "20000"]
    trace, data = tmp / "t", tmp / "perf.data"
    record = [b.rutile, "record", "-o", trace, "--buffer", "64M", "-e", "syscall"]
    jobs = {
        "rutile record, to disk": [*record, "-a", "--", *many],
        "rutile record, to disk, this command only": [*record, "--", *many],
        "rutile record, to disk, with pid, tid, procname": [*record, "-a", "--context", "pid,tid,procname", "--",
                                                            *many],
        "bpftrace, counting": ["bpftrace", "-e", f"{SYSCALLS} {{ @ = count(); }}", "-c", " ".join(map(str, many))],
        "bpftrace, printing to a file": ["bpftrace", "-o", tmp / "printed", "-e", f'{SYSCALLS} {{ printf("%d\\n", pid); }}',
                                         "-c", " ".join(map(str, few))],
        "perf record -e raw_syscalls": ["perf", "record", "-q", "-o", data, "-e", "raw_syscalls:*", "--", *many],
        "perf trace -s": ["perf", "trace", "-s", "-o", "/dev/null", "--", *few],
        "strace -c": ["strace", "-c", "-o", "/dev/null", *few],
    }
    around = {
        "an empty program": lambda: floor(b, "empty", "sys_enter", "sys_exit"),
        "a program that reads the clock": lambda: floor(b, "clock", "sys_enter", "sys_exit"),
        "rutile, flight recorder": lambda: session(b, "--flight", "--buffer", "32M", "-e", "syscall"),
    }
    missing(b, "bpftrace", "perf", "strace")
    alone, times, notes = [], {name: [] for name in [*around, *jobs]}, {}
    for _ in range(b.runs):
        alone.append(ns_of(many))
        for name, tracer in around.items():
            with tracer():
                times[name].append(ns_of(many))
                note_statistics(b)
        for name, argv in jobs.items():
            t = ns_of(argv) if b.have(str(argv[0])) else None
            if t is not None:
                times[name].append(t)
            if name.startswith("perf record") and data.exists():
                notes[name] = perf_lost(data, 2 * n) + " lost"
            shutil.rmtree(trace, ignore_errors=True)
            for path in (data, tmp / "printed"):
                path.unlink(missing_ok=True)
    b.table("getppid in a loop: entry and exit", ["", "ns a call", "ns an event", "x rutile record", ""],
            rows_per_event(alone, times, 2, notes, "rutile record, to disk"))


# An event of a program

def systemtap(b, tmp):
    """A command line of SystemTap's bpf runtime that runs what is appended; None with the reason printed.

    It wants a kernel build directory, of which it needs only the configuration, may set RLIMIT_MEMLOCK although no
    kernel since 5.11 needs that, and looks for tracefs in debugfs."""
    if missing(b, "stap", "stapbpf"):
        return None
    kernel = tmp / "linux"
    (kernel / "include/config").mkdir(parents=True)
    (kernel / "include/config/kernel.release").write_text(os.uname().release + "\n")
    (kernel / "Makefile").write_text("all:\n")
    (kernel / "Module.symvers").touch()
    with open(kernel / ".config", "wb") as out:
        subprocess.run("zcat /proc/config.gz || cat /boot/config-$(uname -r)", shell=True, stdout=out,
                       stderr=subprocess.DEVNULL, check=False)
    (tmp / "allow.c").write_text("int setrlimit(int r, const void *l) { (void)r; (void)l; return 0; }\n"
                                 "int setrlimit64(int r, const void *l) { (void)r; (void)l; return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp / "allow.so", tmp / "allow.c"], check=True)
    script = f'global hits\nprobe process("{b.build}/bench/probed").function("probed") {{ hits++ }}\n'
    (tmp / "hits.stp").write_text(script)
    shell = ("mount -t debugfs none /sys/kernel/debug 2>/dev/null; mount -t tracefs none /sys/kernel/debug/tracing "
             f"2>/dev/null; exec stap --bpf -r {kernel} {tmp}/hits.stp -c {b.build}/bench/probed")
    return ["unshare", "-m", "sh", "-c", shell]


@contextlib.contextmanager
def lttng_session():
    """An overwriting LTTng-UST session, and a daemon of its own, which ends with it."""
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], **QUIET)
    client = ["lttng", "--no-sessiond"]
    try:
        for _ in range(50):
            time.sleep(0.1)
            if subprocess.run([*client, "list"], **QUIET, check=False).returncode == 0:
                break
        for args in ("create bench --snapshot", "enable-channel -u c --overwrite --subbuf-size 1M --num-subbuf 16",
                     "enable-event -u rutile_bench:* -c c", "start"):
            subprocess.run([*client, *args.split()], **QUIET, check=True)
        yield
        subprocess.run([*client, "destroy", "bench"], **QUIET, check=False)
    finally:
        daemon.terminate()
        daemon.wait()


def user_event(b, tmp):
    probed = b.build / "bench/probed"
    trace = tmp / "u"
    stap = systemtap(b, tmp)
    jobs = {
        "rutile record, to disk": ([b.rutile, "record", "-o", trace, "-e", f"uprobe:{probed}:probed", "-a", "--",
                                    probed], {}),
        "bpftrace, counting": (["bpftrace", "-e", f"uprobe:{probed}:probed {{ @ = count(); }}", "-c", probed], {}),
    }
    if stap:
        jobs["SystemTap's bpf runtime, counting"] = (stap, {"LD_PRELOAD": str(tmp / "allow.so")})
    lttng = None
    if not missing(b, "lttng-sessiond"):
        lttng = tmp / "probed_lttng"
        built = subprocess.run(["cc", "-O2", "-DLTTNG", f"-I{b.top}/bench", "-o", lttng, b.top / "bench/probed.c",
                                "-llttng-ust", "-ldl"], **QUIET, check=False)
        if built.returncode:
            b.note("LTTng-UST: liblttng-ust-dev is not installed, so not measured")
            lttng = None
    alone, times = [], {name: [] for name in jobs}
    for _ in range(b.runs):
        alone.append(ns_of([probed]))
        for name, (argv, env) in jobs.items():
            t = ns_of(argv, env) if b.have(str(argv[0])) else None
            if t is not None:
                times[name].append(t)
            shutil.rmtree(trace, ignore_errors=True)
        if lttng:
            with lttng_session():
                t = ns_of([lttng])
            if t is not None:
                times.setdefault("LTTng-UST's tracepoint, compiled into the program", []).append(t)
    if stap and not times["SystemTap's bpf runtime, counting"]:
        b.note("SystemTap's bpf runtime does not run here")
    b.table("A function of a program (begins with a 5-byte nop)", ["", "ns a call", "ns an event", "x rutile record", ""],
            rows_per_event(alone, times, 1, {}, "rutile record, to disk"))


# Starts and snapshots

def children_cpu():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def first_words(argv):
    """ms until a traced command speaks, and the CPU ms until all has ended."""
    before, begin = children_cpu(), time.time_ns()
    out = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         check=False).stdout
    found = re.search(r"^\d{19}$", out, re.M)
    return (int(found.group(0)) - begin) / 1e6 if found else None, (children_cpu() - before) * 1000


def starts(b, tmp):
    date = [shutil.which("date"), "+%s%N"]
    jobs = {
        "rutile record, default events": [b.rutile, "record", "-o", "TRACE", "-a", "--", *date],
        "rutile record, system calls": [b.rutile, "record", "-o", "TRACE", "-e", "syscall", "-a", "--", *date],
        "bpftrace, counting system calls": ["bpftrace", "-e", f"{SYSCALLS} {{ @ = count(); }}", "-c", " ".join(date)],
        "bpftrace, counting the default events": ["bpftrace", "-e", ",".join("tracepoint:" + t for t in DEFAULTS) +
                                                  " { @ = count(); }", "-c", " ".join(date)],
        "perf record, the default events": ["perf", "record", "-q", "-a", "-o", tmp / "perf.data",
                                            *(f"-e{t}" for t in DEFAULTS), "--", *date],
    }
    found = {name: [] for name in jobs}
    for i in range(b.runs):
        for name, argv in jobs.items():
            if b.have(str(argv[0])):
                ms = first_words([tmp / f"s{i}{name}" if a == "TRACE" else a for a in argv])
                if ms[0] is not None:
                    found[name].append(ms)
    rows = [[name, f"{statistics.median(m[0] for m in ms):.0f}", f"{statistics.median(m[1] for m in ms):.0f}"]
            for name, ms in found.items() if ms]
    b.table("From the command line to the first words of a traced command", ["", "ms", "ms of CPU time"], rows)


def snapshots(b, tmp):
    rows = []
    loop = b.build / "bench" / "syscall_loop"
    targets = {"/dev/shm": "/dev/shm/rutile-bench", "disk": str(tmp / "snap")}
    with session(b, "--flight", "--buffer", "128M", "-e", "syscall"):
        for cpu in range(os.cpu_count()):
            subprocess.run(["taskset", "-c", str(cpu), str(loop), "4000000"], **QUIET, check=True)
        for where, path in targets.items():
            took = []
            for _ in range(b.runs):
                shutil.rmtree(path, ignore_errors=True)
                before, begin = children_cpu(), time.monotonic()
                subprocess.run([b.rutile, "snapshot", "bench", "-o", path], check=True, **QUIET)
                took.append(((time.monotonic() - begin) * 1000, (children_cpu() - before) * 1000))
            size = sum(f.stat().st_size for f in pathlib.Path(path, "kernel").iterdir())
            shutil.rmtree(path, ignore_errors=True)
            rows.append([f"{size >> 20} MiB to {where}", f"{statistics.median(t[0] for t in took):.0f}",
                         f"{statistics.median(t[1] for t in took):.0f}"])
    b.table("A snapshot", ["", "ms", "ms of CPU time"], rows)


# The consumer

def cpu_seconds(pid):
    """Of a process by now, from the scheduler: to the nanosecond."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        total += int(open(path).read().split()[0])
    return total / 1e9


def status(b, field):
    out = subprocess.run([b.rutile, "status", "bench"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(rf"^{field} +(\d+)", out, re.M).group(1)


def consumer(b, tmp):
    loop = b.build / "bench" / "syscall_loop"
    rows = []
    seconds = 3 if b.quick else 8
    for events, cpus in ((100000, [0]), (300000, list(range(os.cpu_count())))):
        with session(b, "-o", tmp / f"c{events}", "-e", "syscall:getppid"):
            pid = int(status(b, "process"))
            before, begin = cpu_seconds(pid), time.monotonic()
            rate = events // 2 // len(cpus)
            loops = [subprocess.Popen(["taskset", "-c", str(c), str(loop), str(rate * seconds), str(rate)]) for c in cpus]
            for p in loops:
                p.wait()
            took, used = time.monotonic() - begin, cpu_seconds(pid) - before
            lost = status(b, "lost")
        rows.append([f"{2 * rate * len(cpus) * seconds / took:,.0f} events/s on {len(cpus)} CPU(s), to disk",
                     f"{100 * used / took:.2f} %", lost])
    b.table("The consumer", ["", "of a CPU", "events lost"], rows)


# A busy machine

def tree_cpu(pid):
    """CPU seconds of a process and its children, running ones."""
    total = cpu_seconds(pid)
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        total += sum(tree_cpu(child) for child in open(path).read().split())
    return total


class Compile:
    name = "compile (cc -O1)"

    def __init__(self, b, tmp):
        self.source, self.times = tmp / "x.c", 2 if b.quick else 4
        self.source.write_text("#include <stdio.h>\n" + "\n".join(
            f"int f{i}(int a) {{ return a * {i} + printf(\"%d\", a); }}" for i in range(300)))

    def work(self):
        """Units of work, and their CPU seconds."""
        before = children_cpu()
        for _ in range(self.times):
            subprocess.run(["cc", "-O1", "-c", self.source, "-o", self.source.with_suffix(".o")], check=True)
        return self.times, children_cpu() - before

    def end(self):
        pass


class Sqlite:
    name = "sqlite3 (a transaction an insert, to disk)"

    def __init__(self, b, tmp):
        self.db, self.rows = tmp / "x.db", 300 if b.quick else 600
        self.sql = "create table t(a int, b text);\n" + "".join(
            f"insert into t values({i}, 'row {i}');\n" for i in range(self.rows)) + "select sum(a) from t;\n"

    def work(self):
        before = children_cpu()
        self.db.unlink(missing_ok=True)
        subprocess.run(["sqlite3", str(self.db)], input=self.sql, text=True, stdout=subprocess.DEVNULL, check=True)
        return self.rows, children_cpu() - before

    def end(self):
        pass


class Wrk:
    name = "wrk (the sample application under Puma)"

    def __init__(self, b, tmp):
        self.shop = b.section("ruby").Shop(b, tmp)
        self.seconds = 1 if b.quick else 2

    def work(self):
        before = children_cpu() + tree_cpu(self.shop.puma.pid)
        rate, _ = self.shop.wrk(self.seconds)
        return rate * self.seconds, children_cpu() + tree_cpu(self.shop.puma.pid) - before

    def end(self):
        self.shop.stop()


class Redis:
    name = "redis-benchmark (get, set; not pipelined)"

    def __init__(self, b, tmp):
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = str(s.getsockname()[1])
        self.n = 20000 if b.quick else 50000
        self.server = subprocess.Popen(["redis-server", "--port", self.port, "--save", "", "--dir", str(tmp)], **QUIET)
        time.sleep(0.5)

    def work(self):
        before = children_cpu() + tree_cpu(self.server.pid)
        subprocess.run(["redis-benchmark", "-p", self.port, "-t", "set,get", "-n", str(self.n), "-q"], check=True, **QUIET)
        return 2 * self.n, children_cpu() + tree_cpu(self.server.pid) - before

    def end(self):
        self.server.terminate()
        self.server.wait()


def loads(b, tmp):
    wants = {Compile: ["cc"], Sqlite: ["sqlite3"], Wrk: ["wrk", "puma"], Redis: ["redis-server", "redis-benchmark"]}
    return [kind(b, tmp) for kind, programs in wants.items() if not missing(b, *programs)]


def mixed_load(b, tmp):
    """Each load under each tracer in turn; every default event of the whole machine is recorded."""
    tracers = {
        "alone": nothing,
        "empty programs": lambda: floor(b, "empty"),
        "programs that read the clock": lambda: floor(b, "clock"),
        "rutile, flight recorder": lambda: session(b, "--flight", "--buffer", "64M"),
    }
    if b.have("bpftrace"):
        counting = ",".join("tracepoint:" + t for t in DEFAULTS) + " { @ = count(); }"
        tracers["bpftrace, counting"] = lambda: bpftrace(counting)
    works = loads(b, tmp)
    found = {(w.name, t): [] for w in works for t in tracers}
    try:
        for w in list(works):
            try:
                w.work()
            except subprocess.CalledProcessError as e:
                b.note(f"{w.name}: not measured: {e}")
                works.remove(w)
                w.end()
                continue
            # Another order every time: the first has colder caches.
            for turn in range(b.runs):
                names = list(tracers)
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    with tracers[name]():
                        begin = time.monotonic()
                        units, cpu = w.work()
                        found[w.name, name].append((units / (time.monotonic() - begin), units / cpu))
    finally:
        for w in works:
            w.end()
    show_mixed(b, works, tracers, found)


def show_mixed(b, works, tracers, found):
    """The best of many short runs: what was disturbed least."""
    def change(w, t, which):
        return max(x[which] for x in found[w, t]) / max(x[which] for x in found[w, "alone"]) - 1

    names = [t for t in tracers if t != "alone"]
    for which, title in ((0, "Throughput with every default event of the machine on"),
                         (1, "Work a second of CPU time with every default event of the machine on")):
        rows = [[w.name, *(f"{100 * change(w.name, t, which):+.1f} %" for t in names)] for w in works]
        three = [w.name for w in works if not isinstance(w, Redis)]
        if three:
            rows.insert(len(three), ["mean of these", *(
                f"{100 * statistics.mean(change(w, t, which) for w in three):+.1f} %" for t in names)])
        b.table(title, ["", *names], rows)


def run(b):
    if os.geteuid() != 0:
        print("\n(recording needs root: section left out)")
        return
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        for part in (cost_of_an_event, user_event, starts, snapshots, consumer, mixed_load):
            part(b, tmp)
