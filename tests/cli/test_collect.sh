#!/bin/bash
# SPDX-License-Identifier: MIT
# The receiver of traces, with senders that do right and wrong. Recording to it is in bpf/test_relay.sh.
# shellcheck disable=SC2119 # the arguments of nats() are optional
. "$SRC/tests/tap.sh"
. "$SRC/tests/nats.lib.sh"
PATH=$PATH:/usr/sbin

t_clean() {
  end_collect || :
  end_nats
}
trap 't_clean; rm -rf "$t_root"' EXIT

# collect OPTIONS...: receives into in/dir; its port in $p, its pid in $t_root/collect.
collect() {
  mkdir -p in
  for _ in $(seq 50); do
    p=$((10000 + (RANDOM % 5000) * 4))
    "$RUTILE" collect --listen "127.0.0.1:$p" "$@" in/dir 2>collect.log &
    echo $! >"$t_root/collect"
    t_wait grep -q 'listening\|cannot listen' collect.log
    ! grep -q listening collect.log || return 0
  done
  return 1
}
end_collect() {
  [ -s "$t_root/collect" ] || return 0
  kill "$(cat "$t_root/collect")" 2>/dev/null
  wait "$(cat "$t_root/collect")"
  rm -f "$t_root/collect"
}
sender() {
  timeout 120 python3 "$SRC/tests/cli/relay_sender.py" "$p" "$@"
}
# Everything that is anywhere is below in/dir.
contained() {
  [ "$(ls in; ls)" = "$(printf 'dir\ncollect.log\nin')" ]
}

test_good() {
  collect
  sender good
  f=$(find in/dir/h -path '*/good-*/kernel/x')
  python3 -c "import sys; sys.stdout.write('abc' * 1000 + '\0' * 3 + 'd' + '\0' * 3)" | cmp - "$f"
  end_collect
  grep -q '1 sessions, 2 packets' collect.log
  contained
}

test_names() {
  collect
  sender names
  end_collect
  contained
  [ "$(ls in/dir)" = h ]
  find in/dir -type f | not grep .
}

test_garbage() {
  collect
  sender garbage
  sender good
  end_collect
  contained
  # The packet that did not end left no byte behind.
  f=$(find in/dir/h -path '*/cut-*/kernel/x')
  printf 'whole\0\0\0' | cmp - "$f"
  grep -q 'its connection is closed' collect.log
}

test_slow() {
  collect --message-time 200ms
  sender slow
  sender good
  end_collect
  [ -n "$(find in/dir/h -path '*/beside-*/kernel/x' -size +0)" ]
}

test_many() {
  collect
  sender many
  sender good
  end_collect
}

test_senders() {
  collect
  sender senders
  end_collect
  sender stored_senders
  contained
}

test_limits() {
  collect --max-streams 2 --max-bytes 10000 --max-sessions 3
  sender limits
  end_collect
  [ "$(find in/dir -name x -printf '%s\n' | awk '{ n += $1 } END { print n }')" -le 10000 ]
  contained
}

test_free() {
  collect --min-free 1000000G
  not sender good 2>/dev/null
  end_collect
  find in/dir -type f | not grep .
}

# What a sender clears is deleted, and a chunk before it stays; with --disallow-clear all stays.
test_clear() {
  collect
  sender clear
  end_collect
  contained
}
test_no_clear() {
  collect --disallow-clear
  sender no_clear
  end_collect
  not "$RUTILE" collect --disallow-clear nats://127.0.0.1:1/S in/dir 2>err
  grep -q -- '--disallow-clear is not for NATS' err
}

test_usage() {
  not "$RUTILE" collect 2>err
  grep -q 'the directory is missing' err
  not "$RUTILE" collect --listen 127.0.0.1:x d 2>err
  grep -q "invalid address '127.0.0.1:x'" err
  not "$RUTILE" collect /dev/null 2>err
  grep -q "/dev/null" err
  not "$RUTILE" record --to relay://127.0.0.1:1 --spool 3 --loss oldest -e sched_switch 2>err
  grep -q -- "--spool: at least 256K, not '3'" err
  for command in record "start usage$$"; do
    # shellcheck disable=SC2086 # words
    not timeout 60 "$RUTILE" $command --to relay://127.0.0.1:1 -o d --loss oldest -e sched_switch 2>err
    grep -q -- '--loss oldest and --output exclude each other: the directory keeps everything' err
    [ ! -e d ]
  done
}

# Without --tls clear text from other machines must be asked for.
test_default() {
  mkdir in
  for host in '' '*'; do
    for _ in 1 2 3 4 5 6 7 8; do
      "$RUTILE" collect --listen "$host:$((10000 + RANDOM % 20000))" in/dir 2>collect.log &
      echo $! >"$t_root/collect"
      t_wait grep -q 'listening\|cannot listen' collect.log
      ! grep -q listening collect.log || break
    done
    end_collect
    grep -q "listening on $([ -z "$host" ] && echo 127.0.0.1 || echo all addresses), port" collect.log
  done
}

# The disk is full, really or by --min-free, while a sender's spool waits: it says so, goes on when there is room, and nothing is
# missing. full relay|nats SIZE MIN-FREE
full() {
  unshare -m true 2>/dev/null || t_skip "cannot mount"
  mkdir -p small spool in
  # A mount of its own, which ends with the receiver.
  cat >receive <<'SH'
mount -t tmpfs -o "size=$1" none small
shift
while read -r size; do mount -o "remount,size=$size" none small; echo "$size"; done <room >made &
exec "$@"
SH
  mkfifo room
  if [ "$1" = nats ]; then
    command -v nats-server >/dev/null || t_skip "no nats-server"
    nats
    to=nats://127.0.0.1:$p/FULL
    set -- "$1" "$2" "$3" "$to"
  else
    p=$((10000 + (RANDOM % 5000) * 4))
    to=relay://127.0.0.1:$p
    set -- "$1" "$2" "$3" --listen "127.0.0.1:$p"
  fi
  unshare -m bash receive "$2" "$RUTILE" collect --min-free "$3" "${@:4}" small/dir 2>collect.log &
  echo $! >"$t_root/collect"
  exec 9>room
  t_wait grep -q 'listening\|receiving from' collect.log
  "$FEED" "$to" spool spool 600 2000 1000 2>feed.log &
  feeder=$!
  t_wait grep -q 'No space left on device' collect.log
  # By NATS it is the stream that waits.
  if [ "$1" = relay ]; then
    t_wait grep -q 'is its disk full\|No space left on device' feed.log
    waits() { [ "$(du -sk spool | cut -f1)" -gt 4000 ]; }
    t_wait waits
  fi
  echo 200M >&9
  wait $feeder
  [ -z "$(ls spool)" ]
  # By NATS it may come after the sender has ended.
  [ "$1" = relay ] || t_wait compgen -G "/proc/$(cat "$t_root/collect")/root$PWD/small/dir/*/*/.complete"
  cp -r "/proc/$(cat "$t_root/collect")/root$PWD/small/dir" in/dir
  python3 "$SRC/tests/cli/stored_numbers.py" in/dir 1000 600
  exec 9>&-
  end_collect
  end_nats
}
test_full() { full relay 6M 4k; }
test_full_reserve() { full relay 70M 64M; }
test_full_nats() { full nats 6M 4k; }

# fifty TO...: rutile's own senders, at the same time.
fifty() {
  for i in $(seq 0 49); do
    mkdir "spool$i"
    "$FEED" "$1" "spool$i" spool 60 20000 $((i * 1000000)) 2>"feed.log$i" &
    feeders[i]=$!
  done
  for i in $(seq 0 49); do wait "${feeders[i]}"; done
  awk '/VmHWM/ { print "memory of the collector: " $2 " KiB" }' "/proc/$(cat "$t_root/collect")/status"
}
test_fifty() {
  collect
  fifty "relay://127.0.0.1:$p"
  python3 "$SRC/tests/cli/stored_numbers.py" in/dir 0 60 50 1000000
  end_collect
  grep -q '50 sessions' collect.log
}
# collect_nats STREAM: a server and a receiver of this stream.
collect_nats() {
  command -v nats-server >/dev/null || t_skip "no nats-server"
  mkdir in
  nats
  "$RUTILE" collect "nats://127.0.0.1:$p/$1" in/dir 2>collect.log &
  echo $! >"$t_root/collect"
  t_wait grep -q 'receiving from' collect.log
}
test_fifty_nats() {
  collect_nats FIFTY
  fifty "nats://127.0.0.1:$p/FIFTY"
  all() { [ "$(find in/dir -name .complete | wc -l)" = 50 ]; }
  t_wait all
  python3 "$SRC/tests/cli/stored_numbers.py" in/dir 0 60 50 1000000
  end_collect
  end_nats
}

# drops TO SIGNAL PID: what comes while the collector's process is stopped or killed is more than is to wait.
drops() {
  mkdir spool
  "$FEED" "$1" spool spool 600 2000 1000 4000000 >feed.out 2>feed.log &
  feeder=$!
  stores() { [ -n "$(find in -name 'kernel_*' -size +40k)" ]; }
  t_wait stores
  # A collector that takes all loses nothing.
  not grep -q 'does not keep up' feed.log
  kill "$2" "$3"
  t_wait grep -q "$1 does not keep up: the oldest packets are dropped" feed.log
  # What is confirmed is given back by the MiB.
  bounded() { [ "$(du -sk spool | cut -f1)" -le 6500 ]; }
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    bounded
    sleep 0.05
  done
}
# oldest TO SIGNAL PID AGAIN...: the oldest of that is dropped, and readers say how much. AGAIN is the command after which the
# collector is there again.
oldest() {
  drops "$1" "$2" "$3"
  "${@:4}"
  wait $feeder
  read -r end dropped <feed.out
  grep -q "keeps up again: .* packets were dropped" feed.log
  [ -z "$(ls spool)" ]
}
# readers_say [OPTION]: of what is stored babeltrace2 counts as many as the sender dropped, and so does rutile.
readers_say() {
  python3 "$SRC/tests/cli/dropped_numbers.py" in/dir 1000 "$end" 80000 "$@" >got || { cat got feed.log; return 1; }
  cat got
  grep -q " $dropped missing, discarded $dropped," got
  # With several traces, rutile also counts what the later ones say of the time before them.
  [ -z "$*" ] || return 0
  "$RUTILE" stat --json in/dir 2>/dev/null | python3 -c "import json, sys; print(json.load(sys.stdin)['discarded'])" | grep -qx "$dropped"
}
# Where little may wait it does not wait for the sender's next look, which a tenth of a second is enough to fill. (On a machine that
# is busy a sender may come late: then it is tried again.)
test_oldest_idle() {
  collect
  for i in 1 2 3; do
    mkdir "spool$i"
    "$FEED" "relay://127.0.0.1:$p" "spool$i" spool 100 10000 1000 262144 >feed.out 2>feed.log
    read -r end dropped <feed.out
    [ "$dropped" != 0 ] || break
  done
  end_collect
  [ "$dropped" = 0 ]
}
test_oldest() {
  collect
  stopped=$(cat "$t_root/collect")
  oldest "relay://127.0.0.1:$p" -STOP "$stopped" go_on
  end_collect
  readers_say
}
# The connection ends: what was on its way may be in both traces.
collect_again() {
  rm "$t_root/collect"
  "$RUTILE" collect --listen "127.0.0.1:$p" in/dir 2>>collect.log &
  echo $! >"$t_root/collect"
}
test_oldest_killed() {
  collect
  oldest "relay://127.0.0.1:$p" -KILL "$(cat "$t_root/collect")" collect_again
  end_collect
  readers_say twice
}
# The collector does not come back: what stays in the spool says how much was dropped.
test_oldest_left() {
  collect
  drops "relay://127.0.0.1:$p" -KILL "$(cat "$t_root/collect")"
  rm "$t_root/collect"
  not wait $feeder
  grep -q 'could not be sent .* they are in spool' feed.log
  read -r end dropped <feed.out
  [ "$("$RUTILE" stat --json spool/record | python3 -c "import json, sys; print(json.load(sys.stdin)['discarded'])")" = "$dropped" ]
  mv spool/record in/dir/left
  readers_say twice
}
stopped_long() {
  sleep 12
  go_on
}
# oldest_nats SIGNAL COMMAND: the same with the server, whose pid is in $stopped.
oldest_nats() {
  collect_nats OLD
  stopped=$(cat "$t_root/nats")
  oldest "nats://127.0.0.1:$p/OLD" "$1" "$stopped" "$2"
  t_wait compgen -G 'in/dir/*/*/.complete'
  end_collect
  end_nats
  readers_say
}
go_on() { kill -CONT "$stopped"; }
nats_again() { nats "$p"; }
test_oldest_nats() { oldest_nats -STOP go_on; }
test_oldest_nats_long() { oldest_nats -STOP stopped_long; }
test_oldest_nats_killed() { oldest_nats -KILL nats_again; }

t_case "packets are stored as they are sent" test_good
t_case "only this machine can connect by default" test_default
t_case "no name leads out of the directory" test_names
t_case "garbage, cut and oversized messages do nothing" test_garbage
t_case "slow clients delay no others, and are closed" test_slow
t_case "a client has so many connections and no more" test_many
t_case "of fifty senders at once, half of which are killed, whole packets are stored" test_senders
t_case "fifty senders at once: all that they send is stored, and nothing twice" test_fifty
t_case "the same by NATS" test_fifty_nats
t_case "streams, sessions and bytes of a client are limited" test_limits
t_case "a disk that is nearly full takes nothing" test_free
t_case "a full disk: the sender's spool waits for room, and nothing is missing" test_full
t_case "the same with --min-free" test_full_reserve
t_case "the same by NATS" test_full_nats
t_case "nothing is dropped while the collector takes all, where little may wait" test_oldest_idle
t_case "the oldest packets are dropped while the collector is stopped" test_oldest
t_case "the same while it is killed" test_oldest_killed
t_case "the same when it does not come back" test_oldest_left
t_case "the same by NATS" test_oldest_nats
t_case "the same by NATS, until the connection breaks" test_oldest_nats_long
t_case "the same by NATS while the server is killed" test_oldest_nats_killed
t_case "what a sender clears is deleted" test_clear
t_case "nothing is deleted when that is not allowed" test_no_clear
t_case "a command line that is wrong is refused" test_usage
t_done
