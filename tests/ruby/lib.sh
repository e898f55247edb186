# SPDX-License-Identifier: MIT
# For the tests on live Rubies: sourced after tests/tap.sh.
# shellcheck shell=sh

RUBY=${RUBY:-ruby}

pids=
# What is still ours: the number of one that has ended may be another's by now.
kill_started() {
  me=$(exec sh -c 'echo $PPID')
  for p in $pids; do
    ! grep -qs "^PPid:	$me\$" "/proc/$p/status" || kill -KILL "$p" 2>/dev/null || :
  done
}

# start FILE COMMAND...: in the background: $pid, its output in FILE; waits for its first line "ready".
start() {
  out=$1
  shift
  : >"$out"
  "$@" >"$out" 2>"$out.err" &
  pid=$!
  pids="$pids $pid"
  trap kill_started EXIT
  for _ in $(seq 3000); do
    ! grep -qs ready "$out" || return 0
    ! t_gone "$pid" || break
    sleep 0.02
  done
  grep -qs ready "$out" || { echo "$* did not start"; cat "$out.err"; return 1; }
}

# inject PID [COUNT]: the dummy agent.
inject() {
  "$INJECT_TOOL" "$1" "$DUMMY" "${2:-1}"
}

# inject_until COUNT PATTERN: into $pid, until so many reports match or it has ended; then says "enough".
inject_until() {
  : >reports
  for _ in $(seq 1000); do
    ! t_gone "$pid" || break
    [ "$(grep -c "$2" reports)" -lt "$1" ] || break
    inject "$pid" 10 >>reports || :
  done
  touch enough
}

# A handler that runs on top of the stub must find it there when it returns.
signal_handlers_may_run() { # COUNT
  start storm.out "$BLOCKED" storm 200
  # On a busy machine it is hard to find it outside a handler.
  inject_until "$1" ''
  rc=0
  wait "$pid" || rc=$?
  cat storm.out
  [ "$rc" = 0 ]
  [ "$(wc -l <reports)" -ge 20 ]
}
