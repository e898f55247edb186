# SPDX-License-Identifier: MIT
"""Kills with SIGKILL, at random moments, a recorder that sends by the relay protocol, or the collector. After each kill everything
that is stored must be readable: babeltrace2 reads every trace without a word, and finds the events that rutile finds.

The load numbers its calls. Of a recording that ended in order, over all its traces (a collector that comes back begins another
one), every number between the first and the last must be there, but for as many as are counted as discarded. Of one that
was killed, there is no gap either: what is missing is its end.

    relay_kills.py RUTILE KILLS SEED"""
import collections
import glob
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

RUTILE, KILLS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rnd = random.Random(SEED)
FIRST = rnd.randrange(1 << 28, 1 << 30)  # of the numbers of the calls; others on the machine use small ones
LOAD = f"""import ctypes, os, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
getpgid, i = ctypes.CDLL(None).getpgid, {FIRST}
while True:
  for i in range(i, i + 500): getpgid(i)
  i += 1
  time.sleep(0.005)"""


def wait(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def free_port():
    while True:
        port = rnd.randrange(10000, 32000)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def read(trace):
    """The numbers in a trace, and how many events it says were discarded. Both readers must be content with it."""
    bt = subprocess.run(["babeltrace2", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    said = [line for line in bt.stderr.splitlines() if "discarded" not in line]
    assert bt.returncode == 0 and not said, f"babeltrace2 {trace}: exit status {bt.returncode}: {said}"
    view = subprocess.run([RUTILE, "view", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert view.returncode == 0, f"rutile view {trace}: {view.stderr}"
    events = re.compile(r"^\[", re.M)
    assert len(events.findall(bt.stdout)) == len(events.findall(view.stdout)), f"{trace}: readers disagree"
    numbers = [int(n) for n in re.findall(r"syscall_entry_getpgid: .*\{ pid = (\d+) \}", bt.stdout)]
    lost = sum(int(n) for n in re.findall(r"discarded (\d+) event", bt.stderr))
    return [n for n in numbers if FIRST <= n < FIRST + (1 << 27)], lost


class Collector:
    def __init__(self):
        self.port, self.process = free_port(), None

    def start(self):
        with open("collect.log", "a") as log:
            self.process = subprocess.Popen([RUTILE, "collect", "--listen", f"127.0.0.1:{self.port}", "out"], stderr=log)
        wait("the collector", lambda: listens(self.port))


class Recorder:
    def __init__(self, number, port):
        self.name, self.killed = f"k{number}", False
        self.log = f"record{number}.log"
        os.makedirs(f"spool{number}", exist_ok=True)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [RUTILE, "record", "--to", f"relay://127.0.0.1:{port}/{self.name}", "--spool", "1G", "--buffer", "16M", "--subbuf",
                 rnd.choice(["16k", "64k"]), "-e", "syscall:getpgid,sched_switch"],
                stdout=log, stderr=log, env=dict(os.environ, RUTILE_SPOOL_DIR=os.path.abspath(f"spool{number}")))

    def traces(self):
        return sorted(os.path.dirname(m) for m in glob.glob(f"out/*/{self.name}-*/kernel/metadata"))

    def stored(self):
        return sum(os.path.getsize(f) for t in self.traces() for f in glob.glob(f"{t}/kernel_*"))

    def check(self):
        """All of its traces; returns the number of calls."""
        numbers, lost, again = [], 0, 0
        for trace in self.traces():
            found, discarded = read(trace)
            assert len(found) == len(set(found)), f"{trace} has a call twice"
            numbers += found
            lost += discarded
        again = len(numbers) - len(set(numbers))
        numbers = set(numbers)
        missing = max(numbers) - min(numbers) + 1 - len(numbers) if numbers else 0
        assert missing <= lost, f"{self.name}: {missing} calls are missing, {lost} events were counted as lost"
        return len(numbers), missing, again


def kill(process):
    process.kill()
    process.wait()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # timeout(1): `finally` must run
    collector, recorders, load = Collector(), [], None
    counts, total = collections.Counter(), collections.Counter()

    def end(r):
        calls, missing, again = r.check()
        total.update(recordings=1, traces=len(r.traces()), calls=calls, lost=missing, twice=again)
        return calls

    try:
        collector.start()
        load = subprocess.Popen([sys.executable, "-c", LOAD])
        while sum(counts.values()) < KILLS:
            r = Recorder(len(recorders), collector.port)
            recorders.append(r)
            wait("packets", lambda r=r: r.stored() > 100000)
            # Some kills of the collector while it receives, then of the recorder, or its end in order.
            for _ in range(rnd.randrange(4)):
                time.sleep(rnd.random() / 2)
                kill(collector.process)
                counts["collector"] += 1
                for trace in r.traces():
                    read(trace)
                collector.start()
            time.sleep(rnd.random() / 2)
            if rnd.randrange(4):
                kill(r.process)
                counts["recorder"] += 1
                end(r)
            else:
                r.process.send_signal(signal.SIGINT)
                assert r.process.wait(60) == 0, open(r.log).read()
                total["ended in order"] += 1
                assert end(r) > 0
        print(f"{dict(counts)}: {dict(total)}")
        assert total["calls"] > 0
    finally:
        for p in [load, collector.process] + [r.process for r in recorders]:
            if p and p.poll() is None:
                kill(p)


main()
