#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what `rutile requests --explain` says of tests/ruby/causes.rb with what is true.

    causes.py TRUTH OUT.json NAMES...

Prints the names of those of which it says something else to the file "again".
"""

import json
import re
import sys

# Who it was is not known when the kernel delivers what a busy machine sends to itself in its own thread.
PEER = r"for %s in \w+\(\)(, which %s \(\d+\) ended; it was %s meanwhile)?[,.]"

# The cause, and what the sentence says of it.
WANT = {
    "ruby_loop": ("ruby", "running Ruby"),
    "regexp": ("ruby", "running Ruby"),
    "big_integers": ("ruby", "running Ruby"),
    "kernel_read": ("system", r"in the kernel, most of it in read\(\)"),
    "exceptions": ("exceptions", r"raised \d+ exceptions, most of them ArgumentError at .*causes.rb:\d+"),
    "cold_code": ("loading", r"loaded code \(\d+ files\)"),
    "gc_start": ("gc", "collecting garbage"),
    "gc_stress": ("gc", "collecting garbage"),
    "gvl_thread": ("gvl", "the GVL that thread .* in `Report#crunch` held"),
    "gvl_native": ("gvl", "the GVL that thread .* held"),
    "run_queue": ("run-queue", r"a CPU that cpuhog \(\d+\) and others used"),
    "low_priority": ("run-queue", r"a CPU that cpuhog \(\d+\) and others used"),
    "sleeping": ("sleep", "by sleeping"),
    "sleep_nested": ("sleep", "by sleeping, in `Cause#pause`"),
    "select_timeout": ("sleep", "by sleeping"),
    "half_sleep": (("sleep", "ruby"), "sleeping"),
    "stopped": ("stopped", r"it was stopped by stopper \(\d+\)"),
    "mutex": ("lock", "a lock that thread .* of this process.* released; it was (sleeping|waiting for a lock) meanwhile"),
    "mutex_in_thread": ("lock", "a lock that thread .* of this process.* released; it was (sleeping|waiting for a lock) meanwhile"),
    "queue": ("lock", "a lock that thread .* released; it was (sleeping|waiting for a lock) meanwhile"),
    "sized_queue": ("lock", "a lock that thread .* released; it was (sleeping|waiting for a lock) meanwhile"),
    "condition": ("lock", "a lock that thread .* released; it was (sleeping|waiting for a lock) meanwhile"),
    "join": ("lock", "a lock that thread .* released; it was (sleeping|waiting for a lock) meanwhile"),
    "fiber": ("fiber", "scheduler of fibers"),
    "pipe_reader": ("pipe", r"slowreader \(\d+\) ended; it was sleeping meanwhile"),
    "pipe_writer": ("pipe", r"slowwriter \(\d+\) ended; it was sleeping meanwhile"),
    "pipe_select": ("pipe", r"slowwriter \(\d+\) ended; it was sleeping meanwhile"),
    "fifo": ("pipe", r"fifowriter \(\d+\) ended; it was sleeping meanwhile"),
    "wait_child": ("child", r"a child process, worker \(\d+\); it was sleeping meanwhile"),
    "system_sleep": ("child", r"a child process, sleep \(\d+\); it was sleeping meanwhile"),
    "backticks": ("pipe", "a child process meanwhile"),
    "flock": ("lock", r"a lock on .*/lock that lockholder \(\d+\) released; it was sleeping meanwhile"),
    "record_lock": ("lock", r"a lock on .*/record that recordholder \(\d+\) released; it was sleeping meanwhile"),
    "slow_peer": ("network", PEER % (r"127.0.0.1:\d+", "slowpeer", "sleeping")),
    "slow_query": ("network", PEER % (r"127.0.0.1:\d+", "database", "sleeping")),
    "busy_peer": ("network", PEER % (r"127.0.0.1:\d+", "busypeer", "(running|waiting for a CPU)")),
    "locked_peer": ("network", PEER % (r"127.0.0.1:\d+", "lockedpeer", "waiting for a lock")),
    "unix_peer": ("network", PEER % (r".*s.sock", "unixpeer", "sleeping")),
    "n_plus_one": ("n+1", r"called `Database#query` 150 times"),
    "slow_client": ("network", r"in \w+\(\)"),
    "accept_queue": ("network", r"a connection to 127.0.0.1:\d+ in \w+\(\)"),
    "dns": ("network", r"127.0.0.1:\d+ in \w+\(\)"),
    "timeout": ("network", r"127.0.0.1:\d+ in \w+\(\)"),
    "fsync": ("disk", r"a disk in fsync\(\) of .*/fsync"),
    "cache_miss": ("disk", r"a disk in pread64\(\) of .*/big"),
    "slow_disk": ("disk", r"a disk in pread64\(\) of /dev/loop"),
    "page_fault": ("page-fault", "for a page"),
    "retransmission": ("network", r"127.0.0.1:\d+ in .*; 1 lost segment of TCP was sent again meanwhile"),
    "connect_timeout": ("network", r"waiting for a connection to 127.0.0.1:\d+ in \w+\(\)"),
    "database_lock": ("network", r"postgres \((\d+)\) ended; it was .* meanwhile, until postgres \((?!\1)\d+\) woke it"),
    "sqlite_lock": ("lock", r"a lock on .*/shop.db"),
    "slow_log": ("disk", r"a disk in \w+\(\) of .*/production.log"),
    "disk_queue": ("disk", r"a disk in pread64\(\) of .*/big that diskhog \(\d+\) kept busy"),
    "swap": ("page-fault", "for a page"),
    "template_compile": ("ruby", "running Ruby, in `compile (ERB|items.erb)`"),
    "slow_middleware": ("ruby", "running Ruby, in `SlowMiddleware#call`"),
    "interrupts": (("interrupts", "run-queue"), r"interrupts of its CPU|a CPU that ksoftirqd"),
    "throttled": ("throttled", "kept from running"),
}
PLACES = ("ruby system gc interrupts gvl run-queue throttled disk network pipe lock sleep child page-fault stopped"
          " fiber other unknown").split()
KEYS = ("range route path process duration status error running trace request-id cause explanation".split()
        + PLACES)
COMPUTE = ("ruby_loop regexp big_integers kernel_read exceptions cold_code gc_start gc_stress half_sleep fsync"
           " cache_miss page_fault slow_log disk_queue swap interrupts stopped throttled").split()
# All that is not on a CPU, or in its queue, is this: so many reads were possible in a second.
ALL_WAITING = {"slow_disk": "disk"}
# The other fiber has the same thread; where there are many interrupts, the kernel's count is without them.
NO_TRUTH = ("fiber", "fsync", "cache_miss", "page_fault", "slow_log", "disk_queue", "swap")
ON_CPU = ("ruby", "system", "gc", "interrupts")


def value(cell):
    return cell.get("value") if isinstance(cell, dict) else cell


def main():
    truth = {w[0]: (int(w[1]), int(w[2]), int(w[3])) for w in map(str.split, open(sys.argv[1])) if len(w) == 4}
    results = json.load(open(sys.argv[2]))["results"]
    rows = [dict(zip(KEYS, map(value, row))) for t in results if t["class"] == "slow-requests" for row in t["data"]]
    got = {r["route"].removeprefix("Cause#"): r for r in rows}
    bad = []
    for name in sys.argv[3:]:
        row, (wall, cpu, queued), (cause, pattern) = got.get(name), truth[name], WANT[name]
        if not row:
            print(f"{name}: not among the requests")
            bad.append(name)
            continue
        causes = cause if isinstance(cause, tuple) else (cause,)
        share = cpu / wall
        computed = sum(row[p] for p in ON_CPU) / row["duration"]
        if name in NO_TRUTH:
            computed = share
        # On a machine that has no CPU left for it, that is the cause of what only computes.
        crowded = name in COMPUTE and row["cause"] == "run-queue"
        right = crowded or (row["cause"] in causes and re.search(pattern, row["explanation"]))
        # A crowded machine may be a virtual one whose own host keeps it waiting.
        free = row["run-queue"] < row["duration"] / 10
        exact = (abs(share - computed) < 0.02 or not free) and sum(row[p] for p in PLACES) == row["duration"]
        if name in ALL_WAITING:
            waited = row[ALL_WAITING[name]] / row["duration"]
            print(f"{name}: {waited:.2%} waiting, truth {(wall - cpu - queued) / wall:.2%}")
            exact = exact and abs(waited - (wall - cpu - queued) / wall) < 0.02
        if not (right and exact):
            bad.append(name)
        print(f"{'ok ' if right else 'BAD'} {name}: {row['cause']}: {row['explanation']}")
        if not exact:
            print(f"BAD {name}: {computed:.1%} on a CPU, the kernel counted {share:.1%}: "
                  f"{ {p: row[p] for p in PLACES if row[p]} }")
    with open("again", "w") as again:
        print(*bad, file=again)
    return 1 if bad else 0


sys.exit(main())
