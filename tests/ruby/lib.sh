# SPDX-License-Identifier: MIT
# For the tests on live Rubies: sourced after tests/tap.sh.
# shellcheck shell=sh

RUBY=${RUBY:-ruby}
PORT_BASE=${PORT_BASE:-$((2200 + $$ % 80))} # runs side by side have ports of their own

pids=
# start FILE COMMAND...: in the background: $pid, its output in FILE; waits for its first line "ready".
start() {
  out=$1
  shift
  "$@" >"$out" 2>"$out.err" &
  pid=$!
  pids="$pids $pid"
  # shellcheck disable=SC2086 # a list of numbers
  trap 'kill -KILL $pids 2>/dev/null || :' EXIT
  for _ in $(seq 200); do
    ! grep -qs ready "$out" || return 0
    sleep 0.02
  done
  echo "$* did not start"
  cat "$out.err"
  return 1
}
