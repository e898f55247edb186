# SPDX-License-Identifier: MIT
"""Runs the programs of files of cases: run_cases.py [-n NAME] RUTILE FILE...; TAP.

Programs that must be refused have to fail with "LINE:COLUMN" in their message.
"""
import os, re, subprocess, sys

sys.path.insert(0, os.path.dirname(__file__))
import cases


def check(rutile, case):
    done = subprocess.run([rutile, "run", "-q", "-e", case.program], capture_output=True, text=True,
                          timeout=10, errors="replace")
    if case.refused:
        if done.returncode and re.search(r"\d+:\d+", done.stderr):
            return None
        return f"not refused (exit code {done.returncode}): {done.stdout}{done.stderr}"
    if done.returncode or done.stdout != case.expected:
        return (f"exit code {done.returncode}\n{done.stderr}expected:\n{case.expected}"
                f"printed:\n{done.stdout}")
    return None


def main(args):
    only = args[1] if args[0] == "-n" else None
    rutile, *files = args[2:] if only else args
    count, bad = 0, 0
    for path in files:
        for case in cases.read(path):
            if only and only not in case.name:
                continue
            count += 1
            name = os.path.basename(path).split(".")[0] + ": " + case.name
            try:
                wrong = check(rutile, case)
            except subprocess.TimeoutExpired:
                wrong = "does not end"
            if wrong:
                bad += 1
                print(f"not ok {count} {name}\n# {case.program.rstrip()}\n# " +
                      wrong.rstrip().replace("\n", "\n# "))
            else:
                print(f"ok {count} {name}")
            sys.stdout.flush()
    print(f"1..{count}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
