# SPDX-License-Identifier: MIT
"""The analyses beside lttng-analyses and babeltrace, on a trace made long by repetition."""

import os

SWITCH = ('switch : $evt.$name == "sched_switch" && $evt.next_tid != 0 : $evt.$name == "sched_switch" && '
          '$evt.prev_tid == $begin.$evt.next_tid && $evt.cpu_id == $begin.$evt.cpu_id')
READ = ('read(switch) : $evt.$name == "syscall_entry_read" && $evt.cpu_id == $parent.$begin.$evt.cpu_id : '
        '$evt.$name == "syscall_exit_read" && $evt.cpu_id == $begin.$evt.cpu_id')
REF_ENV = {"PATH": "/usr/bin:" + os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}


def run(b):
    trace = b.big_trace()
    cases = b.cases()
    if not trace:
        print("\n(analyses: the case traces are not beside the checkout)")
        return
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
