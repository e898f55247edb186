#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces sent to LTTng's own relay daemon, against what a local directory got at the same time.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
S=relay$$
export RUTILE_SPOOL_DIR="$t_root/spool"
mkdir "$RUTILE_SPOOL_DIR"
trap '"$RUTILE" destroy $S 2>/dev/null; end_relay; rm -rf "$t_root"' EXIT

# Three free ports in a row, below those that the kernel gives away by itself.
free_port() {
  python3 - <<'PY'
import random, socket
while True:
    p = random.randrange(10000, 32000, 4)
    try:
        for i in range(3):
            s = socket.socket()
            s.bind(("127.0.0.1", p + i))
            s.close()
    except OSError:
        continue
    print(p)
    break
PY
}

listens() {
  ss -Hltn "sport = :$1" | grep -q .
}

# relay PORT: LTTng's daemon, which stores in out/; its pid in $t_root/relay.
relay() {
  mkdir -p out home
  LTTNG_HOME=$PWD/home lttng-relayd -C "tcp://127.0.0.1:$1" -D "tcp://127.0.0.1:$(($1 + 1))" \
    -L "tcp://127.0.0.1:$(($1 + 2))" -o "$PWD/out" >>relayd.log 2>&1 &
  echo $! >"$t_root/relay"
  t_wait listens "$(($1 + 2))"
}
end_relay() {
  [ -s "$t_root/relay" ] || return 0
  kill "$(cat "$t_root/relay")" 2>/dev/null
  rm -f "$t_root/relay"
}

# calls N ARGUMENT: so many calls of getpgid, which nobody else makes with that argument.
calls() {
  python3 -c "
import os
for i in range($1):
    try: os.getpgid($2)
    except ProcessLookupError: pass"
}

# The directory in which the daemon stored the one session of that name.
stored() {
  set -- out/*/"$1"-*
  [ $# = 1 ] && [ -d "$1" ] && echo "$1"
}

# The daemon stores what the local directory holds: the same events with the same contents.
test_store() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" record --to "relay://127.0.0.1:$p/one" -o local -e 'syscall:getpgid,sched_*' -- \
    python3 -c "
import os
for i in range(20000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  end_relay
  [ "$(readers "$(stored one)")" = "$(readers local)" ]
  babeltrace2 local | grep -c 'getpgid: .*pid = 424242 }' | grep -qx 20000
  babeltrace2 local | sed 's/ (+[^)]*)//' | sort >want
  babeltrace2 "$(stored one)" | sed 's/ (+[^)]*)//' | sort | cmp - want
  # Each packet has its entry in the index.
  for f in "$(stored one)"/kernel/kernel_*; do
    [ -s "$(dirname "$f")/index/$(basename "$f").idx" ]
  done
}

# What is not kept here needs no room here.
test_alone() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" record --to "relay://127.0.0.1:$p" -e 'syscall:getpgid' -- \
    python3 -c "
import os
for i in range(3000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass" 2>err
  end_relay
  [ -z "$(ls -d rutile-* 2>/dev/null)" ]
  grep -q "relay://127.0.0.1:$p: .* 0 events lost" err
  readers "$(stored record)" >/dev/null
  [ "$(babeltrace2 "$(stored record)" | grep -c 'entry_getpgid: .*pid = 424242 }')" = 3000 ]
}

# A viewer that is there from the begin sees every event while it is recorded.
test_live() {
  need_bpf
  p=$(free_port)
  relay "$p"
  "$RUTILE" start $S --to "relay://127.0.0.1:$p" -e 'syscall:getpgid'
  published() { stored $S && [ -s "$(stored $S)/kernel/index/kernel_0.idx" ]; }
  t_wait published >/dev/null
  host=$(basename "$(dirname "$(stored $S)")")
  babeltrace2 -i lttng-live "net://127.0.0.1:$((p + 2))/host/$host/$S" >live 2>live.err &
  viewer=$!
  calls 2000 424242
  seen() {
    [ "$(grep -c 'entry_getpgid: .*pid = 424242 }' live)" = "$1" ]
  }
  t_wait seen 2000
  # Metadata that grows.
  "$RUTILE" add $S -e syscall:getsid
  python3 -c "
import os
for i in range(700): os.getsid(0)"
  more() {
    [ "$(grep -c 'entry_getsid: ' live)" -ge 700 ]
  }
  t_wait more
  "$RUTILE" destroy $S
  wait $viewer
  [ ! -s live.err ]
  end_relay
  [ "$(babeltrace2 "$(stored $S)" | grep -c 'entry_getsid: ')" -ge 700 ]
}

# A collector that cannot be reached is an error before anything is recorded.
test_nobody() {
  need_bpf
  p=$(free_port)
  not "$RUTILE" record --to "relay://127.0.0.1:$p" -- touch ran 2>err
  grep -q "cannot connect to '127.0.0.1' port $p: Connection refused" err
  [ ! -e ran ]
  not "$RUTILE" start ${S}x --to "relay://127.0.0.1:$p" 2>err
  grep -q 'Connection refused' err
  not "$RUTILE" record --to "http://127.0.0.1" -- true 2>err
  grep -q "invalid collector 'http://127.0.0.1'" err
}

t_case "lttng-relayd stores the same events as a local directory" test_store
t_case "without a local directory nothing is written here" test_alone
t_case "a live viewer at lttng-relayd sees all events, and those of added classes" test_live
t_case "a collector that does not answer is an error at once" test_nobody
t_done
