#!/bin/sh
# SPDX-License-Identifier: MIT
# The reference, lttng-analyses, reads a recorded trace: its results against rutile's own of the same
# trace, against what the program did, and against /proc.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# The packages of the distribution are those of its own Python. Its babeltrace 1 reads memory that it
# has freed, which meson's MALLOC_PERTURB_ turns into a crash.
reference() {
  name=$1
  shift
  MALLOC_PERTURB_=0 PATH=/usr/bin:$PATH LC_ALL=C.UTF-8 PYTHONWARNINGS=ignore "lttng-$name-mi" "$@" 2>"err.$name"
}

test_agreement() {
  need_bpf
  PATH=/usr/bin:$PATH command -v lttng-cputop-mi >/dev/null || t_skip "lttng-analyses is not installed"
  cat >work.py <<'END'
import json, os, time
os.nice(0)
end = time.monotonic() + 0.3
while time.monotonic() < end: pass
for i in range(300): os.getpgid(0)
time.sleep(0.02)
fd = os.open("data", os.O_RDONLY)
while os.read(fd, 65536): pass
os.close(fd)
t = os.times()
with open("usage", "a") as f: f.write("%d %f\n" % (os.getpid(), time.process_time()))
END
  # Every write waits for the disk: interrupts. Only what concerns these processes is recorded: the
  # reference reads some 100,000 events a second.
  for i in 1 2 3 4 5 6; do
    rm -rf t usage
    "$RUTILE" record -o t -- sh -c '
      dd if=/dev/zero of=data bs=64k count=64 oflag=sync 2>/dev/null
      for i in 1 2 3; do /usr/bin/python3 work.py; done'
    readers t >/dev/null
    python3 -c "
import json
print(json.dumps({p: float(s) for p, s in (l.split() for l in open('usage'))}))" >known.json
    if python3 "$SRC/tests/bpf/interop.py" --whole .; then break; fi
  done
  # Which process an interrupt hits is chance: those of the whole machine.
  "$RUTILE" record -o irqs -a -e irq -- dd if=/dev/zero of=data bs=64k count=64 oflag=sync
  for a in cputop syscallstats iousagetop iolatencytop schedtop irqstats; do
    limit="--limit 100000"
    case $a in syscallstats | irqstats) limit= ;; esac
    # shellcheck disable=SC2086 # two words or none
    trace=t
    [ $a != irqstats ] || trace=irqs
    reference $a $limit $trace >ref.$a.json
    # shellcheck disable=SC2086 # the same
    "$RUTILE" lttng-$a-mi $limit $trace >own.$a.json
    if grep -i 'discarded\|traceback' err.$a; then return 1; fi
  done
  python3 "$SRC/tests/bpf/interop.py" .
}

t_case "lttng-analyses agrees with rutile, the program and /proc" test_agreement
t_done
