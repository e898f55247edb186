# SPDX-License-Identifier: MIT
"""Requests: what one costs an application, and what a real Puma pays in CPU time and throughput while its requests are shown live or recorded,
alone and beside the kernel's events; the profilers that are gems beside it.

A machine's other work changes what a request takes by more than a recording does. So short bursts of a fixed number of requests are measured with and
without it in turns, each compared with the bursts before and after it; "nothing" is a program that sleeps, and shows the noise that is left."""

import os
import pathlib
import re
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from shared import all_programs, programs_timed

ALL = "sched,irq,block,net,signal,syscall"
PATHS = ["/", "/products/7", "/cart?ids=1,2,3", "/", "/cart?ids=4&coupon=SPRNG", "/report.csv", "/products/42", "/cart?ids=5,6&coupon=FRIEND"]
BURST = 400
LIMIT_S = 300 # for a table
# What runs beside the server, as arguments of rutile; None is a program that sleeps, and shows the noise.
MODES = {
    "nothing": None,
    "`requests`, live": lambda pid, dir: ["requests", "--last", "--duration", "60", pid],
    "`record --ruby :requests`": lambda pid, dir: ["record", "-o", dir, "--ruby", f"{pid}:requests"],
    "`record -p -e sched,syscall --ruby :requests,gvl`":
        lambda pid, dir: ["record", "-o", dir, "-p", pid, "-e", "sched,syscall", "--ruby", f"{pid}:requests,gvl"],
    f"`record -e {ALL} --ruby :requests,gvl,gc`, the whole machine":
        lambda pid, dir: ["record", "-o", dir, "-e", ALL, "--ruby", f"{pid}:requests,gvl,gc"],
}
# Profilers that are part of the application: the name of the library, its row. Debian's rblineprof is not among them: it corrupts the heap of Ruby 3.1, and
# the workers crash.
GEMS = {"": "", "stackprof": "stackprof, wall, 1 ms", "ruby-prof": "ruby-prof, the thread of each request"}


def schedstat_ns(pid):
    """CPU time of a process's threads so far."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total


class Client:
    """Connections that each send the next request when they have the answer to the last. Puma closes some that wait for a thread."""

    def __init__(self, port, paths, connections=4):
        self.port = port
        self.requests = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in paths]
        self.sent = 0
        self.selector = selectors.DefaultSelector()
        self.buffers = {}
        self.asked = {}
        for _ in range(connections):
            self.connect()

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffers[s] = b""
        self.selector.register(s, selectors.EVENT_READ)
        return s

    def disconnect(self, s):
        self.selector.unregister(s)
        s.close()
        del self.buffers[s]
        return self.asked.pop(s, None)

    def send(self, s, request=None):
        """The next request, or one that was not answered."""
        if request is None:
            request = self.requests[self.sent % len(self.requests)]
            self.sent += 1
        self.asked[s] = request
        s.sendall(request)

    def receive(self, s):
        """The connection if the answer is complete, else None."""
        try:
            got = s.recv(65536)
        except ConnectionResetError:
            got = b""
        if not got:
            request = self.disconnect(s)
            self.send(self.connect(), request)
            return None
        data = self.buffers[s] + got
        head, found, body = data.partition(b"\r\n\r\n")
        self.buffers[s] = data
        if not found:
            return None
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if len(body) < int(length.group(1)):
            return None
        self.buffers[s] = b""
        if re.search(rb"connection: *close", head, re.IGNORECASE):
            self.disconnect(s)
            return self.connect()
        return s

    def run(self, count):
        left, open_requests = count, 0
        for s in list(self.buffers):
            self.send(s)
            left, open_requests = left - 1, open_requests + 1
        while open_requests:
            for key, _ in self.selector.select():
                s = self.receive(key.fileobj)
                if not s:
                    continue
                open_requests -= 1
                if left > 0:
                    self.send(s)
                    left, open_requests = left - 1, open_requests + 1

    def close(self):
        for s in list(self.buffers):
            self.disconnect(s)
        self.selector.close()


class Server:
    """A Puma on a free port: the sample application, or one that only answers. `root` is the root of another Debian."""

    def __init__(self, b, dir, config, threads=2, root=None, env=None):
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.paths = PATHS if config == "config.ru" or env else ["/"]
        self.burst = BURST if len(self.paths) > 1 else 5 * BURST
        self.client = None
        self.root = root
        inside = dir
        if root:
            inside = pathlib.Path("/tmp/rutile-bench-shop")
            dir = pathlib.Path(f"{root}{inside}")
            shutil.rmtree(dir, ignore_errors=True)
            dir.mkdir()
        self.dir = dir
        if not (dir / "shop").exists():
            shutil.copytree(b.top / "examples/shop", dir / "shop")
            shutil.copy(b.top / "bench/requests_server.ru", dir / "shop")
        argv = ["puma", "-t", f"{threads}:{threads}", "-C", f"{inside}/shop/puma.rb", f"{inside}/shop/{config}"]
        if root:
            argv = ["unshare", "--mount", "sh", "-euc", 'mount --rbind /proc "$0/proc"; exec chroot "$0" "$@"', str(root), *argv]
        env = dict(os.environ, PORT=str(self.port), SHOP_DB=f"{inside}/shop-{self.port}.db", **(env or {}))
        self.puma = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            time.sleep(0.2)
            if self.puma.poll() is not None:
                break
            try:
                self.client = Client(self.port, self.paths, 2 * threads)
                self.client.run(2 * self.burst)
                return
            except OSError:
                pass
        self.stop()
        raise RuntimeError(f"Puma does not answer: {' '.join(argv)}")

    def workers_ns(self):
        children = pathlib.Path(f"/proc/{self.puma.pid}/task/{self.puma.pid}/children").read_text().split()
        return sum(schedstat_ns(child) for child in children)

    def run(self, count=None):
        """A burst: requests a second, and microseconds of CPU time of the workers for each."""
        count = count or self.burst
        before, begin = self.workers_ns(), time.monotonic()
        self.client.run(count)
        seconds = time.monotonic() - begin
        return count / seconds, (self.workers_ns() - before) / 1000 / count

    def stop(self):
        if self.client:
            self.client.close()
        self.puma.terminate()
        self.puma.wait()
        if self.root:
            shutil.rmtree(self.dir, ignore_errors=True)


def programs():
    """Runs and nanoseconds of all eBPF programs."""
    rows = all_programs()
    return sum(r.get("run_cnt", 0) for r in rows), sum(r.get("run_time_ns", 0) for r in rows)


def kernels_share(server):
    """Runs of eBPF programs for a request, and their microseconds; they take longer while the kernel times them."""
    try:
        with programs_timed():
            runs, ns = programs()
            server.run()
            after = programs()
        return (after[0] - runs) / server.burst, (after[1] - ns) / 1000 / server.burst
    except (OSError, subprocess.CalledProcessError):
        return None


class Slot:
    """What was measured beside one mode."""

    def __init__(self):
        self.us, self.rate, self.kept, self.more, self.own, self.programs = [], [], [], [], [], []

    def add(self, bursts):
        self.rate += [s[0] for s in bursts]
        self.us += [s[1] for s in bursts]

    def compare(self, bursts, near):
        self.add(bursts)
        self.kept.append(median([s[0] for s in bursts]) / median([s[0] for s in near]))
        self.more.append(median([s[1] for s in bursts]) / median([s[1] for s in near]))


def bursts(server):
    server.run(50)
    return [server.run() for _ in range(2)]


def traced(b, server, mode, dir, count_programs=False):
    """Bursts beside a mode, CPU microseconds of the tracer for each request, and the kernel's share."""
    argv = [b.rutile, *mode(str(server.puma.pid), dir)] if mode else ["sleep", "60"]
    tracer = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    share = None
    try:
        time.sleep(0.8)
        server.run(50)
        before = schedstat_ns(tracer.pid)
        got = [server.run() for _ in range(2)]
        own = (schedstat_ns(tracer.pid) - before) / 1000 / (2 * server.burst)
        if mode and count_programs:
            share = kernels_share(server)
        if tracer.poll() is not None:
            raise RuntimeError(tracer.stderr.read())
    finally:
        tracer.send_signal(signal.SIGINT)
        said = tracer.communicate()[1]
    lost = [line for line in said.splitlines() if re.search(r"[1-9]\d* events? lost", line)]
    if lost:
        b.note(f"{argv[1]}: {lost[0]}")
    shutil.rmtree(dir, ignore_errors=True)
    time.sleep(0.4)
    return got, own, share


def median(values):
    return statistics.median(values) if values else float("nan")


def change(values):
    """The median of ratios, and their quartiles, in percent."""
    if len(values) < 4:
        return f"{100 * median(values) - 100:+.1f} %"
    q = statistics.quantiles(values, n=4)
    return f"{100 * median(values) - 100:+.1f} % ({100 * q[0] - 100:+.1f} to {100 * q[2] - 100:+.1f})"


def modes_of(b, server, names, dir, rounds):
    """Each mode between two untraced slots, in turns."""
    slots = {name: Slot() for name in names}
    plain = Slot()
    before = bursts(server)
    plain.add(before)
    end = time.monotonic() + LIMIT_S
    for i in range(rounds):
        if time.monotonic() > end:
            b.note(f"{i} rounds instead of {rounds}: the machine is slow")
            break
        for name in names:
            got, own, share = traced(b, server, MODES[name], f"{dir}/trace", i < 3)
            after = bursts(server)
            plain.add(after)
            slots[name].compare(got, before + after)
            slots[name].own.append(own)
            if share:
                slots[name].programs.append(share)
            before = after
    return plain, slots


def server_table(b, title, server, names, dir):
    plain, slots = modes_of(b, server, names, dir, 2 if b.quick else 5 * b.runs)
    rows = []
    for name, slot in slots.items():
        share = [median([s[i] for s in slot.programs]) for i in (0, 1)]
        rows.append([name, change(slot.more), f"{100 * min(slot.us) / min(plain.us) - 100:+.1f} %", change(slot.kept),
                     f"{median(slot.own):.1f}", f"{share[1]:.1f} ({share[0]:.0f})" if slot.programs else ""])
    b.table(f"{title}: {median(plain.rate):.0f} requests/s, {min(plain.us):.0f} us of CPU a request at least, {median(plain.us):.0f} in the median",
            ["", "CPU time a request, median (quartiles)", "least", "throughput", "us of rutile a request",
             "us of eBPF programs a request, while timed (runs)"], rows)


def gems(b, dir):
    """Servers of one thread a worker, each with a profiler in it, in turns; rutile attached to one without."""
    servers, slots = {}, {}
    live, full = MODES["`requests`, live"], list(MODES.values())[3]
    attached = {"`rutile requests`, live": live, "`rutile record -p -e sched,syscall --ruby :requests,gvl`": full}
    try:
        for name in GEMS:
            if name and subprocess.run(["ruby", "-r", name, "-e", ""], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                b.note(f"no {name}: left out")
                continue
            servers[name] = Server(b, dir, "requests_server.ru", threads=1, env={"BENCH_PROFILER": name})
        plain = bursts(servers[""])
        end = time.monotonic() + LIMIT_S
        for i in range(2 if b.quick else 3 * b.runs):
            if time.monotonic() > end:
                b.note(f"{i} rounds instead of {3 * b.runs}: the machine is slow")
                break
            for title, mode in attached.items():
                got = traced(b, servers[""], mode, f"{dir}/trace")[0]
                after = bursts(servers[""])
                slots.setdefault(title, Slot()).compare(got, plain + after)
                plain = after
            for name, server in servers.items():
                if name:
                    got = bursts(server)
                    after = bursts(servers[""])
                    slots.setdefault(GEMS[name], Slot()).compare(got, plain + after)
                    plain = after
    finally:
        for server in servers.values():
            server.stop()
    b.table("Profilers in the application: the sample application with one thread a worker",
            ["", "CPU time a request", "throughput", "us a request, median"],
            [[title, change(slot.more), change(slot.kept), f"{median(slot.us):.0f}"] for title, slot in slots.items()])


def cost(b):
    """Microseconds of CPU time that a request, a span, and a request with six queries cost the application, by bench/requests_cost.rb."""
    script = ["ruby", "--disable-gems", str(b.top / "bench/requests_cost.rb")]
    modes = [("untraced", script), ("requests", [b.rutile, "requests", "--last", "-o", "/dev/null", "--", *script]),
             ("requests, SQL with values", [b.rutile, "requests", "--sql-values", "--last", "-o", "/dev/null", "--", *script])]
    best = {}
    for _ in range(min(b.runs, 3)):
        for name, argv in modes:
            out = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False).stderr
            found = re.search(r"cost request ([\d.]+) span ([\d.]+) page ([\d.]+)", out)
            if found:
                us = [float(x) for x in found.groups()]
                best[name] = [min(a, b) for a, b in zip(best.get(name, us), us)]
    rows = [[name, *(f"{us:.2f}" for us in best[name]), *(f"{us - base:+.2f}" for us, base in zip(best[name], best["untraced"]))]
            for name, _ in modes if name in best]
    b.table("What a request, a span, and a request with six queries of 20 rows cost the application (us of CPU time, best of several)",
            ["", "request", "span", "six queries", "more a request", "more a span", "more with six queries"], rows)


def run(b):
    cost(b)
    if not b.have("puma"):
        b.note("no puma: what requests cost a server is not measured")
        return
    debian13 = pathlib.Path(os.environ.get("RUTILE_MATRIX", "/nonexistent"), "trixie")
    for name, config, root in [("The sample application", "config.ru", None),
                               ("An application that only answers", "requests_server.ru", None),
                               ("The sample application, Ruby 3.3 of Debian 13", "config.ru", debian13)]:
        if root and (os.geteuid() != 0 or not (root / "usr/bin/puma").exists()):
            b.note(f"{name}: left out, no Debian 13 below $RUTILE_MATRIX (script/matrix --make trixie)")
            continue
        with tempfile.TemporaryDirectory() as dir:
            server = Server(b, pathlib.Path(dir), config, root=root)
            try:
                server_table(b, name, server, MODES, dir)
            finally:
                server.stop()
    with tempfile.TemporaryDirectory() as dir:
        gems(b, pathlib.Path(dir))
