# SPDX-License-Identifier: MIT
"""Ruby, live: what a hook costs beside eBPF on Ruby's own probes, what a server keeps of its throughput, how soon
the first table comes, and what an idle server pays."""

import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

# Mode of the tracer, the loop that it slows, the events that one turn of the loop makes.
HOOKS = [("calls", [], "call"), ("time", [], "call"), ("trace", [], "call"), ("objects", [], "new"),
         ("objects-total", [], "new"), ("strings", [], "string"), ("calls", ["-c"], "c_call"), ("time", ["-c"], "c_call")]


def pairs(text):
    """The line of ruby_hooks.rb ("loop 17.1 call 35.0 ...") in what was printed; empty without it."""
    for line in text.splitlines():
        if line.startswith("loop "):
            words = line.split()
            return {name: float(ns) for name, ns in zip(words[::2], words[1::2])}
    return {}


def loops(b, prefix):
    """ns an iteration of each loop of ruby_hooks.rb, run by `prefix`."""
    argv = [*prefix, "ruby", "--disable-gems", b.top / "bench/ruby_hooks.rb"]
    out = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return pairs(out.stdout)


def object_create(b):
    """ns of Object.new while bpftrace counts object__create; None where that cannot be."""
    libruby = sorted(pathlib.Path("/usr/lib").glob("*/libruby-*.so.?.?"))
    if not libruby or not b.have("bpftrace"):
        return None
    child = subprocess.Popen(["ruby", "--disable-gems", str(b.top / "bench/ruby_hooks.rb")], stdout=subprocess.PIPE,
                             env=dict(os.environ, WAIT="4", ROUNDS="5", N="100000"), text=True)
    tracer = subprocess.Popen(["bpftrace", "-p", str(child.pid), "-e",
                               f"usdt:{libruby[-1]}:ruby:object__create {{ @ = count(); }}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out = child.communicate()[0]
    tracer.terminate()
    tracer.wait()
    return pairs(out).get("new")


def hooks(b):
    tool = b.build / "tests/ruby/trace_tool"
    base, found = [], {i: [] for i in range(len(HOOKS))}
    outside = {i: [] for i in range(len(HOOKS))}
    for _ in range(min(b.runs, 3)):
        base.append(loops(b, []))
        for i, (mode, flags, loop) in enumerate(HOOKS):
            ns = loops(b, [tool, "-q", *flags, "-m", mode, "-k", "!Untraced", "--"])
            if ns:
                found[i].append(ns[loop])
                outside[i].append(ns["outside"])
    best = {name: min(run[name] for run in base) for name in base[0]}
    rows = []
    for i, (mode, flags, loop) in enumerate(HOOKS):
        if found[i]:
            rows.append([f"`{mode}{' --c-calls' if flags else ''}`", loop, f"{best[loop]:.0f}", f"{min(found[i]):.0f}",
                         f"{min(found[i]) - best[loop]:+.0f}", f"{min(outside[i]) - best['outside']:+.1f}"])
    ebpf = object_create(b)
    if ebpf:
        rows.append(["bpftrace counting `object__create`", "new", f"{best['new']:.0f}", f"{ebpf:.0f}",
                     f"{ebpf - best['new']:+.0f}", ""])
    b.table("What a hook costs (ns an iteration, best of several)",
            ["", "loop", "untraced", "traced", "more", "a method outside the filter"], rows)


class Shop:
    """The sample application on a free port."""

    def __init__(self, b, dir):
        self.b = b
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        shutil.copytree(b.top / "examples/shop", dir / "shop")
        env = dict(os.environ, PORT=str(self.port), SHOP_DB=str(dir / "shop.db"))
        self.puma = subprocess.Popen(["puma", "-C", str(dir / "shop/puma.rb"), str(dir / "shop/config.ru")], env=env,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            time.sleep(0.2)
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                pass

    def wrk(self, seconds):
        out = subprocess.run(["wrk", "-t1", "-c4", f"-d{seconds}s", "-s", str(self.b.top / "examples/shop/load.lua"),
                              f"http://127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True, check=True).stdout
        bad = re.search(r"Non-2xx.*|Socket errors.*", out)
        return float(re.search(r"Requests/sec:\s*([\d.]+)", out).group(1)), bad.group(0) if bad else ""

    def traced(self, args):
        t = subprocess.Popen([self.b.rutile, *args, str(self.puma.pid), "--duration", "60"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        return t

    def stop(self):
        self.puma.terminate()
        self.puma.wait()


def end(tracer):
    tracer.terminate()
    tracer.wait()
    time.sleep(0.7)


def server(b):
    modes = [["calls"], ["time"], ["objects"], ["calls", "all"], ["time", "all"], ["calls", "all", "--c-calls"]]
    with tempfile.TemporaryDirectory() as dir:
        shop = Shop(b, pathlib.Path(dir))
        try:
            shop.wrk(3)
            ratios = {i: [] for i in range(len(modes))}
            never, after, bad = [], [], ""
            for _ in range(b.runs):
                for i, mode in enumerate(modes):
                    before = shop.wrk(3)[0]
                    t = shop.traced(mode)
                    rate, errors = shop.wrk(3)
                    end(t)
                    again = shop.wrk(3)[0]
                    ratios[i].append(2 * rate / (before + again))
                    never.append(before)
                    after.append(again)
                    bad = bad or errors
            rows = [["`" + " ".join(m) + "`", f"{100 * statistics.median(ratios[i]):.1f} %",
                     f"{100 * min(ratios[i]):.1f}-{100 * max(ratios[i]):.1f} %"] for i, m in enumerate(modes)]
            rows.append(["after detaching, beside before", f"{100 * statistics.median(after) / statistics.median(never):.1f} %", ""])
            b.table(f"Throughput kept by the sample application under wrk ({statistics.median(never):.0f} requests/s untraced"
                    f"{', errors: ' + bad if bad else ', no failed request'})", ["", "median", "range"], rows)
            idle(b, shop)
        finally:
            shop.stop()


def cpu_seconds(pid):
    f = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def agent_kib(pid):
    """Resident memory of the agent's image, tables and stacks: the mappings that name it."""
    total, ours = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            ours = "rutile" in line
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def idle(b, shop):
    worker = int(pathlib.Path(f"/proc/{shop.puma.pid}/task/{shop.puma.pid}/children").read_text().split()[0])
    time.sleep(1)
    quiet = cpu_seconds(worker)
    time.sleep(5)
    quiet = cpu_seconds(worker) - quiet
    t = shop.traced(["calls"])
    own, target = cpu_seconds(t.pid), cpu_seconds(worker)
    time.sleep(5)
    own, target = cpu_seconds(t.pid) - own, cpu_seconds(worker) - target
    memory = agent_kib(worker)
    end(t)
    b.table("An idle server, `calls`, over 5 s", ["", ""],
            [["CPU of a worker, untraced", f"{quiet / 5 * 100:.1f} %"], ["CPU of a worker, traced", f"{target / 5 * 100:.1f} %"],
             ["CPU of rutile", f"{own / 5 * 100:.1f} %"], ["agent and tables in a worker", f"{memory / 1024:.1f} MiB"]])


def first_table(b):
    """From the start of the command to its first row, for a server with 1,000 loaded files of 15 methods."""
    with tempfile.TemporaryDirectory() as dir:
        dir = pathlib.Path(dir)
        for i in range(1000):
            methods = "".join(f"def m{j}(a) = a + {j}\n" for j in range(15))
            (dir / f"f{i}.rb").write_text(f"class F{i}\n{methods}end\n")
        (dir / "main.rb").write_text("1000.times { |i| require_relative \"f#{i}\" }\nputs 'ready'\n$stdout.flush\n"
                                     "f = F7.new\nloop { 100.times { f.m3(1) }; sleep 0.001 }\n")
        ruby = subprocess.Popen(["ruby", str(dir / "main.rb")], stdout=subprocess.PIPE, text=True, cwd=dir)
        ruby.stdout.readline()
        times = []
        for _ in range(max(b.runs, 5)):
            begin = time.monotonic()
            t = subprocess.Popen([b.rutile, "calls", str(ruby.pid), "all", "--json", "--interval", "0.02"],
                                 stdout=subprocess.PIPE, text=True)
            for line in t.stdout:
                if json.loads(line).get("calls"):
                    break
            times.append(time.monotonic() - begin)
            end(t)
        memory = agent_kib(ruby.pid)
        ruby.kill()
        ruby.wait()
        b.table("First row of a table, 1,000 files with 15,000 methods, all of them hooked", ["", ""],
                [["median", f"{statistics.median(times) * 1000:.0f} ms"], ["worst", f"{max(times) * 1000:.0f} ms"],
                 ["agent in the process afterwards", f"{memory / 1024:.1f} MiB"]])


def recording(b):
    """ns of CPU time for the call and return of an empty method, recorded; alternated. Bytes of a record."""
    script = ["ruby", "--disable-gems", b.top / "bench/ruby_record.rb"]
    with tempfile.TemporaryDirectory() as dir:
        ways = {"untraced": (script, "none"), "`rutile record --ruby :call,return`":
                ([b.rutile, "record", "-o", dir + "/trace", "--ruby", ":call,return", "--class", "Traced", "--", *script], "none"),
                "a TracePoint with a block that counts": (script, "block"),
                "`rutile trace --returns`":
                ([b.rutile, "trace", "-o", dir + "/lines", "--returns", "--class", "Traced", "--", *script], "none")}
        ns, sizes = {name: [] for name in ways}, []
        for _ in range(b.runs):
            for name, (argv, what) in ways.items():
                shutil.rmtree(dir + "/trace", ignore_errors=True)
                err = subprocess.run([str(a) for a in [*argv, what]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     text=True, check=False).stderr
                ns[name].append(float(re.search(r"^ns ([\d.]+)", err, re.M).group(1)))
                said = re.search(r"Ruby: .* (\d+) events, .* (\d+) events lost", err)
                if said:
                    assert said.group(2) == "0", err
                    size = sum(f.stat().st_size for f in pathlib.Path(dir, "trace").glob("ruby-*/events"))
                    sizes.append(size / int(said.group(1)))
        alone = statistics.median(ns["untraced"])
        rows = [[name, f"{statistics.median(v):.0f}", f"{(statistics.median(v) - alone) / 2:.0f}" if v is not ns["untraced"] else ""]
                for name, v in ns.items()]
        b.table("A call and its return, recorded (ns of CPU time; medians of alternated runs)", ["", "a call", "more, an event"], rows)
        b.table("Bytes of a record", ["", ""], [["with its share of packets", f"{statistics.median(sizes):.2f}"]])


# Flags of the tracer for bench/ruby_requests.rb; "calls" and "time" of the application are those of its views.
REQUESTS = [("`time`, the views only", ["-m", "time", "-p", "*/views/*"]), ("`calls all`", ["-m", "calls"]),
            ("`calls all --c-calls`", ["-m", "calls", "-c"]), ("`time all`", ["-m", "time"])]


def one_request(b, prefix):
    """Microseconds of CPU time of a request, or None."""
    argv = [*prefix, "ruby", "-W0", b.top / "bench/ruby_requests.rb"]
    out = subprocess.run([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"^request ([\d.]+)", out.stderr, re.MULTILINE)
    return float(found.group(1)) if found else None


def requests_in_one_process(b):
    """What is kept of the throughput of a program that does nothing but requests: CPU time, which others disturb less."""
    tool = b.build / "tests/ruby/trace_tool"
    plain, traced = [], {name: [] for name, _ in REQUESTS}
    for _ in range(max(b.runs, 3)):
        plain.append(one_request(b, []))
        for name, flags in REQUESTS:
            traced[name].append(one_request(b, [tool, "-q", *flags, "--"]))
    if None in plain:
        return
    rows = []
    for name, _ in REQUESTS:
        us = [found for found in traced[name] if found]
        if us:
            rows.append([name, f"{min(us):.0f}", f"{100 * min(plain) / min(us):.1f} %"])
    b.table(f"Requests of Rails' parts in one process ({min(plain):.0f} us of CPU time untraced)", ["", "us", "kept"], rows)


def run(b):
    recording(b)
    hooks(b)
    requests_in_one_process(b)
    first_table(b)
    server(b)
