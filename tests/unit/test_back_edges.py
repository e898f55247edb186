#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loops in the eBPF programs that older kernels refuse.

    test_back_edges.py OBJECT...

Until 6.1 at least, check_cfg() of the kernel's verifier walks a function depth first, at a conditional jump the next instruction before
the target, and takes an edge back to an instruction on its way only from a jump ("back-edge from insn N to M"). A compiler that lets a
loop be entered in its middle makes such edges from other instructions; whether it does changes with the code around."""

import re
import subprocess
import sys


def functions(path):
    """(name, {number of an instruction: its text}) of each function, in the order of the object."""
    text = subprocess.run(["llvm-objdump", "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    name, found = None, {}
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <(?!LBB)(.*)>:$", line):
            if found:
                yield name, found
            name, found = head[1], {}
        elif at := re.match(r"\s+(\d+):\s+(.*)", line):
            found[int(at[1])] = at[2]
    if found:
        yield name, found


def edges(code):
    """{instruction: [the next ones, in the verifier's order]}, and those that are jumps."""
    order = list(code)
    following = dict(zip(order, order[1:]))
    ways, jumps = {}, set()
    for n, text in code.items():
        after = [following[n]] if n in following else []
        if jump := re.search(r"\bgoto ([+-]?(?:0x)?[0-9a-f]+)", text):
            jumps.add(n)
            target = n + 1 + int(jump[1], 0)
            after = [target] if text.startswith("goto") else [*after, target]
        ways[n] = [] if text.startswith("exit") else after
    return ways, jumps


def refused(code):
    """The first edge that the verifier refuses; None."""
    ways, jumps = edges(code)
    first = next(iter(code))
    on_the_way, seen, path = {first}, {first}, [(first, iter(ways[first]))]
    while path:
        at, rest = path[-1]
        to = next(rest, None)
        if to is None:
            on_the_way.discard(at)
            path.pop()
        elif to not in seen:
            seen.add(to)
            on_the_way.add(to)
            path.append((to, iter(ways[to])))
        elif to in on_the_way and at not in jumps:
            return at, to
    return None


def check_itself():
    loop = {0: "r1 = 0", 1: "r1 += 1", 2: "if r1 != 9 goto -2", 3: "exit"}
    middle = {0: "if r1 == 0 goto +1", 1: "goto +1", 2: "r2 += 1", 3: "r1 += 1", 4: "if r1 != 9 goto -3", 5: "exit"}
    assert refused(loop) is None
    assert refused(middle) == (2, 3), refused(middle)


def main():
    check_itself()
    print(f"1..{len(sys.argv) - 1}")
    for number, path in enumerate(sys.argv[1:], 1):
        programs = list(functions(path))
        bad = [(name, *edge) for name, code in programs if (edge := refused(code))]
        print("ok" if programs and not bad else "not ok", number, "-", path.rpartition("/")[2])
        for name, at, to in bad:
            print(f"# {name}: back-edge from insn {at} to {to}")
        if not programs:
            print("# it has no programs")


main()
