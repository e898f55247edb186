#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ruby_stacks.py TRUTH < `rutile view --stacks --json`: every mark has the frames that Ruby says."""
import json
import re
import sys

truth = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
seen = []
for line in sys.stdin:
    event = json.loads(line)
    text = json.dumps(event)
    mark = re.search(r"/rutile-mark/([\w-]+)", text)
    if mark and "ruby_stack" in event and "entry" in text:
        seen.append((mark.group(1), event["ruby_stack"]))
if len(seen) != len(truth):
    sys.exit(f"{len(seen)} marks instead of {len(truth)}: {[s[0] for s in seen][:20]}")


def short(frame):
    m = re.fullmatch(r"(.*?)(?: \(([^()]*):(\d+)\))?", frame)
    label = re.sub(r"^(.* in )?((?:[A-Z]\w*(?:::[A-Z]\w*)*)[#.])", lambda x: x.group(1) or "", m.group(1))
    return label, m.group(3)


bad = 0
for (name, frames), (want_name, *want) in zip(seen, truth):
    got = [short(f) for f in frames][2:]  # File.exist? and mark itself
    got = [f"{label}@{line}" if line else label for label, line in got]
    # A C method's line is that of its caller.
    plain = [w if "@" in g else w.split("@")[0] for g, w in zip(got, want)]
    if name != want_name or len(got) != len(want) or got != plain:
        bad += 1
        print(f"{name}: {got[:12]}\n   instead of {want_name}: {want[:12]} ({len(got)}, {len(want)})")
sys.exit(bad != 0)
