# SPDX-License-Identifier: MIT
"""The analyses beside lttng-analyses and babeltrace, on a trace made long by repetition."""

import os
import pathlib
import subprocess

SWITCH = ('switch : $evt.$name == "sched_switch" && $evt.next_tid != 0 : $evt.$name == "sched_switch" && '
          '$evt.prev_tid == $begin.$evt.next_tid && $evt.cpu_id == $begin.$evt.cpu_id')
READ = ('read(switch) : $evt.$name == "syscall_entry_read" && $evt.cpu_id == $parent.$begin.$evt.cpu_id : '
        '$evt.$name == "syscall_exit_read" && $evt.cpu_id == $begin.$evt.cpu_id')
REF_ENV = {"PATH": "/usr/bin:" + os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}


# Trace Compass's test traces, made longer; they are looked for in $RUTILE_TRACES.
LONG = {"many-threads": 25, "16-cores": 15}
VERBS = ("cputop", "memtop", "syscallstats", "iolatencystats", "iousagetop", "irqstats", "schedstats", "futexstats",
         "offcpu", "nettop", "fdtop", "series", "changes", "report")


def long_traces(b):
    """{name: path} of those that are there."""
    directory, out = os.environ.get("RUTILE_TRACES"), {}
    for name, times in LONG.items():
        source = pathlib.Path(directory or "/nonexistent", name)
        target = b.build / "bench" / f"{name}-{times}"
        if not source.is_dir():
            b.note(f"{name}: not measured, $RUTILE_TRACES has no such trace")
            continue
        if not target.exists():
            subprocess.run([b.build / "bench" / "gen_trace", source, target, str(times)], check=True)
        out[f"{name} x{times}"] = target
    return out


def beside_babeltrace(b, name, trace):
    """Every analysis beside babeltrace1's dummy, `view` beside babeltrace2's text: by wall time, on one CPU and two."""
    if not b.have("babeltrace"):
        return
    cpus = sorted(os.sched_getaffinity(0))[:2]
    counts = range(1, len(cpus) + 1)
    jobs = {"dummy": (["babeltrace", "-o", "dummy", trace], {cpus[0]})}
    if b.have("babeltrace2"):
        jobs["text"] = (["babeltrace2", trace], {cpus[0]})
    for verb in (*VERBS, "view"):
        options = ["--skip-validation", "--no-progress"] if verb != "view" else []
        jobs.update({(verb, n): ([b.rutile, verb, *options, trace], set(cpus[:n])) for n in counts})
    got = b.compare(jobs)
    rows = []
    for verb in (*VERBS, "view"):
        peer = got.get("text" if verb == "view" else "dummy", (0, 0))[0]
        ours = [got.get((verb, n), (0, 0)) for n in (1, 2)]
        rows.append([verb, *(f"{s:.3f}" if s else "" for s, _ in ours),
                     *(f"{peer / s:.1f}" if s and peer else "" for s, _ in ours), f"{ours[0][1]:.0f}"])
    b.table(f"{name}: times babeltrace1's dummy (view: babeltrace2's text)",
            ["", "seconds, one CPU", "two CPUs", "x peer, one CPU", "x peer, two CPUs", "MiB"], rows)


def run(b):
    for name, trace in long_traces(b).items():
        beside_babeltrace(b, name, trace)
    trace = b.big_trace()
    cases = b.cases()
    beside_babeltrace(b, "basic-kernel-analysis", trace)
    events, small_events = 134500 * 50, 134500
    small = cases / "ref/basic-kernel-analysis"
    periods = ["--period", SWITCH, "--period", READ]
    verbs = {"cputop": [], "syscallstats": [], "iousagetop": [], "schedstats": [], "irqstats": [],
             "periodstats": periods}
    ours = b.compare({v: ([b.rutile, v, "--skip-validation", *o, trace], {0}) for v, o in verbs.items()})
    both = b.compare({v: ([b.rutile, v, "--skip-validation", *o, trace], None) for v, o in verbs.items()})
    dummy = b.compare({"dummy": (["babeltrace", "-o", "dummy", trace], {0})}).get("dummy", (0, 0))[0] \
        if b.have("babeltrace") else 0
    rows = []
    for verb, options in verbs.items():
        if verb not in ours:
            continue
        seconds, mib = ours[verb]
        ref = 0
        # The reference takes seconds for the short trace: once is enough. It cannot parse NAME(PARENT).
        if os.path.exists(f"/usr/bin/lttng-{verb}"):
            options = ["--period", SWITCH] if options else []
            s, _, rc = b.once([f"/usr/bin/lttng-{verb}", "--no-progress", "--skip-validation", *options, small], {0},
                              REF_ENV)
            ref = small_events / s if rc == 0 else 0
        rate = events / seconds
        rows.append([verb, f"{seconds:.3f}", f"{rate / 1e6:.1f}", f"{mib:.0f}", f"{ref / 1e3:.0f}" if ref else "",
                     f"{rate / ref:.0f}" if ref else "", f"{dummy / seconds:.1f}" if dummy else "",
                     f"{seconds / both[verb][0]:.2f}" if verb in both else ""])
    b.table(f"Analyses of {events:,} events, one core",
            ["", "seconds", "million events/s", "MiB", "lttng-analyses, 1000 events/s", "x lttng-analyses",
             "x babeltrace1 dummy", "x with all cores"], rows)
