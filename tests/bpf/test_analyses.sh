#!/bin/bash
# SPDX-License-Identifier: MIT
# Analyses of recorded traces, beside what the kernel itself says.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# How many descriptors the program has, at random moments, beside /proc/PID/fd.
descriptors_are_those_of_proc() {
  cc -O1 -o descriptors "$SRC/tests/bpf/descriptors.c"
  "$RUTILE" record -o t -e sched,syscall --buffer 64M -- ./descriptors 1 400 again >counts 2>err
  cat err
  "$RUTILE" view t --filter '$evt.$name == "syscall_entry_getppid"' --clock-seconds 2>/dev/null |
    sed 's/^\[\([0-9.]*\)\].*/\1/; s/\.//' >times
  python3 - <<'END' >pairs
times = open("times").read().split()
counts = open("counts").read().splitlines()
assert len(times) == len(counts) >= 10, (times, counts)
print("\n".join(t + " " + c for t, c in zip(times, counts)))
END
  while read -r time pid count; do
    got=$("$RUTILE" fdtop --skip-validation --end "$time" t | awk -v p="($pid)" '$2 == p { print $4 }')
    [ "$got" = "$count" ] || { echo "at $time: $got, not $count"; exit 1; }
  done <pairs
}

t_case "descriptors are those of /proc/PID/fd" descriptors_are_those_of_proc
t_done
