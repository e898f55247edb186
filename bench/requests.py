# SPDX-License-Identifier: MIT
"""Requests: what one costs an application, what a server keeps of its throughput, and what CPU time a request costs it, while its requests are recorded
or shown, alone and beside the kernel's events."""

import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

MODES = [
    ("`requests`, live", lambda pid, dir: ["requests", "--last", "--duration", "60", str(pid)]),
    ("`record --ruby :requests`", lambda pid, dir: ["record", "-o", dir, "--ruby", f"{pid}:requests"]),
    ("`record --ruby :requests,gvl,gc`", lambda pid, dir: ["record", "-o", dir, "--ruby", f"{pid}:requests,gvl,gc"]),
    ("`record --ruby :requests,gvl,gc -e sched_switch,sched_wakeup,syscall`",
     lambda pid, dir: ["record", "-o", dir, "-p", str(pid), "-e", "sched_switch,sched_wakeup,syscall",
                       "--ruby", f"{pid}:requests,gvl,gc"]),
]


def cpu_ns(master):
    """CPU time of the workers so far."""
    sum = 0
    for child in pathlib.Path(f"/proc/{master}/task/{master}/children").read_text().split():
        for task in pathlib.Path(f"/proc/{child}/task").iterdir():
            sum += int((task / "schedstat").read_text().split()[0])
    return sum


def load(b, shop, seconds):
    """Requests a second, and CPU microseconds of the workers for each."""
    before = cpu_ns(shop.puma.pid)
    out = subprocess.run(["wrk", "-t1", "-c4", f"-d{seconds}s", "-s", str(b.top / "examples/shop/load.lua"),
                          f"http://127.0.0.1:{shop.port}"], stdout=subprocess.PIPE, text=True, check=True).stdout
    n = int(re.search(r"(\d+) requests in", out).group(1))
    return float(re.search(r"Requests/sec:\s*([\d.]+)", out).group(1)), (cpu_ns(shop.puma.pid) - before) / 1000 / n


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
    if not b.have("wrk") or not b.have("puma"):
        b.note("no wrk or puma: what requests cost is not measured")
        return
    ruby = b.section("ruby")
    seconds = 2 if b.quick else 4
    with tempfile.TemporaryDirectory() as dir:
        shop = ruby.Shop(b, pathlib.Path(dir))
        try:
            load(b, shop, seconds)
            kept = {name: [] for name, _ in MODES}
            cpu = {name: [] for name, _ in MODES}
            plain = []
            for i in range(b.runs):
                for name, argv in MODES:
                    trace = f"{dir}/trace"
                    before = load(b, shop, seconds)
                    tracer = subprocess.Popen([b.rutile, *argv(shop.puma.pid, trace)], stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL)
                    time.sleep(2)
                    traced = load(b, shop, seconds)
                    tracer.terminate()
                    tracer.wait()
                    shutil.rmtree(trace, ignore_errors=True)
                    time.sleep(1)
                    after = load(b, shop, seconds)
                    kept[name].append(2 * traced[0] / (before[0] + after[0]))
                    cpu[name].append(traced[1] / ((before[1] + after[1]) / 2))
                    plain += [before, after]
            rows = [[name, f"{100 * statistics.median(kept[name]):.1f} %",
                     f"{100 * min(kept[name]):.1f}-{100 * max(kept[name]):.1f} %",
                     f"{100 * statistics.median(cpu[name]) - 100:+.1f} %",
                     f"{100 * min(cpu[name]) - 100:+.1f} to {100 * max(cpu[name]) - 100:+.1f} %"] for name, _ in MODES]
            b.table("Requests of the sample application under wrk "
                    f"({statistics.median(r for r, _ in plain):.0f} requests/s, "
                    f"{statistics.median(c for _, c in plain):.0f} us of CPU a request untraced)",
                    ["", "throughput kept", "range", "CPU time a request", "range"], rows)
        finally:
            shop.stop()
