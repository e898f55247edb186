#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""every_call.py CALLS TEXT: every call that every_call.c made (its output) is in the trace (babeltrace2's
text, with the context tid), under the name that <asm/unistd_*.h> has for its number, or as an unknown one
with its number; and so is its end."""

import re
import sys

# How the kernel calls what the C library's header calls otherwise; a 32-bit program's calls have the header's names.
KERNEL = {"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname",
          "sendfile": "sendfile64", "umount2": "umount", "_sysctl": "sysctl"}
# Without an implementation since long ago: their arguments are not known.
OLD = {"_sysctl", "create_module", "get_kernel_syms", "query_module", "nfsservctl", "getpmsg", "putpmsg",
       "afs_syscall", "tuxcall", "security", "epoll_ctl_old", "epoll_wait_old", "vserver"}
# These never come back, or with another number.
NO_EXIT = {"exit", "exit_group"}
OTHER_EXIT = {"rt_sigreturn", "sigreturn"}


def header(bits):
    text = open(f"/usr/include/x86_64-linux-gnu/asm/unistd_{bits}.h").read()
    return {int(n): name for name, n in re.findall(r"#define __NR_(\w+) (\d+)", text)}


def events(path):
    by_tid = {}
    for line in open(path, errors="replace"):
        m = re.search(r"((?:compat_)?)syscall_(entry|exit)_(\w+): .*?\{ tid = (\d+) \}, \{ ?(.*)\}", line)
        if m:
            by_tid.setdefault(int(m.group(4)), []).append((m.group(1), m.group(2), m.group(3), m.group(5)))
    return by_tid


def check(bits, nr, how, seen, name):
    prefix = "compat_" if bits == 32 else ""
    # The child's first event is its return from the fork.
    if seen and seen[0][1:] == ("exit", "fork", "ret = 0 "):
        seen = seen[1:]
    if not seen or seen[0][:2] != (prefix, "entry"):
        return "no entry"
    _, _, got, fields = seen[0]
    if name is None:
        # Newer than the header: 335 and 336 are 64-bit programs', from 451 on they are everybody's.
        newer = 451 <= nr <= 471 or (bits == 64 and nr in (335, 336))
        if newer != (got != "unknown"):
            return f"entry is '{got}'"
    elif bits == 64 and name in OLD:
        if got != "unknown":
            return f"entry is '{got}'"
    elif got != (KERNEL.get(name, name) if bits == 64 else name):
        return f"entry is '{got}', not '{name}'"
    if got == "unknown" and not fields.startswith(f"id = {nr}, arg0 = 0xFFFFFFFF"):
        return f"entry has '{fields}'"
    if name in NO_EXIT or name in OTHER_EXIT:
        return None
    if len(seen) < 2 or seen[1][:2] != (prefix, "exit"):
        return f"no exit ({how})"
    end = seen[1][2]
    if bits == 64 and name in OLD:
        return None if end == KERNEL.get(name, name) else f"exit is '{end}'"
    if end != got:
        return f"exit is '{end}'"
    if end == "unknown" and not seen[1][3].startswith(f"id = {nr}, ret = -38 "):
        return f"exit has '{seen[1][3]}'"
    return None


def main():
    seen = events(sys.argv[2])
    names = {64: header(64), 32: header(32)}
    bad = n = 0
    for line in open(sys.argv[1]):
        bits, nr, pid, how = line.split()
        bits, nr, n = int(bits), int(nr), n + 1
        why = check(bits, nr, how, seen.get(int(pid), []), names[bits].get(nr))
        if why:
            print(f"{bits} bits, {nr} ({how}): {why}")
            bad += 1
    if n != 2 * (1026 + 5):
        sys.exit(f"{n} calls were made")
    sys.exit(bad != 0)


main()
