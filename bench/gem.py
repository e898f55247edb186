# SPDX-License-Identifier: MIT
"""The gem: fire not traced beside an empty C method, wrapped methods, and probes traced by the kernel."""

import os
import shutil
import statistics
import subprocess
import time


def build(b):
    """The empty C methods and the C program, in the build directory; None when something is missing."""
    out = b.build / "bench-gem"
    out.mkdir(exist_ok=True)
    source = b.top / "bench" / "gem"
    (out / "extconf.rb").write_text("require 'mkmf'\n$VPATH << ENV['SOURCE']\n"
                                    "$srcs = ['nothing.c']\ncreate_makefile('nothing')\n")
    env = dict(os.environ, SOURCE=str(source))
    quiet = {"cwd": out, "env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run(["ruby", "extconf.rb"], **quiet).returncode or subprocess.run(["make"], **quiet).returncode:
        return None
    lib = b.build / "src" / "usdt"
    subprocess.run(["cc", "-O2", f"-I{b.top}/include", source / "site.c", "-o", out / "site", f"-L{lib}", "-lrutile-usdt",
                    f"-Wl,-rpath,{lib}"], stderr=subprocess.DEVNULL, check=False)
    return out


def ruby(b, out, mode, **options):
    return subprocess.Popen(["ruby", f"-I{b.top}/gem/lib", f"-I{b.build}/gem/lib", f"-I{out}",
                             b.top / "bench/gem/bench.rb", mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            **options)


def rows_of(text):
    return {name: float(ns) for name, ns in (line.split("\t") for line in text.splitlines() if "\t" in line)}


def attach(scripts):
    """bpftrace with these probes, attached."""
    child = subprocess.Popen(["bpftrace", "-e", "BEGIN { printf(\"ready\\n\"); } " + " ".join(scripts)],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in child.stdout:
        if "ready" in line:
            break
    time.sleep(1)
    return child


def detach(child):
    child.kill()
    child.wait()


def untraced(b, out):
    runs = [rows_of(ruby(b, out, "untraced").communicate()[0]) for _ in range(b.runs)]
    ns = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    pairs = [("fire, 2 arguments", "empty C method, 2 arguments"), ("fire, block", "empty C method, block"),
             ("enabled?", "empty C method"), ("method, tracer registered", "method"),
             ("method, tracer disabled again", "method")]
    b.table("Untraced tracepoints (Ruby)", ["", "ns", "beside", "ns", "more"],
            [[name, f"{ns[name]:.1f}", other, f"{ns[other]:.1f}", f"{ns[name] - ns[other]:+.1f}"] for name, other in pairs])


def traced(b, out):
    ours, theirs, fire = [], [], []
    for _ in range(b.runs):
        site = subprocess.Popen([out / "site"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        path = site.stdout.readline().split()[0]
        tracer = attach([f"usdt:{path}:bench:ours {{ @a = count(); }}", f"usdt:{out}/site:bench:theirs {{ @b = count(); }}"])
        site.stdin.write("\n")
        site.stdin.flush()
        _, a, c = site.stdout.readline().split()
        ours.append(float(a))
        theirs.append(float(c))
        site.stdin.close()
        site.wait()
        detach(tracer)
        child = ruby(b, out, "traced")
        path = child.stdout.readline().split()[1]
        tracer = attach([f"usdt:{path}:bench:fire {{ @a = count(); }}"])
        fire.append(rows_of(child.communicate("\n")[0])["fire, traced"])
        detach(tracer)
    mid = statistics.median
    b.table("Probes traced by bpftrace, counting", ["", "ns", "x trap"],
            [["1-byte nop, a trap (sys/sdt.h, as the old gem's)", f"{mid(theirs):.0f}", "1.00"],
             ["librutile-usdt, 5-byte nop", f"{mid(ours):.0f}", f"{mid(ours) / mid(theirs):.2f}"],
             ["Ruby: fire(Integer, String)", f"{mid(fire):.0f}", f"{mid(fire) / mid(theirs):.2f}"]])


def ring(b, out):
    """fire() into the ring of `rutile record`; the program says what it measured itself."""
    ns = []
    for i in range(b.runs):
        trace = out / f"trace-{os.getpid()}-{i}"
        child = subprocess.run([b.rutile, "record", "-o", trace, "-e", "ruby_static:bench:fire", "--", "ruby",
                                f"-I{b.top}/gem/lib", f"-I{b.build}/gem/lib", b.top / "bench/gem/bench.rb", "ring"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        ns.append(rows_of(child.stdout)["fire, into the ring"])
        shutil.rmtree(trace, ignore_errors=True)
    b.table("Recorded without the kernel", ["", "ns"], [["Ruby: fire(Integer, String) into the ring", f"{statistics.median(ns):.0f}"]])


def run(b):
    out = build(b)
    if not out or not (b.build / "gem/lib/rutile/rutile_ext.so").exists():
        print("\n(gem: Ruby's headers or the built extension are not here)")
        return
    untraced(b, out)
    ring(b, out)
    if os.geteuid() == 0 and b.have("bpftrace") and (out / "site").exists():
        traced(b, out)
