# SPDX-License-Identifier: MIT
"""Compares what the reference and rutile say of one trace, for the processes of the test.

    interop.py DIR     with ref.NAME.json, own.NAME.json (LAMI), known.json, bt2.out (of irqs)

Prints each disagreement; the exit status tells whether there was one.

    interop.py --whole DIR N     writes known.json: of the processes in DIR/usage (a line each:
                                    PID, CPU seconds, stolen seconds) those whose every switch is in
                                    DIR/bt2.out; there must be N
"""

import json
import re
import sys

bad = 0


def whole(directory, least):
    """Which of them never appear out of nowhere: switched from and not to before, or to twice."""
    used = {int(pid): (float(s), float(stolen)) for pid, s, stolen in map(str.split, open(f"{directory}/usage"))}
    runs = {pid: False for pid in used}
    broken = set()
    for line in open(f"{directory}/bt2.out"):
        m = re.search(r" sched_switch: .*prev_tid = (\d+),.*next_tid = (\d+),", line)
        for tid, now in ((int(m[1]), False), (int(m[2]), True)) if m else ():
            if tid in used:
                if runs[tid] == now:
                    broken.add(tid)
                runs[tid] = now
    known = {pid: used[pid] for pid in used if pid not in broken}
    print(f"{len(known)} of {len(used)} processes are whole")
    json.dump(known, open(f"{directory}/known.json", "w"))
    return len(known) >= least


if sys.argv[1] == "--whole":
    sys.exit(not whole(sys.argv[2], int(sys.argv[3])))
directory = sys.argv[1]
known = {int(pid): used for pid, used in json.load(open(f"{directory}/known.json")).items()}


def fail(text):
    global bad
    bad = 1
    print(text)


def tables(who, name, cls):
    for r in json.load(open(f"{directory}/{who}.{name}.json"))["results"]:
        c = r["class"]
        if (c if isinstance(c, str) else c.get("inherit", c.get("class"))) == cls:
            yield r


def value(cell):
    if not isinstance(cell, dict):
        return cell
    if "value" in cell:
        v = cell["value"]
        return round(v, 3) if isinstance(v, float) else v
    return tuple(sorted((k, value(v)) for k, v in cell.items() if k not in ("class", "pid")))


def rows(who, name, cls, pick):
    found = {}
    for i, table in enumerate(tables(who, name, cls)):
        for row in table["data"]:
            kept = pick(i, table, row)
            if kept:
                found.setdefault(kept[0], []).append(kept[1])
    for v in found.values():
        v.sort(key=repr)
    return found


def ours(row):
    return any(isinstance(c, dict) and c.get("tid") in known for c in row)


def same(name, cls, pick, least):
    ref, own = rows("ref", name, cls, pick), rows("own", name, cls, pick)
    if len(ref) < least:
        fail(f"{name}: the reference finds {len(ref)} rows of ours, fewer than {least}")
    for key in sorted(set(ref) | set(own), key=repr):
        if ref.get(key) != own.get(key):
            fail(f"{name} {key}: reference {ref.get(key)}, rutile {own.get(key)}")
    return ref


# What a process has used of a CPU: the two to two thousandths, and its own clock. That one leaves out
# what was stolen meanwhile, and what comes after the look at it: the end of the interpreter.
usage = {}
for who in "ref", "own":
    for table in tables(who, "cputop", "per-process"):
        t = table["time-range"]
        span = (t["end"]["value"] - t["begin"]["value"]) / 1e9
        for row in table["data"]:
            if row[0]["tid"] in known:
                usage[who, row[0]["tid"]] = row[3]["value"] * span
for pid, (seconds, stolen) in known.items():
    ref, own = usage.get(("ref", pid)), usage.get(("own", pid))
    if ref is None or own is None or abs(ref - own) > 0.002:
        fail(f"cputop {pid}: reference {ref}, rutile {own}")
    elif not seconds - 0.005 < own < seconds + 0.05 + stolen:
        fail(f"cputop {pid}: {own} s, its own clock says {seconds} s; {stolen} s were stolen")


# The last column is wrong in the reference: each of its return values is counted once too often.
def of_table(i, table, row):
    title = table["class"].get("title", "") if isinstance(table["class"], dict) else table.get("title", "")
    pid = next((p for p in known if f"TID: {p})" in title), None)
    return pid and ((pid, row[0]["name"]), [value(c) for c in row[1:4]])


calls = same("syscallstats", "per-tid", of_table, 10)
for pid in known:
    if calls.get((pid, "getpgid"), [[0]])[0][0] != 300:
        fail(f"syscallstats {pid}: {calls.get((pid, 'getpgid'))}, but 300 calls were made")

read = same("iousagetop", "per-process-top",
            lambda i, t, row: ours(row) and ((i, row[0]["tid"]), [value(c) for c in row[1:]]), len(known))
for pid in known:
    if read.get((0, pid), [[0, 0]])[0][1] < 4 << 20:
        fail(f"iousagetop {pid}: {read.get((0, pid))}, but 4 MiB were read from a file")
same("iolatencytop", "top-syscall",
     lambda i, t, row: ours(row) and ((i, value(row[0])), [value(c) for c in row[2:]]), 100)
same("schedtop", "top",
     lambda i, t, row: row[5].get("tid") in known and ((row[5]["tid"], value(row[1])), [value(c) for c in row[:5]]),
     len(known))
# On a disk in memory there may be none.
irqs = set(re.findall(r" irq_handler_entry: .*irq = (\d+),", open(f"{directory}/bt2.out").read()))
same("irqstats", "hard-stats", lambda i, t, row: (row[0]["nr"], [value(c) for c in row[1:5]]), len(irqs))
sys.exit(bad)
