# SPDX-License-Identifier: MIT
"""Catching up after a long absence: a spool with packets of 24 hours is sent, on loopback, by the sender that is in every
recorder, until the collector has stored and confirmed all of it. Beside it the floors: cp with fsync of the same bytes to
the same disk, and libnats publishing them as plain messages.

Both ends and the server are measured: MB/s by wall-clock time, and seconds of CPU time of each process."""

import contextlib
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from shared import free_ports

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
PACKET_KIB = 256


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0


def connect(port):
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def stored_bytes(out):
    return sum(f.stat().st_size for f in out.rglob("kernel_*"))


class Run:
    """One way to the collector: its processes, by name."""

    def __init__(self, b, tmp, way):
        self.b, self.tmp, self.out = b, tmp, tmp / "out"
        self.port = free_ports()
        self.processes = {}
        self.url = getattr(self, "begin_" + way)()

    def start(self, name, *words, **more):
        self.processes[name] = subprocess.Popen([str(w) for w in words], **(more or QUIET))
        return self.processes[name]

    def begin_relay(self):
        self.start("collect", self.b.rutile, "collect", "--listen", f"127.0.0.1:{self.port}", self.out)
        connect(self.port)
        return f"relay://127.0.0.1:{self.port}"

    def begin_relayd(self):
        self.start("lttng-relayd", "lttng-relayd", "-C", f"tcp://127.0.0.1:{self.port}", "-D", f"tcp://127.0.0.1:{self.port + 1}",
                   "-L", f"tcp://127.0.0.1:{self.port + 2}", "-o", self.out)
        connect(self.port + 1)
        return f"relay://127.0.0.1:{self.port}"

    def server(self):
        self.start("nats-server", "nats-server", "-a", "127.0.0.1", "-p", self.port, "-js", "-sd", self.tmp / "js")
        connect(self.port)
        return f"nats://127.0.0.1:{self.port}/BENCH"

    def begin_nats(self):
        url = self.server()
        p = self.start("collect", self.b.rutile, "collect", url, self.out, stderr=subprocess.PIPE, text=True)
        p.stderr.readline()  # it receives
        return url

    def begin_raw(self):
        """A stream like the collector's, without a collector."""
        url = self.server()
        p = subprocess.Popen([self.b.rutile, "collect", url, self.out], stderr=subprocess.PIPE, text=True)
        p.stderr.readline()
        p.terminate()
        p.wait()
        return url

    def cpu(self):
        return {name: cpu_s(p.pid) for name, p in self.processes.items()}

    def end(self):
        for p in reversed(self.processes.values()):
            p.terminate()
            p.wait()


def measure(b, tmp, spool, way, size):
    """(MB/s of the sender, MB/s until the collector has all, {process: CPU seconds}, {process: MiB}); None: it failed."""
    r = Run(b, tmp, way)
    try:
        before, began = r.cpu(), time.monotonic()
        done = subprocess.run([b.build / "bench/catchup", "raw" if way == "raw" else "send", spool, r.url],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return None
        sent, seconds, cpu, mib = (float(x) for x in done.stdout.split())
        while way != "raw" and stored_bytes(r.out) < size and time.monotonic() < began + 300:
            time.sleep(0.01)
        whole = time.monotonic() - began
        after = r.cpu()
        spent = {"sender": cpu, **{name: after[name] - before[name] for name in after}}
        memory = {"sender": mib, **{name: peak_mib(p.pid) for name, p in r.processes.items()}}
        return sent / seconds / 1e6, sent / whole / 1e6, spent, memory
    finally:
        r.end()


def floor(spool, to):
    """cp and fsync of the same bytes: MB/s."""
    began = time.monotonic()
    shutil.copytree(spool, to)
    for f in to.rglob("kernel_*"):
        fd = os.open(f, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    return stored_bytes(to) / (time.monotonic() - began) / 1e6


def run(b):
    if not (b.build / "bench/catchup").exists() or not b.have("nats-server"):
        b.note("without nats-server or libnats-dev catching up is not measured")
        return
    mib = 128 if b.quick else 1024
    ways = {"rutile collect, relay": "relay", "rutile collect, NATS": "nats", "libnats, raw messages to nats-server": "raw"}
    if b.have("lttng-relayd"):
        ways["lttng-relayd"] = "relayd"
    results, copies = {name: [] for name in ways}, []
    for _ in range(1 if b.quick else 3):
        for name, way in ways.items():
            with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
                tmp = pathlib.Path(directory)
                spool = tmp / "spool"
                subprocess.run([b.build / "bench/catchup", "make", spool, str(mib), str(PACKET_KIB)], check=True)
                size = stored_bytes(spool)
                subprocess.run(["sync"], check=True)
                if way == "raw":
                    copies.append(floor(spool, tmp / "copy"))
                    shutil.rmtree(tmp / "copy")
                got = measure(b, tmp, spool, way, size)
                if got:
                    results[name].append(got)
    rows = [["cp and fsync to the same disk", f"{statistics.median(copies):.0f}", "", ""]]
    for name, runs in results.items():
        if not runs:
            continue
        sent, whole = (statistics.median(r[k] for r in runs) for k in range(2))
        spent = ", ".join(f"{p} {statistics.median(r[2][p] for r in runs):.2f} s" for p in runs[0][2])
        memory = ", ".join(f"{p} {max(r[3][p] for r in runs):.0f} MiB" for p in runs[0][3])
        rows.append([name, f"{sent:.0f}" + ("" if "raw" in name or abs(whole - sent) < 5 else f"; stored {whole:.0f}"), spent, memory])
    b.table(f"Catching up: a spool of {mib} MiB in packets of {PACKET_KIB} KiB, on loopback",
            ["", "MB/s", "CPU time", "peak memory"], rows)
