# SPDX-License-Identifier: MIT
"""Sending a trace to lttng-relayd and to NATS while it is recorded: CPU time and bytes for each event, beside lttng-consumerd.

The same loop fires the same event of two integers, as a probe (rutile) and as a tracepoint of LTTng-UST. What is compared
is the process that drains the buffers and sends: its CPU time does not depend on what else runs."""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from shared import all_programs, free_ports, programs_timed

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
EVENTS = 400 * 2000  # of bench/probed.c


def cpu_ns(pid):
    """Time on a CPU of all threads of a process. Ticks would be 12 ns an event here."""
    return float(sum(int(p.read_text().split()[0]) for p in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")))


def children(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def consumer_of(pid):
    """The lttng-consumerd below lttng-sessiond."""
    for child in children(pid):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{child}/comm").read_text().startswith("lttng-consumer"):
                return child
        found = consumer_of(child)
        if found:
            return found
    return None


@contextlib.contextmanager
def relayd(tmp):
    port = free_ports()
    out = tmp / "out"
    p = subprocess.Popen(["lttng-relayd", "-C", f"tcp://127.0.0.1:{port}", "-D", f"tcp://127.0.0.1:{port + 1}",
                          "-L", f"tcp://127.0.0.1:{port + 2}", "-o", str(out)], **QUIET)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port + 1)):
                break
            time.sleep(0.05)
        yield port, out
    finally:
        p.terminate()
        p.wait()


@contextlib.contextmanager
def nats(b, tmp):
    """A server with JetStream, and a collector."""
    port, out = free_ports(), tmp / "out"
    server = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp / "js")], **QUIET)
    url = f"nats://127.0.0.1:{port}/BENCH"
    collector = None
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        collector = subprocess.Popen([b.rutile, "collect", url, out], stderr=subprocess.PIPE, text=True)
        collector.stderr.readline()  # it receives
        yield url, out
        for _ in range(600):
            if list(out.glob("*/*/.complete")):
                break
            time.sleep(0.05)
    finally:
        for p in (collector, server):
            if p:
                p.terminate()
                p.wait()


def stored(out):
    """Bytes of packets, and the events of the loop that are in them."""
    files = [f for f in out.rglob("*") if f.is_file() and f.suffix != ".idx" and f.name != "metadata" and not f.name.startswith(".")]
    events = 0
    for meta in out.rglob("metadata"):
        text = subprocess.run(["babeltrace2", "--no-delta", str(meta.parent)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False).stdout
        events += len(re.findall(r"probed", text))
    return sum(f.stat().st_size for f in files), events


def run_rutile(b, url):
    probed = b.build / "bench/probed"
    name = f"bench{os.getpid()}"
    said = subprocess.run([b.rutile, "start", name, "--to", url, "--buffer", "64M",
                           "-e", f"uprobe:{probed}:probed(a:s64,b:s64)"], stdout=subprocess.PIPE, text=True, check=True).stdout
    pid = int(re.search(r"process (\d+)", said).group(1))
    try:
        before = cpu_ns(pid)
        subprocess.run([probed], check=True, **QUIET)
        time.sleep(2)  # the rings are flushed once a second
        return cpu_ns(pid) - before
    finally:
        subprocess.run([b.rutile, "destroy", name], check=True, **QUIET)


def programs():
    """Run time of each loaded eBPF program, in ns."""
    return {p["id"]: p.get("run_time_ns", 0) for p in all_programs()}


def size_of(out):
    return sum(f.stat().st_size for f in out.rglob("*") if f.is_file())


def run_paced(b, url, out, tmp):
    """A steady 10 MB/s of system calls: CPU time of the process that drains and sends, and of the eBPF programs,
    as parts of a CPU, MB/s stored, and MiB of its own memory."""
    loop, name = tmp / "paced_loop", f"bench{os.getpid()}"
    shutil.copy(b.build / "bench/syscall_loop", loop)
    others = set(programs())
    said = subprocess.run([b.rutile, "start", name, "--to", url, "--procname", "paced_loop", "--context", "pid,tid,procname",
                           "-e", "syscall_entry_getppid,syscall_exit_getppid"], stdout=subprocess.PIPE, text=True, check=True).stdout
    pid = int(re.search(r"process (\d+)", said).group(1))
    load = subprocess.Popen([loop, "1000000000", "140000"])
    try:
        time.sleep(3)
        begin, cpu, size = time.monotonic_ns(), cpu_ns(pid), size_of(out)
        time.sleep(3 if b.quick else 10)
        took, cpu, size = time.monotonic_ns() - begin, cpu_ns(pid) - cpu, size_of(out) - size
        with programs_timed():
            before, begin = programs(), time.monotonic_ns()
            time.sleep(2)
            after, length = programs(), time.monotonic_ns() - begin
        ebpf = sum(ns - before.get(i, 0) for i, ns in after.items() if i not in others)
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return cpu / took, ebpf / length, size / took * 1e3, int(re.search(r"RssAnon:\s*(\d+)", status).group(1)) / 1024
    finally:
        load.kill()
        load.wait()
        subprocess.run([b.rutile, "destroy", name], check=True, **QUIET)


def measure_paced(b, tmp):
    kinds = [("relay", relayd), *([("nats", lambda place: nats(b, place))] if b.have("nats-server") else [])]
    results = {kind: [] for kind, _ in kinds}
    for i in range(2 if b.quick else b.runs):
        for kind, server in kinds:
            place = tmp / f"paced-{i}-{kind}"
            place.mkdir()
            with server(place) as (to, out):
                url = to if kind == "nats" else f"relay://127.0.0.1:{to}"
                results[kind].append(run_paced(b, url, out, place))
    rows = []
    for kind, runs in results.items():
        cpu, ebpf, rate, memory = (statistics.median(r[k] for r in runs) for k in range(4))
        rows.append([f"rutile start --to {kind}://", f"{100 * cpu:.2f} %", f"{100 * min(r[0] for r in runs):.2f} %", f"{100 * ebpf:.1f} %",
                     f"{rate:.1f}", f"{memory:.0f}"])
    b.table("Streaming a steady 10 MB/s: 280,000 events a second of 36 bytes",
            ["", "drains and sends, of a CPU", "least", "eBPF programs, of a CPU", "MB/s stored", "its memory, MiB"], rows)


def run_lttng(b, port, program):
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], **QUIET)
    lttng = ["lttng", "--no-sessiond"]

    def do(*words):
        subprocess.run([*lttng, *words], check=True, **QUIET)
    try:
        for _ in range(200):
            if subprocess.run([*lttng, "list"], **QUIET, check=False).returncode == 0:
                break
            time.sleep(0.05)
        do("create", "bench", f"--set-url=net://127.0.0.1:{port}:{port + 1}")
        do("enable-channel", "-u", "--subbuf-size=4M", "--num-subbuf=8", "--switch-timer=1000000", "c")
        do("enable-event", "-u", "-c", "c", "rutile_bench:*")
        do("start")
        pid = consumer_of(daemon.pid)
        before = cpu_ns(pid)
        subprocess.run([program], check=True, env=dict(os.environ, LTTNG_UST_REGISTER_TIMEOUT="-1"), **QUIET)
        time.sleep(2)
        spent = cpu_ns(pid) - before
        do("destroy", "bench")
        return spent
    finally:
        daemon.terminate()
        daemon.wait()


def run(b):
    if not b.have("lttng-relayd") or not b.have("babeltrace2"):
        b.note("lttng-relayd or babeltrace2 is not installed, so streaming is not measured")
        return
    with tempfile.TemporaryDirectory() as directory:
        tmp = pathlib.Path(directory)
        measure_paced(b, tmp)
        jobs = {"rutile start --to relay://": lambda port: run_rutile(b, f"relay://127.0.0.1:{port}")}
        if b.have("nats-server"):
            jobs["rutile start --to nats://"] = lambda url: run_rutile(b, url)
        else:
            b.note("nats-server is not installed, so not measured")
        program = tmp / "probed_lttng"
        if b.have("lttng-sessiond") and subprocess.run(
                ["cc", "-O2", "-DLTTNG", f"-I{b.top}/bench", "-o", program, b.top / "bench/probed.c", "-llttng-ust", "-ldl"],
                **QUIET, check=False).returncode == 0:
            jobs["lttng-consumerd (UST)"] = lambda port: run_lttng(b, port, program)
        else:
            b.note("LTTng-UST: lttng-sessiond or liblttng-ust-dev is not installed, so not measured")
        results = {name: [] for name in jobs}
        for i in range(2 if b.quick else b.runs):
            for name, job in jobs.items():
                place = tmp / f"{i}-{list(jobs).index(name)}"
                place.mkdir()
                with nats(b, place) if "nats" in name else relayd(place) as (to, out):
                    spent = job(to)
                results[name].append((spent, *stored(out)))
        rows = []
        for name, runs in results.items():
            spent, size, events = (statistics.median(r[k] for r in runs) for k in range(3))
            if events:
                rows.append([name, f"{spent / events:.0f}", f"{size / events:.1f}", f"{events:.0f}",
                             f"{max(0.0, 100 * (1 - events / EVENTS)):.1f} %"])
        b.table("Streaming to lttng-relayd, or nats-server, on loopback: the process that drains and sends",
                ["", "CPU ns an event", "bytes an event", "events stored", "lost"], rows)
