# SPDX-License-Identifier: MIT
# For the tests on live Rubies: sourced after tests/tap.sh.
# shellcheck shell=sh

RUBY=${RUBY:-ruby}

# A port that nobody has at this moment, for servers that cannot be told to find one themselves.
free_port() {
  ruby -rsocket -e 's = TCPServer.new("127.0.0.1", 0); puts s.addr[1]'
}

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
