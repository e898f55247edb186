#!/bin/bash
# SPDX-License-Identifier: MIT
# The reference, lttng-analyses, reads a recorded trace: its results against rutile's own of the same
# trace, against what the program did, and against /proc.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# The packages of the distribution are those of its own Python.
reference() {
  name=$1
  shift
  PATH=/usr/bin:$PATH LC_ALL=C.UTF-8 PYTHONWARNINGS=ignore peer "lttng-$name-mi" "$@" 2>"err.$name"
}

test_agreement() {
  need_bpf
  PATH=/usr/bin:$PATH command -v lttng-cputop-mi >/dev/null || t_skip "lttng-analyses is not installed"
  cat >work.py <<'END'
import os, time
def stolen():
    """Seconds that were no task's: interrupts, the hypervisor."""
    cpu = open("/proc/stat").readline().split()
    return sum(int(cpu[i]) for i in (6, 7, 8)) / os.sysconf("SC_CLK_TCK")
before = stolen()
end = time.monotonic() + 0.1
while time.monotonic() < end: pass
for i in range(300): os.getpgid(0)
time.sleep(0.02)
fd = os.open("data", os.O_RDONLY)
while os.read(fd, 65536): pass
os.close(fd)
with open("usage", "a") as f: f.write("%d %f %f\n" % (os.getpid(), time.process_time(), stolen() - before))
END
  head -c 4M /dev/urandom >data
  # A kernel may hide the switches from some tasks (supervisors of a virtual machine). No tool sees
  # them, and what it says of the task behind such a switch is wrong: of some processes the whole
  # ones are compared. Only what concerns them is recorded: the reference reads some 100,000 events
  # a second.
  for i in $(seq 10); do
    rm -rf t usage
    "$RUTILE" record -o t -- sh -c '
      for i in 1 2 3 4 5 6 7 8; do /usr/bin/python3 work.py; done'
    readers t >/dev/null
    if python3 "$SRC/tests/bpf/interop.py" --whole . 3; then break; fi
  done
  # Which process an interrupt hits is chance: those of the whole machine.
  "$RUTILE" record -o irqs -a -e irq --buffer 64M -- dd if=/dev/zero of=disk bs=64k count=64 oflag=sync
  readers irqs >/dev/null
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
