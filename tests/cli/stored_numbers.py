# SPDX-License-Identifier: MIT
"""What tests/feed.c has sent, over all traces below a directory: its packets' numbers count from FIRST without a gap, and no trace
has one twice. A trace that was begun anew may repeat what had not been confirmed.

    stored_numbers.py DIR FIRST PACKETS"""
import glob
import struct
import sys

HEAD = struct.Struct("<I16sIQQQQQQQII")
top, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
whole, packets = set(), set()
for trace in glob.glob(f"{top}/*/*/kernel"):
    here = []
    for path in glob.glob(f"{trace}/kernel_*"):
        with open(path, "rb") as f:
            data = f.read()
        at = 0
        while at < len(data):
            head = HEAD.unpack_from(data, at)
            assert head[0] == 0xC1FC1FC1 and head[7] // 8 >= HEAD.size, f"{path}: no packet at {at}"
            numbers = [n for n, in struct.iter_unpack("<Q", data[at + HEAD.size:at + head[6] // 8])]
            here += numbers
            if numbers:
                packets.add(numbers[0])
            at += head[7] // 8
        assert at == len(data), f"{path}: the last packet is cut"
    assert len(here) == len(set(here)), f"{trace} has numbers twice"
    whole.update(here)
assert len(packets) == count, f"{len(packets)} packets of {count}"
assert whole == set(range(first, first + len(whole))), f"{max(whole) - first + 1 - len(whole)} numbers are missing"
