#!/bin/bash
# SPDX-License-Identifier: MIT
# script/demo from beginning to end, and interrupted: nothing may stay behind.
. "$SRC/tests/tap.sh"

needs() {
  for p in ruby puma wrk curl; do
    command -v $p >/dev/null || t_skip "$p is not installed"
  done
  ruby -e 'require "sinatra/base"; require "sqlite3"' 2>/dev/null || t_skip "Sinatra or SQLite is not installed"
}

# Processes and directories of this run of the demo: they have its directory in their environment or name.
left_behind() {
  ls -d "$DEMO_DIR"/rutile-demo.* 2>/dev/null || :
  grep -slz "^SHOP_DB=$DEMO_DIR/" /proc/[0-9]*/environ || :
}

run_demo() {
  BUILD=$(dirname "$RUTILE") TMPDIR=$DEMO_DIR setsid "$SRC/script/demo"
}

saw_the_shop() {
  grep -q 'Shop::Catalog#stars' out && grep -q 'Shop::Recommender#tags' out &&
    grep -q 'recommender.rb .*String' out
}

it_runs_to_its_end() {
  needs
  DEMO_DIR=$T
  # It looks longer when it was in vain, as on a machine that is far too busy.
  for look in 3s 30s; do
    RUTILE_DEMO_LOOK=$look run_demo >out 2>err || { cat out err; return 1; }
    ! saw_the_shop || break
  done
  saw_the_shop || { cat out; return 1; }
  grep -q '^==> Done' out || grep -q 'Done\.' out
  [ ! -s err ] || { cat err; return 1; }
  [ -z "$(left_behind)" ]
}

interrupted_it_cleans_up() {
  needs
  DEMO_DIR=$T
  for sig in TERM INT; do
    # What a shell starts with & ignores SIGINT: Ruby takes that back.
    BUILD=$(dirname "$RUTILE") TMPDIR=$DEMO_DIR \
      ruby -e 'trap("INT", "DEFAULT"); exec(*ARGV)' "$SRC/script/demo" >out 2>&1 &
    pid=$!
    t_wait grep -qs CALLS out || { cat out; return 1; }
    kill -$sig $pid
    rc=0
    wait $pid || rc=$?
    [ $rc -gt 128 ]
    nothing_left() { [ -z "$(left_behind)" ]; }
    t_wait nothing_left || { echo "left behind: $(left_behind)"; return 1; }
    rm -f out
  done
}

t_case "it runs to its end" it_runs_to_its_end
t_case "interrupted, it cleans up" interrupted_it_cleans_up
t_done
