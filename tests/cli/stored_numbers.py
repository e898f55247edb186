# SPDX-License-Identifier: MIT
"""What tests/feed.c has sent, over all traces below a directory: its packets' numbers count from FIRST without a gap, and no trace
has one twice. A trace that was begun anew may repeat what had not been confirmed.

    stored_numbers.py DIR FIRST PACKETS [SENDERS STEP]    more than one: each has numbers of its own, STEP apart"""
import array
import glob
import struct
import sys

HEAD = struct.Struct("<I16sIQQQQQQQII")


def numbers(path):
    """(first, count) of each packet that has any; they count up."""
    with open(path, "rb") as f:
        data = f.read()
    at, found = 0, []
    while at < len(data):
        head = HEAD.unpack_from(data, at)
        assert head[0] == 0xC1FC1FC1 and head[7] // 8 >= HEAD.size, f"{path}: no packet at {at}"
        content = data[at + HEAD.size:at + head[6] // 8]
        if content:
            first, count = int.from_bytes(content[:8], "little"), len(content) // 8
            assert array.array("Q", range(first, first + count)).tobytes() == content, f"{path}: other content at {at}"
            found.append((first, count))
        at += head[7] // 8
    assert at == len(data), f"{path}: the last packet is cut"
    return found


def main(top, first, count, senders=1, step=1 << 62):
    packets = set()
    for trace in glob.glob(f"{top}/*/*/kernel"):
        here = [p for path in glob.glob(f"{trace}/kernel_*") for p in numbers(path)]
        assert len(here) == len(set(here)), f"{trace} has packets twice"
        packets.update(here)
    assert len(packets) == senders * count, f"{len(packets)} packets of {senders * count}"
    for begin in range(first, first + senders * step, step):
        own = sorted(p for p in packets if begin <= p[0] < begin + step)
        assert len(own) == count, f"{begin}: {len(own)} packets of {count}"
        for (at, n), (following, _) in zip([(begin, 0), *own], own):
            assert at + n == following, f"the numbers from {at + n} to {following} are missing"


main(sys.argv[1], *map(int, sys.argv[2:]))
