#!/bin/bash
# SPDX-License-Identifier: MIT
# A guest in which a CPU goes offline and returns, the time of day is set forwards and backwards, and the
# machine sleeps, while sessions run: every trace is whole, and every event has the time of day that
# the guest itself put into it.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/slow/lib.sh"

# same_time TEXT NAME: the marks of that name and their events differ by seconds (starting a program
# takes some), not by years, nor by the 20 seconds that the machine sleeps.
same_time() {
  python3 - "$1" "$2" <<'EOF'
import re, sys
n = 0
for line in open(sys.argv[1]):
    m = re.match(r'\[(\d+)\.\d+\].*syscall_entry_mkdir:.*"/tmp/mark-' + sys.argv[2] + r'-(\d+)"', line)
    if m:
        n += 1
        if abs(int(m[1]) - int(m[2])) > 10:
            sys.exit(f"an event of {m[2]} has the time {m[1]}: {line}")
print(sys.argv[2], n)
sys.exit(0 if n else f"no events '{sys.argv[2]}'")
EOF
}

seconds() { babeltrace2 --clock-seconds "$1" >"$2"; }

test_clock() {
  need_kernel
  make_initramfs "$SRC/tests/slow/guest-clock.sh"
  python3 "$SRC/tests/slow/guest_run.py" "$kernel" initramfs "$PWD/serial" "$PWD/out"
  cat serial
  grep -q DONE serial
  if grep -q FAILED serial; then return 1; fi
  base64 -d out | tar xz --warning=no-timestamp
  for t in files* later* snap-*; do
    readers "$t" >/dev/null
    "$RUTILE" view "$t" >/dev/null 2>view.err
    [ ! -s view.err ]
  done
  # A directory for each time of day: before, set, awake, set back.
  [ "$(ls -d files* | wc -l)" = 4 ]
  for t in files*; do seconds "$t" "$t.text"; done
  cat files*.text >all
  for name in start offline later online set awake back; do same_time all $name; done
  grep -q 'cpu_id = 1.*mark-online' all
  for t in later*; do seconds "$t" "$t.text"; done
  cat later*.text >all
  for name in later online; do same_time all $name; done
  seconds snap-1 text
  same_time text offline
  # Of a flight recorder the newest events have the right time.
  seconds snap-2 text
  same_time text set
}

t_case "CPUs that go and come, clocks that are set, sleep" test_clock
t_done
