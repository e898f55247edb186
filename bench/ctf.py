# SPDX-License-Identifier: MIT
"""Reading CTF: view and stat beside babeltrace 1 and 2, on a trace made long by repetition."""


def run(b):
    trace = b.big_trace()
    events = 134500 * 50
    jobs = {
        "rutile stat, 1 core": ([b.rutile, "stat", trace], {0}),
        "rutile stat": ([b.rutile, "stat", trace], None),
        "rutile view, 1 core": ([b.rutile, "view", trace], {0}),
        "rutile view": ([b.rutile, "view", trace], None),
        "rutile view --json": ([b.rutile, "view", "--json", trace], None),
    }
    if b.have("babeltrace2"):
        jobs["babeltrace2 text"] = (["babeltrace2", trace], None)
        jobs["babeltrace2 dummy"] = (["babeltrace2", "--output-format=dummy", trace], None)
    if b.have("babeltrace"):
        jobs["babeltrace1 dummy"] = (["babeltrace", "-o", "dummy", trace], None)
    result = b.compare(jobs)
    text = result.get("babeltrace2 text", (0, 0))[0]
    dummy = result.get("babeltrace1 dummy", (0, 0))[0]
    b.table(f"Reading {events:,} events ({sum(f.stat().st_size for f in trace.iterdir()) >> 20} MiB)",
            ["", "seconds", "million events/s", "MiB", "x babeltrace2 text", "x babeltrace1 dummy"],
            [[name, f"{s:.3f}", f"{events / s / 1e6:.2f}", f"{mib:.0f}",
              f"{text / s:.1f}" if text else "", f"{dummy / s:.1f}" if dummy else ""]
             for name, (s, mib) in result.items()])
