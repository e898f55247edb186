#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/feed.c has sent with the oldest packets dropped, over all traces below a directory, as babeltrace2 reads them: what is
not there is as much as it reports as discarded, and older than the NEWEST numbers, all of which are there.

    dropped_numbers.py DIR FIRST END NEWEST [twice]

END is the number behind the last one. `twice`: after a break, numbers may be in two traces."""
import pathlib
import re
import subprocess
import sys

top, first, end, newest = sys.argv[1], *map(int, sys.argv[2:5])
twice = len(sys.argv) > 5
numbers, discarded, packets = [], 0, 0
for metadata in sorted(pathlib.Path(top).rglob("metadata")):
    done = subprocess.run(["babeltrace2", metadata.parent], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    numbers += map(int, re.findall(r"\{ n = (\d+) \}", done.stdout))
    for line in done.stderr.splitlines():
        # A trace that continues another one begins with what had been lost before, which is counted there.
        if twice and "may have discarded events" in line:
            continue
        found = re.search(r"Tracer discarded (\d+) (event|packet)", line)
        assert found, line
        if found.group(2) == "event":
            discarded += int(found.group(1))
        else:
            packets += int(found.group(1))
there = set(numbers)
missing = [n for n in range(first, end) if n not in there]
assert there <= set(range(first, end))
assert twice or len(there) == len(numbers), "twice"
assert missing, "nothing was dropped"
print(f"{len(there)} there, {len(missing)} missing, discarded {discarded}, {packets} packets; missing up to {missing[-1]} of {end}")
assert discarded == len(missing)
assert packets
assert missing[-1] < end - newest
