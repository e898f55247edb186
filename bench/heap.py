# SPDX-License-Identifier: MIT
"""`rutile heap` of large heaps: time, memory, and how long the process pauses."""

import os
import statistics
import subprocess
import time

WAYS = {"`heap`": ["heap"], "`heap --retained`": ["heap", "--retained"], "`heap --retained --by class`": ["heap", "--retained", "--by", "class"]}


def look(b, objects, argv):
    """Seconds, CPU seconds and MiB of rutile; milliseconds of the longest slice, and slices."""
    ruby = subprocess.Popen(["ruby", "--disable-gems", str(b.top / "bench/heap_objects.rb"), str(objects)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ruby.stdout.readline()
        begin = time.monotonic()
        rutile = subprocess.Popen([b.rutile, *argv, str(ruby.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = rutile.stderr.read()
        _, status, usage = os.wait4(rutile.pid, 0)
        rutile.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        if rutile.returncode:
            raise RuntimeError(said)
        longest, slices = ruby.communicate("\n")[0].split()
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, int(longest) / 1e6, int(slices)
    finally:
        ruby.kill()
        ruby.wait()


def run(b):
    rows = []
    for objects, runs in [(100_000, 1)] if b.quick else [(1_000_000, b.runs), (10_000_000, 2)]:
        got = {name: [] for name in WAYS}
        for _ in range(runs):
            for name, argv in WAYS.items():
                got[name].append(look(b, objects, argv))
        for name, found in got.items():
            seconds, cpu, mib, longest, slices = zip(*found)
            rows.append([f"{name}, {objects:,} objects", f"{statistics.median(seconds):.2f} s", f"{statistics.median(cpu):.2f} s",
                         f"{max(mib):.0f} MiB", f"{min(longest):.2f} ms", f"{max(longest):.2f} ms", f"{statistics.median(slices):.0f}"])
    b.table("A large heap (medians; the longest slice is CPU time of the thread that is paused, of the best run and of the worst)",
            ["", "wall time", "CPU time of rutile", "its peak memory", "longest slice", "worst", "slices above 0.5 ms"], rows)
