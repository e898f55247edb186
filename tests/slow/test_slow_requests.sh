#!/bin/bash
# SPDX-License-Identifier: MIT
# examples/slow-requests: a web server and its database on two machines, slow for a known reason; whose name is in the first
# line of each answer.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
export MOD_RUTILE

# first TABLE: the first row of a table with bars.
first() {
  sed -n "/^$1 /{n;n;s/^[█ ]*//p;q}" out
}
# slow CASE: runs it, into out
slow() {
  need_bpf
  chmod a+rx "$t_root" . # for the servers' users
  timeout -k 20 200 "$SRC/examples/slow-requests/run" "$1" "$PWD/run" >out 2>&1 || { cat out; return 1; }
  cat out
  sentence=$(grep -m1 'This request \(took\|has taken\)' out)
  # Nothing is left.
  not grep -q "$PWD" /proc/self/mounts
  not pgrep -f "$PWD/run" >/dev/null
  # The snapshots of both are of the same firing, on one clock.
  for name in web db; do
    "$RUTILE" view "run/$name" | grep -m1 ' rutile_trigger: ' | sed 's/.* id = "\([^"]*\)".*/\1/' >"id.$name"
    [ -s "id.$name" ]
  done
  cmp id.web id.db
  # docs/slow-site.md shows what was printed.
  python3 "$SRC/tests/slow/same_shape.py" "$SRC/docs/slow-site.md" "$1" out
}

test_cpus() {
  slow cpus
  grep -q 'waiting for a CPU that apache2 ([0-9]*) in `request` used' <<<"$sentence"
  first 'Per-TID Usage' | grep -q ' apache2 ('
}
test_xz() {
  slow xz
  grep -q 'a CPU that xz ([0-9]*) used' <<<"$sentence"
  first 'Per-TID Usage' | grep -q ' xz ('
}
test_dns() {
  slow dns
  grep -q 'waiting for 192\.0\.2\.53:53 in poll()' <<<"$sentence"
  grep -A2 '^Waits by what is waited for' out | grep -q 'poll *192\.0\.2\.53:53 '
  # The phase of the request in which that is.
  grep -A2 '^Begin  *End ' out | grep -q ' request '
}
test_core() {
  pattern=$(cat /proc/sys/kernel/core_pattern)
  slow core
  [ "$(cat /proc/sys/kernel/core_pattern)" = "$pattern" ]
  # Who sent the answer is known when the packet was not delivered by a thread of the kernel.
  grep -q 'waiting for 10\.77\.0\.2:3306 in poll()' <<<"$sentence"
  # It is kworker that writes the pages of the core file; it is the service that has made them.
  first 'Block I\/O Write' | grep -q ' stockd ('
  grep -A4 '^Block I/O Write by File' out | grep -q ' core (inode'
}

t_case "too many requests for the CPUs" test_cpus
t_case "compressing logs takes the CPUs" test_xz
t_case "a name server does not answer" test_dns
t_case "core dumps fill the disk of the database" test_core
t_done
