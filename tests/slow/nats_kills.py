# SPDX-License-Identifier: MIT
"""Recorders, collectors, the servers of a cluster and the link between them are killed at random moments. What
was collected must be what local directories hold: all of it where a recorder ended in order, and a row of packets from
the begin on where it was killed, since it took with it what it had not sent. Nothing is doubled: a packet has one place.

    nats_kills.py RUTILE KILLS SEED"""
import glob
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

HEAD = struct.Struct("<I16sIQQQQQQQII")
RUTILE, KILLS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rnd = random.Random(SEED)
NET = f"10.{rnd.randrange(64, 128)}.{rnd.randrange(256)}"
NS = f"rut{os.getpid()}"


def wait(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


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
    def __init__(self, number, url):
        self.local, self.killed = f"local{number}", False
        with open(f"record{number}.log", "w") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", NS, RUTILE, "record", "--to", url, "-o", self.local, "--buffer", "8M", "--subbuf", "64k",
                 "-e", "syscall:getpgid,sched_switch"], stdout=log, stderr=log)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(120)
        assert code == 0, f"{self.local}: exit status {code}"


def packets(path):
    """Offsets and contents, the end of the packet left out: it is set when a trace ends."""
    with open(path, "rb") as f:
        data = f.read()
    at, all_packets = 0, {}
    while at + HEAD.size <= len(data):
        head = HEAD.unpack_from(data, at)
        content, whole = head[6] // 8, head[7] // 8
        if head[0] != 0xC1FC1FC1 or at + whole > len(data):
            break
        all_packets[at] = data[at:at + 40] + data[at + 48:at + content]
        at += whole
    return all_packets, at == len(data)


def session_of(recorder):
    """The collected directory with the packets of that local one: metadata has the trace's uuid."""
    with open(f"{recorder.local}/kernel/metadata", "rb") as f:
        uuid = [line for line in f.read().split(b"\n") if b"uuid" in line][0]
    for path in glob.glob("got/*/*/kernel/metadata"):
        with open(path, "rb") as f:
            if uuid in f.read():
                return os.path.dirname(os.path.dirname(path))
    return None


def compare(recorder):
    session = session_of(recorder)
    if not session:
        return None if recorder.killed else "it was not collected"
    total = 0
    for path in glob.glob(f"{recorder.local}/kernel/kernel_*"):
        want, _ = packets(path)
        there = f"{session}/kernel/{os.path.basename(path)}"
        got, whole = packets(there) if os.path.exists(there) else ({}, True)
        if not whole or glob.glob(f"{session}/kernel/.*.gaps"):
            return f"{there} is not complete"
        if not recorder.killed and got != want:
            return f"{there}: {len(got)} packets of {len(want)}"
        if any(want.get(at) != packet for at, packet in got.items()) or list(got) != list(want)[:len(got)]:
            return f"{there} has other packets"
        total += len(got)
    if not recorder.killed and not os.path.exists(f"{session}/.complete"):
        return "it is not marked as complete"
    recorder.packets = total
    return None


def settle(recorder):
    """Until what was collected is right: what a collector did not acknowledge comes again."""
    end = time.monotonic() + 120
    while (why := compare(recorder)) is not None:
        assert time.monotonic() < end, f"{recorder.local}: {why}"
        time.sleep(0.2)


def kill(process):
    process.kill()
    process.wait()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # timeout(1): `finally` must run
    servers, recorders, started = [Server(i) for i in range(3)], [], []
    collectors = []
    try:
        for s in servers:
            s.start(servers)
        for s in servers:
            wait("a healthy server", s.healthy)
        run("ip", "netns", "add", NS)
        run("ip", "link", "add", f"{NS}a", "type", "veth", "peer", "name", f"{NS}b", "netns", NS)
        run("ip", "addr", "add", f"{NET}.1/24", "dev", f"{NS}a")
        run("ip", "link", "set", f"{NS}a", "up")
        run("ip", "netns", "exec", NS, "ip", "addr", "add", f"{NET}.2/24", "dev", f"{NS}b")
        run("ip", "netns", "exec", NS, "ip", "link", "set", f"{NS}b", "up")
        started.append(subprocess.Popen([sys.executable, "-c", "import os, time\nwhile True:\n  for i in range(300): os.getpgid(0)\n  time.sleep(0.02)"]))
        near = "nats://" + ",".join(f"127.0.0.1:{s.port}" for s in servers) + "/T"
        far = "nats://" + ",".join(f"{NET}.1:{s.port}" for s in servers) + "/T"
        collectors += [Collector(i, near) for i in range(2)]
        for c in collectors:
            c.start()
        wait("a collector", lambda: any("receiving" in open(f"collect{i}.log").read() for i in range(2)))
        recorders.append(Recorder(0, far))
        counts, link_up = {"recorder": 0, "collector": 0, "server": 0, "link": 0}, 0
        while sum(counts.values()) < KILLS:
            time.sleep(rnd.random())
            if link_up and time.monotonic() > link_up:
                run("ip", "link", "set", f"{NS}a", "up")
                link_up = 0
            what = rnd.choice(["recorder", "collector", "collector", "server", "link"])
            if what == "recorder" and (link_up or not glob.glob(f"{recorders[-1].local}/kernel/kernel_0")):
                continue
            counts[what] += 1
            if what == "recorder":
                kill(recorders[-1].process)
                recorders[-1].killed = True
                recorders.append(Recorder(len(recorders), far))
            elif what == "collector":
                c = rnd.choice(collectors)
                kill(c.process)
                c.start()
            elif what == "server":
                s = rnd.choice(servers)
                kill(s.process)
                s.start(servers)
                for other in servers:
                    wait("a healthy server", other.healthy)
            elif not link_up:
                run("ip", "link", "set", f"{NS}a", "down")
                link_up = time.monotonic() + rnd.random()
            # One that found no server at its start has ended: again.
            last = recorders[-1]
            if last.process.poll() is not None:
                assert not os.path.exists(last.local), f"{last.local}: the recorder has ended"
                recorders[-1] = Recorder(len(recorders) - 1, far)
            for c in collectors:
                if c.process.poll() is not None:
                    c.start()
        run("ip", "link", "set", f"{NS}a", "up")
        if recorders[-1].process.poll() is None:
            recorders[-1].stop()
        for r in recorders:
            if os.path.exists(f"{r.local}/kernel/metadata"):
                settle(r)
        total = sum(getattr(r, "packets", 0) for r in recorders)
        print(f"{counts}: {len(recorders)} recordings, {total} packets")
        assert total > 0
    finally:
        for p in started + [x.process for x in collectors + servers + recorders[-1:]]:
            if p and p.poll() is None:
                kill(p)
        subprocess.run(["ip", "netns", "del", NS], check=False)


main()
