# SPDX-License-Identifier: MIT
"""Compares two trace directories: the same files, in them the same packets at the same offsets. What is behind a
packet's content is not compared. Hidden files are left out. Prints the number of packets."""
import os
import struct
import sys

HEAD = struct.Struct("<I16sIQQQQQQQII")


def files(top):
    return {os.path.relpath(os.path.join(d, n), top) for d, dirs, names in os.walk(top) for n in names if not n.startswith(".")}


def packets(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        head = HEAD.unpack_from(data, at)
        content, whole = head[6] // 8, head[7] // 8
        assert head[0] == 0xC1FC1FC1 and HEAD.size <= content <= whole, f"{path}: no packet at {at}"
        yield at, data[at:at + content]
        at += whole
    assert at == len(data), f"{path}: the last packet is cut"


def main(one, other):
    assert files(one) == files(other), files(one) ^ files(other)
    count = 0
    for name in sorted(files(one)):
        a, b = os.path.join(one, name), os.path.join(other, name)
        if os.path.basename(name) == "metadata":
            assert open(a, "rb").read() == open(b, "rb").read(), f"{b} differs"
            continue
        left, right = list(packets(a)), list(packets(b))
        assert left == right, f"{b}: packets differ"
        count += len(left)
    print(count)


main(*sys.argv[1:])
