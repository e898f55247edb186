# SPDX-License-Identifier: MIT
"""Is the output that a document shows the one that the program prints? Each line of the indented blocks of the section with
`run CASE` must be in OUT, with numbers and units left out, as must each of its commands. What depends on the run is left out too:
all but the first of a list of shares or of rows, how often something was waited for, what that was doing meanwhile, and whether the
request was over.

    same_shape.py DOCUMENT CASE OUT"""
import re
import sys


def shape(line):
    line = line.replace("█", "").replace("has taken", "took")
    line = re.sub(r"\d+(\.\d+)? (s|ms|us|MiB|KiB|B)\b", "Q", line)
    line = re.sub(r"\d+(\.\d+)?", "N", line)
    line = re.sub(r"(N %).*", r"\1", line) if re.search(r"[a-z] N %, ", line) else line
    line = re.sub(r", and Q were spent running|, Q each|\bN x |, which \w+ \(N\) ended; .* meanwhile", "", line)
    return " ".join(line.split())


def blocks(path, case):
    """The indented lines of the case's section."""
    with open(path, encoding="utf-8") as f:
        sections = re.split(r"^## .*\n", f.read(), flags=re.M)
    found = [s for s in sections if f"`run {case}`" in s]
    assert len(found) == 1, f"{len(found)} sections of {path} have `run {case}`"
    return [line[4:] for line in found[0].splitlines() if line.startswith("    ") and line.strip()]


def main(document, case, out):
    with open(out, encoding="utf-8") as f:
        printed = f.read().splitlines()
    shapes = {shape(line) for line in printed}
    verbs = {m[1] for m in (re.search(r"==> rutile (\S+) ", line) for line in printed) if m}
    lines = blocks(document, case)
    assert len(lines) > 3, f"{document} shows {len(lines)} lines of {case}"
    row = re.compile(r"^(Q|N %) +\S")
    for before, line in zip(["", *lines], lines):
        if line.lstrip().startswith("<- ") or (row.match(shape(line)) and row.match(shape(before))):
            continue
        command = re.match(r"# rutile (\S+) ", line)
        if command:
            assert command[1] in verbs, f"'{command[1]}' was not asked; {sorted(verbs)} were"
        else:
            assert shape(line) in shapes, f"{document} has a line that was not printed:\n{line}\n{shape(line)}"


main(*sys.argv[1:])
