# SPDX-License-Identifier: MIT
"""Compares what the reference and rutile say of one trace, for the processes of the test.

    interop.py FOLDER     with ref.NAME.json, own.NAME.json (LAMI), known.json: pid -> CPU seconds

Prints each disagreement; the exit status tells whether there was one.

    interop.py --whole FOLDER     is every switch to and from these processes in FOLDER/bt2.out?
"""

import json
import re
import sys

folder = sys.argv[-1]
known = {int(pid): seconds for pid, seconds in json.load(open(f"{folder}/known.json")).items()}
bad = 0


def whole():
    """A kernel may hide what happens while certain tasks run (supervisors of virtual machines):
    then a switch from such a task to one of ours is missing."""
    runs = {pid: False for pid in known}
    for line in open(f"{folder}/bt2.out"):
        m = re.search(r" sched_switch: .*prev_tid = (\d+),.*next_tid = (\d+),", line)
        for tid, now in ((int(m[1]), False), (int(m[2]), True)) if m else ():
            if tid in known:
                if runs[tid] == now:
                    return False
                runs[tid] = now
    return True


if sys.argv[1] == "--whole":
    sys.exit(not whole())


def fail(text):
    global bad
    bad = 1
    print(text)


def tables(who, name, cls):
    for r in json.load(open(f"{folder}/{who}.{name}.json"))["results"]:
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


# What a process has used of a CPU: the two to a thousandth, and /proc to the noise of its own clock.
usage = {}
for who in "ref", "own":
    for table in tables(who, "cputop", "per-process"):
        t = table["time-range"]
        span = (t["end"]["value"] - t["begin"]["value"]) / 1e9
        for row in table["data"]:
            if row[0]["tid"] in known:
                usage[who, row[0]["tid"]] = row[3]["value"] * span
for pid, seconds in known.items():
    ref, own = usage.get(("ref", pid)), usage.get(("own", pid))
    if ref is None or own is None or abs(ref - own) > 0.002:
        fail(f"cputop {pid}: reference {ref}, rutile {own}")
    elif not 0.85 * seconds - 0.03 < own < 1.15 * seconds + 0.03:
        fail(f"cputop {pid}: {own} s, /proc says {seconds} s")


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
same("irqstats", "hard-stats", lambda i, t, row: (row[0]["nr"], [value(c) for c in row[1:5]]), 1)
sys.exit(bad)
