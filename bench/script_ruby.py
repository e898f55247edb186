# SPDX-License-Identifier: MIT
"""Ruby in scripts: what rmethod, rline, rstack and in() cost a program that fires below 50 Ruby frames, by the kernel's own count
(BPF_ENABLE_STATS); what a probe of a method costs a call; how long a session with a script of 100 tracepoints takes to stop."""
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from shared import programs_of, programs_timed

EVENT = "tracepoint:syscalls:sys_enter_getpriority"
DEPTH = 50
BUILTINS = [  # in() of a name without a class reads the stack, of one with a class a slot of the agent
    "{ @ = count(); }",
    "/in(\"Order#wait\")/ { @ = count(); }",
    "/in(\"Order#total\")/ { @ = count(); }",
    "/in(\"wait\")/ { @ = count(); }",
    "/in(\"total\")/ { @ = count(); }",
    "/rmethod/ { @ = count(); }",
    "{ @[rmethod] = count(); }",
    "{ @[rline] = count(); }",
    "{ @[rstack] = count(); }",
]
PROBES = [
    "ruby:Order#total { @ = count(); }",
    "ruby:Order#total { @[args.id] = count(); }",
    "ruby:Order#total { @[method] = count(); }",
    "ruby:Order#total { @[pid] = count(); }",
    "ruby:Order#total { @[tid] = count(); }",
    "ruby:Order#total { @[comm] = count(); }",
    "ruby:Order#total { @ = max(nsecs); }",
    "ruby:Order#total { printf(\"%d %s\\n\", tid, args.id); }",
    "ruby:Order#total { @[rand > 0] = count(); }",
]


def attached(argv):
    """The script, when its probes are attached."""
    p = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if "Attached" in p.stderr.readline():
        return p
    p.kill()
    p.communicate()
    return None


def end(p):
    p.send_signal(signal.SIGINT)
    p.communicate()


def of_interval(p, seconds):
    before = programs_of(p.pid)
    time.sleep(seconds)
    after = programs_of(p.pid)
    ns, runs = max(((after[i][0] - before[i][0], after[i][1] - before[i][1]) for i in before if i in after), key=lambda x: x[1], default=(0, 0))
    return ns / runs if runs > 1000 else None


def reads(pid):
    """Scripts that read one word of the process's memory, and four as rmethod does."""
    heap = next(line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if line.endswith("[heap]"))
    begin = int(heap.partition("-")[0], 16) + 0x2000
    words = [f"*(uint64 *)uptr({begin + 64 * i})" for i in range(4)]
    return [("a read of a word", f"{{ @ = count(); $x = {words[0]}; if ($x == 1) {{ @n = 1; }} }}"),
            ("four reads of words", f"{{ @ = count(); $x = {' + '.join(words)}; if ($x == 1) {{ @n = 1; }} }}")]


def builtins(b, ruby):
    below = subprocess.Popen([ruby, b.top / "bench/script_ruby.rb", "below", str(DEPTH)], stdout=subprocess.PIPE, text=True)
    try:
        below.stdout.readline()
        scripts = [(f"`{body}`", body) for body in BUILTINS] + reads(below.pid)
        best = [[] for _ in scripts]
        with programs_timed():
            for _ in range(b.runs):
                for i, (_, body) in enumerate(scripts):
                    p = attached([b.rutile, "run", "-p", str(below.pid), "-e", f"{EVENT} {body}"])
                    if not p:
                        continue
                    time.sleep(0.3)
                    best[i] += [ns for ns in (of_interval(p, 0.4) for _ in range(3)) if ns]
                    end(p)
    finally:
        below.kill()
        below.wait()
    b.table(f"A program below {DEPTH} Ruby frames, least and median of {b.runs * 3} intervals of 0.4 s", ["script", "least", "median"],
            [[name, *((f"{min(v):.0f} ns", f"{statistics.median(v):.0f} ns") if v else ("-", "-"))]
             for (name, _), v in zip(scripts, best)])


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def calls(b, ruby):
    program = subprocess.Popen([ruby, b.top / "bench/script_ruby.rb", "calls"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()

    def measure():
        program.stdin.write("\n")
        program.stdin.flush()
        return [float(x) for x in program.stdout.readline().split()]

    best, own = {}, {}
    for _ in range(b.runs):
        for probe in ["none", *PROBES]:
            p = None
            if probe != "none":
                p = attached([b.rutile, "run", "-p", str(program.pid), "-e", probe])
                if not p:
                    continue
                before = cpu_seconds(p.pid)
            got = measure()
            best[probe] = [min(a, c) for a, c in zip(got, best.get(probe, got))]
            if p:
                time.sleep(0.1)
                own.setdefault(probe, []).append((cpu_seconds(p.pid) - before) * 1e9 / 1.2e6)
                end(p)
    program.kill()
    program.wait()
    b.table(f"A call of an empty method, CPU time of its thread, least of {b.runs * 12} times 100,000; CPU time of rutile for a hit, least",
            ["script", "a call", "of another method", "rutile"],
            [[f"`{probe}`", *(f"{ns:.0f} ns" for ns in best[probe]), f"{min(own[probe]):.0f} ns" if probe in own else ""]
             for probe in ["none", *PROBES] if probe in best])


def stop(b):
    """100 tracepoints, each with a program of its own."""
    events = sorted(p.name for p in pathlib.Path("/sys/kernel/tracing/events/syscalls").glob("sys_enter_*"))[:100]
    took = {"stop": [], "destroy": []}
    for i in range(min(b.runs, 3)):
        with tempfile.TemporaryDirectory() as tmp:
            script = pathlib.Path(tmp, "hundred.bt")
            script.write_text("".join(f"tracepoint:syscalls:{e} {{ @[args.__syscall_nr] = count(); }}\n" for e in events))
            name = f"bench-{os.getpid()}-{i}"
            argv = [b.rutile, "start", name, "--flight", "--script", str(script)]
            if subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode:
                continue
            for verb in took:
                begin = time.monotonic()
                subprocess.run([b.rutile, verb, name], stdout=subprocess.DEVNULL, check=True)
                took[verb].append(time.monotonic() - begin)
        time.sleep(0 if b.quick else 10)
    b.table("A session whose script has 100 tracepoints", ["", "least", "most"],
            [[f"`rutile {verb}`", f"{min(v) * 1000:.0f} ms", f"{max(v) * 1000:.0f} ms"] for verb, v in took.items() if v])


def run(b):
    ruby = shutil.which("ruby")
    if os.geteuid() != 0 or not ruby:
        b.note("Ruby in scripts needs root and Ruby")
        return
    builtins(b, ruby)
    calls(b, ruby)
    stop(b)
