# SPDX-License-Identifier: MIT
"""Recorders, collectors, the servers of a cluster and the link between them are killed at random moments. The packets that
were collected must be those that were produced, minus the losses that the trace itself counts:

- a recorder with a local directory (-o) that ended by SIGINT: all packets, byte for byte, and the trace is complete;
- one that was killed: a sequence from the first packet on without a gap, since what it had not sent died with it;
- a recorder with a spool that was killed, or could not send all: what it had removed from the spool was collected, and
  what it had not removed is still there, so both together are everything that it wrote;
- the load numbers its calls: of each recording that ended, every number is there once, but for as many as the packets count as
  discarded.

KINDS=recorder,collector,link in the environment leaves out the servers, of which each kill takes seconds.

With FEED (tests/feed.c) the recorders are the sender alone, with made packets: they start at once and take neither the kernel
nor the machine, so a thousand kills take minutes.

    nats_kills.py RUTILE KILLS SEED [FEED]"""
import collections
import glob
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

HEAD = struct.Struct("<I16sIQQQQQQQII")
RUTILE, KILLS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FEED = sys.argv[4] if len(sys.argv) > 4 else None
KINDS = os.environ.get("KINDS", "recorder,collector,link,server").split(",")
rnd = random.Random(SEED)
NET = f"10.{64 + os.getpid() // 256 % 64}.{os.getpid() % 256}"
NS = f"rut{os.getpid()}"
FIRST = rnd.randrange(1 << 28, 1 << 30)  # of the numbers of the calls; others on the machine use small ones
LOAD = f"""import ctypes, time
getpgid, i = ctypes.CDLL(None).getpgid, {FIRST}
while True:
  for i in range(i, i + 300): getpgid(i)
  i += 1
  time.sleep(0.02)"""
spent = collections.Counter()  # seconds, by what was waited for


def until(what, condition, seconds):
    """Waits; False: in vain."""
    begin = time.monotonic()
    while not (met := condition()) and time.monotonic() < begin + seconds:
        time.sleep(0.1)
    spent[what] += time.monotonic() - begin
    return met


def wait(what, condition):
    assert until(what, condition, 120), f"waited in vain for {what}"


def free_port():
    while True:
        port = rnd.randrange(10000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port


def run(*words):
    subprocess.run(words, check=True)


class Server:
    def __init__(self, number):
        self.number, self.process = number, None
        self.port, self.route, self.http = free_port(), free_port(), free_port()

    def start(self, servers):
        routes = ",".join(f'"nats://127.0.0.1:{s.route}"' for s in servers)
        with open(f"server{self.number}.conf", "w") as f:
            f.write(f'server_name: s{self.number}\nlisten: "0.0.0.0:{self.port}"\nhttp: "127.0.0.1:{self.http}"\n'
                    f'jetstream {{ store_dir: "{os.getcwd()}/js{self.number}" }}\n'
                    f'cluster {{ name: c, listen: "127.0.0.1:{self.route}", routes: [{routes}] }}\n')
        with open(f"server{self.number}.log", "a") as log:
            self.process = subprocess.Popen(["nats-server", "-c", f"server{self.number}.conf"], stdout=log, stderr=log)

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/healthz", timeout=2) as r:
                return r.status == 200
        except OSError:
            return False


class Collector:
    def __init__(self, number, url):
        self.number, self.url, self.process = number, url, None

    def start(self):
        with open(f"collect{self.number}.log", "a") as log:
            self.process = subprocess.Popen([RUTILE, "collect", self.url, "got", "--ack-time", "2s", "--replicas", "3"], stderr=log)


class Recorder:
    """On a machine of its own name, which is that of its directory at the collector."""

    def __init__(self, number, url):
        self.number, self.url, self.name = number, url, f"r{number}"
        self.spools = number % 2 == 1
        self.where = os.path.abspath(f"spool{number}" if self.spools else f"local{number}")
        self.killed = self.left = False
        self.packets = self.lost = 0
        if self.spools:
            os.makedirs(self.where, exist_ok=True)
        self.log = f"record{number}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", NS, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.name,
                 *self.command()],
                stdout=log, stderr=log, env=dict(os.environ, RUTILE_SPOOL_DIR=self.where))

    def command(self):
        if FEED:
            return [FEED, self.url, self.where, "spool" if self.spools else "keep", "1000000000", "10000", str(FIRST)]
        return [RUTILE, "record", "--to", self.url, *(["--spool", "1G"] if self.spools else ["-o", self.where]),
                "--buffer", "8M", "--subbuf", "64k", "-e", "syscall:getpgid,sched_switch"]

    def trace(self):
        """What is on its own disk, or None."""
        found = glob.glob(f"{self.where}/*/kernel/metadata") if self.spools else glob.glob(f"{self.where}/kernel/metadata")
        assert len(found) <= 1, found
        return os.path.dirname(os.path.dirname(found[0])) if found else None

    def session(self):
        found = glob.glob(f"got/{self.name}/*/kernel")
        assert len(found) <= 1, found
        return os.path.dirname(found[0]) if found else None

    def writes(self):
        trace = self.trace()
        return trace and any(os.path.getsize(p) for p in glob.glob(f"{trace}/kernel/kernel_*"))

    def ended(self):
        """After SIGINT: all was sent, or the rest of it is on its disk and it has said so."""
        code = self.process.wait(120)
        if not code:
            return
        text = open(self.log).read()
        assert code == 1 and "could not be sent" in text, f"{self.name}: exit status {code}: {text}"
        self.left = True


def packets(path):
    """{offset: (head, content)}, the end of the packet left out: it is set when a trace ends. And whether the file ends there."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 0, {}
    while at + HEAD.size <= len(data):
        head = HEAD.unpack_from(data, at)
        content, whole = head[6] // 8, head[7] // 8
        if head[0] != 0xC1FC1FC1 or at + whole > len(data):
            break
        found[at] = (head, data[at:at + 40] + data[at + 48:at + content])
        at += whole
    return found, at == len(data)


def on_disk(r, path):
    """What packets() finds in a file of the recorder, and the bytes of what was confirmed and removed before."""
    found, _ = packets(path)
    if r.spools and found:
        # The first packet of a spooled file stands for all that was confirmed and removed.
        first = found[0][0]
        if first[6] == HEAD.size * 8 and first[7] // 8 >= 1 << 20:
            del found[0]
            return found, first[7] // 8
    return found, 0


def compare_stream(r, name, trace, session):
    """What is wrong with one stream; None: nothing."""
    there = f"{session}/kernel/{name}"
    got, whole = packets(there) if os.path.exists(there) else ({}, True)
    if not whole or glob.glob(f"{session}/kernel/.*.gaps"):
        return f"{there} is not complete"
    sizes = [head[7] // 8 for head, _ in got.values()]
    end = sum(sizes)
    r.packets += len(got)
    heads = [head for head, _ in got.values()]
    r.lost += heads[-1][9] if heads else 0
    if [h[8] for h in heads] != list(range(len(heads))):
        return f"{there}: the packets' numbers are {[h[8] for h in heads]}"
    if not trace:
        return None
    want, removed = on_disk(r, f"{trace}/kernel/{name}")
    if end < removed:
        return f"{there}: {end} bytes were collected of {removed} that were confirmed"
    if not (r.killed or r.left) and list(got) != list(want):
        return f"{there}: {len(got)} packets of {len(want)}"
    if any(at >= removed and (at not in want or want[at][1] != packet) for at, (_, packet) in got.items()):
        return f"{there} has other packets"
    return None


def compare(r):
    """What is wrong with one recording; None: nothing."""
    session, trace = r.session(), r.trace()
    complete = not (r.killed or r.left)
    if not session:
        gone = [p for p in glob.glob(f"{trace}/kernel/kernel_*") if on_disk(r, p)[1]] if trace else []
        return "it was not collected" if complete or gone else None
    r.packets = r.lost = 0
    names = {os.path.basename(p) for d in (session, trace) if d for p in glob.glob(f"{d}/kernel/kernel_*")}
    for name in sorted(names):
        why = compare_stream(r, name, trace, session)
        if why:
            return why
    if complete and not os.path.exists(f"{session}/.complete"):
        return "it is not marked as complete"
    return None


def count_numbers(r):
    """Every call between the first and the last that was recorded is there once, but for the discarded events."""
    if FEED:
        words = b"".join(packet[HEAD.size - 8:] for p in glob.glob(f"{r.session()}/kernel/kernel_*") for _, packet in packets(p)[0].values())
        return check_numbers(r, [n for n, in struct.iter_unpack("<Q", words)])
    text = subprocess.run(["babeltrace2", r.session()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True).stdout
    numbers = [int(n) for n in re.findall(r"syscall_entry_getpgid: .*\{ pid = (\d+) \}", text)]
    return check_numbers(r, [n for n in numbers if FIRST <= n < FIRST + (1 << 27)])


def check_numbers(r, numbers):
    assert numbers and len(numbers) == len(set(numbers)), f"{r.name}: {len(numbers)} calls, {len(set(numbers))} of them different"
    missing = max(numbers) - min(numbers) + 1 - len(numbers)
    assert missing <= r.lost, f"{r.name}: {missing} calls are missing, {r.lost} events were counted as lost"
    return len(numbers), missing


def settle(r):
    """Until what was collected is right: what a collector did not acknowledge comes again."""
    end = time.monotonic() + 120
    while (why := compare(r)) is not None:
        assert time.monotonic() < end, f"{r.name}: {why}"
        time.sleep(0.2)


def kill(process):
    process.kill()
    process.wait()


class Cluster:
    def __init__(self):
        self.servers, self.collectors, self.recorders = [Server(i) for i in range(3)], [], []
        self.load = None
        self.link_up = 0  # when it comes back; 0: it is there
        self.counts = collections.Counter()
        self.restarts = 0
        self.far = "nats://" + ",".join(f"{NET}.1:{s.port}" for s in self.servers) + "/T"

    def begin(self):
        for s in self.servers:
            s.start(self.servers)
        for s in self.servers:
            wait("servers", s.healthy)
        run("ip", "netns", "add", NS)
        run("ip", "link", "add", f"{NS}a", "type", "veth", "peer", "name", f"{NS}b", "netns", NS)
        run("ip", "addr", "add", f"{NET}.1/24", "dev", f"{NS}a")
        run("ip", "link", "set", f"{NS}a", "up")
        run("ip", "netns", "exec", NS, "ip", "addr", "add", f"{NET}.2/24", "dev", f"{NS}b")
        run("ip", "netns", "exec", NS, "ip", "link", "set", f"{NS}b", "up")
        if not FEED:
            self.load = subprocess.Popen([sys.executable, "-c", LOAD])
        near = "nats://" + ",".join(f"127.0.0.1:{s.port}" for s in self.servers) + "/T"
        self.collectors += [Collector(i, near) for i in range(2)]
        for c in self.collectors:
            c.start()
        wait("a collector", lambda: any("receiving" in open(f"collect{i}.log").read() for i in range(2)))
        self.recorders.append(Recorder(0, self.far))

    def kill_recorder(self):
        """Every third one ends in order instead, while the others are killed; that is not counted."""
        r = self.recorders[-1]
        if r.number % 3 == 2:
            r.process.send_signal(signal.SIGINT)
        else:
            self.counts["recorder"] += 1
            kill(r.process)
            r.killed = True
        self.recorders.append(Recorder(len(self.recorders), self.far))

    def kill_collector(self):
        self.counts["collector"] += 1
        c = rnd.choice(self.collectors)
        kill(c.process)
        c.start()

    def heal_servers(self):
        """
        One at a time is away, as three copies allow. After many changes of leaders a server of nats-server 2.9 may never be
        current again ("Request from follower ... no message found"): then all of them are started anew, with what they store,
        and, if that is not enough, the one without it.
        """
        for attempt in range(6):
            ill = [s for s in self.servers if not until("servers", s.healthy, 20)]
            if not ill:
                return
            self.restarts += 1
            for s in self.servers:
                kill(s.process)
            if attempt and len(ill) == 1:
                shutil.rmtree(f"js{ill[0].number}", ignore_errors=True)
            for s in self.servers:
                s.start(self.servers)
        raise AssertionError("the servers do not become healthy")

    def kill_server(self):
        self.counts["server"] += 1
        s = rnd.choice(self.servers)
        kill(s.process)
        s.start(self.servers)
        self.heal_servers()

    def kill_link(self):
        self.counts["link"] += 1
        run("ip", "link", "set", f"{NS}a", "down")
        self.link_up = time.monotonic() + rnd.random()

    def kill_one(self):
        if self.link_up and time.monotonic() > self.link_up:
            run("ip", "link", "set", f"{NS}a", "up")
            self.link_up = 0
        what = rnd.choice([k for k in ["recorder"] * 3 + ["collector", "collector", "server", "link", "link"] if k in KINDS])
        if what == "recorder" and not self.link_up and self.recorders[-1].writes():
            self.kill_recorder()
        elif what == "collector":
            self.kill_collector()
        elif what == "server":
            self.kill_server()
        elif what == "link" and not self.link_up:
            self.kill_link()
        last = self.recorders[-1]
        if last.process.poll() is not None:
            # One that found no server at its start has ended: again.
            assert not last.trace(), f"{last.name} has ended: {open(last.log).read()}"
            self.recorders[-1] = Recorder(last.number, self.far)
        for c in self.collectors:
            if c.process.poll() is not None:
                c.start()

    def finish(self):
        run("ip", "link", "set", f"{NS}a", "up")
        last = self.recorders[-1]
        wait("the last recorder", lambda: last.writes() or last.process.poll() is not None)
        if last.process.poll() is None:
            last.process.send_signal(signal.SIGINT)
        for r in self.recorders:
            if not r.killed and (r is not last or r.trace()):
                r.ended()

    def check(self):
        total = collections.Counter()
        for r in self.recorders:
            if r is self.recorders[-1] and not (r.session() or r.trace()):
                continue  # it never began
            settle(r)
            kind = "killed" if r.killed else "that could not send all" if r.left else "complete"
            total[f"recordings {kind}"] += 1
            total["packets"] += r.packets
            if kind == "complete":
                found, missing = count_numbers(r)
                total["numbered calls"] += found
                total["of them counted as lost"] += missing
        print(f"{dict(self.counts)}: {dict(total)}; {self.restarts} times all servers were restarted; waited s: { {k: round(v) for k, v in spent.items()} }")
        assert total["packets"] > 0 and total["numbered calls"] > 0

    def end(self):
        for p in [self.load] + [x.process for x in self.collectors + self.servers + self.recorders]:
            if p and p.poll() is None:
                kill(p)
        subprocess.run(["ip", "netns", "del", NS], check=False)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # timeout(1): `finally` must run
    c = Cluster()
    try:
        c.begin()
        while sum(c.counts.values()) < KILLS:
            time.sleep(rnd.random() / 3)
            c.kill_one()
        c.finish()
        c.check()
    finally:
        c.end()


main()
