#!/bin/bash
# SPDX-License-Identifier: MIT
# PostgreSQL's static probes, some sixty, by pattern: each is an event of its own. The input of a
# backend says how often each fires.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# as_nobody COMMAND...: it does not run as root.
as_nobody() {
  setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
}

need_postgres() {
  need_bpf
  bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin | tail -1)
  [ -n "$bin" ] || t_skip "no PostgreSQL (postgresql)"
  chmod 755 "$t_root" .
  mkdir db
  chown nobody db
  as_nobody "$bin/initdb" -D db -A trust --no-sync >/dev/null
}

# One backend without a server.
test_statements() {
  need_postgres
  for _ in $(seq 5); do printf 'begin\nselect 1\ncommit\n'; done >sql
  for _ in $(seq 3); do printf 'begin\nselect 1\nrollback\n'; done >>sql
  echo 'select 2' >>sql
  P=usdt:$bin/postgres:postgresql
  "$RUTILE" record -o t -e "$P:query__start(sql:str),$P:*" -- \
    setpriv --reuid=nobody --regid=nogroup --clear-groups "$bin/postgres" --single -D db postgres <sql >out
  # Not babeltrace 1 too: it prints the new lines that are in strings.
  babeltrace2 t >bt2.out
  sed -n 's/.* postgresql:\([a-z_]*\): .*/\1/p' bt2.out | sort | uniq -c >counts
  cat counts
  count() { [ "$(grep -c " postgresql:$2: " bt2.out)" = "$1" ] || { echo "not $1 of $2" >&2; exit 1; }; }
  count 3 transaction__abort
  # Those of the input; the backend has some of its own when it begins.
  commits=$(grep -c ' postgresql:transaction__commit: ' bt2.out)
  [ "$commits" -ge 6 ]
  count $((commits + 3)) transaction__start
  count 25 query__start
  count 25 query__done
  count 9 query__plan__start
  [ "$(grep -c ' postgresql:query__start: .*sql = "rollback' bt2.out)" = 3 ]
  [ "$(grep -c ' postgresql:query__start: .*sql = "select 1' bt2.out)" = 8 ]
  count "$(grep -c ' postgresql:buffer__read__start: ' bt2.out)" buffer__read__done
  [ "$(wc -l <counts)" -ge 25 ]
}

t_case "each probe of a pattern is an event of its own" test_statements
t_done
