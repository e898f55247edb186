# SPDX-License-Identifier: MIT
"""Instructions that tracing adds to a request of bench/ruby_requests.rb, counted by valgrind's callgrind: what
other work on the machine cannot disturb. A program of more requests less one of fewer."""

import re
import subprocess

FEW, MANY = 10, 25
MODES = {"untraced": None, "`time`, the views only": ["time", "--path", "*/views/*"], "`calls all`": ["calls", "all"],
         "`calls all --c-calls`": ["calls", "all", "--c-calls"], "`time all`": ["time", "all"]}


def instructions(b, verb, n):
    prefix = [b.rutile, *verb, "--last", "--"] if verb else []
    argv = [*prefix, "env", f"N={n}", "ROUNDS=1", "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
            "ruby", "-W0", str(b.top / "bench/ruby_requests.rb")]
    err = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True).stderr
    return int(re.search(r"Collected : (\d+)", err).group(1))


def run(b):
    if not b.have("valgrind"):
        b.note("instructions: not counted, valgrind is not installed")
        return
    each = {}
    for name, verb in MODES.items():
        # Every request is made twice: once to warm up.
        each[name] = (instructions(b, verb, MANY) - instructions(b, verb, FEW)) / (2 * (MANY - FEW))
    plain = each["untraced"]
    b.table("Instructions of a request of Rails' parts", ["", "million", "more", "kept"],
            [[name, f"{n / 1e6:.2f}", f"{100 * (n / plain - 1):+.1f} %", f"{100 * plain / n:.1f} %"] for name, n in each.items()])
