#!/bin/bash
# SPDX-License-Identifier: MIT
# One firing takes the snapshots of several hosts, on one clock.
# shellcheck disable=SC2119 # the arguments of nats() are optional
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/nats.lib.sh"
S=fire$$
export RUTILE_LOG_DIR=$t_root/log
: >"$t_root/hosts"
end() {
  "$RUTILE" trigger remove ${S}t 2>/dev/null
  "$RUTILE" destroy $S 2>/dev/null
  end_hosts
  end_nats
  rm -rf "$t_root"
}
trap end EXIT
# host NAME: a daemon that may take snapshots of the session into out/NAME.
host() {
  cat >"$1.conf" <<CONF
server = nats://127.0.0.1:$p
allow = snapshot $S -o $PWD/out/* --trigger *
CONF
  "$RUTILE" fleetd --name "$1" --config "$1.conf" 2>"$1.log" &
  echo $! >>"$t_root/hosts"
  t_wait grep -q "answers what" "$1.log"
}
end_hosts() {
  while read -r pid; do kill "$pid" 2>/dev/null; done <"$t_root/hosts"
  : >"$t_root/hosts"
}
field() { "$RUTILE" trigger list | awk -v n="${S}t" -v c="$1" '$1 == n { print $c }'; }
is_field() { [ "$(field "$1")" = "$2" ]; }
idle() { "$RUTILE" trigger list | not grep -q "^${S}t .*acts now"; }

# A host's snapshot has the firing's id, the other host's name, and how far the clocks are apart.
test_hosts() {
  need_bpf
  mkdir out
  nats
  host a
  host b.example
  "$RUTILE" start $S --flight -e 'sched_switch'
  "$RUTILE" trigger add ${S}t --fleet a.conf --burst 9/1s --do "fleet a snapshot $S -o $PWD/out/%i"
  "$RUTILE" trigger fire ${S}t number=1
  t_wait is_field 2 1
  t_wait idle
  is_field 4 0
  [ "$(ls out | wc -l)" = 1 ]
  id=$(ls out)
  grep -q "fires: $id number=1" "$RUTILE_LOG_DIR/trigger.log"
  readers "out/$id" >/dev/null
  grep 'rutile_trigger:' bt2.out >cause
  grep -q "id = \"$id\", name = \"${S}t\".*host = \"$(hostname)\"" cause
  # Both are the same machine: the clocks differ by no more than the stated error.
  sed 's/.*clock_offset_ns = \(-*[0-9]*\), clock_error_ns = \([0-9]*\).*/\1 \2/' cause >clocks
  awk '{ if ($1 < 0) $1 = -$1; exit !($2 > 0 && $1 <= $2) }' clocks
  # The rings were frozen after the firing, which is between their events.
  babeltrace2 --clock-seconds "out/$id" | sed 's/^\[\([0-9.]*\)\].*/\1/' >moments
  fired=$(babeltrace2 --clock-seconds "out/$id" | sed -n 's/^\[\([0-9.]*\)\].* rutile_trigger: .*/\1/p')
  awk -v f="$fired" 'NR == 1 { if ($1 > f) exit 1 } END { exit !($1 > f) }' moments
  "$RUTILE" trigger remove ${S}t
  # Globs, and a host that does not answer: the others' snapshots are taken, and it is named.
  "$RUTILE" trigger add ${S}t --fleet a.conf --burst 9/1s --do "fleet ghost,b* snapshot $S -o $PWD/out/%i"
  "$RUTILE" trigger fire ${S}t
  t_wait is_field 4 1
  grep -q 'snapshots of 1 hosts; ghost does not answer' "$RUTILE_LOG_DIR/trigger.log"
  [ "$(ls out | wc -l)" = 2 ]
  "$RUTILE" trigger remove ${S}t
  # What a host does not allow is refused, and said.
  "$RUTILE" trigger add ${S}t --fleet a.conf --burst 9/1s --do "fleet a snapshot $S -o /etc/x"
  "$RUTILE" trigger fire ${S}t
  t_wait is_field 4 1
  grep -q 'a refuses: not allowed' "$RUTILE_LOG_DIR/trigger.log"
  "$RUTILE" trigger remove ${S}t
  # A firing while no host is there: those that come later are asked by the next one.
  "$RUTILE" trigger add ${S}t --fleet a.conf --burst 9/1s --do "fleet late* snapshot $S -o $PWD/out/%i"
  "$RUTILE" trigger fire ${S}t
  t_wait is_field 4 1
  host late
  saved() { "$RUTILE" trigger fire ${S}t; sleep 0.5; [ "$(ls out | wc -l)" -gt 2 ]; }
  t_wait saved
  "$RUTILE" trigger remove ${S}t
  "$RUTILE" destroy $S
}

# A host with its clock an hour ahead: its snapshot is on the clock of the host that fired, Ruby's part too.
test_clock() {
  need_bpf
  "$RUTILE" start $S --flight -e 'syscall:getpgid'
  calls() { python3 -c "
import os
for i in range(100):
    try: os.getpgid(525252)
    except ProcessLookupError: pass"; }
  calls
  "$RUTILE" snapshot $S -o plain
  now=$(date +%s%N)
  "$RUTILE" snapshot $S -o ahead --trigger "id1,t,there,3600000000000,250,$((now - 3600000000000))"
  times() { babeltrace2 --clock-seconds "$1" | grep 'entry_getpgid: .*pid = 525252' | sed 's/^\[\([0-9]*\)\.\([0-9]*\)\].*/\1\2/'; }
  times plain >plain.times
  times ahead >ahead.times
  [ "$(wc -l <plain.times)" = 100 ]
  # The clock's offset is measured again for each directory.
  paste plain.times ahead.times | awk '{ d = $1 - $2 - 3600e9; if (d < -5e7 || d > 5e7) exit 1 }'
  babeltrace2 --clock-seconds ahead | grep 'rutile_trigger:' >cause
  grep -q 'id = "id1".*host = "there", clock_offset_ns = 3600000000000, clock_error_ns = 250' cause
  fired=$(sed 's/^\[\([0-9]*\)\.\([0-9]*\)\].*/\1\2/' cause)
  awk -v a="$fired" -v b="$((now - 3600000000000))" 'BEGIN { d = a - b; exit d < -5e7 || d > 5e7 }'
  # Also as a session's collection that view reads.
  "$RUTILE" view ahead | grep -q rutile_trigger
  not "$RUTILE" snapshot $S -o bad --trigger "id1,t" 2>err
  grep -q 'is not ID,NAME,HOST,OFFSET,ERROR,TIME' err
  [ ! -e bad ]
  "$RUTILE" destroy $S
}

test_mistakes() {
  not "$RUTILE" trigger add ${S}t --fleet nosuch.conf --do "fleet * snapshot $S" 2>err
  grep -q "cannot read 'nosuch.conf'" err
  echo 'allow = list' >c
  not "$RUTILE" trigger add ${S}t --fleet c --do "fleet * snapshot $S" 2>err
  grep -q 'which server?' err
  echo 'server = nats://127.0.0.1:1' >c
  not "$RUTILE" trigger add ${S}t --fleet c --do "fleet * snapshot $S" 2>err
  grep -q "cannot connect to 'nats://127.0.0.1:1'" err
  [ "$(wc -l <err)" = 1 ]
  [ ! -e /run/rutile/trigger/${S}t ]
}

t_case "one firing takes the snapshots of the hosts" test_hosts
t_case "a snapshot is on the clock of the host that fired" test_clock
t_case "mistakes are one line" test_mistakes
t_done
